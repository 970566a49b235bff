/* run_machine: steps, from the handler's side. */
#include <stdlib.h>
#include <string.h>

#include "core/job_fields.h"
#include "core/machine.h"
#include "lib/lib.h"
#include "lib/run.h"

static const struct machine *machine_of(const struct pawl_run *run)
{
    return run != NULL ? task_job(run->task)->machine : NULL;
}

const char *pawl_run_step(const struct pawl_run *run)
{
    const struct machine *machine = machine_of(run);

    return machine != NULL ? machine->step : NULL;
}

const void *pawl_run_state(const struct pawl_run *run, size_t *ret_len)
{
    const struct machine *machine = machine_of(run);

    if (ret_len != NULL)
        *ret_len = machine != NULL ? machine->state_len : 0;
    return machine != NULL ? machine->state : NULL;
}

const char *pawl_run_signals(const struct pawl_run *run)
{
    const struct machine *machine = machine_of(run);

    return machine != NULL ? machine->signals : NULL;
}

bool pawl_run_timed_out(const struct pawl_run *run)
{
    const struct machine *machine = machine_of(run);

    return machine != NULL && machine->timed_out;
}

const char *pawl_run_children(const struct pawl_run *run)
{
    const struct machine *machine = machine_of(run);

    return machine != NULL ? machine->children : NULL;
}

int pawl_run_children_left(const struct pawl_run *run)
{
    const struct machine *machine = machine_of(run);

    return machine != NULL ? machine->children_left : 0;
}

static enum pawl_outcome
go_on(struct pawl_run *run, enum outcome_kind kind, const struct going_on *on, int64_t ms)
{
    if (run == NULL)
        return (enum pawl_outcome)kind;
    /* One that is not valid is a retry by now, and the handler need not know. */
    task_go_on(run->task, kind, on, ms);
    return run_say(run, (enum pawl_outcome)kind);
}

enum pawl_outcome pawl_run_next(
    struct pawl_run *run, const char *step, const void *state, size_t state_len, int64_t delay_ms)
{
    struct going_on on = {.step = step, .state = state, .state_len = state_len};

    return go_on(run, OUTCOME_NEXT, &on, delay_ms > 0 ? delay_ms : 0);
}

enum pawl_outcome pawl_run_await(struct pawl_run *run,
                                 const char *names,
                                 const char *step,
                                 const void *state,
                                 size_t state_len,
                                 int64_t timeout_ms)
{
    struct going_on on = {.step = step, .state = state, .state_len = state_len, .awaits = names};

    return go_on(run, OUTCOME_AWAIT, &on, timeout_ms >= 0 ? timeout_ms : -1);
}

/* What a child may have. The rest of struct pawl_job_new is for those who enqueue. */
static int read_child(struct child_new *ret_child, const void *job, struct pawl_err *err)
{
    struct pawl_job_new whole;
    int rc = lib_struct_read(&whole, sizeof(whole), LIB_JOB_NEW_LEAST, job, "pawl_job_new", err);

    if (rc < 0)
        return rc;
    if (whole.payload == NULL && whole.payload_len > 0)
        return err_set(err, PAWL_EINVAL, "the payload is NULL and has a length");
    job_new_fill(&whole);
    *ret_child = (struct child_new){
        .queue = whole.queue,
        .kind = whole.kind,
        .payload = whole.payload,
        .payload_len = whole.payload_len,
        .priority = (int16_t)whole.priority,
        .max_attempts = whole.max_attempts,
    };
    if (whole.priority < PAWL_PRIORITY_MIN || whole.priority > PAWL_PRIORITY_MAX)
        ret_child->priority = -1; /* whatever it was: it is refused later, with the others */
    if (!job_new_is_child(&whole))
        return err_set(
            err,
            PAWL_EINVAL,
            "a child of kind %s asks for more than kind, queue, payload, priority and max attempts",
            whole.kind != NULL ? whole.kind : "(none)");
    return 0;
}

static int read_children(struct child_new **ret_children,
                         const struct pawl_job_new *jobs,
                         size_t n,
                         struct pawl_err *err)
{
    struct child_new *children;
    const char *at = (const char *)jobs;

    if (jobs == NULL && n > 0)
        return err_set(err, PAWL_EINVAL, "pawl_run_spawn: children is NULL");
    children = calloc(n > 0 ? n : 1, sizeof(*children));
    if (children == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++, at += jobs[0].size) {
        size_t size;

        memcpy(&size, at, sizeof(size));
        int rc = size == jobs[0].size
                     ? read_child(&children[i], at, err)
                     : err_set(err, PAWL_EINVAL, "its size differs from that of the first");

        if (rc < 0)
            err_prefix(err, "child %zu of %zu", i + 1, n);
        if (rc < 0) {
            free(children);
            return rc;
        }
    }
    *ret_children = children;
    return 0;
}

enum pawl_outcome pawl_run_spawn(struct pawl_run *run,
                                 const struct pawl_job_new *children,
                                 size_t n,
                                 const struct pawl_join *join,
                                 const char *step,
                                 const void *state,
                                 size_t state_len)
{
    struct pawl_join how = PAWL_JOIN_INIT;
    struct going_on on = {.step = step, .state = state, .state_len = state_len, .n_children = n};
    struct child_new *list = NULL;
    struct pawl_err err = {0};
    int rc = 0;

    if (join != NULL)
        rc = lib_struct_read(&how, sizeof(how), sizeof(size_t), join, "pawl_join", &err);
    if (rc == 0 && how.quorum > n)
        rc = err_set(&err, PAWL_EINVAL, "a quorum of %zu of %zu children", how.quorum, n);
    if (rc == 0)
        rc = read_children(&list, children, n, &err);
    if (rc < 0)
        return pawl_run_retry(run, -1, "%s", err.message);
    on.children = list;
    on.join_at = how.quorum > 0 ? (int32_t)(n - how.quorum) : 0;
    on.join_flags =
        (int16_t)((how.fail_fast ? JOIN_FAIL_FAST : 0) | (how.cancel ? JOIN_CANCEL : 0));
    enum pawl_outcome outcome = go_on(run, OUTCOME_SPAWN, &on, -1);

    free(list);
    return outcome;
}
