/*
 * working: a worker of libpawl on this thread, until it is done or told to stop by a signal. What `pawl work` and `pawl demo`
 * have in common. Nothing here that a program of somebody else could not do.
 *
 * Signals are waited for by a thread of their own, which also ticks; the worker's callbacks come on the thread of working_run.
 */
#ifndef CLI_WORKING_H
#define CLI_WORKING_H

#include <pthread.h>
#include <signal.h>

#include <stdatomic.h>

#include "cli/verb.h"
#include "pawl.h"

struct working {
    struct log *log;            /* borrowed; where it goes from the worker, too */
    struct pawl_worker *worker; /* borrowed */
    bool stats;                 /* logs its counters at the end; at SIGUSR1 in any case */
    /* Called every tick_ms while it works, if tick_ms is not 0; the thread of the signals. */
    void (*tick)(void *data);
    int64_t tick_ms;
    void *data;

    /* Its own. */
    pthread_t thread;
    sigset_t signals;
    atomic_bool stopping;
    atomic_bool over; /* nobody needs the thread any more */
};

/* The worker logs where `log` does, in its format, from its level on. */
void working_log(struct log *log, struct pawl_worker_options *options);

/* Works until stopped, or until empty: as pawl_worker_run. */
int working_run(struct working *working, struct pawl_err *err) MUST_CHECK;

/* As a first signal would. Any thread, while it works. Calling it again changes nothing; only a signal insists. */
void working_stop(struct working *working);

#endif
