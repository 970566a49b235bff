/* machine: jobs that go on in steps. Which need not be run at all, which go on in this process without
 * a new claim, and what happens when their step is committed. */
#include <string.h>

#include "engine/coordinator_internal.h"

/* A machine that goes on at once keeps its slot for so long; then it gets in line, so that others
 * are not starved. */
#define STICKY_STEPS 100
#define STICKY_US    (5 * US_PER_S)

bool coordinator_screen(struct coordinator *c, struct slot *slot)
{
    const struct machine *machine = slot->run.job.machine;
    struct outcome outcome = {.delay_ms = -1};

    if (machine == NULL)
        return false;
    if (machine->cancelled) {
        outcome.kind = OUTCOME_CANCEL;
    } else if (machine->expired) {
        outcome.kind = OUTCOME_FAIL;
        outcome.error = machine->step != NULL ? "the deadline of the machine has passed"
                                              : "the deadline of the job has passed";
    } else if (machine->waited && machine->signals == NULL && !machine->timed_out) {
        /* A signal came while it was put to wait, and it was not for this wait. */
        outcome.kind = OUTCOME_WAIT_ON;
    } else {
        return false;
    }
    coordinator_settle(c, slot, &outcome);
    return true;
}

bool coordinator_may_stick(struct coordinator *c, struct slot *slot)
{
    int64_t now_us;

    if (slot->item.outcome.kind != OUTCOME_NEXT || slot->item.outcome.delay_ms > 0 ||
        c->state != COORDINATOR_WORKING || slot->claim->lost || !coordinator_may_start(c, slot))
        return false;
    if (slot->machine == NULL)
        return true;
    /* Children that end now are waited for by nobody, but it may take a while. */
    if (slot->machine->view.children_left > 0 && slot->machine->view.children_cancel)
        return false;
    now_us = clock_mono_us(c->options.clock);
    if (slot->machine->since_us == 0)
        slot->machine->since_us = now_us;
    return slot->machine->n_steps < STICKY_STEPS && now_us - slot->machine->since_us < STICKY_US;
}

void coordinator_on_went_on(void *data, struct slot *slot, bool cancelled)
{
    struct coordinator *c = data;
    struct outcome outcome = {.kind = OUTCOME_RELEASE, .delay_ms = -1};

    c->stats.steps++;
    coordinator_note_settled(c, slot, "next");
    if (c->options.hands->ops->settled != NULL)
        c->options.hands->ops->settled(c->options.hands, &slot->run, "running", false);
    slot->sent = (struct slot_sent){0};
    slot_set_sticky(&c->slots, slot, false);
    if (slot_go_on(slot, clock_mono_us(c->options.clock)) == 0 && !cancelled &&
        c->state == COORDINATOR_WORKING && !slot->claim->lost && coordinator_may_start(c, slot)) {
        slot_move_first(&c->slots, slot, SLOT_BUFFERED);
        return;
    }
    if (cancelled)
        outcome.kind = OUTCOME_CANCEL;
    coordinator_settle(c, slot, &outcome);
    coordinator_pass_lane(c, slot);
}
