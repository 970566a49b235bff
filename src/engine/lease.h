/*
 * lease: keeps this process's claims alive. One statement renews all of them, three times in the
 * length of a lease, and tells which ones the database no longer knows. When no renewal has
 * succeeded for the length of a lease, by our own steady clock, the claims count as lost too:
 * another worker may have the jobs by now. Coordinator's thread only.
 */
#ifndef ENGINE_LEASE_H
#define ENGINE_LEASE_H

#include <stddef.h>

#include <uv.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "engine/slot.h"
#include "engine/stats.h"
#include "pg/conn.h"
#include "store/claim.h"

struct lease_options {
    uv_loop_t *loop;
    struct conn *conn; /* borrowed */
    struct uuid worker;
    int64_t lease_ms;
    const struct clock *clock;
    struct log *log;
    struct coordinator_stats *stats; /* borrowed */
    /* Its runs should end now. Called once per claim. */
    void (*lost)(void *data, struct claim *claim);
    /* One of its jobs shall end; may be called again and again until it has. */
    void (*cancelled)(void *data, int64_t job_id);
    void (*beat)(void *data, struct worker_beat *ret_beat); /* for the worker's row */
    void *data;
};

struct lease {
    struct lease_options options;
    struct list claims; /* all that are not over */
    size_t n_claims;
    uv_timer_t timer;
    bool renewing;
    int64_t sent_us; /* steady clock when the renewal under way was sent */
};

void lease_init(struct lease *lease, const struct lease_options *options);
void lease_start(struct lease *lease);

void lease_add(struct lease *lease, struct claim *claim);
/* The primary is another one: see claim.left_to_lease. */
void lease_primary_moved(struct lease *lease);
/* Takes it off and frees it. */
void lease_remove(struct lease *lease, struct claim *claim);
/* Frees what is left. The timer must be closed by the caller's uv_close before. */
void lease_deinit(struct lease *lease);

#endif
