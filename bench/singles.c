/* singles: one job, one commit. */
#include "bench/singles.h"

#include <stdlib.h>
#include <string.h>

#include <poll.h>

#include "base/defer.h"
#include "bench/tables.h"
#include "pg/sync.h"
#include "store/job_enqueue.h"
#include "store/statements.h"

#define ARENA_MAX (64 * 1024)

/* The same without a look at who sleeps. */
static const char bare_sql[] =
    "INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)"
    " VALUES ($1::text, $2::text, $3::bytea, $4::int2,"
    "  CASE WHEN $6::int8 <> 0 THEN timestamptz 'epoch' + $6::int8::float8 * interval '1 microsecond'"
    "       ELSE pg_catalog.now() + $5::int8::float8 * interval '1 millisecond' END,"
    "  $7::int4, nullif($8::int4, 0))"
    " RETURNING j.id";

static int bind(struct single *single, struct pawl_err *err)
{
    const struct pawl_job_new job = {
        .queue = BENCH_QUEUE,
        .kind = BENCH_KIND,
        .payload = "{}",
        .payload_len = 2,
        .priority = PAWL_PRIORITY_DEFAULT,
        .max_attempts = JOB_MAX_ATTEMPTS_DEFAULT,
    };

    arena_init(&single->arena, ARENA_MAX);
    params_init(&single->params, &single->arena);
    job_enqueue_one_bind(&single->params, &job);
    return single->params.failed ? err_set(err, PAWL_ENOMEM, "out of memory") : 0;
}

int single_init(struct single *single, struct bench *b, struct pawl_err *err)
{
    *single = (struct single){0};
    int rc = bind(single, err);

    if (rc == 0)
        rc = sync_connect(&b->target, &single->conn, err);
    if (rc == 0)
        rc = tables_prepare(single->conn, "pawl", STMT(job_enqueue_one)->sql, err);
    if (rc == 0)
        rc = tables_prepare(single->conn, "bare", bare_sql, err);
    if (rc < 0)
        single_deinit(single);
    return rc;
}

void single_deinit(struct single *single)
{
    sync_close(&single->conn);
    arena_deinit(&single->arena);
}

int single_send(struct single *single, bool bare, struct pawl_err *err)
{
    const struct params *p = &single->params;

    if (PQsendQueryPrepared(
            single->conn, bare ? "bare" : "pawl", p->n, p->values, p->lengths, p->formats, 1) != 1)
        return tables_failed(single->conn, NULL, err);
    return 0;
}

int single_finish(struct single *single, struct pawl_err *err)
{
    PGresult *r;
    int rc = 0;

    while ((r = PQgetResult(single->conn)) != NULL) {
        if (PQresultStatus(r) != PGRES_TUPLES_OK && rc == 0)
            rc = tables_failed(single->conn, r, err);
        PQclear(r);
    }
    return rc;
}

int producers_init(struct producers *p, struct bench *b, size_t n, struct pawl_err *err)
{
    int rc = 0;

    *p = (struct producers){
        .singles = calloc(n, sizeof(*p->singles)), .fds = calloc(n, sizeof(*p->fds)), .n = n};
    if (p->singles == NULL || p->fds == NULL)
        rc = err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = single_init(&p->singles[i], b, err);
        if (rc == 0)
            p->fds[i] = (struct pollfd){.fd = PQsocket(p->singles[i].conn), .events = POLLIN};
    }
    if (rc < 0)
        producers_deinit(p);
    return rc;
}

void producers_deinit(struct producers *p)
{
    for (size_t i = 0; p->singles != NULL && i < p->n; i++)
        single_deinit(&p->singles[i]);
    free(p->singles);
    free(p->fds);
    *p = (struct producers){0};
}

int producers_pump(struct bench *b,
                   struct producers *p,
                   bool bare,
                   int64_t ms,
                   double *ret_rate,
                   struct pawl_err *err)
{
    int64_t begun_us = bench_now_us();
    int64_t until_us = begun_us + ms * US_PER_MS;
    int64_t n = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < p->n; i++)
        rc = single_send(&p->singles[i], bare, err);
    while (rc == 0 && bench_now_us() < until_us) {
        rc = bench_go_on(b, err);
        if (rc == 0 && poll(p->fds, p->n, 100) <= 0)
            continue;
        for (size_t i = 0; rc == 0 && i < p->n; i++) {
            struct single *single = &p->singles[i];

            if (p->fds[i].revents == 0)
                continue;
            if (PQconsumeInput(single->conn) != 1)
                return tables_failed(single->conn, NULL, err);
            if (PQisBusy(single->conn))
                continue;
            rc = single_finish(single, err);
            if (rc == 0)
                rc = single_send(single, bare, err);
            n++;
        }
    }
    if (rc == 0)
        *ret_rate = (double)n * US_PER_S / (double)(bench_now_us() - begun_us);
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        rc = single_finish(&p->singles[i], err);
    return rc;
}
