/* slot: the memory of claimed jobs. One allocation for a claim's slots; payloads are not copied. */
#include "engine/slot.h"

#include <stdlib.h>
#include <string.h>

struct claim *claim_new(const struct job_claim *asked)
{
    struct claim *claim = calloc(1, sizeof(*claim));

    if (claim == NULL)
        return NULL;
    list_init(&claim->link);
    claim->asked = *asked;
    return claim;
}

static int by_urgency(const void *left, const void *right)
{
    const struct slot *a = left;
    const struct slot *b = right;

    if (a->run.job.priority != b->run.job.priority)
        return a->run.job.priority > b->run.job.priority ? -1 : 1;
    if (a->due_us != b->due_us)
        return a->due_us < b->due_us ? -1 : 1;
    return (a->run.job.id > b->run.job.id) - (a->run.job.id < b->run.job.id);
}

int claim_fill(struct claim *claim, PGresult *result)
{
    size_t n = (size_t)PQntuples(result);
    bool sorted = true;

    claim->slots = calloc(n > 0 ? n : 1, sizeof(*claim->slots));
    if (claim->slots == NULL)
        return PAWL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        job_claim_row(result, (int)i, &claim->asked, &claim->slots[i].run.job);
        claim->slots[i].due_us = job_claim_due(result, (int)i);
        sorted = sorted && (i == 0 || by_urgency(&claim->slots[i - 1], &claim->slots[i]) < 0);
    }
    /* They mostly are: the update reaches them in the order in which they were picked. */
    if (!sorted)
        qsort(claim->slots, n, sizeof(*claim->slots), by_urgency);
    for (size_t i = 0; i < n; i++) {
        struct slot *slot = &claim->slots[i];

        list_init(&slot->link);
        slot->claim = claim;
        slot->item.job = &slot->run.job;
    }
    claim->result = result;
    claim->n_slots = n;
    claim->n_unsent = n;
    return 0;
}

void claim_free(struct claim *claim)
{
    if (claim == NULL)
        return;
    if (claim->slots != NULL) {
        for (int i = 0; i < PQntuples(claim->result); i++)
            slot_clear(&claim->slots[i]);
    }
    free(claim->slots);
    PQclear(claim->result);
    free(claim);
}

void slot_clear(struct slot *slot)
{
    list_remove(&slot->link);
    free(slot->result);
    free(slot->error);
    slot->result = NULL;
    slot->error = NULL;
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
