/*
 * machine: a job that goes on in steps: where it is, and how a step says what comes next. Pure but for memory.
 */
#ifndef CORE_MACHINE_H
#define CORE_MACHINE_H

#include "core/job.h"

/* Where a machine is. Texts and bytes live as long as the job's. */
struct machine {
    const char *step;  /* NULL: the first */
    const char *state; /* what the last step left; NULL: nothing */
    size_t state_len;
    const char
        *signals;      /* that this step is shown: a JSON array of id, name, payload; NULL: none */
    const char *shown; /* their ids, with commas; NULL: none */
    int64_t seen;      /* signals that had been sent to it when it was claimed */
    bool waited;       /* it waited for a signal */
    bool timed_out;    /* none came in time */
    bool cancelled;    /* its end was asked for before it could be told */
    bool expired;      /* its deadline has passed; also a plain job may have one */
    const char
        *children; /* finished ones: a JSON array of id, kind, state, result, error; NULL: none */
    int32_t children_left;
    bool joined;          /* it waited for children, and its step is shown them */
    bool children_cancel; /* what is left of them ends with it */
};

/* A child to be spawned. */
struct child_new {
    const char *queue;
    const char *kind;
    const char *payload;
    size_t payload_len;
    int16_t priority;
    int32_t max_attempts;
};

#define JOIN_FAIL_FAST 1 /* the first child that fails ends the wait */
#define JOIN_CANCEL    2 /* what is left then, or at the machine's own end, is cancelled */

/* How a machine goes on: NEXT, AWAIT, SPAWN. */
struct going_on {
    const char *step;  /* with which; a name */
    const char *state; /* for it; NULL: as it is */
    size_t state_len;
    const char *awaits;               /* AWAIT: names, with commas between them */
    const struct child_new *children; /* SPAWN */
    size_t n_children;
    int32_t join_at; /* SPAWN: go on when no more are left than this */
    int16_t join_flags;
};

/* A copy with all it points to in one piece of memory; free() it. NULL: out of memory. */
struct going_on *going_on_copy(const struct going_on *on);

/* A copy with all that it points to. Without memory for that the copy is a retry without a text. */
void outcome_copy(const struct outcome *outcome, struct outcome *ret_copy);
/* Frees what a copy points to. One that is all zero is allowed, and left behind. */
void outcome_clear(struct outcome *copy);

/* What a step may say; refuses with what is wrong. */
int going_on_check(enum outcome_kind kind,
                   const struct going_on *on,
                   struct pawl_err *err) MUST_CHECK;

#endif
