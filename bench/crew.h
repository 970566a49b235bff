/*
 * crew: a coordinator with thread hands on a loop of its own, in a thread of its own: what a
 * program has that runs C handlers. The caller's thread starts it, waits for it or stops it.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <pthread.h>

#include <stdatomic.h>
#include <uv.h>

#include "bench/bench.h"
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
    int64_t look_ms;    /* look for work that often, beside what wakes it; 0: no */
    bool time_last;     /* note when the last one was settled, in crew_view */
    threads_fn handler; /* NULL: does nothing */
    void *data;
};

/* A crew at work, as its own thread sees it. */
struct crew_view {
    int64_t n_settled;
    int64_t last_us; /* when the last one was settled; 0: none, or not asked for */
    struct coordinator_stats stats;
};

struct crew {
    struct crew_options options;
    pthread_t thread;
    bool joined;
    uv_loop_t loop;
    uv_async_t stop;
    uv_async_t look;
    uv_timer_t look_timer;
    uv_sem_t looked;       /* view is filled */
    struct crew_view view; /* of the crew's thread between look and looked, else of the caller's */
    struct hands *hands;
    struct coordinator *coordinator;
    struct threads_handler handlers[1];
    const char *queues[1];
    atomic_bool over;

    /* Of the crew's thread until it is joined. */
    int64_t n_settled;
    int64_t n_stale;
    int64_t begun_us;
    int64_t reached_us; /* when stop_after was reached */
    int64_t last_us;
    struct coordinator_stats stats;
    struct pawl_err err;
};

/* What a crew that drains as fast as it can looks like. */
struct crew_options crew_fast(const struct target *target, struct log *log);

int crew_start(struct crew *crew,
               const struct crew_options *options,
               struct pawl_err *err) MUST_CHECK;

/* Asks it how it stands. Costs it one turn of its loop, so it may be asked while it is timed. Only a crew without stop_after
 * that was not told to stop: it must be there to answer. */
void crew_look(struct crew *crew, struct crew_view *ret_view);

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
