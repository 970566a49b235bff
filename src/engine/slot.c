/* slot: the memory of one claimed job. */
#include "engine/slot.h"

#include <stdlib.h>
#include <string.h>

struct slot *slot_new(struct claim *claim, const struct job *job)
{
    size_t kind_size = strlen(job->kind) + 1;
    struct slot *slot = calloc(1, sizeof(*slot) + kind_size + job->payload_len);

    if (slot == NULL)
        return NULL;
    list_init(&slot->link);
    slot->claim = claim;
    slot->run.job = *job;
    slot->run.job.kind = memcpy(slot->copies, job->kind, kind_size);
    slot->run.job.payload = slot->copies + kind_size;
    if (job->payload_len > 0)
        memcpy(slot->copies + kind_size, job->payload, job->payload_len);
    slot->item.id = job->id;
    slot->item.token = job->token;
    return slot;
}

void slot_free(struct slot *slot)
{
    if (slot == NULL)
        return;
    list_remove(&slot->link);
    free(slot->result);
    free(slot->error);
    free(slot);
}

void slot_finish(struct slot *slot, const struct outcome *outcome)
{
    free(slot->result);
    free(slot->error);
    slot->result = NULL;
    slot->error = NULL;
    slot->item.outcome = *outcome;
    if (outcome->error != NULL)
        slot->error = strdup(outcome->error);
    if (outcome->result != NULL) {
        /* One byte more, so that an empty result is not a missing one. */
        slot->result = malloc(outcome->result_len + 1);
        if (slot->result != NULL)
            memcpy(slot->result, outcome->result, outcome->result_len);
        else
            slot->item.outcome.kind = OUTCOME_RETRY;
    }
    slot->item.outcome.result = slot->result;
    slot->item.outcome.error = slot->error;
}
