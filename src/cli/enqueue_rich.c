/* enqueue_rich: from options to what the store takes. */
#include "cli/enqueue_rich.h"

#include "client/enqueue.h"

const char *const enqueue_scopes[] = {"kind", "queue", "global", NULL};
const char *const enqueue_conflicts[] = {"keep", "replace", "reschedule", "refuse", NULL};
const char *const enqueue_retries[] = {"auto", "exponential", "quadratic", NULL};

int enqueue_rich_read(const struct enqueue_rich *rich,
                      struct arena *arena,
                      struct job_new *job,
                      struct pawl_err *err)
{
    if (rich->retry_base_ms > INT32_MAX || rich->retry_cap_ms > INT32_MAX)
        return err_set(err, PAWL_EINVAL, "a wait between attempts is at most 24 days");
    job->unique_key = rich->unique_key;
    job->unique_scope = enqueue_scopes[rich->unique_scope];
    job->unique_mode = rich->on_conflict;
    job->unique_keep_ms = rich->unique_for_ms;
    job->lane = rich->lane;
    job->retry = rich->retry > 0 ? enqueue_retries[rich->retry] : NULL;
    job->retry_base_ms = (int32_t)rich->retry_base_ms;
    job->retry_cap_ms = (int32_t)rich->retry_cap_ms;
    job->parent_id = rich->parent_id;
    job->deadline_ms = rich->deadline_ms;
    job->tags = rich->tags.items;
    job->n_tags = rich->tags.n;
    job->trace = rich->trace;
    job->correlation = rich->correlation;
    return job_new_meta(job, arena, err);
}
