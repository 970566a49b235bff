/* slots: where jobs may go, handing them out, and draining. */
#include "engine/slots.h"

#include <stdio.h>
#include <stdlib.h>

#define AFTER_DRAIN_MS \
    10000 /* for jobs that were told to end: longer than hands wait before they kill */
#define AFTER_RUNS_MS 2000 /* when nothing runs any more, and only outcomes are on their way */

#define BIT(place)    (1U << (place))

const unsigned slots_allowed[SLOT_PLACES] = {
    /* running: another process claimed it. waiting: it need not be run at all. */
    [SLOT_FREE] = BIT(SLOT_BEHIND) | BIT(SLOT_BUFFERED) | BIT(SLOT_RUNNING) | BIT(SLOT_WAITING),
    [SLOT_BEHIND] =
        BIT(SLOT_BUFFERED) | BIT(SLOT_WAITING), /* waiting: released, or not to be run */
    /* waiting: released. free: a server gave it to somebody else. */
    [SLOT_BUFFERED] = BIT(SLOT_RUNNING) | BIT(SLOT_WAITING) | BIT(SLOT_FREE),
    /* buffered: it cannot be started just now. free: let go, or too late. */
    [SLOT_RUNNING] = BIT(SLOT_WAITING) | BIT(SLOT_BUFFERED) | BIT(SLOT_FREE),
    [SLOT_WAITING] = BIT(SLOT_FLYING) | BIT(SLOT_ASIDE) | BIT(SLOT_FREE), /* free: given up */
    /* waiting: it is sent again. buffered: a machine's next step. */
    [SLOT_FLYING] = BIT(SLOT_FREE) | BIT(SLOT_WAITING) | BIT(SLOT_BUFFERED),
    [SLOT_ASIDE] = BIT(SLOT_WAITING),
};

_Noreturn void slots_refuse(const struct run *run, enum slot_place to)
{
    fprintf(stderr,
            "pawl: job %lld cannot move from place %d to place %d\n",
            (long long)run->job.id,
            (int)run->place,
            (int)to);
    abort();
}

void slots_init(struct slots *slots, const struct slots_options *options)
{
    *slots = (struct slots){.options = *options};
    for (size_t i = 0; i < SLOT_PLACES; i++)
        list_init(&slots->at[i]);
    uv_timer_init(options->loop, &slots->drain);
    slots->drain.data = slots;
}

/* What a start needs is missing, which is no fault of the job's. */
static void be_short(struct slots *slots, const struct run *run, struct pawl_err *err)
{
    if (slots->n_short++ > 0)
        return; /* it was said */
    err_hint(err, HANDS_SHORT_HINT);
    log_error_err(slots->options.log,
                  "job_run",
                  err,
                  LOG_INT("job", run->job.id),
                  LOG_STR("then", "jobs are given back until one can be started"));
}

void slots_dispatch(struct slots *slots, size_t most)
{
    struct hands *hands = slots->options.hands;
    struct list *buffered = &slots->at[SLOT_BUFFERED];
    struct pawl_err err = {0}; /* once for all: large, and filled in only where a start fails */
    bool any = false;
    bool more = true;

    while (more && slots->n[SLOT_RUNNING] < most && !list_empty(buffered)) {
        struct run *run = run_of_link(buffered->next);

        any = true;
        slots_move(slots, run, SLOT_RUNNING);
        if (hands->ops->run(hands, run, &err) == 0) {
            slots->n_short = 0;
            slots->options.started(slots->options.data, run);
            continue;
        }
        if (hands_are_short(&err))
            be_short(slots, run, &err);
        more = slots->options.not_started(slots->options.data, run, &err);
    }
    if (any && hands->ops->flush != NULL)
        hands->ops->flush(hands);
}

void slots_recall(struct slots *slots)
{
    struct hands *hands = slots->options.hands;

    if (hands->ops->recall != NULL)
        hands->ops->recall(hands);
}

void slots_end_running(struct slots *slots)
{
    struct hands *hands = slots->options.hands;

    LIST_FOREACH_SAFE(link, after, &slots->at[SLOT_RUNNING])
        hands->ops->stop(hands, run_of_link(link), STOP_SHUTDOWN);
}

static void on_late(uv_timer_t *timer)
{
    struct slots *slots = timer->data;

    slots->options.late(slots->options.data);
}

static void on_drain_over(uv_timer_t *timer)
{
    struct slots *slots = timer->data;
    size_t running = slots->n[SLOT_RUNNING];

    log_warn(slots->options.log, "worker_drain", LOG_INT("ended", running));
    slots_end_running(slots);
    uv_timer_start(timer, on_late, slots->n[SLOT_RUNNING] > 0 ? AFTER_DRAIN_MS : AFTER_RUNS_MS, 0);
}

void slots_drain(struct slots *slots, int64_t drain_ms)
{
    slots_recall(slots);
    log_info(slots->options.log, "worker_drain", LOG_INT("running", slots->n[SLOT_RUNNING]));
    uv_timer_start(&slots->drain, on_drain_over, (uint64_t)drain_ms, 0);
}
