/*
 * worker: a coordinator with hands (threads, processes or both) on a loop of its own, driven by a thread of its own, by
 * the caller's, or by another event loop.
 *
 * One thread at a time is the loop's: it alone touches the loop, the hands and the coordinator. All
 * others leave a note under the mutex or in an atomic and send `call`. The handles of the loop live
 * from new to free, so that a note can be left at any time; once the worker has stopped nobody reads it.
 */
#ifndef LIB_WORKER_H
#define LIB_WORKER_H

#include <pthread.h>
#include <sys/types.h>

#include <stdatomic.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "engine/coordinator.h"
#include "hands/mixed.h"
#include "hands/threads.h"
#include "pg/target.h"

enum worker_state {
    WORKER_NEW,
    WORKER_STARTING, /* looking at where jobs come from */
    WORKER_WORKING,
    WORKER_STOPPED, /* for good */
};

struct worker_handler {
    struct worker_handler *next;
    struct pawl_worker *worker;
    const char *kind;    /* in the arena */
    const char *command; /* in the arena; NULL: a function */
    pawl_handler_fn fn;
    void *data; /* the caller's */
};

#define WORKER_VALUES_MAX 80 /* that have a name */

struct remote;
struct server;
struct pawl_worker;

/* What gives a worker its jobs. The loop's thread, but for from_options and forget. What is NULL is
 * not needed. */
struct worker_source {
    /* What the options say about it, when the worker is made; and forgets that when the worker is
     * freed. */
    int (*from_options)(struct pawl_worker *worker, struct pawl_err *err);
    void (*forget)(struct pawl_worker *worker);
    /* Whether it is there, and lets us work. Blocks. */
    int (*check)(struct pawl_worker *worker, struct pawl_err *err);
    /* Opens it for the hands that there are. */
    int (*make)(struct pawl_worker *worker, struct pawl_err *err);
    /* Jobs may come. Fails without a trace of it and of the hands. */
    int (*start)(struct pawl_worker *worker, struct pawl_err *err);
    /* First and second time, as pawl_worker_stop. In the end it calls worker_source_stopped. */
    void (*stop)(struct pawl_worker *worker);
    void (*turn)(struct pawl_worker *worker); /* does what follows from the events so far */
    void (*wake)(struct pawl_worker *worker); /* looks for jobs now */
    void (*note)(struct pawl_worker *worker, struct run *run, const char *text);
    void (*set_concurrency)(struct pawl_worker *worker, unsigned concurrency, bool guarded);
    void (*publish)(struct pawl_worker *worker,
                    bool all);                /* counters; all: also what is not cheap */
    void (*free)(struct pawl_worker *worker); /* after the loop has run dry */
};

extern const struct worker_source worker_database; /* worker_database.c */
extern const struct worker_source worker_server;   /* worker_remote.c */

struct pawl_worker {
    pid_t pid; /* of the process that made it: a child that was forked must not touch it */
    struct pawl_worker_options options; /* texts are in the arena, defaults are filled in */
    struct arena arena;
    struct target target;
    struct server *server; /* in the arena; NULL: there is a database */
    struct log log;
    struct worker_handler *handlers; /* in the arena */
    size_t n_handlers;
    size_t n_commands; /* of them */

    /* The loop's thread. */
    uv_loop_t loop;
    uv_async_t call;         /* somebody left a note */
    uv_prepare_t follow;     /* hands and coordinator agree on how many run, before a turn … */
    uv_prepare_t publish;    /* … and the counters are copied after it */
    uv_check_t follow_up;    /* embedded only: what follows from the events of this turn */
    struct hands *hands;     /* one of the next three, while it lives */
    struct hands *threads;   /* for functions; NULL: there are none */
    struct hands *processes; /* for commands; likewise */
    struct mixed mixed;      /* of both */
    const struct worker_source *source;
    bool open;                       /* source and hands are there */
    struct coordinator *coordinator; /* worker_database's */
    struct remote *remote;           /* worker_server's, like the next two */
    struct pawl_err remote_err;      /* why it ended by itself; code 0: it did not */
    bool remote_stopped;
    unsigned stops_passed_on;
    bool embedded;
    uint64_t gauged_ms;         /* loop's time of the last look at the gauges */
    uint64_t changes_published; /* of the number of jobs at a time: those that are in stats … */
    uint64_t changes_followed;  /* … and those the hands know of */

    /* Notes. */
    atomic_uint stops; /* calls of stop */
    atomic_bool wake;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    enum worker_state state;
    pthread_t loop_thread; /* in STARTING and WORKING */
    bool threaded;         /* loop_thread is ours, and to be joined */
    unsigned concurrency;  /* asked for last */
    bool guarded;
    bool concurrency_changed;
    size_t left; /* jobs that were left to their lease; in STOPPED */
    struct pawl_stats stats;
    const char *const *value_names; /* NULL: nothing was published yet */
    size_t n_values;
    int64_t values[WORKER_VALUES_MAX]; /* in the order of their names */
};

/* PAWL_ESTATE in a child that was forked. */
int worker_own(const struct pawl_worker *worker, struct pawl_err *err) MUST_CHECK;

/* worker_open.c. Checks the source, makes hands and source, and starts them. Fails without a trace.
 */
int worker_open(struct pawl_worker *worker, struct pawl_err *err) MUST_CHECK;
/* What was left open of it; after the loop has run dry. */
void worker_close(struct pawl_worker *worker);
/* All is settled: the hands may go. */
void worker_source_stopped(void *data, size_t left);
/* How it ended, in STOPPED: 0, or PAWL_EINTERRUPTED. */
int worker_verdict(struct pawl_worker *worker, struct pawl_err *err) MUST_CHECK;
/* For every source. */
void worker_on_settled(void *data, const struct settled *settled);

/* worker_hands.c. What runs the handlers. */
int worker_hands_make(struct pawl_worker *worker, struct pawl_err *err) MUST_CHECK;
/* What there is of them. `hands` is NULL once they are gone, which takes turns of the loop. */
void worker_hands_close(struct pawl_worker *worker);

/* worker_stats.c; the loop's thread. */
void worker_apply_concurrency(struct pawl_worker *worker);

/* run.c: what runs on a thread of the hands; data is a struct worker_handler. */
void worker_handle(void *data, struct task *task);
/* From here on the calling thread is in one of the worker's handlers, or in another callback of its program; NULL: in none.
 * Returns what was before. */
const struct pawl_worker *worker_enter(const struct pawl_worker *worker);
/* Whether it is. */
bool worker_in_handler(const struct pawl_worker *worker);

#endif
