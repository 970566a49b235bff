/*
 * rogue: a client that behaves badly, in a thread of its own and at the lowest priority: what it costs others is what the server does
 * about it, not what it does itself. Whatever the server does to its connection, it makes another.
 */
#ifndef BENCH_ROGUE_H
#define BENCH_ROGUE_H

#include <pthread.h>

#include <stdatomic.h>

#include "bench/bench.h"
#include "remote/address.h"

#define ROGUE_QUEUE "rogue" /* from which it is given jobs */

/* X(name, what it is) */
#define ROGUES(X)                                  \
    X(SLOW, "a worker that reads a byte a second") \
    X(FROZEN, "a worker that is stopped")          \
    X(PINGS, "a flood of pings")                   \
    X(RESETS, "a flood of calls that are reset")   \
    X(GARBAGE, "garbage")

#define ROGUE_ENUM(name, what) ROGUE_##name,

enum rogue_kind { ROGUES(ROGUE_ENUM) N_ROGUES };

#undef ROGUE_ENUM

struct rogue {
    const struct address *server; /* borrowed */
    enum rogue_kind kind;
    pthread_t thread;
    atomic_bool stop;
    atomic_size_t n_connections; /* that it made */
    atomic_size_t n_written;     /* bytes that the server's machine took */
};

const char *rogue_what(enum rogue_kind kind);

/* Returns when it has written something. rogue_stop is due for it when it succeeds. */
int rogue_start(struct bench *b,
                struct rogue *rogue,
                const struct address *server,
                enum rogue_kind kind,
                struct pawl_err *err) MUST_CHECK;
void rogue_stop(struct rogue *rogue);

#endif
