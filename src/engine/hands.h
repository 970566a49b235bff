/*
 * hands: what the coordinator needs from something that can run a job. Threads, child processes and
 * remote streams each implement it; the coordinator knows nothing else about them.
 *
 * The coordinator's thread calls the functions below. Hands report each run exactly once through
 * `finished`, on the coordinator's thread, and never from inside `run`.
 */
#ifndef ENGINE_HANDS_H
#define ENGINE_HANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "core/job.h"

/* Why a run should end early. */
enum stop_reason {
    STOP_LOST, /* the lease is lost: whatever it does now counts for nothing */
    STOP_CANCELLED,
    STOP_TIMEOUT,  /* ran longer than the job allows */
    STOP_SHUTDOWN, /* the drain deadline passed */
};

struct hands;

/* Where a job is that is in this process (engine/slots.h). */
enum slot_place {
    SLOT_FREE,     /* not here: not taken in yet, or given back */
    SLOT_BEHIND,   /* not started: one of its lane that was claimed with it is ahead of it */
    SLOT_BUFFERED, /* not started: it waits for free hands */
    SLOT_RUNNING,  /* in the hands */
    SLOT_WAITING,  /* its outcome waits to be sent */
    SLOT_FLYING,   /* its outcome is on the wire */
    SLOT_ASIDE,    /* its outcome is kept back: another transaction holds a row that it changes */
    SLOT_PLACES,
};

/* One run of one job, owned by the coordinator, lent to the hands until they report it finished. */
struct run {
    struct job job;
    struct list link;      /* where it is in line, and … */
    enum slot_place place; /* … in which: slots_put() alone changes both */
    void *hands_data;      /* the hands' own, per run */
    size_t source; /* for which of their sources it was claimed; only where there is `room` */
};

struct hands_ops {
    /* Takes the run. Fails only when nothing was started; it is then settled as a retry with err, or, if that says that
     * this process is short of something (hands_are_short), given back with its attempt. */
    int (*run)(struct hands *hands, struct run *run, struct pawl_err *err);
    /* Ends a series of runs: until then they may be held back, so that many are handed over at the
     * price of one. NULL for hands that start whatever they take at once. */
    void (*flush)(struct hands *hands);
    /* Asks a run to end; `finished` still comes. May be called more than once, with the same or a
     * harsher reason. */
    void (*stop)(struct hands *hands, struct run *run, enum stop_reason reason);
    /* Kinds these hands can run; NULL-terminated. Never claimed: anything else. */
    const char *const *(*kinds)(struct hands *hands);
    /* Reports every run that was not started as OUTCOME_RELEASE, before it returns. NULL for hands
     * that start whatever they take. */
    void (*recall)(struct hands *hands);
    /* How many jobs of this source they would take now. A source is a queue and some kinds, made known to the
     * coordinator by coordinator_set_source. NULL for hands that take any of their kinds from any queue: their room is
     * what the coordinator's options say. With it nothing is claimed that there is no room for. */
    size_t (*room)(struct hands *hands, size_t source);
    /* What became of a run they reported, once that is committed; state NULL: it counted for nothing, or, `unsure`, had
     * been settled before. "running": a machine goes on under the same claim, and `run` is called again, or this.
     * After any other state the run is no more. Also for runs that were never given to them (hands_data NULL).
     * NULL for hands that need not know. */
    void (*settled)(struct hands *hands, struct run *run, const char *state, bool unsure);
};

/* Why nothing was started: this process has no descriptors, processes or memory left, which is no fault of the job's. */
static inline bool hands_are_short(const struct pawl_err *err)
{
    return err->code == PAWL_EFULL || err->code == PAWL_ENOMEM;
}

#define HANDS_SHORT_HINT "Give the worker more (ulimit -n and -u, memory), or fewer jobs at a time."

struct hands {
    const struct hands_ops *ops;
    /* Runs they take on beyond those that run at a time, to have the next ones at hand. */
    size_t queue_max;
    /* Set by the coordinator before the first run. */
    void (*finished)(void *data, struct run *run, const struct outcome *outcome);
    void *finished_data;
};

/* How a run ended, as it was committed. Pointers live for the call. */
struct settled {
    const struct job *job;
    const struct outcome *outcome;
    const char *state; /* what the job is now; NULL: our claim was stale, and the outcome counted
                          for nothing */
};

#endif
