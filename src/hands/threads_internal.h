/*
 * threads_internal: what threads.c (the pool, mostly the loop's thread) and task.c (a run, mostly the
 * handler's thread) share.
 *
 * A task is written by one thread at a time: the loop's until it is in `todo`, a pool thread's until
 * it is in `finished`, then the loop's again. Only the atomics below are touched from both sides
 * meanwhile.
 */
#ifndef HANDS_THREADS_INTERNAL_H
#define HANDS_THREADS_INTERNAL_H

#include <pthread.h>

#include <stdatomic.h>

#include "engine/mailbox.h"
#include "hands/threads.h"

struct pool;

/* Values of task.deadline_us that are no time. */
#define DEADLINE_NONE INT64_MAX
#define DEADLINE_OVER INT64_MIN /* it has passed and was noticed: no extension any more */

struct task {
    struct task *next_free; /* while nobody needs it; the loop's thread */
    struct pool *pool;
    struct run *run; /* lent by the coordinator */
    const struct threads_handler *handler;
    atomic_int stop; /* 0, or an enum stop_reason + 1 */
    /* Steady clock, or one of the above. Changed by compare and exchange, so that an extension and
     * its refusal cannot both happen. */
    _Atomic int64_t deadline_us;
    _Atomic(char *) progress; /* owned; from the handler until the loop's thread takes it */
    bool overran;             /* when it was reported */
    bool overrun_told;        /* the loop's thread */
    struct outcome outcome;
    char *text; /* owned: the result or the error */
    int64_t started_us;
};

struct thread {
    struct pool *pool;
    size_t index;
    pthread_t id;
    _Atomic(struct task *) current; /* what it runs, for the loop's thread to look at */
};

struct pool {
    struct hands hands; /* first: the coordinator's view */
    struct log *log;
    const struct clock *clock;
    void (*progress)(void *data, struct run *run, const char *text);
    void *data;
    struct threads_handler *handlers; /* owned */
    const char **kinds;               /* owned; NULL-terminated */
    size_t n_handlers;
    struct thread *threads; /* owned */
    size_t n_threads;
    struct task *tasks; /* owned array: as many as may be here at a time */
    size_t n_tasks;
    struct task *free_tasks;
    void **gathered; /* owned; tasks that wait for flush */
    size_t n_gathered;
    struct mailbox todo;     /* struct task *, coordinator to threads */
    struct mailbox finished; /* struct task *, threads to coordinator; as large as todo */
    uv_async_t wake;

    /* Threads from `limit` on sit out. The mutex guards nothing but their sleep. */
    atomic_size_t limit;
    pthread_mutex_t aside;
    pthread_cond_t changed;
    bool letting_go; /* under the mutex */

    /* Timeouts; the loop's thread. */
    uv_timer_t timer;
    size_t n_timed;           /* runs here that have a timeout */
    int64_t least_timeout_ms; /* the shortest of them, or shorter */
    uint64_t n_overruns;

    atomic_bool progressed; /* some task has something to tell */
    atomic_size_t n_ended;  /* threads that are past their last task */
    bool closing;
    size_t n_closing; /* handles */
    void (*closed)(void *data);
    void *closed_data;
};

/* True when the time is over; then nothing can extend it any more. Any thread. */
bool task_expire(struct task *task, int64_t now_us);

/* It was not started. */
void task_release(struct task *task);

/* thread.c: what a thread of the pool does; data is its struct thread. */
void *thread_main(void *data);

/* After the handler: what it said, or what counts instead. Its thread. */
void task_conclude(struct task *task, int64_t now_us);

#endif
