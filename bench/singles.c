/* singles: one job, one commit. */
#include "bench/singles.h"

#include <string.h>

#include "base/defer.h"
#include "bench/tables.h"
#include "pg/sync.h"
#include "store/job.h"
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
    const struct job_new job = {
        .queue = BENCH_QUEUE,
        .kind = BENCH_KIND,
        .payload = {"{}", 2},
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
