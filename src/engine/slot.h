/*
 * slot: one claimed job on its way through this process, from the claim to the settle. And the
 * claim it came with, which owns the memory of all its slots.
 *
 * A slot is in exactly one place at a time, and each place is a state:
 *
 *     coordinator.buffered  claimed ahead of need; not started
 *     group.waiting         likewise, and one of its lane is ahead of it
 *     coordinator.running   in the hands
 *     settle.waiting        finished; its outcome waits for the next flush
 *     settle.flying         its outcome is on the wire (an array: the answer names positions)
 *     settle.aside          another transaction holds a row that its settle changes
 *
 * Coordinator's thread only.
 */
#ifndef ENGINE_SLOT_H
#define ENGINE_SLOT_H

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

#include "base/list.h"
#include "core/machine.h"
#include "engine/hands.h"
#include "store/job.h"

struct slot;

/* Jobs of one lane that were claimed together. They run one after the other, in the order of their ids;
 * the first goes to the coordinator, the others wait here. The lane is left with the last of them. */
struct group {
    struct list waiting;
    size_t n_left;  /* not settled */
    size_t n_batch; /* of these, in the settle that is being made; 0 at all other times */
};

/* All that one job_claim took. Ends when the last of its jobs is settled. */
struct claim {
    struct list link;       /* on lease.claims */
    struct job_claim asked; /* token, queue (borrowed from the options), worker */
    PGresult *result;       /* owned; kinds and payloads of the jobs point into it */
    struct slot *slots;     /* owned array */
    struct group *groups;   /* owned array; NULL: none */
    size_t n_groups;
    size_t n_filled;    /* slots there are */
    size_t n_slots;     /* slots that are not settled; the claim is over when there is none */
    size_t n_unsent;    /* of these, not in a settle on the wire: at 0 that settle ends it */
    int64_t renewed_us; /* steady clock at the send of the claim or of the last renewal */
    bool renewing;      /* the renewal under way names it */
    bool lost;          /* the database no longer knows it: its jobs' outcomes count for nothing */
    /* The primary moved since: outcomes that were acknowledged before may be lost with the old one,
     * and jobs be held that we think settled. So no settle ends it; its lease does. */
    bool left_to_lease;
};

struct slot {
    struct run run; /* what the hands see */
    struct list link;
    struct claim *claim;
    struct group *group;          /* NULL: it is by itself */
    bool together;                /* as the claim said */
    bool passed;                  /* the next of its group has had its turn */
    int64_t due_us;               /* when it was due: orders the jobs of a claim */
    struct job_settle item;       /* filled in when the hands report; texts owned by the slot */
    char *result;                 /* owned */
    char *error;                  /* owned */
    char *note;                   /* owned; what it said about how far it is, not sent yet */
    struct going_on *on;          /* owned; how a machine goes on */
    struct slot_machine *machine; /* owned; NULL: not a machine (yet) */
    bool sticky;                  /* its settle keeps the claim, and it goes on here */
    int tries;                    /* settles that failed for this outcome alone */
    int64_t started_us; /* steady clock when the hands got it; only where there is a timeout */
    unsigned probe;     /* of its kind's breaker; 0: none (engine/breaker.h) */
    bool told;          /* to end, by us: how it ends says nothing about its kind */
    bool overran;       /* it was said that it runs beyond its timeout */
    bool alone;         /* what held up its settle cannot be seen: it is sent by itself */
    bool moved;         /* its row is not where the claim left it */
    bool resent;        /* an earlier settle of it may have been committed without our knowing */
};

/* Where a machine is, while it is here. */
struct slot_machine {
    struct machine view; /* what run.job.machine points to */
    char *state; /* owned: what a step left that ran here; NULL: view.state is the claim's */
    char step[PAWL_NAME_MAX + 1]; /* likewise */
    int64_t since_us;             /* steady clock when the first step here began */
    unsigned n_steps;             /* that ran here without a new claim */
};

struct claim *claim_new(const struct job_claim *asked) MUST_CHECK;

/* Takes the result and makes a slot for each of its rows, the most urgent first. PAWL_ENOMEM: then
 * the result is still the caller's. */
int claim_fill(struct claim *claim, PGresult *result) MUST_CHECK;
/* The same for rows of job_held: jobs of any claims and queues, a slot for each row in its order. */
int claim_fill_held(struct claim *claim, PGresult *result) MUST_CHECK;
void claim_free(struct claim *claim); /* with all its slots; NULL accepted */

/* Takes copies of what the outcome points to. Out of memory turns it into a retry without a text.
 */
void slot_finish(struct slot *slot, const struct outcome *outcome);
/* Its `next` is committed: run.job is at the next step now, and nothing is left of the outcome.
 * PAWL_ENOMEM: it stays as it is. */
int slot_go_on(struct slot *slot, int64_t now_us) MUST_CHECK;
/* Off its list, texts freed. The memory goes with the claim. */
void slot_clear(struct slot *slot);

static inline struct slot *slot_of_run(struct run *run)
{
    return (struct slot *)(void *)((char *)run - offsetof(struct slot, run));
}

static inline struct slot *slot_of_link(struct list *link)
{
    return LIST_ENTRY(link, struct slot, link);
}

#endif
