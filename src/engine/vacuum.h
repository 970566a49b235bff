/*
 * vacuum: workers vacuum the hot tables themselves, every few seconds, where there is something to
 * gain: autovacuum comes once a minute, and by then a busy queue has left millions of dead rows. Who
 * does it is decided by when it was done last, which all processes see; whether it helps, by whether
 * what held dead rows back the last time still does. A role that may not leaves it to autovacuum.
 *
 * It runs on a connection of its own, for after a long-held snapshot it may take minutes; the
 * question is asked on the upkeep connection. Coordinator's thread.
 */
#ifndef ENGINE_VACUUM_H
#define ENGINE_VACUUM_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/log.h"
#include "engine/stats.h"
#include "pg/conn.h"
#include "store/vacuum.h"

#define VACUUM_EVERY_MS    5000
#define VACUUM_IDLE_MS     60000 /* while nothing is claimed here */
#define VACUUM_TRUNCATE_MS 60000 /* how often pages at the end are given back */
#define VACUUM_BACKOFF_MAX_MS \
    300000 /* after one that gained nothing: twice as long each time, up to this */

struct vacuum_options {
    uv_loop_t *loop;
    struct conn *upkeep; /* borrowed, as all that follows */
    struct conn *care;
    struct log *log;
    struct coordinator_stats *stats;
};

struct vacuum_state {
    bool due;
    struct vacuum_due what;
    uint64_t not_before_ms;  /* by the loop's clock */
    uint64_t backoff_ms;     /* 0: the last one gained something */
    uint64_t truncate_at_ms; /* not before */
};

struct vacuum {
    struct vacuum_options options;
    uv_timer_t timer;
    bool flying; /* a statement of ours is on the wire */
    bool stopped;
    bool said;        /* that this role may not */
    uint64_t claimed; /* jobs, at the last question */
    uint64_t asked_ms;
    enum vacuum_part running;
    struct vacuum_state parts[VACUUM_PARTS];
};

void vacuum_init(struct vacuum *vacuum, const struct vacuum_options *options);
void vacuum_start(struct vacuum *vacuum);
void vacuum_stop(struct vacuum *vacuum);

#endif
