/* slot: the memory of claimed jobs. One allocation for a claim's slots; payloads are not copied. */
#include "engine/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/held.h"

/* What a slot counts for, by whether it is sticky and where it is. */
enum { HERE = 1, UNSENT = 2, COMES_BACK = 4 };

static const unsigned counts_for[2][SLOT_PLACES] = {
    {
        [SLOT_BEHIND] = HERE | UNSENT,
        [SLOT_BUFFERED] = HERE | UNSENT,
        [SLOT_RUNNING] = HERE | UNSENT,
        [SLOT_WAITING] = HERE | UNSENT,
        [SLOT_FLYING] = HERE,
        [SLOT_ASIDE] = HERE | UNSENT,
    },
    {
        [SLOT_RUNNING] = HERE | UNSENT,
        [SLOT_WAITING] = HERE | UNSENT | COMES_BACK,
        [SLOT_FLYING] = HERE | UNSENT | COMES_BACK,
        [SLOT_ASIDE] = HERE | UNSENT, /* it keeps no hands of this worker's busy meanwhile */
    },
};

static inline size_t one_if(unsigned counts)
{
    return counts != 0;
}

static inline void recount(struct slots *slots, struct slot *slot, unsigned before, unsigned now)
{
    struct claim *claim = slot->claim;

    if (before == now)
        return;
    /* What is taken off a number was added to it before: it wraps, and never goes below 0. */
    claim->n_slots += one_if(now & HERE) - one_if(before & HERE);
    claim->n_unsent += one_if(now & UNSENT) - one_if(before & UNSENT);
    slots->n_sticky += one_if(now & COMES_BACK) - one_if(before & COMES_BACK);
}

static inline void
move(struct slots *slots, struct slot *slot, enum slot_place to, struct list *list, bool first)
{
    unsigned before = counts_for[slot->item.sticky][slot->run.place];

    slots_put(slots, &slot->run, to, list, first);
    recount(slots, slot, before, counts_for[slot->item.sticky][to]);
}

void slot_move(struct slots *slots, struct slot *slot, enum slot_place to)
{
    move(slots, slot, to, &slots->at[to], false);
}

void slot_move_first(struct slots *slots, struct slot *slot, enum slot_place to)
{
    move(slots, slot, to, &slots->at[to], true);
}

void slot_set_sticky(struct slots *slots, struct slot *slot, bool sticky)
{
    unsigned before = counts_for[slot->item.sticky][slot->run.place];

    slot->item.sticky = sticky;
    recount(slots, slot, before, counts_for[sticky][slot->run.place]);
}

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

static int fill_machine(struct slot *slot, PGresult *result, int row)
{
    struct slot_machine *machine = calloc(1, sizeof(*machine));

    if (machine == NULL)
        return PAWL_ENOMEM;
    job_claim_machine(result, row, &machine->view);
    slot->machine = machine;
    slot->run.job.machine = &machine->view;
    return 0;
}

static int by_lane(const void *left, const void *right)
{
    const struct slot *a = *(struct slot *const *)left;
    const struct slot *b = *(struct slot *const *)right;
    int order = strcmp(a->run.job.lane, b->run.job.lane);

    return order != 0 ? order : (a->run.job.id > b->run.job.id) - (a->run.job.id < b->run.job.id);
}

/* Puts those that entered a lane together in line: all but the first of each lane wait. */
static int make_groups(struct claim *claim, size_t n, size_t n_together, struct slots *slots)
{
    struct slot **members = calloc(n_together, sizeof(struct slot *));
    size_t k = 0;

    claim->groups = calloc(n_together, sizeof(*claim->groups));
    if (members == NULL || claim->groups == NULL) {
        free(members);
        free(claim->groups);
        claim->groups = NULL;
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (claim->slots[i].together)
            members[k++] = &claim->slots[i];
    }
    qsort(members, k, sizeof(struct slot *), by_lane);
    for (size_t i = 0; i < k; i++) {
        struct slot *slot = members[i];

        if (i == 0 || strcmp(slot->run.job.lane, members[i - 1]->run.job.lane) != 0) {
            slot->group = &claim->groups[claim->n_groups++];
            slot->group->ahead = slot;
            list_init(&slot->group->behind);
        } else {
            slot->group = members[i - 1]->group;
            move(slots, slot, SLOT_BEHIND, &slot->group->behind, false);
        }
        slot->group->n_left++;
    }
    free(members);
    return 0;
}

static void forget_slots(struct claim *claim, size_t n)
{
    while (n-- > 0)
        free(claim->slots[n].machine);
    free(claim->slots);
    claim->slots = NULL;
}

int claim_fill(struct claim *claim, PGresult *result, struct slots *slots)
{
    bool more;
    size_t n = (size_t)job_claim_count(result, &more);
    bool sorted = true;
    size_t n_together = 0;

    claim->slots = calloc(n > 0 ? n : 1, sizeof(*claim->slots));
    if (claim->slots == NULL)
        return PAWL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        job_claim_row(result, (int)i, &claim->asked, &claim->slots[i].run.job);
        claim->slots[i].due_us = job_claim_due(result, (int)i);
        claim->slots[i].together = job_claim_together(result, (int)i);
        n_together += claim->slots[i].together;
        if (job_claim_has_machine(result, (int)i) &&
            fill_machine(&claim->slots[i], result, (int)i) < 0) {
            forget_slots(claim, i);
            return PAWL_ENOMEM;
        }
        sorted = sorted && (i == 0 || by_urgency(&claim->slots[i - 1], &claim->slots[i]) < 0);
    }
    /* They mostly are: the update reaches them in the order in which they were picked. */
    if (!sorted)
        qsort(claim->slots, n, sizeof(*claim->slots), by_urgency);
    for (size_t i = 0; i < n; i++) {
        struct slot *slot = &claim->slots[i];

        slot->claim = claim;
        slot->item.job = &slot->run.job;
    }
    if (n_together > 0 && make_groups(claim, n, n_together, slots) < 0) {
        forget_slots(claim, n);
        return PAWL_ENOMEM;
    }
    claim->result = result;
    claim->n_filled = n;
    return 0;
}

int claim_fill_held(struct claim *claim, PGresult *result)
{
    size_t n = (size_t)PQntuples(result);

    claim->slots = calloc(n > 0 ? n : 1, sizeof(*claim->slots));
    if (claim->slots == NULL)
        return PAWL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct slot *slot = &claim->slots[i];

        slot->claim = claim;
        slot->item.job = &slot->run.job;
        claim->n_filled = i + 1;
        job_held_row(result, (int)i, &slot->run.job);
        if (job_claim_has_machine(result, (int)i) && fill_machine(slot, result, (int)i) < 0)
            return PAWL_ENOMEM;
    }
    claim->result = result;
    return 0;
}

void claim_free(struct claim *claim)
{
    if (claim == NULL)
        return;
    if (claim->slots != NULL) {
        for (size_t i = 0; i < claim->n_filled; i++)
            slot_clear(&claim->slots[i]);
    }
    free(claim->slots);
    free(claim->groups);
    PQclear(claim->result);
    free(claim);
}

void slot_clear(struct slot *slot)
{
    outcome_clear(&slot->item.outcome);
    free(slot->note);
    slot->note = NULL;
    if (slot->machine != NULL)
        free(slot->machine->state);
    free(slot->machine);
    slot->machine = NULL;
    slot->run.job.machine = NULL;
}

int slot_go_on(struct slot *slot, int64_t now_us)
{
    const struct going_on *on = slot->item.outcome.on;
    struct slot_machine *machine = slot->machine;

    if (machine == NULL) {
        machine = calloc(1, sizeof(*machine));
        if (machine == NULL)
            return PAWL_ENOMEM;
        machine->since_us = now_us;
    }
    if (on->state != NULL) {
        char *state = malloc(on->state_len + 1);

        if (state == NULL) {
            if (slot->machine == NULL)
                free(machine);
            return PAWL_ENOMEM;
        }
        memcpy(state, on->state, on->state_len);
        state[on->state_len] = '\0';
        free(machine->state);
        machine->state = state;
        machine->view.state = state;
        machine->view.state_len = on->state_len;
    }
    snprintf(machine->step, sizeof(machine->step), "%s", on->step);
    machine->view = (struct machine){
        .step = machine->step,
        .state = machine->view.state,
        .state_len = machine->view.state_len,
        .seen = machine->view.seen,
    };
    machine->n_steps++;
    slot->machine = machine;
    slot->run.job.machine = &machine->view;
    slot->run.job.is_machine = true;
    slot->run.job.attempt = 1;
    outcome_clear(&slot->item.outcome);
    return 0;
}

void slot_finish(struct slot *slot, const struct outcome *outcome)
{
    struct outcome copy;

    outcome_copy(outcome, &copy);
    outcome_clear(&slot->item.outcome);
    slot->item.outcome = copy;
}
