/*
 * produce_read: from jobs as callers describe them to jobs as the store takes them, checked. For a database, a server, and for
 * nobody yet.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"
#include "lib/produce.h"
#include "pawl.h"

/* Copies of unique keys and meta of one statement; keys are the largest of them. */
#define CHUNK_TEXT_MAX (ENQUEUE_BYTES_MAX + 4 * PAWL_KEY_MAX)

static int unique_key_read(const struct pawl_job_new *from,
                           struct job_new *to,
                           struct arena *arena,
                           struct pawl_err *err)
{
    static const char *const scopes[] = {"kind", "queue", "global"};

    if (from->unique_key == NULL)
        return 0;
    if (from->unique_scope < PAWL_SCOPE_KIND || from->unique_scope > PAWL_SCOPE_GLOBAL)
        return err_set(err, PAWL_EINVAL, "%d is no unique scope", (int)from->unique_scope);
    if (from->unique_states > PAWL_UNIQUE_LIVE)
        return err_set(err, PAWL_EINVAL, "%u are no states of a unique key", from->unique_states);
    to->unique_key = from->unique_key;
    if (from->unique_key_len > PAWL_KEY_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "the unique key has %zu bytes, and the limit is %d",
                       from->unique_key_len,
                       PAWL_KEY_MAX);
    if (from->unique_key_len > 0) {
        if (memchr(from->unique_key, '\0', from->unique_key_len) != NULL)
            return err_set(err, PAWL_EINVAL, "the unique key holds a NUL");
        to->unique_key = arena_strndup(arena, from->unique_key, from->unique_key_len);
        if (to->unique_key == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    to->unique_scope = scopes[from->unique_scope];
    to->unique_states = from->unique_states != 0 ? (int32_t)from->unique_states : PAWL_UNIQUE_LIVE;
    to->unique_mode = (int32_t)from->unique_mode;
    to->unique_keep_ms = from->unique_for_ms;
    return 0;
}

static int number_read(const char *what, int64_t value, int32_t *ret_value, struct pawl_err *err)
{
    if (value < 0 || value > INT32_MAX)
        return err_set(
            err, PAWL_EINVAL, "%s %lld is not between 0 and %d", what, (long long)value, INT32_MAX);
    *ret_value = (int32_t)value;
    return 0;
}

static int payload_read(const struct pawl_job_new *from, struct job_new *to, struct pawl_err *err)
{
    if (from->payload == NULL && from->payload_len > 0)
        return err_set(err, PAWL_EINVAL, "the payload is NULL and has a length");
    if (from->payload != NULL)
        to->payload = (struct bytes){from->payload, from->payload_len};
    return 0;
}

int produce_job_read(const PGconn *conn,
                     const struct pawl_job_new *from,
                     struct arena *arena,
                     struct job_new *ret_job,
                     struct pawl_err *err)
{
    static const char *const retries[] = {NULL, "exponential", "quadratic"};
    struct job_new job = job_new_default();
    int rc = 0;

    if (from->kind == NULL)
        return err_set(err, PAWL_EINVAL, "a job has no kind");
    if (from->retry < PAWL_RETRY_AUTO || from->retry > PAWL_RETRY_QUADRATIC)
        return err_set(err, PAWL_EINVAL, "%d is no retry policy", (int)from->retry);
    if (from->tags == NULL && from->n_tags > 0)
        return err_set(err, PAWL_EINVAL, "tags is NULL and n_tags is not 0");
    for (size_t i = 0; i < from->n_tags && from->n_tags <= PAWL_TAGS_MAX; i++) {
        if (from->tags[i] == NULL)
            return err_set(err, PAWL_EINVAL, "tag %zu is NULL", i);
    }
    rc = priority_check(from->priority, err);
    job.kind = from->kind;
    if (from->queue != NULL)
        job.queue = from->queue;
    job.priority = (int16_t)from->priority;
    if (from->max_attempts != 0)
        job.max_attempts = from->max_attempts;
    job.delay_ms = from->delay_ms;
    job.at_us = from->at_us;
    job.retry = retries[from->retry];
    job.lane = from->lane;
    job.parent_id = from->parent_id;
    job.deadline_ms = from->deadline_ms;
    job.tags = from->tags;
    job.n_tags = from->n_tags;
    job.trace = from->trace;
    job.correlation = from->correlation;
    if (rc == 0)
        rc = payload_read(from, &job, err);
    if (rc == 0)
        rc = number_read("timeout_ms", from->timeout_ms, &job.timeout_ms, err);
    if (rc == 0)
        rc = number_read("retry_base_ms", from->retry_base_ms, &job.retry_base_ms, err);
    if (rc == 0)
        rc = number_read("retry_cap_ms", from->retry_cap_ms, &job.retry_cap_ms, err);
    if (rc == 0)
        rc = unique_key_read(from, &job, arena, err);
    if (rc == 0)
        rc = job_new_meta(&job, arena, err);
    if (rc == 0)
        rc = job_new_check(&job, err);
    if (rc == 0 && conn != NULL && job.unique_key != NULL)
        rc = produce_encoding(conn, job.unique_key, err);
    if (rc == 0 && conn != NULL && job.meta != NULL)
        rc = produce_encoding(conn, job.meta, err);
    if (rc == 0)
        *ret_job = job;
    return rc;
}

int reader_init(struct reader *r,
                const PGconn *conn,
                const struct pawl_job_new *jobs,
                size_t n,
                struct pawl_err *err)
{
    *r = (struct reader){.conn = conn, .at = (const void *)jobs, .n = n};
    memcpy(&r->stride, jobs, sizeof(r->stride));
    r->jobs = calloc(n < JOB_ENQUEUE_MAX ? n : JOB_ENQUEUE_MAX, sizeof(*r->jobs));
    if (r->jobs == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    arena_init(&r->arena, CHUNK_TEXT_MAX);
    return 0;
}

void reader_deinit(struct reader *r)
{
    arena_deinit(&r->arena);
    free(r->jobs);
}

int reader_next(struct reader *r, size_t *ret_n, struct pawl_err *err)
{
    size_t bytes = 0;
    size_t n = 0;

    arena_clear(&r->arena);
    while (r->next < r->n && n < JOB_ENQUEUE_MAX && bytes < ENQUEUE_BYTES_MAX) {
        const unsigned char *from = r->at + r->next * r->stride;
        struct pawl_job_new job;
        size_t size;

        memcpy(&size, from, sizeof(size));
        int rc =
            size == r->stride
                ? lib_struct_read(&job, sizeof(job), LIB_JOB_NEW_LEAST, from, "pawl_job_new", err)
                : err_set(err, PAWL_EINVAL, "its size differs from that of the first");
        if (rc == 0)
            rc = produce_job_read(r->conn, &job, &r->arena, &r->jobs[n], err);
        if (rc < 0 && r->n > 1)
            err_prefix(err, "job %zu of %zu", r->next + 1, r->n);
        if (rc < 0)
            return rc;
        r->rich = r->rich || !job_new_is_plain(&r->jobs[n]);
        bytes += job_new_bytes(&r->jobs[n]);
        r->next++;
        n++;
    }
    *ret_n = n;
    return 0;
}

void reader_rewind(struct reader *r)
{
    r->next = 0;
}

int pawl_job_check(const struct pawl_job_new *job, struct pawl_err *err)
{
    struct pawl_err none;
    struct reader r;
    size_t n;

    err = err != NULL ? err : &none;
    if (job == NULL)
        return lib_null("pawl_job_check", "job", err);
    int rc = reader_init(&r, NULL, job, 1, err);

    if (rc < 0)
        return rc;
    rc = reader_next(&r, &n, err);
    reader_deinit(&r);
    return rc;
}
