/*
 * settle: the buffer in which outcomes wait to be written. A flush starts at once when none is
 * under way, and what finishes meanwhile is gathered into the next one: under load many outcomes
 * share a commit, and a single one never waits.
 *
 * What is conserved: every slot given to settle_add comes back through `settled` (or, a machine that goes on here, `went_on`) exactly once: with
 * the state the database gave the job, or with NULL when its token was stale. A settle whose commit
 * is unknown is sent again with the same tokens; the guard in the statements makes that one effect.
 * Coordinator's thread only.
 */
#ifndef ENGINE_SETTLE_H
#define ENGINE_SETTLE_H

#include <stddef.h>

#include <uv.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "engine/slot.h"
#include "engine/stats.h"
#include "pg/conn.h"

#define SETTLE_BATCH_MAX 2000 /* outcomes in one flush */
#define SETTLE_BYTES_MAX \
    (16 * 1024 * 1024) /* results in one flush, unless a single one is larger */
#define SETTLE_DEADLINE_MS 10000

struct settle_options {
    uv_loop_t *loop;
    struct conn *conn;  /* borrowed */
    const char *worker; /* borrowed; name for history */
    const struct clock *clock;
    struct log *log;
    struct coordinator_stats *stats; /* borrowed */
    /* The slot is the callee's again. state NULL: stale. */
    void (*settled)(void *data, struct slot *slot, const char *state);
    /* Before that, for one that goes on living: due again in so many ms; INT64_MAX: not by itself. */
    void (*due)(void *data, const struct slot *slot, int64_t due_ms);
    /* Instead, for one that is sticky: its step is committed, and it still is this process's. */
    void (*went_on)(void *data, struct slot *slot, bool cancelled);
    /* Some who wait for a lane that was left could not be called: lanes_mend has to. */
    void (*missed)(void *data);
    void *data;
};

struct settle {
    struct settle_options options;
    struct list waiting;
    struct list aside; /* held up by a lock of another transaction (settle_aside.h) */
    size_t n_aside;
    struct slot
        *flying[SETTLE_BATCH_MAX]; /* done plain ones, all others that end, machines that simply go
                                              on here, all others that go on */
    size_t n_waiting;
    size_t n_flying;
    size_t n_sticky; /* of both: machines that come back */
    size_t n_flying_done;
    int64_t done_ids[SETTLE_BATCH_MAX]; /* of those */
    size_t n_flying_ended;              /* with the done ones */
    size_t n_flying_next;               /* of those behind them */
    size_t n_before;                    /* statements before those that settle them */
    bool lanes_left;                    /* the last statement is about lanes */
    bool parking;                       /* it is only job_park, for one that was refused twice */
    uv_timer_t retry;                   /* runs while a failed flush waits to be sent again */
    int64_t retry_ms;
    /* Some outcome of a batch was refused: of those first in line at most so many are sent at a
     * time, halved until it is found, doubled again with every flush that is accepted. */
    size_t n_suspects;
    size_t suspects_max;
    /* What job_locked is asked about: those that are aside, then the first that wait. */
    uv_timer_t look; /* runs while some are aside */
    int64_t look_ms;
    bool looking;        /* it is under way */
    bool blocked;        /* a flush ran into a lock: nothing is sent before it is known whose */
    bool looked_blocked; /* it is asked about those of that flush too */
    size_t n_blocked;    /* these are the first that wait */
    struct slot *looked[SETTLE_BATCH_MAX];
    size_t n_looked;
    size_t n_looked_aside;
    int64_t since_us; /* steady clock since when the oldest flush is not through; 0: none is under
                         way */
};

void settle_init(struct settle *settle, const struct settle_options *options);
/* Forgets what is left in it. The timers must be closed by the caller's uv_close before. */
void settle_deinit(struct settle *settle);

void settle_add(struct settle *settle, struct slot *slot);

/* Sends what waits, if it may. Called at the end of every loop turn. */
void settle_flush(struct settle *settle);

static inline size_t settle_pending(const struct settle *settle)
{
    return settle->n_waiting + settle->n_flying + settle->n_aside;
}

#endif
