/*
 * crew: a coordinator with thread hands on a loop of its own, in a thread of its own: what a
 * program has that runs C handlers. The caller's thread starts it, waits for it or stops it.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <pthread.h>

#include <stdatomic.h>
#include <uv.h>

#include "bench.h"
#include "engine/coordinator.h"
#include "hands/threads.h"

#define CREW_AHEAD       4000 /* jobs at hand beyond those that run */
#define CREW_THREADS     2
#define CREW_LEASE_MS    30000
#define CREW_POLL_MAX_MS 5000

struct crew_options {
    const struct target *target; /* borrowed, like all pointers */
    struct log *log;
    const char *queue;
    size_t threads;
    size_t ahead;       /* jobs claimed and handed over beyond those that run */
    int64_t time_after; /* the clock begins to run when so many jobs are settled; 0: at the start */
    int64_t stop_after; /* stop when so many jobs are settled; 0: when told */
    bool until_empty;   /* or when nothing is due */
    threads_fn handler; /* NULL: does nothing */
    void *data;
};

struct crew {
    struct crew_options options;
    pthread_t thread;
    bool joined;
    uv_loop_t loop;
    uv_async_t stop;
    struct hands *hands;
    struct coordinator *coordinator;
    struct threads_handler handlers[1];
    const char *queues[1];
    atomic_bool over;

    /* Of the crew's thread until it is joined. */
    int64_t n_settled;
    int64_t n_stale;
    int64_t begun_us;
    int64_t reached_us; /* when stop_after was reached, or when the last one was settled */
    struct coordinator_stats stats;
    struct pawl_err err;
};

/* What a crew that drains as fast as it can looks like. */
struct crew_options crew_fast(const struct target *target, struct log *log);

int crew_start(struct crew *crew,
               const struct crew_options *options,
               struct pawl_err *err) MUST_CHECK;

/* Waits until it stopped by itself, or tells it to after most_ms (an error) or a signal. */
int crew_wait(struct bench *b, struct crew *crew, int64_t most_ms, struct pawl_err *err) MUST_CHECK;

/* Tells it to stop and waits. */
int crew_stop(struct crew *crew, struct pawl_err *err) MUST_CHECK;

/* From when the clock began to run until reached. */
double crew_seconds(const struct crew *crew);

/* Starts one with options->stop_after, waits, and says how many jobs a second it settled while the
 * clock ran. */
int crew_drain(struct bench *b,
               struct crew *crew,
               const struct crew_options *options,
               double *ret_rate,
               struct pawl_err *err) MUST_CHECK;

/* CPU time of this process, all threads. */
int64_t crew_cpu_us(void);

#endif
