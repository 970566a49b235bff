/*
 * settle: the buffer in which outcomes wait to be written. A flush starts at once when none is
 * under way, and what finishes meanwhile is gathered into the next one: under load many outcomes
 * share a commit, and a single one never waits.
 *
 * What is conserved: every slot that is put into SLOT_WAITING comes back through `settled` (or, a
 * machine that goes on here, `went_on`) exactly once: with the state the database gave the job, or
 * with NULL when its token was stale. A settle whose commit is unknown is sent again with the same
 * tokens; the guard in the statements makes that one effect. Coordinator's thread only.
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
    struct slots *slots; /* borrowed */
    struct conn *conn;   /* borrowed */
    const char *worker;  /* borrowed; name for history */
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

/* The statements of a flush, in their order. */
enum settle_carrier {
    CARRIER_ANY,  /* job_settle: takes every outcome */
    CARRIER_NEXT, /* job_settle_next: machines that simply go on here */
    CARRIER_DONE, /* job_settle_done: plain jobs that are done */
    SETTLE_CARRIERS,
};

/* What one of them carries in the flush under way. */
struct cargo {
    const struct job_settle *items[SETTLE_BATCH_MAX]; /* each in its slot; NULL: answered */
    size_t n;
    size_t answer; /* which of the batch's */
};

struct settle {
    struct settle_options options;
    struct cargo cargo[SETTLE_CARRIERS];
    size_t n_sent;                       /* outcomes in the flush under way; 0: none is */
    int64_t done_ids[SETTLE_BATCH_MAX];  /* of what CARRIER_DONE carries */
    struct uuid ended[SETTLE_BATCH_MAX]; /* claims of which no job is left after the flush */
    size_t n_ended;
    size_t n_before;  /* statements before those that settle */
    bool lanes_left;  /* the last statement is about lanes */
    bool parking;     /* it is only job_park, for one that was refused twice */
    uv_timer_t retry; /* runs while a failed flush waits to be sent again */
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

/* The timers must be closed by the caller's uv_close. */
void settle_init(struct settle *settle, const struct settle_options *options);

/* Sends what waits, if it may. Called at the end of every loop turn. */
void settle_flush(struct settle *settle);

static inline struct slot *slot_of_item(const struct job_settle *item)
{
    return (struct slot *)(uintptr_t)((const char *)item - offsetof(struct slot, item));
}

#endif
