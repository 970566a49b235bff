/*
 * gang: any number of remote workers on one loop, in a thread of its own: what a server sees of many machines. Their handlers do
 * nothing: on threads, as in a crew, or not even that.
 */
#ifndef BENCH_GANG_H
#define BENCH_GANG_H

#include <pthread.h>

#include <stdatomic.h>
#include <uv.h>

#include "bench/bench.h"
#include "remote/remote.h"

struct gang_options {
    const struct address *server; /* borrowed, like all pointers */
    struct log *log;
    size_t workers;
    size_t concurrency; /* of each */
    size_t prefetch;
    size_t threads;     /* of each; 0: runs end on the loop itself, as soon as they begin */
    int64_t time_after; /* the clock begins to run when so many jobs are settled; 0: at the start */
    int64_t stop_after; /* stop when so many are settled; 0: when told */
    void (*started)(void *data, const struct job *job); /* may be NULL; the loop's thread */
    void *data;
};

struct gang_worker;

struct gang {
    struct gang_options options;
    pthread_t thread;
    bool joined;
    uv_loop_t loop;
    uv_async_t stop;
    struct gang_worker *workers; /* owned */
    size_t n_open;               /* the loop's thread: those that are not stopped */
    atomic_size_t n_taken;       /* connected */
    atomic_bool over;

    /* Of the gang's thread until it is joined. */
    int64_t n_settled;
    int64_t n_stale;
    int64_t begun_us;
    int64_t reached_us;
    uint64_t n_reports;
    struct pawl_err err; /* the first trouble; code 0: none */
};

/* Returns when all are connected. gang_stop is due for it when it succeeds. */
int gang_start(struct bench *b,
               struct gang *gang,
               const struct gang_options *options,
               struct pawl_err *err) MUST_CHECK;
/* Until it stopped by itself. */
int gang_wait(struct bench *b, struct gang *gang, int64_t most_ms, struct pawl_err *err) MUST_CHECK;
int gang_stop(struct gang *gang, struct pawl_err *err) MUST_CHECK;
/* Jobs a second while the clock ran. */
double gang_rate(const struct gang *gang);

#endif
