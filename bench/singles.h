/*
 * singles: a connection that enqueues one job with one commit, again and again, as a producer does.
 * Blocking but for single_send.
 */
#ifndef BENCH_SINGLES_H
#define BENCH_SINGLES_H

#include <libpq-fe.h>

#include "bench.h"

/* notifying: with pawl's own statement; else with the same INSERT and nothing else. */
int single_connect(struct bench *b, bool notifying, PGconn **ret_conn, struct pawl_err *err)
    MUST_CHECK;

/* Does not wait. */
int single_send(PGconn *conn, struct pawl_err *err) MUST_CHECK;
/* Waits for the answer, which comes after the commit. */
int single_finish(PGconn *conn, struct pawl_err *err) MUST_CHECK;

#endif
