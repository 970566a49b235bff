/* enqueue_copy: rows in COPY's binary format, and then those are told who sleep on their queues. */
#include "client/enqueue_copy.h"

#include <string.h>

#include <endian.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/defer.h"
#include "client/query.h"
#include "store/statements.h"

#define QUEUES_MAX    64           /* remembered, to be told; with more of them all who sleep are */
#define COLUMNS       7            /* of job_copy.sql */
#define ROWS_BYTES    (256 * 1024) /* collected before they are sent */
#define EPOCH_2000_US (INT64_C(946684800) * US_PER_S) /* PostgreSQL counts from there */
#define NO_VALUE      UINT32_MAX                      /* the length of a NULL */

static const unsigned char header[] = {
    'P', 'G', 'C', 'O', 'P', 'Y', '\n', 0xff, '\r', '\n', 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const unsigned char trailer[] = {0xff, 0xff};

struct copying {
    PGconn *conn;
    struct sync_copy copy;
    int64_t now_us; /* since 1970, by the database */
    struct buf rows;
    char *queues[QUEUES_MAX]; /* in the arena */
    size_t n_queues;          /* above QUEUES_MAX: too many */
    struct arena arena;
};

static void put_16(struct buf *rows, uint16_t value)
{
    uint16_t wire = htobe16(value);

    (void)buf_append(rows, &wire, sizeof(wire));
}

static void put_32(struct buf *rows, uint32_t value)
{
    uint32_t wire = htobe32(value);

    (void)buf_append(rows, &wire, sizeof(wire));
}

static void put_64(struct buf *rows, uint64_t value)
{
    uint64_t wire = htobe64(value);

    (void)buf_append(rows, &wire, sizeof(wire));
}

static void put_bytes(struct buf *rows, const void *data, size_t len)
{
    put_32(rows, (uint32_t)len);
    (void)buf_append(rows, data, len);
}

static void put_row(struct copying *c, const struct pawl_job_new *job)
{
    struct buf *rows = &c->rows;
    int64_t due_us = job->at_us != 0 ? job->at_us : c->now_us + job->delay_ms * US_PER_MS;

    put_16(rows, COLUMNS);
    put_bytes(rows, job->queue, strlen(job->queue));
    put_bytes(rows, job->kind, strlen(job->kind));
    put_bytes(rows, job->payload, job->payload_len);
    put_32(rows, sizeof(int16_t));
    put_16(rows, (uint16_t)job->priority);
    put_32(rows, sizeof(int64_t));
    put_64(rows, (uint64_t)(due_us - EPOCH_2000_US));
    put_32(rows, sizeof(int32_t));
    put_32(rows, (uint32_t)job->max_attempts);
    if (job->timeout_ms == 0) {
        put_32(rows, NO_VALUE);
    } else {
        put_32(rows, sizeof(int32_t));
        put_32(rows, (uint32_t)job->timeout_ms);
    }
}

static void remember_queue(struct copying *c, const char *queue)
{
    if (c->n_queues > QUEUES_MAX)
        return;
    /* The last one is mostly the same. */
    for (size_t i = c->n_queues; i > 0; i--) {
        if (strcmp(c->queues[i - 1], queue) == 0)
            return;
    }
    if (c->n_queues < QUEUES_MAX)
        c->queues[c->n_queues] = arena_strdup(&c->arena, queue);
    if (c->n_queues == QUEUES_MAX || c->queues[c->n_queues] == NULL)
        c->n_queues = QUEUES_MAX;
    c->n_queues++;
}

static int send_rows(struct copying *c, struct pawl_err *err)
{
    if (c->rows.failed)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    int rc = sync_copy_put(&c->copy, c->rows.data, c->rows.len, err);

    buf_clear(&c->rows);
    return rc;
}

static int put_all(struct copying *c, jobs_next_fn next, void *data, struct pawl_err *err)
{
    const struct pawl_job_new *jobs = NULL;
    size_t n = 0;
    int rc;

    (void)buf_append(&c->rows, header, sizeof(header));
    while ((rc = next(data, &jobs, &n, err)) == 0 && n > 0) {
        for (size_t i = 0; rc == 0 && i < n; i++) {
            remember_queue(c, jobs[i].queue);
            put_row(c, &jobs[i]);
            if (c->rows.len >= ROWS_BYTES)
                rc = send_rows(c, err);
        }
        if (rc < 0)
            return rc;
    }
    if (rc == 0) {
        (void)buf_append(&c->rows, trailer, sizeof(trailer));
        rc = send_rows(c, err);
    }
    return rc;
}

static int wake(struct copying *c, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, (size_t)QUEUES_MAX * PAWL_NAME_MAX * 2);
    params_text_array(
        &q.params, (const char *const *)c->queues, c->n_queues > QUEUES_MAX ? 0 : c->n_queues);
    return query_run(&q, c->conn, STMT(job_copy_wake), err);
}

static int may(struct copying *c, bool *ret_may, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    int rc = query_run(&q, c->conn, STMT(job_copy_may), err);

    if (rc == 0) {
        *ret_may = result_bool(q.result, 0, 0);
        c->now_us = result_i64(q.result, 0, 1);
    }
    return rc;
}

/* Delays count from a moment after the table was locked. */
static int lock_table(struct copying *c, struct pawl_err *err)
{
    bool still;
    int rc = sync_exec(c->conn, STMT(job_copy_lock), NULL, NULL, err);

    return rc == 0 ? may(c, &still, err) : rc;
}

static int copy_all(struct copying *c, jobs_next_fn next, void *data, struct pawl_err *err)
{
    int rc = lock_table(c, err);

    if (rc == 0)
        rc = sync_copy_begin(&c->copy, c->conn, STMT(job_copy), err);
    if (rc < 0)
        return rc;
    rc = put_all(c, next, data, err);
    if (rc < 0) {
        (void)!sync_copy_end(&c->copy, "the caller failed", NULL);
        return rc;
    }
    rc = sync_copy_end(&c->copy, NULL, err);
    return rc == 0 ? wake(c, err) : rc;
}

int client_enqueue_copy(
    PGconn *conn, jobs_next_fn next, void *data, bool *ret_done, struct pawl_err *err)
{
    struct copying c = {.conn = conn};
    int rc = may(&c, ret_done, err);

    if (rc < 0 || !*ret_done)
        return rc;
    arena_init(&c.arena, QUEUES_MAX * (PAWL_NAME_MAX + 64));
    buf_init(&c.rows, ROWS_BYTES + 2 * (size_t)PAWL_PAYLOAD_MAX);
    rc = copy_all(&c, next, data, err);
    buf_deinit(&c.rows);
    arena_deinit(&c.arena);
    return rc;
}
