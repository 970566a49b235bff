/*
 * sweeper: takes back what dead workers left behind, and keeps history's partitions. Every process
 * does it, in small runs that skip what others hold, so there is no leader whose loss would stop
 * it. Coordinator's thread only.
 */
#ifndef ENGINE_SWEEPER_H
#define ENGINE_SWEEPER_H

#include <uv.h>

#include "base/log.h"
#include "engine/stats.h"
#include "engine/sweep.h"
#include "pg/conn.h"

#define SWEEP_LANES_MAX 1000 /* lanes mended in one run; halved like a sweep */

struct sweeper_options {
    uv_loop_t *loop;
    struct conn *conn; /* borrowed */
    int64_t every_ms;
    int64_t deadline_ms; /* of a sweep; 0: 10 s */
    const int64_t *low;  /* borrowed; the ledger's low mark as it is known now */
    struct log *log;
    struct coordinator_stats *stats; /* borrowed */
    void (*called)(void *data);      /* somebody who waited for a lane is due now */
    void *data;
};

struct sweeper {
    struct sweeper_options options;
    struct sweep sweep;
    uv_timer_t sweep_timer;
    uv_timer_t history_timer;
    uv_timer_t
        mend_timer; /* runs while lanes are marked because those who wait for them were locked */
    int64_t mend_ms;
    bool mending;       /* a lanes_mend is on the wire */
    int32_t lanes_most; /* lanes in the next one */
};

void sweeper_init(struct sweeper *sweeper, const struct sweeper_options *options);
void sweeper_start(struct sweeper *sweeper);
/* A lane waits to be mended. */
void sweeper_now(struct sweeper *sweeper);
/* Lanes were marked because those who wait for them were locked, which is over in a moment. */
void sweeper_mend_soon(struct sweeper *sweeper);
/* Lanes are marked, or being mended. */
bool sweeper_mends(const struct sweeper *sweeper);
void sweeper_stop(struct sweeper *sweeper);

#endif
