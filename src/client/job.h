/*
 * job: cancels a job, retries it, waits for its end, and checks its claim. Blocking, on a connection
 * of the caller. The connection's thread.
 */
#ifndef CLIENT_JOB_H
#define CLIENT_JOB_H

#include <libpq-fe.h>

#include "store/job.h"

/* by NULL: the database user. ret_ended: it is over already, else it was told. PAWL_ENOTFOUND,
 * PAWL_ESTATE: it is finished. */
int client_job_cancel(
    PGconn *conn, int64_t id, const char *by, bool *ret_ended, struct pawl_err *err) MUST_CHECK;

/* ret_id: of the job that will run. PAWL_ENOTFOUND, PAWL_ESTATE: it runs, or is done. */
int client_job_retry(PGconn *conn, int64_t id, int64_t *ret_id, struct pawl_err *err) MUST_CHECK;

/*
 * Sleeps until the job is not live any more, at most until until_us (monotonic; INT64_MAX: for
 * ever): PAWL_ETIMEOUT. LISTENs, and looks by itself now and then. Notifications that are not about
 * this job are taken off the connection. Not inside a transaction.
 */
int client_job_await(PGconn *conn, int64_t id, int64_t until_us, struct pawl_err *err) MUST_CHECK;

/* PAWL_ESTALE unless the claim is valid; it then stays so until the transaction ends. */
int client_claim_assert(PGconn *conn, int64_t id, const struct uuid *token, struct pawl_err *err)
    MUST_CHECK;

/* A claim of nothing: what would keep every claim from succeeding (rights, a read-only database, a schema of another version)
 * is known before somebody begins to work. */
int client_claim_try(PGconn *conn, const char *queue, int64_t lease_ms, struct pawl_err *err)
    MUST_CHECK;

#endif
