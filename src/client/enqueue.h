/*
 * enqueue: accepting jobs on a connection of the caller's, inside the caller's transaction or not.
 * Blocking. The connection's thread.
 */
#ifndef CLIENT_ENQUEUE_H
#define CLIENT_ENQUEUE_H

#include <libpq-fe.h>

#include "store/job.h"

/* What a job may be; refuses with what is wrong and what would be right. */
int job_new_check(const struct job_new *job, struct pawl_err *err) MUST_CHECK;

/* The defaults of everything but kind and payload. */
struct job_new job_new_default(void);

/*
 * At most JOB_ENQUEUE_MAX jobs and ENQUEUE_BYTES_MAX bytes in one statement; ret_ids has room for
 * n. All or nothing. PAWL_EUNKNOWN outside a transaction: they may have been accepted.
 */
#define ENQUEUE_BYTES_MAX (32 * 1024 * 1024)
int client_enqueue(PGconn *conn,
                   const struct job_new *jobs,
                   size_t n,
                   int64_t *ret_ids,
                   struct pawl_err *err) MUST_CHECK;

/* Transactions around several calls. Rolling back cannot fail in a way that matters. */
int client_begin(PGconn *conn, struct pawl_err *err) MUST_CHECK;
int client_commit(PGconn *conn, struct pawl_err *err) MUST_CHECK;
void client_rollback(PGconn *conn);

#endif
