/* produce_read: jobs as callers describe them, read and checked, for a database or a server. */
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"
#include "lib/produce.h"
#include "pawl.h"

/* Copies of the unique keys of one statement. */
#define CHUNK_TEXT_MAX (ENQUEUE_BYTES_MAX + 4 * PAWL_KEY_MAX)

/* A key with a length of its own ends with a NUL here. */
static int key_read(struct pawl_job_new *job, struct arena *arena, struct pawl_err *err)
{
    if (job->unique_key == NULL || job->unique_key_len == 0)
        return 0;
    if (job->unique_key_len <= PAWL_KEY_MAX &&
        memchr(job->unique_key, '\0', job->unique_key_len) != NULL)
        return err_set(err, PAWL_EINVAL, "unique_key holds a NUL");
    /* One byte too many is refused with the other limits. */
    job->unique_key =
        arena_strndup(arena,
                      job->unique_key,
                      job->unique_key_len <= PAWL_KEY_MAX ? job->unique_key_len : PAWL_KEY_MAX + 1);
    return job->unique_key != NULL ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");
}

/* Checks what the caller asks for and fills in the defaults. Texts stay the caller's, except a key
 * that has to be copied. conn NULL: there is no connection whose encoding could be wrong. */
static int
job_read(const PGconn *conn, struct pawl_job_new *job, struct arena *arena, struct pawl_err *err)
{
    const struct job_field *wrong;
    int rc = key_read(job, arena, err);

    if (rc == 0)
        rc = job_new_check(job, &wrong, err);
    if (rc == 0)
        job_new_fill(job);
    for (size_t i = 0; rc == 0 && conn != NULL && i < JOB_FIELDS_N; i++) {
        const struct job_field *field = &job_fields[i];

        if (field->type == FIELD_TEXT && job_field_is_set(field, job))
            rc = produce_encoding(conn, *(const char *const *)job_field_at(field, job), err);
    }
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
        struct pawl_job_new *job = &r->jobs[n];
        size_t size;

        memcpy(&size, from, sizeof(size));
        int rc =
            size == r->stride
                ? lib_struct_read(job, sizeof(*job), LIB_JOB_NEW_LEAST, from, "pawl_job_new", err)
                : err_set(err, PAWL_EINVAL, "its size differs from that of the first");
        if (rc == 0)
            rc = job_read(r->conn, job, &r->arena, err);
        if (rc < 0 && r->n > 1)
            err_prefix(err, "job %zu of %zu", r->next + 1, r->n);
        if (rc < 0)
            return rc;
        r->rich = r->rich || !job_new_is_plain(job);
        bytes += job_new_bytes(job);
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
