/* settle_riders: children and lanes. */
#include "engine/settle_riders.h"

#include "store/statements.h"

/* Also of those that leave their children alone: one that ends at this very moment would else leave its
 * result behind, for the next join to find. */
static bool lets_children_go(const struct slot *slot)
{
    const struct machine *machine = slot->run.job.machine;

    /* One that waits on, or tries again, keeps its children. */
    return slot->item.outcome.kind >= OUTCOME_NEXT && slot->item.outcome.kind != OUTCOME_WAIT_ON &&
           machine != NULL && machine->children_left > 0;
}

int settle_let_go(struct batch *batch, struct list *flying, size_t n, size_t *ret_added)
{
    struct params *params = NULL;
    int64_t *ids = NULL;
    struct uuid *tokens = NULL;
    bool *cancel = NULL;
    size_t found = 0;

    *ret_added = 0;
    LIST_FOREACH(link, flying) {
        const struct slot *slot = slot_of_link(link);

        if (!lets_children_go(slot))
            continue;
        if (params == NULL) {
            params = batch_add(batch, STMT(children_let_go));
            if (params == NULL)
                return PAWL_ENOMEM;
            ids = arena_new_array(params->arena, n, int64_t);
            tokens = arena_new_array(params->arena, n, struct uuid);
            cancel = arena_new_array(params->arena, n, bool);
            if (ids == NULL || tokens == NULL || cancel == NULL)
                return PAWL_ENOMEM;
        }
        ids[found] = slot->run.job.id;
        tokens[found] = slot->run.job.token;
        cancel[found++] = slot->run.job.machine->children_cancel;
    }
    if (params != NULL) {
        children_let_go_bind(params, ids, tokens, cancel, found);
        *ret_added = 1;
    }
    return 0;
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

    if (slot->run.job.lane == NULL || slot->item.sticky)
        return false;
    return group == NULL || group->n_left == group->n_batch ||
           slot->item.outcome.kind != OUTCOME_DONE;
}

static void count_groups(struct list *flying, bool in)
{
    LIST_FOREACH(link, flying) {
        const struct slot *slot = slot_of_link(link);

        if (slot->group != NULL && !slot->item.sticky)
            slot->group->n_batch = in ? slot->group->n_batch + 1 : 0;
    }
}

/* Leaves them all; the next in each is called. */
static int add_lanes(struct batch *batch, struct list *flying, size_t n, bool *ret_lanes)
{
    struct params *leave = NULL;
    struct lanes left = {0};

    LIST_FOREACH(link, flying) {
        const struct slot *slot = slot_of_link(link);

        if (!leaves(slot))
            continue;
        if (leave == NULL) {
            leave = batch_add(batch, STMT(lane_leave));
            if (leave == NULL || !lanes_alloc(&left, leave->arena, n))
                return PAWL_ENOMEM;
        }
        lanes_add(&left, slot);
    }
    if (leave != NULL)
        lane_leave_bind(leave, left.queues, left.names, left.ids, left.n);
    *ret_lanes = leave != NULL;
    return 0;
}

int settle_follow(struct batch *batch, struct list *flying, size_t n, bool *ret_lanes)
{
    int rc;

    count_groups(flying, true);
    rc = add_lanes(batch, flying, n, ret_lanes);
    count_groups(flying, false);
    return rc;
}
