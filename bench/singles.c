/* singles: one job, one commit. */
#include "singles.h"

#include "base/defer.h"
#include "pg/sync.h"
#include "store/job.h"
#include "store/statements.h"
#include "tables.h"

#define ARENA_MAX (64 * 1024)

/* job_enqueue.sql without its look at who sleeps. */
static const char bare_sql[] =
    "INSERT INTO pawl.job (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)"
    " SELECT i.queue, i.kind, i.payload, i.priority,"
    "        CASE WHEN i.at_us <> 0 THEN timestamptz 'epoch' + i.at_us * interval '1 microsecond'"
    "             ELSE pg_catalog.now() + i.delay_ms * interval '1 millisecond' END,"
    "        i.max_attempts, nullif(i.timeout_ms, 0)"
    " FROM ROWS FROM (unnest($1::text[]), unnest($2::text[]), unnest($3::bytea[]), unnest($4::int2[]),"
    "                 unnest($5::int8[]), unnest($6::int8[]), unnest($7::int4[]), unnest($8::int4[]))"
    "      AS i(queue, kind, payload, priority, delay_ms, at_us, max_attempts, timeout_ms)"
    " RETURNING id";

int single_connect(struct bench *b, bool notifying, PGconn **ret_conn, struct pawl_err *err)
{
    PGconn *conn = NULL;
    int rc = sync_connect(&b->target, &conn, err);

    if (rc == 0)
        rc = tables_prepare(conn, "s", notifying ? STMT(job_enqueue)->sql : bare_sql, err);
    if (rc < 0)
        sync_close(&conn);
    else
        *ret_conn = conn;
    return rc;
}

int single_send(PGconn *conn, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    struct params p;
    struct job_new job = {
        .queue = BENCH_QUEUE,
        .kind = BENCH_KIND,
        .payload = {"{}", 2},
        .priority = PAWL_PRIORITY_DEFAULT,
        .max_attempts = JOB_MAX_ATTEMPTS_DEFAULT,
    };

    arena_init(&arena, ARENA_MAX);
    params_init(&p, &arena);
    job_enqueue_bind(&p, &job, 1);
    if (p.failed)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (PQsendQueryPrepared(conn, "s", p.n, p.values, p.lengths, p.formats, 1) != 1)
        return tables_failed(conn, NULL, err);
    return 0;
}

int single_finish(PGconn *conn, struct pawl_err *err)
{
    PGresult *r;
    int rc = 0;

    while ((r = PQgetResult(conn)) != NULL) {
        if (PQresultStatus(r) != PGRES_TUPLES_OK && rc == 0)
            rc = tables_failed(conn, r, err);
        PQclear(r);
    }
    return rc;
}
