/*
 * enqueue: accepting jobs on a connection of the caller's, inside the caller's transaction or not.
 * Blocking. The connection's thread.
 */
#ifndef CLIENT_ENQUEUE_H
#define CLIENT_ENQUEUE_H

#include <libpq-fe.h>

#include "store/job.h"

#define JOB_TRACE_MAX    1024                           /* bytes; a W3C traceparent has 55 */
#define JOB_DELAY_MAX_MS (10LL * 366 * 86400 * 1000)    /* as long as the command line takes */
#define JOB_TIME_MAX_US  (253402300800LL * 1000000 - 1) /* the end of the year 9999 */

/* The defaults of everything but kind and payload. */
struct job_new job_new_default(void);

/* What a job may be; refuses with what is wrong and what would be right. `meta` is job_new_meta's. */
int job_new_check(const struct job_new *job, struct pawl_err *err) MUST_CHECK;

/* Checks tags, trace and correlation, and puts them together as the job's meta, in the arena. */
int job_new_meta(struct job_new *job, struct arena *arena, struct pawl_err *err) MUST_CHECK;

/* What it counts against ENQUEUE_BYTES_MAX. */
size_t job_new_bytes(const struct job_new *job);

/*
 * At most JOB_ENQUEUE_MAX jobs and ENQUEUE_BYTES_MAX bytes in one statement (and one job more may
 * stick out); ret_ids has room for n. All or nothing. PAWL_EUNKNOWN outside a transaction: they may
 * have been accepted.
 */
#define ENQUEUE_BYTES_MAX (32 * 1024 * 1024)
int client_enqueue(PGconn *conn,
                   const struct job_new *jobs,
                   size_t n,
                   int64_t *ret_ids,
                   bool *ret_existed, /* room for n, or NULL: another job holds the unique key, and
                                         ret_ids names it */
                   struct pawl_err *err) MUST_CHECK;
/* The same for jobs that job_new_check has let through already. */
int client_enqueue_checked(PGconn *conn,
                           const struct job_new *jobs,
                           size_t n,
                           int64_t *ret_ids,
                           bool *ret_existed,
                           struct pawl_err *err) MUST_CHECK;

/* Transactions around several calls. Rolling back cannot fail in a way that matters. */
int client_begin(PGconn *conn, struct pawl_err *err) MUST_CHECK;
int client_commit(PGconn *conn, struct pawl_err *err) MUST_CHECK;
void client_rollback(PGconn *conn);

#endif
