/* enqueue_rich: from options to what pawl.h takes. */
#include "cli/enqueue_rich.h"

const char *const enqueue_scopes[] = {"kind", "queue", "global", NULL};
const char *const enqueue_conflicts[] = {"keep", "replace", "reschedule", "refuse", NULL};
const char *const enqueue_retries[] = {"auto", "exponential", "quadratic", NULL};

int enqueue_rich_read(const struct enqueue_rich *rich,
                      struct pawl_job_new *job,
                      struct pawl_err *err)
{
    if (rich->retry_base_ms > INT32_MAX || rich->retry_cap_ms > INT32_MAX)
        return err_set(err, PAWL_EINVAL, "a wait between attempts is at most 24 days");
    job->unique_key = rich->unique_key;
    job->unique_scope = (enum pawl_unique_scope)rich->unique_scope;
    job->unique_mode = (enum pawl_unique_mode)rich->on_conflict;
    job->unique_for_ms = rich->unique_for_ms;
    job->lane = rich->lane;
    job->retry = (enum pawl_retry)rich->retry;
    job->retry_base_ms = rich->retry_base_ms;
    job->retry_cap_ms = rich->retry_cap_ms;
    job->parent_id = rich->parent_id;
    job->deadline_ms = rich->deadline_ms;
    job->tags = rich->tags.items;
    job->n_tags = rich->tags.n;
    job->trace = rich->trace;
    job->correlation = rich->correlation;
    return 0;
}
