/* job: bind, run, read; and client_job_await, which sleeps. */
#include "client/job.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/defer.h"
#include "client/query.h"
#include "store/statements.h"

#define LOOK_FIRST_MS 1000 /* a notification may get lost; waiting doubles up to … */
#define LOOK_MAX_MS   30000

int client_job_cancel(
    PGconn *conn, int64_t id, const char *by, bool *ret_ended, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    job_cancel_bind(&q.params, id, by);
    int rc = query_run(&q, conn, STMT(job_cancel), err);

    if (rc == 0)
        *ret_ended = job_cancel_row(q.result);
    return rc;
}

int client_job_retry(PGconn *conn, int64_t id, int64_t *ret_id, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    job_retry_bind(&q.params, id);
    int rc = query_run(&q, conn, STMT(job_retry), err);

    if (rc == 0)
        *ret_id = job_retry_row(q.result);
    return rc;
}

static int look(PGconn *conn, int64_t id, bool *ret_live, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    job_watch_bind(&q.params, id);
    int rc = query_run(&q, conn, STMT(job_watch), err);

    if (rc == 0)
        *ret_live = job_watch_row(q.result);
    /* Somebody holds the job: it is there, and the next look marks it. */
    if (rc == PAWL_ERETRY) {
        *ret_live = true;
        rc = 0;
    }
    return rc;
}

/* LISTEN comes before the first look, so an end after that look is heard. */
static int await(PGconn *conn, int64_t id, int64_t until_us, struct pawl_err *err)
{
    char payload[24];
    int64_t pause_ms = LOOK_FIRST_MS;
    bool live = true;
    bool heard = false;
    int rc = sync_exec(conn, STMT(listen_done), NULL, NULL, err);

    snprintf(payload, sizeof(payload), "%lld", (long long)id);
    if (rc == 0)
        rc = look(conn, id, &live, err);
    while (rc == 0 && live && !heard) {
        int64_t now_us = clock_mono_us(&clock_system);
        int64_t next_us = now_us + pause_ms * US_PER_MS;

        if (now_us >= until_us) {
            err_set(err, PAWL_ETIMEOUT, "job %lld is not finished yet", (long long)id);
            return PAWL_ETIMEOUT;
        }
        rc = sync_notified(
            conn, "pawl_done", payload, next_us < until_us ? next_us : until_us, &heard, err);
        if (rc == 0 && !heard)
            rc = look(conn, id, &live, err);
        pause_ms = pause_ms * 2 < LOOK_MAX_MS ? pause_ms * 2 : LOOK_MAX_MS;
    }
    return rc;
}

int client_job_await(PGconn *conn, int64_t id, int64_t until_us, struct pawl_err *err)
{
    if (PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) != PQTRANS_IDLE) {
        err_set(err, PAWL_ESTATE, "cannot wait for a job inside a transaction");
        return err_hint(err, "It would never see the end. Commit first.");
    }
    int rc = await(conn, id, until_us, err);

    /* Who does not listen does not gather notifications that nobody takes. */
    if (PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_IDLE)
        (void)!sync_exec(conn, STMT(unlisten_done), NULL, NULL, NULL);
    return rc;
}

int client_claim_assert(PGconn *conn, int64_t id, const struct uuid *token, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    claim_assert_bind(&q.params, id, token);
    return query_run(&q, conn, STMT(claim_assert), err);
}

int client_claim_try(PGconn *conn, const char *queue, int64_t lease_ms, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    struct job_claim nothing = {
        .queue = queue,
        .limit = 0,
        .token = uuid_random(),
        .worker = uuid_random(),
        .lease_ms = lease_ms,
    };

    query_begin(&q, 0);
    job_claim_bind(&q.params, &nothing);
    return query_run(&q, conn, STMT(job_claim), err);
}
