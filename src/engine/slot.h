/*
 * slot: one claimed job on its way through this process, from the claim to the settle. And the
 * claim it came with.
 *
 * A slot is on exactly one list at a time, and each list is a state:
 *
 *     coordinator.running   in the hands
 *     settle.waiting        finished; its outcome waits for the next flush
 *     settle.flying         its outcome is on the wire (an array, because the answer names
 * positions)
 *
 * slot_new puts it nowhere; slot_free takes it off whatever it is on. Coordinator's thread only.
 */
#ifndef ENGINE_SLOT_H
#define ENGINE_SLOT_H

#include <stdbool.h>
#include <stddef.h>

#include <uv.h>

#include "base/list.h"
#include "engine/hands.h"
#include "store/job.h"

/* All that one job_claim took. Ends when the last of its jobs is settled. */
struct claim {
    struct list link;       /* on lease.claims */
    struct job_claim asked; /* token, queue (borrowed from the options), worker */
    size_t n_slots;         /* slots that point here; the claim is over when there is none */
    size_t n_unsent; /* of these, how many are not in a settle that is on the wire: at 0 that settle
                        ends it */
    int64_t renewed_us; /* steady clock at the send of the claim or of the last renewal that
                           succeeded */
    bool renewing;      /* the renewal under way names it */
    bool lost; /* the database no longer knows it: whatever its jobs do counts for nothing */
};

struct slot {
    struct run run; /* what the hands see */
    struct list link;
    struct claim *claim;
    struct job_settle
        item;      /* filled in when the hands report; result and error owned by the slot */
    char *result;  /* owned */
    char *error;   /* owned */
    int tries;     /* settles that failed for this outcome alone */
    bool resent;   /* an earlier settle of it may have been committed without our knowing */
    char copies[]; /* kind and payload of run.job */
};

/* Copies what `job` points to. NULL when out of memory. */
struct slot *slot_new(struct claim *claim, const struct job *job) MUST_CHECK;
void slot_free(struct slot *slot); /* NULL accepted */

/* Takes copies of what the outcome points to. Out of memory turns it into a retry without a text.
 */
void slot_finish(struct slot *slot, const struct outcome *outcome);

static inline struct slot *slot_of_run(struct run *run)
{
    return (struct slot *)(void *)((char *)run - offsetof(struct slot, run));
}

static inline struct slot *slot_of_link(struct list *link)
{
    return LIST_ENTRY(link, struct slot, link);
}

#endif
