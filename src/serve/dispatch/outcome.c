/* outcome: from a report to an outcome, which borrows from the report and the arena. */
#include "base/buf.h"
#include "core/machine.h"
#include "serve/api/new_job.h"
#include "serve/dispatch/dispatch_internal.h"

#define DELAY_MAX_MS ((int64_t)10 * 366 * 24 * 60 * 60 * 1000)

static int check_delay(int64_t ms, struct pawl_err *err)
{
    if (ms >= 0 && ms <= DELAY_MAX_MS)
        return 0;
    return err_set(
        err, PAWL_EINVAL, "a time of %lld ms is not between 0 and ten years", (long long)ms);
}

/* Without data the machine keeps its state. */
static void set_state(struct going_on *on, const ProtobufCBinaryData *data)
{
    if (data->len > 0) {
        on->state = (const char *)data->data;
        on->state_len = data->len;
    }
}

static int join_names(char *const *names, size_t n, struct arena *arena, const char **ret_text)
{
    size_t size = 1;
    struct buf out;
    char *text;

    for (size_t i = 0; i < n; i++)
        size += strlen(names[i]) + 1;
    text = arena_alloc(arena, size);
    if (text == NULL)
        return PAWL_ENOMEM;
    buf_init_fixed(&out, text, size);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(&out, ',');
        buf_puts(&out, names[i]);
    }
    *ret_text = text;
    return 0;
}

static int read_child(const Pawl__V1__Child *child,
                      const char *queue,
                      struct child_new *ret_child,
                      struct pawl_err *err)
{
    const Pawl__V1__NewJob *job = child->job;

    if (job == NULL)
        return err_set(err, PAWL_EINVAL, "a child without a job");
    if (child->name[0] != '\0')
        return err_set(
            err,
            PAWL_EINVAL,
            "a child has the name %s, and children have no names: its kind and its id tell "
            "which it is",
            child->name);
    if (!new_job_is_child(job))
        return err_set(
            err,
            PAWL_EINVAL,
            "a child of kind %s asks for more than kind, queue, payload, priority and max attempts",
            job->kind);
    *ret_child = (struct child_new){
        .queue = job->queue[0] != '\0' ? job->queue : queue,
        .kind = job->kind,
        .payload = job->payload.len > 0    ? (const char *)job->payload.data
                   : job->payload_is_bytes ? ""
                                           : "{}",
        .payload_len = job->payload.len > 0 || job->payload_is_bytes ? job->payload.len : 2,
        .priority = PAWL_PRIORITY_DEFAULT,
        .max_attempts =
            job->max_attempts > 0 ? (int32_t)job->max_attempts : JOB_MAX_ATTEMPTS_DEFAULT,
    };
    if (job->priority_choice_case == PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY)
        ret_child->priority = job->priority <= PAWL_PRIORITY_MAX ? (int16_t)job->priority : -1;
    return 0;
}

static int read_spawn(const Pawl__V1__SpawnOutcome *spawn,
                      const char *queue,
                      struct arena *arena,
                      struct going_on *on,
                      struct pawl_err *err)
{
    struct child_new *children =
        arena_new_array(arena, spawn->n_children > 0 ? spawn->n_children : 1, struct child_new);
    int rc = 0;

    if (children == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory for the children");
    for (size_t i = 0; rc == 0 && i < spawn->n_children; i++)
        rc = read_child(spawn->children[i], queue, &children[i], err);
    if (rc == 0 && spawn->quorum > spawn->n_children)
        rc = err_set(
            err, PAWL_EINVAL, "a quorum of %u of %zu children", spawn->quorum, spawn->n_children);
    on->step = spawn->step;
    on->children = children;
    on->n_children = spawn->n_children;
    on->join_at = spawn->quorum > 0 ? (int32_t)(spawn->n_children - spawn->quorum) : 0;
    on->join_flags =
        (int16_t)((spawn->fail_fast ? JOIN_FAIL_FAST : 0) | (spawn->cancel ? JOIN_CANCEL : 0));
    set_state(on, &spawn->machine_data);
    return rc;
}

static int read_await(const Pawl__V1__AwaitOutcome *await,
                      struct arena *arena,
                      struct going_on *on,
                      struct outcome *outcome,
                      struct pawl_err *err)
{
    if (await->timeout_step[0] != '\0' && strcmp(await->timeout_step, await->step) != 0)
        return err_set(err,
                       PAWL_EINVAL,
                       "timeout_step is %s, and is not used: the step %s follows in any case, and "
                       "finds timed_out",
                       await->timeout_step,
                       await->step);
    on->step = await->step;
    set_state(on, &await->machine_data);
    outcome->delay_ms = await->timeout_ms > 0 ? await->timeout_ms : -1;
    if (join_names(await->signals, await->n_signals, arena, &on->awaits) < 0)
        return err_set(err, PAWL_ENOMEM, "no memory for the names");
    return await->timeout_ms >= 0 ? 0 : check_delay(await->timeout_ms, err);
}

/* How a machine goes on. */
static int read_going_on(const Pawl__V1__Report *report,
                         const char *queue,
                         struct arena *arena,
                         struct outcome *outcome,
                         struct pawl_err *err)
{
    struct going_on *on = arena_new(arena, struct going_on);
    int rc;

    if (on == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory for the outcome");
    outcome->on = on;
    switch (report->outcome_case) {
    case PAWL__V1__REPORT__OUTCOME_NEXT:
        outcome->kind = OUTCOME_NEXT;
        outcome->delay_ms = report->next->delay_ms;
        on->step = report->next->step;
        set_state(on, &report->next->machine_data);
        rc = check_delay(outcome->delay_ms, err);
        break;
    case PAWL__V1__REPORT__OUTCOME_AWAIT:
        outcome->kind = OUTCOME_AWAIT;
        rc = read_await(report->await, arena, on, outcome, err);
        break;
    default:
        outcome->kind = OUTCOME_SPAWN;
        rc = read_spawn(report->spawn, queue, arena, on, err);
        break;
    }
    return rc == 0 ? going_on_check(outcome->kind, on, err) : rc;
}

static int
read_retry(const Pawl__V1__RetryOutcome *retry, struct outcome *outcome, struct pawl_err *err)
{
    outcome->kind = OUTCOME_RETRY;
    outcome->error = retry->error;
    if (retry->delay_choice_case != PAWL__V1__RETRY_OUTCOME__DELAY_CHOICE_DELAY_MS)
        return 0;
    outcome->delay_ms = retry->delay_ms;
    return check_delay(outcome->delay_ms, err);
}

int outcome_of_report(const Pawl__V1__Report *report,
                      const char *queue,
                      struct arena *arena,
                      struct outcome *ret_outcome,
                      struct pawl_err *err)
{
    struct outcome *o = ret_outcome;

    *o = (struct outcome){.delay_ms = -1, .run_us = report->run_us > 0 ? report->run_us : 0};
    switch (report->outcome_case) {
    case PAWL__V1__REPORT__OUTCOME_DONE:
        o->kind = OUTCOME_DONE;
        if (report->done->result.len > PAWL_RESULT_MAX)
            return err_set(err,
                           PAWL_ELIMIT,
                           "the result has %zu bytes, and the limit is %d",
                           report->done->result.len,
                           PAWL_RESULT_MAX);
        if (report->done->result.len > 0) {
            o->result = (const char *)report->done->result.data;
            o->result_len = report->done->result.len;
        }
        return 0;
    case PAWL__V1__REPORT__OUTCOME_RETRY:
        return read_retry(report->retry, o, err);
    case PAWL__V1__REPORT__OUTCOME_FAIL:
        o->kind = OUTCOME_FAIL;
        o->error = report->fail->error;
        return 0;
    case PAWL__V1__REPORT__OUTCOME_SNOOZE:
        o->kind = OUTCOME_SNOOZE;
        o->delay_ms = report->snooze->delay_ms;
        return check_delay(o->delay_ms, err);
    case PAWL__V1__REPORT__OUTCOME_CANCEL:
        o->kind = OUTCOME_CANCEL;
        o->error = report->cancel->reason[0] != '\0' ? report->cancel->reason : NULL;
        return 0;
    case PAWL__V1__REPORT__OUTCOME_REJECT:
        o->kind = OUTCOME_REJECT;
        o->error = report->reject->error;
        return 0;
    case PAWL__V1__REPORT__OUTCOME_RELEASE:
        o->kind = OUTCOME_RELEASE;
        return 0;
    case PAWL__V1__REPORT__OUTCOME_NEXT:
    case PAWL__V1__REPORT__OUTCOME_AWAIT:
    case PAWL__V1__REPORT__OUTCOME_SPAWN:
        return read_going_on(report, queue, arena, o, err);
    default:
        return err_set(err, PAWL_EINVAL, "the report has no outcome");
    }
}
