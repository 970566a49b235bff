/* job_new: what a job may be before it is sent, and the JSON of what it carries along. */
#include <limits.h>
#include <string.h>

#include "base/json.h"
#include "client/enqueue.h"

#define META_MAX (64 * 1024) /* beyond what the largest tags, trace and correlation come to */

struct job_new job_new_default(void)
{
    return (struct job_new){
        .queue = "default",
        .priority = PAWL_PRIORITY_DEFAULT,
        .max_attempts = JOB_MAX_ATTEMPTS_DEFAULT,
        .payload = {"{}", 2},
        .unique_scope = "kind",
        .unique_states = PAWL_UNIQUE_LIVE,
    };
}

static int text_check(const char *what, const char *text, size_t max, struct pawl_err *err)
{
    size_t len = strlen(text);

    if (len > max)
        return err_set(err, PAWL_ELIMIT, "%s has %zu bytes, and the limit is %zu", what, len, max);
    if (!utf8_valid(text, len))
        return err_set(err, PAWL_EINVAL, "%s is not valid UTF-8", what);
    return 0;
}

static int key_check(const struct job_new *job, struct pawl_err *err)
{
    int rc = text_check("the unique key", job->unique_key, PAWL_KEY_MAX, err);

    if (rc < 0)
        return rc;
    if (job->unique_key[0] == '\0') {
        err_set(err, PAWL_EINVAL, "the unique key is empty");
        return err_hint(err, "Leave it out if there is none.");
    }
    if (job->unique_states < 1 || job->unique_states > PAWL_UNIQUE_LIVE)
        return err_set(
            err, PAWL_EINVAL, "%d are no states of a unique key", (int)job->unique_states);
    if (job->unique_mode < PAWL_UNIQUE_KEEP || job->unique_mode > PAWL_UNIQUE_REFUSE)
        return err_set(err, PAWL_EINVAL, "%d is no unique mode", (int)job->unique_mode);
    if (job->unique_keep_ms < 0 || job->unique_keep_ms > JOB_DELAY_MAX_MS)
        return err_set(err, PAWL_EINVAL, "a unique key is kept for at most ten years");
    return 0;
}

static int times_check(const struct job_new *job, struct pawl_err *err)
{
    if (job->timeout_ms < 0 || job->delay_ms < 0)
        return err_set(err, PAWL_EINVAL, "a timeout or a delay cannot be negative");
    if (job->delay_ms > JOB_DELAY_MAX_MS)
        return err_set(err, PAWL_EINVAL, "a delay is at most ten years");
    if (job->at_us < 0 || job->at_us > JOB_TIME_MAX_US)
        return err_set(err, PAWL_EINVAL, "a due time is between 1970 and 9999");
    if (job->deadline_ms < 0 || job->deadline_ms > JOB_DELAY_MAX_MS)
        return err_set(err, PAWL_EINVAL, "a deadline is between 0 and ten years ahead");
    if (job->retry_base_ms < 0 || job->retry_cap_ms < 0)
        return err_set(err, PAWL_EINVAL, "a retry delay cannot be negative");
    return 0;
}

int job_new_check(const struct job_new *job, struct pawl_err *err)
{
    int rc = name_check("queue", job->queue, err);

    if (rc == 0)
        rc = kind_check(job->kind, err);
    if (rc == 0)
        rc = priority_check(job->priority, err);
    if (rc == 0)
        rc = times_check(job, err);
    if (rc < 0)
        return rc;
    if (job->max_attempts < 1 || job->max_attempts > JOB_MAX_ATTEMPTS_LIMIT) {
        return err_set(err,
                       PAWL_EINVAL,
                       "max attempts %d is not between 1 and %d",
                       job->max_attempts,
                       JOB_MAX_ATTEMPTS_LIMIT);
    }
    if (job->payload.len > PAWL_PAYLOAD_MAX) {
        err_set(err,
                PAWL_ELIMIT,
                "the payload has %zu bytes, and the limit is %d",
                job->payload.len,
                PAWL_PAYLOAD_MAX);
        return err_hint(err, "Store it elsewhere and pass a reference to it.");
    }
    if (job->parent_id < 0)
        return err_set(err, PAWL_EINVAL, "there is no job %lld", (long long)job->parent_id);
    if (job->lane != NULL)
        rc = name_check("lane", job->lane, err);
    return rc == 0 && job->unique_key != NULL ? key_check(job, err) : rc;
}

static int meta_check(const struct job_new *job, struct pawl_err *err)
{
    int rc = 0;

    if (job->n_tags > PAWL_TAGS_MAX)
        return err_set(
            err, PAWL_ELIMIT, "a job has at most %d tags, not %zu", PAWL_TAGS_MAX, job->n_tags);
    for (size_t i = 0; rc == 0 && i < job->n_tags; i++)
        rc = name_check("tag", job->tags[i], err);
    if (rc == 0 && job->trace != NULL)
        rc = text_check("the trace", job->trace, JOB_TRACE_MAX, err);
    if (rc == 0 && job->correlation != NULL)
        rc = text_check("the correlation", job->correlation, PAWL_CORRELATION_MAX, err);
    if (rc == 0 && job->correlation != NULL && job->correlation[0] == '\0') {
        err_set(err, PAWL_EINVAL, "the correlation is empty");
        return err_hint(err, "Leave it out if there is none.");
    }
    return rc;
}

int job_new_meta(struct job_new *job, struct arena *arena, struct pawl_err *err)
{
    struct buf out;
    struct json_writer w;
    int rc = meta_check(job, err);

    job->meta = NULL;
    if (rc < 0 || (job->n_tags == 0 && job->trace == NULL && job->correlation == NULL))
        return rc;
    buf_init(&out, META_MAX);
    json_init(&w, &out);
    json_object_begin(&w);
    if (job->n_tags > 0) {
        json_key(&w, "tags");
        json_array_begin(&w);
        for (size_t i = 0; i < job->n_tags; i++)
            json_str(&w, job->tags[i]);
        json_array_end(&w);
    }
    if (job->trace != NULL) {
        json_key(&w, "trace");
        json_str(&w, job->trace);
    }
    if (job->correlation != NULL) {
        json_key(&w, "correlation");
        json_str(&w, job->correlation);
    }
    json_object_end(&w);
    if (!out.failed)
        job->meta = arena_strdup(arena, buf_str(&out));
    buf_deinit(&out);
    return job->meta != NULL ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");
}

size_t job_new_bytes(const struct job_new *job)
{
    return job->payload.len + (job->unique_key != NULL ? strlen(job->unique_key) : 0) +
           (job->meta != NULL ? strlen(job->meta) : 0);
}
