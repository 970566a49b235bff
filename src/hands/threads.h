/*
 * threads: hands that run C handlers on a bounded pool of threads of this process.
 *
 * A job waits in one mailbox for all threads, each of which takes one at a time, so that a slow job
 * never holds up those behind it. What a handler came to goes back through a second mailbox, and
 * one wake-up of the loop collects all that is there. A handler cannot be killed as a process can:
 * it is told to stop (task_should_stop), its claim is fenced, and its slot is free when it returns.
 *
 * threads_new, threads_close and everything of struct hands: the loop's thread. task_…: the
 * handler's thread, and only until the handler returns.
 */
#ifndef HANDS_THREADS_H
#define HANDS_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/hands.h"

/* One run as its handler sees it. */
struct task;

typedef void (*threads_fn)(void *data, struct task *task);

const struct job *task_job(const struct task *task);

/* True once the claim is lost, the job was cancelled, its time is over, or the process stops. Never
 * goes back. */
bool task_should_stop(const struct task *task);

/* What the run came to; the last call counts, and a handler that says nothing is done without a
 * result. Texts and bytes are copied. */
void task_done(struct task *task, const void *result, size_t len);
void task_retry(struct task *task,
                const char *error,
                int64_t delay_ms); /* -1: by the retry policy */
void task_fail(struct task *task,
               const char *error); /* no further attempt; parked if its kind says so */
void task_reject(struct task *task, const char *error); /* likewise, but never parked */
void task_snooze(struct task *task, int64_t delay_ms);
void task_cancel(struct task *task);

struct threads_handler {
    const char *kind; /* borrowed, like data, for the life of the hands */
    threads_fn fn;
    void *data;
};

struct threads_options {
    const struct threads_handler *handlers; /* copied */
    size_t n_handlers;
    size_t threads;   /* at least 1 */
    size_t queue_max; /* runs that may wait for a thread: the more, the less a no-op job costs */
    struct log *log;
    const struct clock *clock; /* NULL: the machine's */
};

struct hands *threads_new(uv_loop_t *loop,
                          const struct threads_options *options,
                          struct pawl_err *err) MUST_CHECK;

/* Waits for the threads to end by joining them, so it returns when the last handler has; the
 * coordinator has told them to stop. Runs that were not started are reported as released. `closed`
 * (may be NULL) comes from the loop when all is freed. */
void threads_close(struct hands *hands, void (*closed)(void *data), void *data);

#endif
