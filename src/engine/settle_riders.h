/*
 * settle_riders: what goes with a settle in its transaction, before and after it, for jobs that
 * have children or a lane. Flushes without such jobs carry none of it. flying: the slots of the
 * flush, n of them. Coordinator's thread only.
 */
#ifndef ENGINE_SETTLE_RIDERS_H
#define ENGINE_SETTLE_RIDERS_H

#include "engine/slot.h"
#include "pg/conn.h"

/* Children of machines that go on though not all are finished: nobody's from then on, and ended if that
 * was asked for. Before the settle, while the token still proves that the machine is ours. Adds a statement, or none: ret_added.
 * PAWL_ENOMEM or PAWL_EFULL: the batch cannot hold it. */
int settle_let_go(struct batch *batch, struct list *flying, size_t n, size_t *ret_added) MUST_CHECK;

/* Lanes that are left, and whoever is next in them. After it.
 * ret_lanes: the last statement is lane_leave. */
int settle_follow(struct batch *batch, struct list *flying, size_t n, bool *ret_lanes) MUST_CHECK;

#endif
