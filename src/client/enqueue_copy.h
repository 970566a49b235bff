/*
 * enqueue_copy: very many plain jobs by COPY, for callers that PostgreSQL lets: those whose rows no
 * policy checks, as the owner's are not. Blocking, inside a transaction. The connection's thread.
 */
#ifndef CLIENT_ENQUEUE_COPY_H
#define CLIENT_ENQUEUE_COPY_H

#include <libpq-fe.h>

#include "core/job_fields.h"

#define ENQUEUE_COPY_MIN 2000 /* jobs, from which on asking first pays */

/* The next jobs, checked and plain; valid until it is called again. *ret_n is 0 at the end. */
typedef int (*jobs_next_fn)(void *data,
                            const struct pawl_job_new **ret_jobs,
                            size_t *ret_n,
                            struct pawl_err *err);

/* All of them. *ret_done is false when it may not be done this way: then nothing happened, and `next` was
 * not called. */
int client_enqueue_copy(
    PGconn *conn, jobs_next_fn next, void *data, bool *ret_done, struct pawl_err *err) MUST_CHECK;

#endif
