/*
 * soak_handlers: handlers that take their time, fail, ask for another try, put off and, now and
 * then, take the process with them; and machines. What a machine came to is its result, and the
 * checker compares that with what was sent and spawned:
 *
 *     order   takes signals a and b until one named last comes, or none for a while.
 *             L|NUMBER,… (T|… when it lost its patience): the signals it took, in their order
 *     family, clan  are in soak_families.c
 */
#include "fault/soak_handlers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rand.h"
#include "core/machine.h"
#include "fault/events.h"

#define PATIENCE    3   /* timeouts in a row */
#define WAIT_MIN_MS 600 /* for a signal; a wake-up that was lost shows by it */

void soak_start(const struct job *job)
{
    events_write("start %lld %d %s", (long long)job->id, (int)job->attempt, TOKEN(&job->token));
}

void soak_finish(const struct job *job, const char *outcome)
{
    events_write(
        "end %lld %d %s %s", (long long)job->id, (int)job->attempt, TOKEN(&job->token), outcome);
}

/* As long as the payload's second word says, or until told to stop. */
bool soak_work(struct task *task)
{
    const struct job *job = task_job(task);
    const char *blank = memchr(job->payload, ' ', job->payload_len);
    long ms = 0;

    for (const char *p = blank + 1; blank != NULL && p < job->payload + job->payload_len; p++)
        ms = ms * 10 + (*p - '0');
    for (; ms > 0; ms -= 5) {
        if (task_should_stop(task))
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 5L * 1000 * 1000}, NULL);
    }
    return true;
}

static void on_plain(void *data, struct task *task)
{
    (void)data;
    soak_start(task_job(task));
    bool whole = soak_work(task);

    if (whole)
        task_done(task, "ok", 2);
    else
        task_retry(task, "told to stop", 20);
    soak_finish(task_job(task), whole ? "done" : "retry");
}

/* Mostly soon; sometimes so late that the claim it came from has long expired, if its worker dies.
 */
static int64_t retry_delay_ms(void)
{
    switch (rand_below(8)) {
    case 0:
        return (int64_t)rand_below(3000);
    case 1:
    case 2:
        return -1;
    default:
        return (int64_t)rand_below(80);
    }
}

static void on_moody(void *data, struct task *task)
{
    const char *outcome = "done";

    (void)data;
    soak_start(task_job(task));
    soak_work(task);
    switch (rand_below(8)) {
    case 0:
        task_fail(task, "not today");
        outcome = "fail";
        break;
    case 1:
        task_cancel(task);
        outcome = "cancel";
        break;
    case 2:
        task_snooze(task, (int64_t)rand_below(60));
        outcome = "snooze";
        break;
    case 3:
    case 4:
    case 5:
        task_retry(task, "once more", retry_delay_ms());
        outcome = "retry";
        break;
    default:
        break;
    }
    soak_finish(task_job(task), outcome);
}

/* Kills its worker, every time. */
static void on_poison(void *data, struct task *task)
{
    (void)data;
    soak_start(task_job(task));
    raise(SIGKILL);
}

/* --- machines */

void soak_go_on(struct task *task,
                enum outcome_kind kind,
                const char *step,
                const char *awaits,
                const char *state,
                int64_t ms)
{
    task_go_on(task,
               kind,
               &(struct going_on){
                   .step = step,
                   .awaits = awaits,
                   .state = state,
                   .state_len = state != NULL ? strlen(state) : 0,
               },
               ms);
}

void soak_state(const struct job *job, char state[SOAK_STATE_MAX])
{
    const struct machine *machine = job->machine;

    snprintf(state,
             SOAK_STATE_MAX,
             "%.*s",
             machine != NULL && machine->state != NULL ? (int)machine->state_len : 0,
             machine != NULL && machine->state != NULL ? machine->state : "");
}

static void append(char state[SOAK_STATE_MAX], const char *text, size_t len)
{
    size_t at = strlen(state);

    if (at + len + 2 > SOAK_STATE_MAX)
        abort();
    if (at > 0 && state[at - 1] != '|' && state[at - 1] != ';')
        state[at++] = ',';
    memcpy(state + at, text, len);
    state[at + len] = '\0';
}

void soak_append(char state[SOAK_STATE_MAX], const char *json, const char *key, const char *end)
{
    for (const char *at = json; at != NULL && (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        at += strspn(at, ": \""); /* one writer of JSON puts a blank there, another does not */
        append(state, at, strcspn(at, end));
    }
}

/* The state: timeouts in a row, '|', numbers of the signals it took. To take means to go on with
 * another step, so it goes to and fro between two. */
static const char *order_take(struct task *task, char state[SOAK_STATE_MAX])
{
    const struct machine *machine = task_job(task)->machine;
    const char *here = machine->step;
    const char *other = strcmp(here, "take") == 0 ? "more" : "take";
    int64_t wait_ms = WAIT_MIN_MS + (int64_t)rand_below(400);
    bool last = machine->signals != NULL && strstr(machine->signals, "\"last\"") != NULL;

    if (machine->signals == NULL) {
        if (++state[0] - '0' == PATIENCE) {
            state[0] = 'T';
            task_done(task, state, strlen(state));
            return "done";
        }
        soak_go_on(task, OUTCOME_AWAIT, here, "a,b,last", state, wait_ms);
        return "await";
    }
    switch (rand_below(8)) {
    case 0:
        task_retry(task, "not these", (int64_t)rand_below(20));
        return "retry";
    case 1: /* sees them again, soon; not at once, for then nobody could tell what woke it */
        soak_go_on(task, OUTCOME_AWAIT, here, "a,b,last", NULL, 1 + (int64_t)rand_below(60));
        return "await";
    default:
        break;
    }
    state[0] = last ? 'L' : '0';
    soak_append(state, machine->signals, "\"n\"", "\"");
    if (last) {
        soak_go_on(task, OUTCOME_NEXT, "close", NULL, state, (int64_t)rand_below(2));
        return "next";
    }
    soak_go_on(task, OUTCOME_AWAIT, other, "a,b,last", state, wait_ms);
    return "await";
}

static void on_order(void *data, struct task *task)
{
    const struct job *job = task_job(task);
    const char *step = job->machine != NULL ? job->machine->step : NULL;
    const char *outcome = "next";
    char state[SOAK_STATE_MAX];

    (void)data;
    soak_start(job);
    soak_state(job, state);
    soak_work(task);
    if (step == NULL) {
        soak_go_on(task, OUTCOME_NEXT, "open", NULL, "0|", rand_below(4) == 0 ? 15 : 0);
    } else if (strcmp(step, "open") == 0) {
        soak_go_on(task, OUTCOME_AWAIT, "take", "a,b,last", NULL, WAIT_MIN_MS);
        outcome = "await";
    } else if (strcmp(step, "close") == 0) {
        task_done(task, state, strlen(state));
        outcome = "done";
    } else {
        outcome = order_take(task, state);
    }
    soak_finish(job, outcome);
}

static const struct threads_handler handlers[] = {
    {.kind = "plain", .fn = on_plain},
    {.kind = "moody", .fn = on_moody},
    {.kind = "poison", .fn = on_poison},
    {.kind = "order", .fn = on_order},
    {.kind = "family", .fn = soak_family},
    {.kind = "clan", .fn = soak_clan},
};

struct hands *soak_hands(uv_loop_t *loop, size_t threads, struct log *log, struct pawl_err *err)
{
    return threads_new(loop,
                       &(struct threads_options){
                           .handlers = handlers,
                           .n_handlers = sizeof(handlers) / sizeof(*handlers),
                           .threads = threads,
                           .queue_max = threads,
                           .log = log,
                       },
                       err);
}
