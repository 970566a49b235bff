/*
 * release: what was claimed and is not run here after all goes back, with its attempt. And jobs of one
 * lane that were claimed together: when one has ended, or goes back, it is the turn of the next.
 */
#include "engine/coordinator_internal.h"

void coordinator_settle(struct coordinator *c, struct slot *slot, const struct outcome *outcome)
{
    slot_finish(slot, outcome);
    slot_move(&c->slots, slot, SLOT_WAITING);
}

static bool may_go_on(const struct coordinator *c, const struct slot *slot)
{
    return c->state == COORDINATOR_WORKING && !slot->claim->lost && !c->pulse.gate.closed &&
           coordinator_may_start(c, slot);
}

static void pass(struct coordinator *c, struct group *group)
{
    group->ahead = NULL;
    while (!list_empty(&group->behind)) {
        struct slot *next = slot_of_link(group->behind.next);

        if (!may_go_on(c, next)) {
            coordinator_release(c, next);
        } else if (!coordinator_screen(c, next)) {
            slot_move_first(&c->slots, next, SLOT_BUFFERED);
            group->ahead = next;
            return;
        }
    }
}

void coordinator_pass_lane(struct coordinator *c, struct slot *slot)
{
    if (slot->group != NULL && slot->group->ahead == slot)
        pass(c, slot->group);
}

void coordinator_release(struct coordinator *c, struct slot *slot)
{
    coordinator_settle(c, slot, &(struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1});
    coordinator_pass_lane(c, slot);
}

/* Of those of a claim that wait for one of their lane: all (0), or one job. */
static void release_behind_of(struct coordinator *c, struct claim *claim, int64_t job_id)
{
    for (size_t i = 0; i < claim->n_groups; i++) {
        LIST_FOREACH_SAFE(link, after, &claim->groups[i].behind) {
            struct slot *slot = slot_of_link(link);

            if (job_id == 0 || slot->run.job.id == job_id)
                coordinator_release(c, slot);
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
    LIST_FOREACH_SAFE(link, after, &c->slots.at[SLOT_BUFFERED]) {
        struct slot *slot = slot_of_link(link);

        if (slot->claim == claim)
            coordinator_release(c, slot);
    }
}

void coordinator_release_buffered(struct coordinator *c)
{
    if (c->slots.n[SLOT_BEHIND] > 0)
        release_behind(c, 0);
    for (struct slot *slot; (slot = slot_first(&c->slots, SLOT_BUFFERED)) != NULL;)
        coordinator_release(c, slot);
}

/* Rare, so a walk along the lists does. */
void coordinator_release_job(struct coordinator *c, int64_t job_id)
{
    LIST_FOREACH_SAFE(waiting, next, &c->slots.at[SLOT_BUFFERED]) {
        struct slot *slot = slot_of_link(waiting);

        if (slot->run.job.id == job_id)
            coordinator_release(c, slot);
    }
    if (c->slots.n[SLOT_BEHIND] > 0)
        release_behind(c, job_id);
}

void coordinator_release_open(struct coordinator *c)
{
    LIST_FOREACH_SAFE(link, after, &c->slots.at[SLOT_BUFFERED]) {
        struct slot *slot = slot_of_link(link);

        if (!coordinator_may_start(c, slot))
            coordinator_release(c, slot);
    }
}
