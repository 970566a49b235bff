/*
 * enqueue: accepting jobs on a connection of the caller's, inside the caller's transaction or not.
 * Blocking. The connection's thread.
 */
#ifndef CLIENT_ENQUEUE_H
#define CLIENT_ENQUEUE_H

#include <libpq-fe.h>

#include "store/job_enqueue.h"

/*
 * Jobs that have passed job_new_check and job_new_fill, at most JOB_ENQUEUE_MAX of them and
 * ENQUEUE_BYTES_MAX bytes in one statement (and one job more may stick out); ret_ids has room for n.
 * All or nothing. PAWL_EUNKNOWN outside a transaction: they may have been accepted.
 */
#define ENQUEUE_BYTES_MAX (32 * 1024 * 1024)
int client_enqueue(PGconn *conn,
                   const struct pawl_job_new *jobs,
                   size_t n,
                   int64_t *ret_ids,
                   bool *ret_existed, /* room for n, or NULL: another job holds the unique key, and
                                         ret_ids names it */
                   struct pawl_err *err) MUST_CHECK;
/* Transactions around several calls. Rolling back cannot fail in a way that matters. */
int client_begin(PGconn *conn, struct pawl_err *err) MUST_CHECK;
int client_commit(PGconn *conn, struct pawl_err *err) MUST_CHECK;
void client_rollback(PGconn *conn);

#endif
