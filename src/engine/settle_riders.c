/* settle_riders: children and lanes. */
#include "engine/settle_riders.h"

#include "store/statements.h"

/* Also of those that leave their children alone: one that ends at this very moment would else leave its
 * result behind, for the next join to find. The step's own statement does not see what was committed while it
 * waited for the machine's row; this one, before it, has locked that row. */
static bool has_children_to_end(const struct slot *slot)
{
    const struct machine *machine = slot->run.job.machine;

    return machine != NULL && machine->children_left > 0;
}

/* One that waits on, or tries again, keeps its children. */
static bool goes_on(const struct slot *slot)
{
    return slot->item.outcome.kind >= OUTCOME_NEXT && slot->item.outcome.kind != OUTCOME_WAIT_ON;
}

/* Also one that is put off or given back: it is over if somebody has cancelled it meanwhile. */
static bool may_be_over(const struct slot *slot)
{
    return slot->item.outcome.kind < OUTCOME_NEXT;
}

struct parents {
    int64_t *ids;
    const char **tokens;
    bool *cancel;
    size_t n;
};

static bool parents_alloc(struct parents *parents, struct arena *arena, size_t n)
{
    parents->n = 0;
    parents->ids = arena_new_array(arena, n, int64_t);
    parents->tokens = arena_new_array(arena, n, const char *);
    parents->cancel = arena_new_array(arena, n, bool);
    return parents->ids != NULL && parents->tokens != NULL && parents->cancel != NULL;
}

static bool
parents_add(struct parents *parents, struct arena *arena, const struct slot *slot, bool over)
{
    char *token = NULL;

    if (!over) {
        token = arena_alloc(arena, UUID_TEXT_LEN + 1);
        if (token == NULL)
            return false;
        uuid_format(&slot->run.job.token, token);
    }
    parents->ids[parents->n] = slot->run.job.id;
    parents->tokens[parents->n] = token;
    parents->cancel[parents->n++] =
        slot->run.job.machine != NULL && slot->run.job.machine->children_cancel;
    return true;
}

static int add_children_end(struct batch *batch,
                            struct slot *const *slots,
                            size_t n,
                            bool (*wanted)(const struct slot *slot),
                            bool over,
                            size_t *ret_added)
{
    struct parents parents = {0};
    struct params *params = NULL;

    *ret_added = 0;
    for (size_t i = 0; i < n; i++) {
        if ((slots[i]->run.job.riders & RIDER_CHILDREN) == 0 || !wanted(slots[i]) ||
            (!over && !has_children_to_end(slots[i])))
            continue;
        if (params == NULL) {
            params = batch_add(batch, STMT(children_end));
            if (params == NULL || !parents_alloc(&parents, params->arena, n))
                return PAWL_ENOMEM;
        }
        if (!parents_add(&parents, params->arena, slots[i], over))
            return PAWL_ENOMEM;
    }
    if (params != NULL) {
        children_end_bind(params, parents.ids, parents.tokens, parents.cancel, parents.n);
        *ret_added = 1;
    }
    return 0;
}

int settle_let_go(struct batch *batch, struct slot *const *slots, size_t n, size_t *ret_added)
{
    return add_children_end(batch, slots, n, goes_on, false, ret_added);
}

struct lanes {
    const char **queues;
    const char **names;
    int64_t *ids;
    size_t n;
};

static bool lanes_alloc(struct lanes *lanes, struct arena *arena, size_t n)
{
    lanes->n = 0;
    lanes->queues = arena_new_array(arena, n, const char *);
    lanes->names = arena_new_array(arena, n, const char *);
    lanes->ids = arena_new_array(arena, n, int64_t);
    return lanes->queues != NULL && lanes->names != NULL && lanes->ids != NULL;
}

static void lanes_add(struct lanes *lanes, const struct slot *slot)
{
    lanes->queues[lanes->n] = slot->run.job.queue;
    lanes->names[lanes->n] = slot->run.job.lane;
    lanes->ids[lanes->n++] = slot->run.job.id;
}

/* One that is done while others of its group are not has left a lane that nobody can enter yet. */
static bool leaves(const struct slot *slot)
{
    const struct group *group = slot->group;

    if (slot->run.job.lane == NULL || slot->sticky)
        return false;
    return group == NULL || group->n_left == group->n_batch ||
           slot->item.outcome.kind != OUTCOME_DONE;
}

static void count_groups(struct slot *const *slots, size_t n, bool in)
{
    for (size_t i = 0; i < n; i++) {
        if (slots[i]->group != NULL && !slots[i]->sticky)
            slots[i]->group->n_batch = in ? slots[i]->group->n_batch + 1 : 0;
    }
}

/* Leaves them all; the next in each is called. */
static int add_lanes(struct batch *batch, struct slot *const *slots, size_t n, bool *ret_lanes)
{
    struct params *leave = NULL;
    struct lanes left = {0};

    for (size_t i = 0; i < n; i++) {
        if (!leaves(slots[i]))
            continue;
        if (leave == NULL) {
            leave = batch_add(batch, STMT(lane_leave));
            if (leave == NULL || !lanes_alloc(&left, leave->arena, n - i))
                return PAWL_ENOMEM;
        }
        lanes_add(&left, slots[i]);
    }
    if (leave != NULL)
        lane_leave_bind(leave, left.queues, left.names, left.ids, left.n);
    *ret_lanes = leave != NULL;
    return 0;
}

int settle_follow(struct batch *batch, struct slot *const *slots, size_t n, bool *ret_lanes)
{
    size_t added;
    int rc = add_children_end(batch, slots, n, may_be_over, true, &added);

    if (rc < 0)
        return rc;
    count_groups(slots, n, true);
    rc = add_lanes(batch, slots, n, ret_lanes);
    count_groups(slots, n, false);
    return rc;
}
