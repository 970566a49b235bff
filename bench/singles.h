/*
 * singles: a connection that enqueues one job with one commit, again and again, as a producer does:
 * with pawl's own statement, or with the same INSERT that does not look at who sleeps. Blocking but
 * for single_send.
 */
#ifndef BENCH_SINGLES_H
#define BENCH_SINGLES_H

#include <libpq-fe.h>

#include "base/arena.h"
#include "bench/bench.h"
#include "pg/params.h"

struct single {
    PGconn *conn;         /* owned; NULL: closed */
    struct arena arena;   /* of the parameters, which point to it: a single stays where it is */
    struct params params; /* always the same job: bound once, or the client would be measured too */
};

int single_init(struct single *single, struct bench *b, struct pawl_err *err) MUST_CHECK;
/* One that is all zero, or was never made to work, is fine too. */
void single_deinit(struct single *single);

/* Does not wait. bare: with the INSERT alone. */
int single_send(struct single *single, bool bare, struct pawl_err *err) MUST_CHECK;
/* Waits for the answer, which comes after the commit. */
int single_finish(struct single *single, struct pawl_err *err) MUST_CHECK;

/* So many of them, all at once: what as many producers do. */
struct producers {
    struct single *singles; /* owned */
    struct pollfd *fds;     /* owned */
    size_t n;
};

int producers_init(struct producers *p, struct bench *b, size_t n, struct pawl_err *err) MUST_CHECK;
/* One that is all zero is fine too. */
void producers_deinit(struct producers *p);
/* Each sends the next one as soon as its last is committed, until the time is over. Commits a second. */
int producers_pump(struct bench *b,
                   struct producers *p,
                   bool bare,
                   int64_t ms,
                   double *ret_rate,
                   struct pawl_err *err) MUST_CHECK;

#endif
