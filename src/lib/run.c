/* run: one run of one job, as a handler of a libpawl program sees it. Everything here but
 * worker_handle belongs to the handler's thread, and ends when the handler returns. */
#include "lib/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "lib/lib.h"
#include "lib/worker.h"

#define LOG_TEXT_MAX 2048

/* In whose handler, or other callback, this thread is. Of the kind that costs no call in a shared library. */
static _Thread_local const struct pawl_worker *handling __attribute__((tls_model("initial-exec")));

bool worker_in_handler(const struct pawl_worker *worker)
{
    return handling == worker;
}

const struct pawl_worker *worker_enter(const struct pawl_worker *worker)
{
    const struct pawl_worker *before = handling;

    handling = worker;
    return before;
}

static void fail_nonsense(const struct pawl_run *run, const char *kind, int outcome)
{
    char error[512];

    if (run->said == 0)
        snprintf(
            error,
            sizeof(error),
            "the handler of kind %s returned %d without having called pawl_run_done or another "
            "function that gives an outcome",
            kind,
            outcome);
    else
        snprintf(
            error,
            sizeof(error),
            "the handler of kind %s returned %d, which is not the outcome %d that it was given "
            "last",
            kind,
            outcome,
            run->said);
    task_fail(run->task, error);
    task_log(run->task, error);
}

void worker_handle(void *data, struct task *task)
{
    const struct worker_handler *handler = data;
    char token[UUID_TEXT_LEN + 1];
    struct pawl_run run = {.task = task, .token = token};

    token[0] = '\0';
    worker_enter(handler->worker);
    int outcome = (int)handler->fn(&run, handler->data);

    worker_enter(NULL);
    if (outcome == 0 || outcome != run.said)
        fail_nonsense(&run, handler->kind, outcome);
}

int64_t pawl_run_id(const struct pawl_run *run)
{
    return run != NULL ? task_job(run->task)->id : 0;
}

const char *pawl_run_queue(const struct pawl_run *run)
{
    return run != NULL ? task_job(run->task)->queue : NULL;
}

const char *pawl_run_kind(const struct pawl_run *run)
{
    return run != NULL ? task_job(run->task)->kind : NULL;
}

int pawl_run_attempt(const struct pawl_run *run)
{
    return run != NULL ? task_job(run->task)->attempt : 0;
}

int pawl_run_max_attempts(const struct pawl_run *run)
{
    return run != NULL ? task_job(run->task)->max_attempts : 0;
}

const void *pawl_run_payload(const struct pawl_run *run, size_t *ret_len)
{
    if (ret_len != NULL)
        *ret_len = run != NULL ? task_job(run->task)->payload_len : 0;
    return run != NULL ? task_job(run->task)->payload : NULL;
}

const char *pawl_run_token(const struct pawl_run *run)
{
    if (run == NULL)
        return NULL;
    if (run->token[0] == '\0')
        uuid_format(&task_job(run->task)->token, run->token);
    return run->token;
}

const char *pawl_run_trace(const struct pawl_run *run)
{
    return run != NULL ? task_job(run->task)->trace : NULL;
}

int64_t pawl_run_left_ms(const struct pawl_run *run)
{
    return run != NULL ? task_left_ms(run->task) : INT64_MAX;
}

bool pawl_run_should_stop(const struct pawl_run *run)
{
    return run != NULL && task_should_stop(run->task);
}

const char *pawl_run_stop_reason(const struct pawl_run *run)
{
    enum stop_reason reason;

    if (run == NULL || !task_stop_reason(run->task, &reason))
        return NULL;
    switch (reason) {
    case STOP_LOST:
        return "lost";
    case STOP_CANCELLED:
        return "cancelled";
    case STOP_TIMEOUT:
        return "timeout";
    case STOP_SHUTDOWN:
        return "shutdown";
    }
    return NULL;
}

int pawl_run_progress(struct pawl_run *run, const char *text, struct pawl_err *err)
{
    if (run == NULL || text == NULL)
        return lib_null("pawl_run_progress", run == NULL ? "run" : "text", err);
    size_t len = strnlen(text, PAWL_PROGRESS_MAX + 1);

    if (len > PAWL_PROGRESS_MAX)
        return err_set(err, PAWL_ELIMIT, "the progress is longer than %d bytes", PAWL_PROGRESS_MAX);
    if (!utf8_valid(text, len))
        return err_set(err, PAWL_EINVAL, "the progress is not valid UTF-8");
    return task_progress(run->task, text, err);
}

int pawl_run_extend(struct pawl_run *run, int64_t more_ms, struct pawl_err *err)
{
    if (run == NULL)
        return lib_null("pawl_run_extend", "run", err);
    return task_extend(run->task, more_ms, err);
}

void pawl_run_log(struct pawl_run *run, const char *fmt, ...)
{
    char text[LOG_TEXT_MAX];
    va_list args;

    if (run == NULL || fmt == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    task_log(run->task, text);
}

enum pawl_outcome pawl_run_done(struct pawl_run *run, const void *result, size_t len)
{
    if (run != NULL && result != NULL && len > PAWL_RESULT_MAX) {
        return pawl_run_fail(run,
                             "it was done, but its result has %zu bytes and at most %d are kept; "
                             "the work is not repeated",
                             len,
                             PAWL_RESULT_MAX);
    }
    if (run != NULL)
        task_done(run->task, result, len);
    return run_say(run, PAWL_OUTCOME_DONE);
}

/* The text of an outcome, cut where it is too long; NULL for NULL. */
static PRINTF_LIKE(2, 0) const
    char *format(char text[TASK_ERROR_MAX + 4], const char *fmt, va_list args)
{
    if (fmt == NULL)
        return NULL;
    vsnprintf(text, TASK_ERROR_MAX + 4, fmt, args);
    return text;
}

enum pawl_outcome pawl_run_retry(struct pawl_run *run, int64_t delay_ms, const char *fmt, ...)
{
    char text[TASK_ERROR_MAX + 4];
    va_list args;

    va_start(args, fmt);
    if (run != NULL)
        task_retry(run->task, format(text, fmt, args), delay_ms < 0 ? -1 : delay_ms);
    va_end(args);
    return run_say(run, PAWL_OUTCOME_RETRY);
}

enum pawl_outcome pawl_run_fail(struct pawl_run *run, const char *fmt, ...)
{
    char text[TASK_ERROR_MAX + 4];
    va_list args;

    va_start(args, fmt);
    if (run != NULL)
        task_fail(run->task, format(text, fmt, args));
    va_end(args);
    return run_say(run, PAWL_OUTCOME_FAIL);
}

enum pawl_outcome pawl_run_reject(struct pawl_run *run, const char *fmt, ...)
{
    char text[TASK_ERROR_MAX + 4];
    va_list args;

    va_start(args, fmt);
    if (run != NULL)
        task_reject(run->task, format(text, fmt, args));
    va_end(args);
    return run_say(run, PAWL_OUTCOME_REJECT);
}

enum pawl_outcome pawl_run_snooze(struct pawl_run *run, int64_t delay_ms)
{
    if (run != NULL)
        task_snooze(run->task, delay_ms < 0 ? 0 : delay_ms);
    return run_say(run, PAWL_OUTCOME_SNOOZE);
}

enum pawl_outcome pawl_run_cancel(struct pawl_run *run)
{
    if (run != NULL)
        task_cancel(run->task);
    return run_say(run, PAWL_OUTCOME_CANCEL);
}
