/* finish: from the hands' report to the committed outcome. */
#include <string.h>

#include "engine/coordinator_internal.h"

void coordinator_on_finished(void *data, struct run *run, const struct outcome *outcome)
{
    struct coordinator *c = data;
    struct slot *slot = slot_of_run(run);

    list_remove(&slot->link);
    c->n_running--;
    if (c->state >= COORDINATOR_CLOSING) {
        /* Too late: it is left to its lease, and its claim is forgotten already. */
        slot_free(slot);
        return;
    }
    /* A job may have enqueued another: whoever works until nothing is due looks once more. */
    if (c->options.until_empty)
        coordinator_look_again(c);
    slot_finish(slot, outcome);
    /* Also when the claim was lost: the token decides, and if nobody took the job over, the outcome
     * is as good as any. */
    settle_add(&c->settle, slot);
    coordinator_pump(c);
}

static void count(struct coordinator_stats *stats, const struct slot *slot, const char *state)
{
    if (state == NULL)
        stats->stale++;
    else if (slot->item.outcome.kind == OUTCOME_RELEASE)
        stats->released++;
    else if (strcmp(state, "done") == 0)
        stats->done++;
    else if (strcmp(state, "failed") == 0)
        stats->failed++;
    else if (strcmp(state, "cancelled") == 0)
        stats->cancelled++;
    else
        stats->retried++;
}

void coordinator_on_settled(void *data, struct slot *slot, const char *state)
{
    struct coordinator *c = data;
    struct claim *claim = slot->claim;

    if (state == NULL && slot->resent) {
        /* Its first settle may well have been committed; the token makes sure that there was one
         * effect at most. */
        log_info(c->options.log,
                 "job_settle",
                 LOG_INT("job", slot->item.id),
                 LOG_STR("why", "settled before, or stale"));
    } else if (state == NULL) {
        log_warn(c->options.log,
                 "job_stale",
                 LOG_INT("job", slot->item.id),
                 LOG_STR("kind", slot->run.job.kind));
    }
    count(&c->stats, slot, state);
    /* It may be due again at once. */
    if (c->options.until_empty &&
        (slot->item.outcome.kind == OUTCOME_RETRY || slot->item.outcome.kind == OUTCOME_SNOOZE))
        coordinator_look_again(c);
    if (c->options.settled != NULL && slot->item.outcome.kind != OUTCOME_RELEASE) {
        c->options.settled(c->options.data,
                           &(struct settled){
                               .job = &slot->run.job,
                               .outcome = &slot->item.outcome,
                               .state = state,
                           });
    }
    slot_free(slot);
    if (--claim->n_slots == 0)
        lease_remove(&c->lease, claim);
    coordinator_pump(c);
    coordinator_check_end(c);
}

void coordinator_on_lost(void *data, struct claim *claim)
{
    struct coordinator *c = data;

    LIST_FOREACH_SAFE(link, after, &c->running) {
        struct slot *slot = slot_of_link(link);

        if (slot->claim == claim)
            c->options.hands->ops->stop(c->options.hands, &slot->run, STOP_LOST);
    }
}
