/* floor: claim here, delete there. */
#include "bench/floor.h"

#include "base/defer.h"
#include "bench/tables.h"
#include "pg/result.h"
#include "pg/sync.h"
#include "store/job.h"
#include "store/statements.h"

#define LEASE_MS  30000
#define BATCH_MAX (1024 * 1024) /* bytes of parameters */

struct lane {
    PGconn *conn;
    struct arena arena;
    bool busy; /* a statement is on its way */
};

struct floor {
    struct lane claim;
    struct lane settle;
    struct job_claim asked; /* the watermark included */
};

static int lane_open(struct lane *lane, struct bench *b, const char *sql, struct pawl_err *err)
{
    arena_init(&lane->arena, BATCH_MAX);
    int rc = sync_connect(&b->target, &lane->conn, err);

    if (rc == 0)
        rc = tables_session(lane->conn, err);
    return rc == 0 ? tables_prepare(lane->conn, "s", sql, err) : rc;
}

static void lane_close(struct lane *lane)
{
    sync_close(&lane->conn);
    arena_deinit(&lane->arena);
}

static int lane_send(struct lane *lane, const struct params *p, struct pawl_err *err)
{
    if (p->failed)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (PQsendQueryPrepared(lane->conn, "s", p->n, p->values, p->lengths, p->formats, 1) != 1)
        return tables_failed(lane->conn, NULL, err);
    lane->busy = true;
    return 0;
}

/* Waits for what was sent last. ret_result may be NULL. */
static int lane_finish(struct lane *lane, PGresult **ret_result, struct pawl_err *err)
{
    PGresult *r = NULL;
    PGresult *more;
    int rc = 0;

    if (!lane->busy)
        return 0;
    lane->busy = false;
    while ((more = PQgetResult(lane->conn)) != NULL) {
        PQclear(r);
        r = more;
    }
    if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
        rc = tables_failed(lane->conn, r, err);
    if (rc == 0 && ret_result != NULL)
        *ret_result = TAKE_PTR(r);
    PQclear(r);
    return rc;
}

static int claim(struct floor *f, PGresult **ret_result, struct pawl_err *err)
{
    struct params params;

    arena_clear(&f->claim.arena);
    params_init(&params, &f->claim.arena);
    f->asked.token = uuid_random();
    job_claim_bind(&params, &f->asked);
    int rc = lane_send(&f->claim, &params, err);

    return rc == 0 ? lane_finish(&f->claim, ret_result, err) : rc;
}

/* Sends the DELETE of what was claimed, and moves the watermark on. */
static int settle(struct floor *f, const PGresult *claimed, struct pawl_err *err)
{
    struct job_watermark *mark = &f->asked.from[PAWL_PRIORITY_DEFAULT];
    struct params params;
    size_t n = (size_t)PQntuples(claimed);

    arena_clear(&f->settle.arena);
    params_init(&params, &f->settle.arena);
    int64_t *ids = arena_new_array(&f->settle.arena, n, int64_t);

    if (ids == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        struct job_watermark at = {job_claim_due(claimed, (int)i), job_claim_id(claimed, (int)i)};

        ids[i] = at.id;
        if (at.due_us > mark->due_us || (at.due_us == mark->due_us && at.id > mark->id))
            *mark = at;
    }
    params_i64_array(&params, ids, n);
    params_uuid(&params, &f->asked.token);
    return lane_send(&f->settle, &params, err);
}

static int loop(struct bench *b, struct floor *f, int64_t n, struct pawl_err *err)
{
    int rc = 0;

    for (int64_t done = 0; rc == 0 && done < n;) {
        PGresult *claimed = NULL;

        rc = bench_go_on(b, err);
        if (rc == 0)
            rc = claim(f, &claimed, err);
        if (rc == 0)
            rc = lane_finish(&f->settle, NULL, err);
        if (rc == 0 && PQntuples(claimed) == 0)
            rc = err_set(err, PAWL_EFAILED, "the queue was empty after %lld jobs", (long long)done);
        if (rc == 0) {
            done += PQntuples(claimed);
            rc = settle(f, claimed, err);
        }
        PQclear(claimed);
    }
    return rc == 0 ? lane_finish(&f->settle, NULL, err) : rc;
}

int floor_drain(struct bench *b, int64_t n, int32_t batch, double *ret_rate, struct pawl_err *err)
{
    static const char *const kinds[] = {BENCH_KIND};
    struct floor f = {
        .asked =
            {
                .queue = BENCH_QUEUE,
                .kinds = kinds,
                .n_kinds = 1,
                .limit = batch,
                .worker = uuid_random(),
                .lease_ms = LEASE_MS,
            },
    };
    int64_t begun_us = bench_now_us();

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        f.asked.from[i].due_us = INT64_MIN;
    int rc = lane_open(&f.claim, b, STMT(job_claim)->sql, err);

    if (rc == 0)
        rc = lane_open(&f.settle,
                       b,
                       "DELETE FROM pawl.job WHERE id = ANY ($1::int8[]) AND token = $2::uuid",
                       err);
    if (rc == 0)
        rc = loop(b, &f, n, err);
    if (rc == 0)
        *ret_rate = (double)n * US_PER_S / (double)(bench_now_us() - begun_us);
    lane_close(&f.claim);
    lane_close(&f.settle);
    return rc;
}
