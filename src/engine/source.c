/* source: what hands with several sources need of the coordinator: queues that come and go, runs that other processes
 * claimed, and runs that go elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "engine/coordinator_internal.h"

const char *const *coordinator_queues(const struct coordinator *c, size_t *ret_n)
{
    if (c->options.hands->ops->room == NULL) {
        *ret_n = c->options.n_queues;
        return c->options.queues;
    }
    *ret_n = c->n_source_queues;
    return c->source_queues;
}

static bool has_queue(const struct coordinator *c, const char *queue)
{
    for (size_t i = 0; i < c->n_source_queues; i++) {
        if (strcmp(c->source_queues[i], queue) == 0)
            return true;
    }
    return false;
}

/* Each queue once; those whose sources have gone fall out on the way. */
static void list_queues(struct coordinator *c)
{
    c->n_source_queues = 0;
    for (size_t i = 0; i < c->n_scans; i++) {
        if (!has_queue(c, c->scans[i].queue))
            c->source_queues[c->n_source_queues++] = c->scans[i].queue;
    }
    c->waker.options.queues = c->source_queues;
    c->waker.options.n_queues = c->n_source_queues;
}

/* Room for one source more. */
static int grow(struct coordinator *c)
{
    size_t size = c->n_scans + 1;

    if (size > c->scans_size || c->source_queues == NULL) {
        size_t larger = 2 * size;
        struct scan *scans = realloc(c->scans, larger * sizeof(*scans));

        if (scans == NULL)
            return PAWL_ENOMEM;
        c->scans = scans;
        const char **queues = realloc(c->source_queues, larger * sizeof(*queues));

        if (queues == NULL)
            return PAWL_ENOMEM;
        c->source_queues = queues;
        c->waker.options.queues = queues;
        c->scans_size = larger;
    }
    return 0;
}

int coordinator_set_source(struct coordinator *c,
                           size_t source,
                           const char *queue,
                           const char *const *kinds,
                           size_t n_kinds)
{
    bool known = has_queue(c, queue);

    if (source > c->n_scans)
        return PAWL_EINVAL;
    if (claiming_from(c, source))
        return PAWL_EFULL;
    if (source == c->n_scans) {
        int rc = grow(c);

        if (rc < 0)
            return rc;
        c->n_scans++;
    }
    scan_init(&c->scans[source], queue);
    c->scans[source].kinds = kinds;
    c->scans[source].n_kinds = n_kinds;
    list_queues(c);
    /* Whoever enqueues there must see that somebody waits. */
    if (!known && c->state == COORDINATOR_WORKING)
        waker_doubt(&c->waker);
    c->idle = false;
    return 0;
}

void coordinator_wake_source(struct coordinator *c, size_t source)
{
    scan_wake(&c->scans[source]);
    claiming_call(c, source);
}

bool coordinator_source_empty(const struct coordinator *c, size_t source)
{
    return c->scans[source].empty;
}

struct claim *coordinator_adopt(struct coordinator *c, PGresult *result)
{
    struct claim *claim = claim_new(&(struct job_claim){.queue = ""});

    if (claim == NULL || claim_fill_held(claim, result) < 0) {
        claim_free(claim);
        return NULL;
    }
    /* Nothing is renewed for it, nothing goes on under it, and no settle of ours ends it. */
    claim->lost = claim->left_to_lease = true;
    lease_add(&c->lease, claim);
    for (size_t i = 0; i < claim->n_filled; i++)
        slot_move(&c->slots, &claim->slots[i], SLOT_RUNNING);
    return claim;
}

struct run *coordinator_adopted(struct claim *claim, size_t i)
{
    return &claim->slots[i].run;
}

/* Its claim may have no job left now. No settle ends it then: nothing renews it, and a sweep finds
 * it empty. */
void coordinator_let_go(struct coordinator *c, struct run *run)
{
    coordinator_forget(c, slot_of_run(run));
}

bool coordinator_holds(const struct run *run)
{
    const struct slot *slot =
        (const struct slot *)(const void *)((const char *)run - offsetof(struct slot, run));

    return !slot->claim->lost;
}
