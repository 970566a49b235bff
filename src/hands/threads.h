/*
 * threads: hands that run C handlers on a bounded pool of threads of this process.
 *
 * A job waits in one mailbox for all threads, each of which takes one job at a time, so that a slow
 * job never holds up the jobs behind it. Outcomes come back through a second mailbox, and one
 * wake-up of the loop collects all of them. A handler cannot be killed as a process can: it is told
 * to stop (task_should_stop), its claim is fenced, and its slot is free when it returns. A handler
 * that runs past its timeout is told so, is logged once, and any outcome it reports afterwards
 * counts as a retry.
 *
 * threads_… and everything of struct hands: the loop's thread. task_…: the handler's thread, and
 * only until the handler returns.
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

#define TASK_ERROR_MAX PAWL_ERROR_MAX

/* One run as its handler sees it. */
struct task;

typedef void (*threads_fn)(void *data, struct task *task);

const struct job *task_job(const struct task *task);

/* True once the claim is lost, the job was cancelled, its time is over, or the process stops. Never
 * goes back. */
bool task_should_stop(struct task *task);
/* False: the run need not stop. */
bool task_stop_reason(struct task *task, enum stop_reason *ret_reason);

/* Until the timeout; negative: it is over; INT64_MAX: there is none. */
int64_t task_left_ms(struct task *task);
/* The timeout counts from now on, and is more_ms (0: the job's own). Does nothing without a
 * timeout. PAWL_ESTATE: it is over already. */
int task_extend(struct task *task, int64_t more_ms, struct pawl_err *err) MUST_CHECK;

/* Copies `text` and passes it to threads_options.progress soon, unless a newer one comes first. */
int task_progress(struct task *task, const char *text, struct pawl_err *err) MUST_CHECK;

/* Logs one event, with the job's id and kind. */
void task_log(struct task *task, const char *text);

/* The outcome of the run; the last call counts, and a handler that calls none is done without a
 * result. Texts and bytes are copied; an error is cut, and made UTF-8 if it is not. */
void task_done(struct task *task, const void *result, size_t len);
void task_retry(struct task *task,
                const char *error,
                int64_t delay_ms); /* -1: by the retry policy */
void task_fail(struct task *task,
               const char *error); /* no further attempt; parked if its kind says so */
void task_reject(struct task *task, const char *error); /* likewise, but never parked */
void task_snooze(struct task *task, int64_t delay_ms);
void task_cancel(struct task *task);
/* A machine goes on: OUTCOME_NEXT, _AWAIT or _SPAWN (core/machine.h). One that is not valid
 * makes the step fail and be tried again, with what is wrong as its error. */
void task_go_on(struct task *task,
                enum outcome_kind kind,
                const struct going_on *on,
                int64_t delay_ms);

struct threads_handler {
    const char *kind; /* borrowed, like data, for the life of the hands */
    threads_fn fn;
    void *data;
};

struct threads_options {
    const struct threads_handler *handlers; /* copied */
    size_t n_handlers;
    size_t threads;   /* at least 1 */
    size_t limit;     /* threads that run jobs; 0: all */
    size_t queue_max; /* runs that may wait for a thread: a larger value makes short jobs cheaper */
    struct log *log;
    const struct clock *clock; /* NULL: the machine's */
    /* The progress that a handler reported last. May be NULL. Loop's thread, while the run is in
     * the hands. */
    void (*progress)(void *data, struct run *run, const char *text);
    void *data;
};

struct hands *threads_new(uv_loop_t *loop,
                          const struct threads_options *options,
                          struct pawl_err *err) MUST_CHECK;

/* Sets the number of threads that run jobs, from 1 to options.threads. Threads beyond it finish
 * their task. */
void threads_set_limit(struct hands *hands, size_t limit);

/* Runs that exceeded their timeout so far. */
uint64_t threads_overruns(const struct hands *hands);

/* Runs that were not started are reported as released before this returns. `closed` (may be
 * NULL) is called from the loop, when the last handler has returned and all is freed. */
void threads_close(struct hands *hands, void (*closed)(void *data), void *data);

#endif
