/*
 * threads_internal: what threads.c (the pool, mostly the loop's thread) and task.c (a run, mostly
 * the handler's thread) share.
 *
 * A task is written by one thread at a time: the loop's until it is in `todo`, a pool thread's
 * until it is in `finished`, then the loop's again. Only the atomics below are touched from both
 * sides meanwhile.
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
/* the deadline has passed and was noticed: no extension is possible */
#define DEADLINE_OVER INT64_MIN

struct task {
    struct task *next_free; /* while the task is free; loop's thread */
    struct pool *pool;
    struct run *run; /* lent by the coordinator */
    const struct threads_handler *handler;
    atomic_int stop; /* 0, or an enum stop_reason + 1 */
    /* Steady clock, or one of the above. Changed by compare and exchange, so that an extension
     * and its refusal cannot both happen. */
    _Atomic int64_t deadline_us;
    _Atomic(char *) progress; /* owned; from the handler until the loop's thread takes it */
    bool overran;             /* when the run was reported */
    bool overrun_told;        /* loop's thread */
    struct outcome outcome;
    char *text; /* owned: the result or the error */
    int64_t started_us;
};

struct thread {
    struct pool *pool;
    size_t index;
    pthread_t id;
    _Atomic(struct task *) current; /* the task that it runs, for the loop's thread */
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
    struct task *tasks; /* owned array: as many as may be in the pool at once */
    size_t n_tasks;
    struct task *free_tasks;
    void **gathered; /* owned; tasks that wait for flush */
    size_t n_gathered;
    struct mailbox todo;     /* struct task *, coordinator to threads */
    struct mailbox finished; /* struct task *, threads to coordinator; as large as todo */
    uv_async_t wake;

    /* Threads from `limit` on sleep. The mutex guards only their sleep. */
    atomic_size_t limit;
    pthread_mutex_t aside;
    pthread_cond_t changed;
    bool letting_go; /* under the mutex */

    /* Timeouts; the loop's thread. */
    uv_timer_t timer;
    size_t n_timed;           /* runs with a timeout */
    int64_t least_timeout_ms; /* of these, or less */
    uint64_t n_overruns;

    atomic_bool progressed; /* some task has progress to report */
    atomic_size_t n_ended;  /* threads that are past their last task */
    bool closing;
    size_t n_closing; /* handles */
    void (*closed)(void *data);
    void *closed_data;
};

/* True: the timeout is over, and nothing can extend it any more. Any thread. */
bool task_expire(struct task *task, int64_t now_us);

/* The task was not started. */
void task_release(struct task *task);

/* thread.c: what a thread of the pool does; data is its struct thread. */
void *thread_main(void *data);

/* After the handler returned: its outcome, or the one that counts instead. The handler's thread. */
void task_conclude(struct task *task, int64_t now_us);

#endif
