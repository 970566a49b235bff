/*
 * slot: one claimed job on its way through this process, from the claim to the settle. And the
 * claim it came with, which owns the memory of all its slots.
 *
 * Where a slot may be, and how it moves: engine/slots.h. slot_move() is the door for slots of the
 * coordinator: it keeps the numbers of the claim, too. Coordinator's thread only.
 */
#ifndef ENGINE_SLOT_H
#define ENGINE_SLOT_H

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

#include "base/list.h"
#include "core/machine.h"
#include "engine/slots.h"
#include "store/job.h"

struct slot;

/* Jobs of one lane that were claimed together. They run one after the other, in the order of their
 * ids: one goes through the coordinator, the others wait here. The lane is left with the last. */
struct group {
    struct list behind; /* SLOT_BEHIND */
    struct slot *ahead; /* the one that they wait for; NULL: none */
    size_t n_left;      /* not settled */
    size_t n_batch;     /* of these, in the settle that is being made; 0 at all other times */
};

/* All that one job_claim took. Ends when the last of its jobs is settled. */
struct claim {
    struct list link;       /* on lease.claims */
    struct job_claim asked; /* token, queue (borrowed from the options), worker */
    PGresult *result;       /* owned; kinds and payloads of the jobs point into it */
    struct slot *slots;     /* owned array */
    struct group *groups;   /* owned array; NULL: none */
    size_t n_groups;
    size_t n_filled; /* slots there are */
    /* Kept by slot_move(): */
    size_t n_slots;  /* slots that are somewhere here; the claim is over when there is none */
    size_t n_unsent; /* of these, not in a settle on the wire: at 0 that settle ends it */

    int64_t renewed_us; /* steady clock at the send of the claim or of the last renewal */
    bool renewing;      /* the renewal under way names it */
    bool lost;          /* the database no longer knows it: its jobs' outcomes count for nothing */
    /* No settle ends it; its lease does. The primary moved since, so that outcomes that were
     * acknowledged before may be lost with the old one; or a job of it was given up unsettled; or
     * it is another process's. */
    bool left_to_lease;
};

struct slot {
    /* As it was claimed. */
    struct run run; /* what the hands see, and where the slot is */
    struct claim *claim;
    struct group *group; /* NULL: it is by itself */
    int64_t due_us;      /* when it was due: orders the jobs of a claim */
    bool together;       /* others of its lane were claimed with it */

    /* What it came to. item.sticky: slot_set_sticky() alone changes it. */
    struct job_settle item;       /* filled in when the hands report; its texts are copies */
    struct slot_machine *machine; /* owned; NULL: not a machine (yet) */

    /* The run under way. */
    char *note;         /* owned; what it said about how far it is, not sent yet */
    int64_t started_us; /* steady clock when the hands got it; only where there is a timeout */
    unsigned probe;     /* of its kind's breaker; 0: none (engine/breaker.h) */
    bool told;          /* to end, by us: how it ends says nothing about its kind */
    bool overran;       /* it was said that it runs beyond its timeout */

    /* The outcome under way. */
    struct slot_sent {
        int refused; /* settles that failed for this outcome alone */
        bool alone;  /* what held up its settle cannot be seen: it is sent by itself */
        bool again;  /* an earlier settle of it may have been committed without our knowing */
    } sent;
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

/* Takes the result and makes a slot for each of its rows, the most urgent first. Those that are
 * behind another of their lane are put there. PAWL_ENOMEM: then the result is still the caller's.
 */
int claim_fill(struct claim *claim, PGresult *result, struct slots *slots) MUST_CHECK;
/* The same for rows of job_held: jobs of any claims and queues, a slot for each row in its order. */
int claim_fill_held(struct claim *claim, PGresult *result) MUST_CHECK;
void claim_free(struct claim *claim); /* with all its slots; NULL accepted */

/* To the end of the line in that place, or to its front. Counts for its claim. */
void slot_move(struct slots *slots, struct slot *slot, enum slot_place to);
void slot_move_first(struct slots *slots, struct slot *slot, enum slot_place to);
/* Whether its settle keeps the claim, and it goes on here. */
void slot_set_sticky(struct slots *slots, struct slot *slot, bool sticky);

/* Takes copies of what the outcome points to. Out of memory turns it into a retry without a text.
 */
void slot_finish(struct slot *slot, const struct outcome *outcome);
/* Its `next` is committed: run.job is at the next step now, and nothing is left of the outcome.
 * PAWL_ENOMEM: it stays as it is. */
int slot_go_on(struct slot *slot, int64_t now_us) MUST_CHECK;
/* Frees what it owns. Its own memory goes with the claim. */
void slot_clear(struct slot *slot);

static inline struct slot *slot_of_run(struct run *run)
{
    return (struct slot *)(void *)((char *)run - offsetof(struct slot, run));
}

static inline struct slot *slot_of_link(struct list *link)
{
    return slot_of_run(run_of_link(link));
}

/* The first in line there; NULL: nobody. */
static inline struct slot *slot_first(struct slots *slots, enum slot_place place)
{
    struct list *line = &slots->at[place];

    return list_empty(line) ? NULL : slot_of_link(line->next);
}

#endif
