/* finish: from the hands' report to the committed outcome. */
#include <string.h>

#include "engine/coordinator_internal.h"

void coordinator_on_finished(void *data, struct run *run, const struct outcome *outcome)
{
    struct coordinator *c = data;
    struct slot *slot = slot_of_run(run);

    if (c->state >= COORDINATOR_CLOSING) {
        slot_move(&c->slots, slot, SLOT_FREE); /* too late: it is left to its lease */
        return;
    }
    /* A job may have enqueued another: whoever works until nothing is due looks once more. */
    if (c->options.until_empty)
        coordinator_look(c);
    coordinator_note_finished(c, slot, outcome);
    /* Also when the claim was lost: the token decides, and if nobody took the job over, the outcome
     * is as good as any. */
    coordinator_settle(c, slot, outcome);
    if (coordinator_may_stick(c, slot))
        slot_set_sticky(&c->slots, slot, true);
    else
        coordinator_pass_lane(c, slot);
}

void coordinator_forget(struct coordinator *c, struct slot *slot)
{
    struct claim *claim = slot->claim;

    slot_move(&c->slots, slot, SLOT_FREE);
    slot_clear(slot);
    if (claim->n_slots == 0 && c->state < COORDINATOR_CLOSING)
        lease_remove(&c->lease, claim);
}

static void count(struct coordinator_stats *stats, const struct slot *slot, const char *state)
{
    if (state == NULL && slot->sent.again)
        stats->resettled++;
    else if (state == NULL)
        stats->stale++;
    else if (slot->item.outcome.kind == OUTCOME_RELEASE)
        stats->released++;
    else if (slot->item.outcome.kind == OUTCOME_SNOOZE)
        stats->snoozed++;
    else if (slot->item.outcome.kind >= OUTCOME_NEXT)
        stats->steps++;
    else if (slot->item.outcome.kind == OUTCOME_DONE)
        stats->done++;
    else if (slot->item.outcome.kind == OUTCOME_CANCEL)
        stats->cancelled++;
    else if (strcmp(state, "failed") == 0)
        stats->failed++;
    else if (strcmp(state, "parked") == 0)
        stats->parked++;
    else
        stats->retried++;
}

void coordinator_on_settled(void *data, struct slot *slot, const char *state)
{
    struct coordinator *c = data;
    int64_t id = slot->run.job.id;

    if (state == NULL && slot->sent.again) {
        /* Its first settle may well have been committed; the token makes sure that there was one
         * effect at most. */
        log_info(c->options.log,
                 "job_settle",
                 LOG_INT("job", id),
                 LOG_STR("why", "settled before, or stale"));
    } else if (state == NULL) {
        log_warn(
            c->options.log, "job_stale", LOG_INT("job", id), LOG_STR("kind", slot->run.job.kind));
    }
    count(&c->stats, slot, state);
    coordinator_note_settled(c, slot, state);
    coordinator_pass_lane(c, slot);
    if (slot->group != NULL)
        slot->group->n_left--;
    /* The next in its lane has been called. */
    if (slot->run.job.lane != NULL) {
        for (size_t i = 0; i < c->n_scans; i++) {
            if (strcmp(c->scans[i].queue, slot->run.job.queue) == 0)
                scan_lane_left(&c->scans[i]);
        }
        coordinator_look(c);
    }
    /* Its children are due now, or its parent may be. If we said that we sleep while this was settled, it called nobody. */
    if (slot->item.outcome.kind == OUTCOME_SPAWN || slot->run.job.is_child)
        coordinator_look(c);
    /* It may be due again at once. */
    if (c->options.until_empty &&
        (slot->item.outcome.kind == OUTCOME_RETRY || slot->item.outcome.kind == OUTCOME_SNOOZE ||
         slot->item.outcome.kind >= OUTCOME_NEXT))
        coordinator_look(c);
    if (c->options.settled != NULL && slot->item.outcome.kind != OUTCOME_RELEASE) {
        c->options.settled(c->options.data,
                           &(struct settled){
                               .job = &slot->run.job,
                               .outcome = &slot->item.outcome,
                               .state = state,
                           });
    }
    if (c->options.hands->ops->settled != NULL)
        c->options.hands->ops->settled(
            c->options.hands, &slot->run, state, state == NULL && slot->sent.again);
    coordinator_forget(c, slot);
}

/* It may be due before we would look. Others who sleep find it with their next look; we, who just
 * worked, are here. */
void coordinator_on_due(void *data, const struct slot *slot, int64_t due_ms)
{
    struct coordinator *c = data;

    if (c->state != COORDINATOR_WORKING)
        return;
    if (due_ms > 0) {
        waker_due(&c->waker, due_ms);
        return;
    }
    for (size_t i = 0; i < c->n_scans; i++) {
        if (strcmp(c->scans[i].queue, slot->run.job.queue) != 0)
            continue;
        scan_wake(&c->scans[i]);
        if (slot->item.outcome.kind == OUTCOME_RELEASE && slot->due_us != 0)
            scan_put_back(&c->scans[i],
                          slot->run.job.priority,
                          slot->run.job.lane != NULL,
                          slot->due_us,
                          slot->run.job.id);
        claiming_call(c, i);
        c->idle = false;
    }
}

void coordinator_on_called(void *data)
{
    struct coordinator *c = data;

    for (size_t i = 0; i < c->n_scans; i++)
        scan_lane_left(&c->scans[i]);
    coordinator_look(c);
}

void coordinator_on_missed(void *data)
{
    struct coordinator *c = data;

    sweeper_mend_soon(&c->sweeper);
}

void coordinator_on_lost(void *data, struct claim *claim)
{
    struct coordinator *c = data;

    c->stats.lost_claims++;
    LIST_FOREACH_SAFE(link, after, &c->slots.at[SLOT_RUNNING]) {
        struct slot *slot = slot_of_link(link);

        if (slot->claim == claim)
            c->options.hands->ops->stop(c->options.hands, &slot->run, STOP_LOST);
    }
    /* What was not started is not started any more. */
    LIST_FOREACH_SAFE(waiting, next, &c->slots.at[SLOT_BUFFERED]) {
        struct slot *slot = slot_of_link(waiting);

        if (slot->claim == claim)
            coordinator_release(c, slot);
    }
}

/* Rare, so a walk along the lists does. */
void coordinator_on_cancelled(void *data, int64_t job_id)
{
    struct coordinator *c = data;

    LIST_FOREACH_SAFE(link, after, &c->slots.at[SLOT_RUNNING]) {
        struct slot *slot = slot_of_link(link);

        if (slot->run.job.id != job_id)
            continue;
        slot->told = true;
        c->options.hands->ops->stop(c->options.hands, &slot->run, STOP_CANCELLED);
    }
    /* Which ends it: the database knows who asked. */
    coordinator_release_job(c, job_id);
}
