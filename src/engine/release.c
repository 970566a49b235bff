/*
 * release: what was claimed and is not run here after all goes back, with its attempt. And jobs of one
 * lane that were claimed together: when one has ended, or goes back, it is the turn of the next.
 */
#include "engine/coordinator_internal.h"

void coordinator_give_back(struct coordinator *c, struct slot *slot, const struct outcome *outcome)
{
    list_remove(&slot->link);
    slot_finish(slot, outcome);
    settle_add(&c->settle, slot);
}

static const struct outcome released = {.kind = OUTCOME_RELEASE, .delay_ms = -1};

static bool may_go_on(const struct coordinator *c, const struct slot *slot)
{
    return c->state == COORDINATOR_WORKING && !slot->claim->lost && !c->pulse.gate.closed &&
           coordinator_may_start(c, slot);
}

void coordinator_pass_lane(struct coordinator *c, struct slot *slot)
{
    if (slot->group == NULL || slot->passed)
        return;
    slot->passed = true;
    while (!list_empty(&slot->group->waiting)) {
        struct slot *next = slot_of_link(slot->group->waiting.next);

        c->n_behind--;
        list_remove(&next->link);
        if (may_go_on(c, next) && !coordinator_screen(c, next)) {
            list_unshift(&c->buffered, &next->link);
            c->n_buffered++;
            return;
        }
        next->passed = true;
        if (list_empty(&next->link)) /* not settled by the screen */
            coordinator_give_back(c, next, &released);
    }
}

void coordinator_release(struct coordinator *c, struct slot *slot)
{
    c->n_buffered--;
    coordinator_give_back(c, slot, &released);
    coordinator_pass_lane(c, slot);
}

/* Of those of a claim that wait for one of their lane: all (0), or one job. */
static void release_behind_of(struct coordinator *c, struct claim *claim, int64_t job_id)
{
    for (size_t i = 0; i < claim->n_groups; i++) {
        LIST_FOREACH_SAFE(waiting, after, &claim->groups[i].waiting) {
            struct slot *slot = slot_of_link(waiting);

            if (job_id != 0 && slot->run.job.id != job_id)
                continue;
            c->n_behind--;
            slot->passed = true;
            coordinator_give_back(c, slot, &released);
        }
    }
}

static void release_behind(struct coordinator *c, int64_t job_id)
{
    LIST_FOREACH(link, &c->lease.claims)
        release_behind_of(c, LIST_ENTRY(link, struct claim, link), job_id);
}

void coordinator_release_claim(struct coordinator *c, struct claim *claim)
{
    release_behind_of(c, claim, 0);
    LIST_FOREACH_SAFE(link, after, &c->buffered) {
        struct slot *slot = slot_of_link(link);

        if (slot->claim == claim)
            coordinator_release(c, slot);
    }
}

void coordinator_release_buffered(struct coordinator *c)
{
    if (c->n_behind > 0)
        release_behind(c, 0);
    while (!list_empty(&c->buffered))
        coordinator_release(c, slot_of_link(c->buffered.next));
}

/* Rare, so a walk along the lists does. */
void coordinator_release_job(struct coordinator *c, int64_t job_id)
{
    LIST_FOREACH_SAFE(waiting, next, &c->buffered) {
        struct slot *slot = slot_of_link(waiting);

        if (slot->run.job.id == job_id)
            coordinator_release(c, slot);
    }
    if (c->n_behind > 0)
        release_behind(c, job_id);
}

void coordinator_release_open(struct coordinator *c)
{
    LIST_FOREACH_SAFE(link, after, &c->buffered) {
        struct slot *slot = slot_of_link(link);

        if (!coordinator_may_start(c, slot))
            coordinator_release(c, slot);
    }
}
