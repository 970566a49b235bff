/* task: one run, as the handler sees it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "core/machine.h"
#include "hands/threads_internal.h"

const struct job *task_job(const struct task *task)
{
    return &task->run->job;
}

bool task_expire(struct task *task, int64_t now_us)
{
    int64_t deadline_us = atomic_load_explicit(&task->deadline_us, memory_order_relaxed);

    while (deadline_us != DEADLINE_OVER) {
        if (deadline_us == DEADLINE_NONE || now_us <= deadline_us)
            return false;
        /* On failure the deadline was extended or noticed meanwhile. */
        if (atomic_compare_exchange_weak(&task->deadline_us, &deadline_us, DEADLINE_OVER))
            break;
    }
    return true;
}

static bool is_over(struct task *task)
{
    int64_t deadline_us = atomic_load_explicit(&task->deadline_us, memory_order_relaxed);

    return deadline_us != DEADLINE_NONE && task_expire(task, clock_mono_us(task->pool->clock));
}

bool task_stop_reason(struct task *task, enum stop_reason *ret_reason)
{
    int stop = atomic_load_explicit(&task->stop, memory_order_relaxed);

    if (stop != 0)
        *ret_reason = (enum stop_reason)(stop - 1);
    else if (is_over(task))
        *ret_reason = STOP_TIMEOUT;
    else
        return false;
    return true;
}

bool task_should_stop(struct task *task)
{
    enum stop_reason reason;

    return task_stop_reason(task, &reason);
}

int64_t task_left_ms(struct task *task)
{
    int64_t deadline_us = atomic_load_explicit(&task->deadline_us, memory_order_relaxed);

    if (deadline_us == DEADLINE_NONE)
        return INT64_MAX;
    int64_t now_us = clock_mono_us(task->pool->clock);

    return task_expire(task, now_us) ? -1 : (deadline_us - now_us) / US_PER_MS;
}

int task_extend(struct task *task, int64_t more_ms, struct pawl_err *err)
{
    int64_t deadline_us = atomic_load_explicit(&task->deadline_us, memory_order_relaxed);
    int64_t now_us = clock_mono_us(task->pool->clock);
    int64_t later_us;

    if (more_ms < 0)
        return err_set(err, PAWL_EINVAL, "cannot extend by %" PRId64 " ms", more_ms);
    if (deadline_us == DEADLINE_NONE)
        return 0;
    if (more_ms == 0)
        more_ms = task->run->job.timeout_ms;
    if (__builtin_mul_overflow(more_ms, (int64_t)US_PER_MS, &later_us) ||
        __builtin_add_overflow(later_us, now_us, &later_us) || later_us == DEADLINE_NONE)
        later_us = DEADLINE_NONE - 1;
    if (task_expire(task, now_us) ||
        !atomic_compare_exchange_strong(&task->deadline_us, &deadline_us, later_us))
        return err_set(err, PAWL_ESTATE, "cannot extend what is over: the timeout has passed");
    return 0;
}

int task_progress(struct task *task, const char *text, struct pawl_err *err)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    free(atomic_exchange(&task->progress, copy));
    if (!atomic_exchange(&task->pool->progressed, true))
        uv_async_send(&task->pool->wake);
    return 0;
}

void task_log(struct task *task, const char *text)
{
    const struct job *job = task_job(task);

    log_info(task->pool->log,
             "job_log",
             LOG_INT("job", job->id),
             LOG_STR("kind", job->kind),
             LOG_INT("attempt", job->attempt),
             LOG_STR("text", text));
}

static void set(struct task *task, enum outcome_kind kind, char *text, size_t len, int64_t delay_ms)
{
    free(task->text);
    task->text = text;
    task->outcome = (struct outcome){.kind = kind, .delay_ms = delay_ms};
    if (kind == OUTCOME_DONE) {
        task->outcome.result = text;
        task->outcome.result_len = text != NULL ? len : 0;
    } else {
        task->outcome.error = text;
    }
}

void task_done(struct task *task, const void *result, size_t len)
{
    char *copy = result != NULL ? malloc(len + 1) : NULL;

    if (result != NULL && copy == NULL) {
        /* Without its result the run is not done. */
        set(task, OUTCOME_RETRY, NULL, 0, -1);
        return;
    }
    if (copy != NULL) {
        memcpy(copy, result, len);
        copy[len] = '\0';
    }
    set(task, OUTCOME_DONE, copy, len, -1);
}

/* The database accepts only UTF-8, and a refused error would hold up the settle. NULL for NULL,
 * and without memory: then the outcome has no text. */
static char *copy_error(const char *error)
{
    size_t len = error != NULL ? strnlen(error, TASK_ERROR_MAX + 4) : 0;
    char *copy = error != NULL ? malloc(len + 1) : NULL;
    size_t at = 0;

    if (copy == NULL)
        return NULL;
    while (at < len) {
        size_t n = utf8_next(error + at, len - at);

        if (at + (n > 0 ? n : 1) > TASK_ERROR_MAX)
            break;
        if (n > 0)
            memcpy(copy + at, error + at, n);
        else
            copy[at] = '?';
        at += n > 0 ? n : 1;
    }
    copy[at] = '\0';
    return copy;
}

void task_retry(struct task *task, const char *error, int64_t delay_ms)
{
    set(task, OUTCOME_RETRY, copy_error(error), 0, delay_ms);
}

void task_fail(struct task *task, const char *error)
{
    set(task, OUTCOME_FAIL, copy_error(error), 0, -1);
}

void task_reject(struct task *task, const char *error)
{
    set(task, OUTCOME_REJECT, copy_error(error), 0, -1);
}

void task_snooze(struct task *task, int64_t delay_ms)
{
    set(task, OUTCOME_SNOOZE, NULL, 0, delay_ms);
}

void task_cancel(struct task *task)
{
    set(task, OUTCOME_CANCEL, NULL, 0, -1);
}

void task_go_on(struct task *task,
                enum outcome_kind kind,
                const struct going_on *on,
                int64_t delay_ms)
{
    struct pawl_err err = {0};
    struct going_on *copy = NULL;

    if (going_on_check(kind, on, &err) < 0) {
        /* A failure of this step only. */
        task_retry(task, err.message, -1);
        return;
    }
    copy = going_on_copy(on);
    if (copy == NULL) {
        set(task, OUTCOME_RETRY, NULL, 0, -1);
        return;
    }
    set(task, kind, (char *)copy, 0, delay_ms);
    task->outcome.error = NULL;
    task->outcome.on = copy;
}

/* Another attempt may be under way by now, so no outcome of this one is final. The handler's
 * error is kept behind ours. */
static void conclude_late(struct task *task)
{
    char error[TASK_ERROR_MAX + 1];
    const char *own = task->outcome.error;
    int64_t delay_ms = task->outcome.kind == OUTCOME_RETRY ? task->outcome.delay_ms : -1;

    snprintf(error,
             sizeof(error),
             "ran longer than its timeout of %" PRId64 " ms%s%s",
             task->run->job.timeout_ms,
             own != NULL ? "; " : "",
             own != NULL ? own : "");
    task_retry(task, error, delay_ms);
}

void task_conclude(struct task *task, int64_t now_us)
{
    task->overran = task_expire(task, now_us);
    /* Nobody notices the overrun twice: the handler has returned. */
    atomic_store_explicit(&task->deadline_us, DEADLINE_NONE, memory_order_relaxed);
    bool cancelled = atomic_load_explicit(&task->stop, memory_order_relaxed) == STOP_CANCELLED + 1;

    if (cancelled && (task->overran || task->outcome.kind != OUTCOME_DONE))
        task_cancel(task); /* otherwise the job would be tried again */
    else if (task->overran)
        conclude_late(task);
    task->outcome.run_us = now_us - task->started_us;
}
