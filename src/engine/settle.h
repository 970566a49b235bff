/*
 * settle: the buffer in which outcomes wait to be written. A flush starts at once when none is
 * under way, and what finishes meanwhile is gathered into the next one: under load many outcomes
 * share a commit, and a single one never waits.
 *
 * What is conserved: every slot given to settle_add comes back through `settled` exactly once: with
 * the state the database gave the job, or with NULL when its token was stale. A settle whose commit
 * is unknown is sent again with the same tokens; the guard in the statement makes that one effect.
 * Coordinator's thread only.
 */
#ifndef ENGINE_SETTLE_H
#define ENGINE_SETTLE_H

#include <stddef.h>

#include <uv.h>

#include "base/list.h"
#include "base/log.h"
#include "engine/slot.h"
#include "pg/conn.h"

#define SETTLE_BATCH_MAX 1000 /* outcomes in one statement */
#define SETTLE_BYTES_MAX \
    (16 * 1024 * 1024) /* results in one statement, unless a single one is larger */
#define SETTLE_DEADLINE_MS 10000

struct settle_options {
    uv_loop_t *loop;
    struct conn *conn;  /* borrowed */
    const char *worker; /* borrowed; name for history */
    struct log *log;
    /* The slot is the callee's again. state NULL: stale. */
    void (*settled)(void *data, struct slot *slot, const char *state);
    void *data;
};

struct settle {
    struct settle_options options;
    struct list waiting;
    struct slot *flying[SETTLE_BATCH_MAX];
    size_t n_waiting;
    size_t n_flying;
    uv_timer_t retry; /* runs while a failed flush waits to be sent again */
    int64_t retry_ms;
    bool alone; /* send one at a time: some outcome of the last batch was refused */
};

void settle_init(struct settle *settle, const struct settle_options *options);
/* Frees what is left in it. The timer must be closed by the caller's uv_close before. */
void settle_deinit(struct settle *settle);

void settle_add(struct settle *settle, struct slot *slot);

static inline size_t settle_pending(const struct settle *settle)
{
    return settle->n_waiting + settle->n_flying;
}

#endif
