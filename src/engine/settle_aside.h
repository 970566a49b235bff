/*
 * settle_aside: outcomes whose rows another transaction holds. The connection that settles waits for a
 * lock for half a second (session_settle.sql). A flush that runs into one is rolled back, job_locked
 * tells whose rows are held, and these outcomes are set aside; the others are sent again at once. From
 * then on job_locked, which waits for nobody, looks at those that are aside, less and less often, and
 * brings back what is free.
 *
 * A slot that is aside is still not settled: its claim is renewed, and its worker waits for it when it
 * stops. A lock that job_locked cannot see is found by halving (settle.n_suspects), and the outcome it
 * holds up is then sent by itself. Coordinator's thread only.
 */
#ifndef ENGINE_SETTLE_ASIDE_H
#define ENGINE_SETTLE_ASIDE_H

#include <stdbool.h>

#include "engine/settle.h"

void settle_aside_init(struct settle *settle);

/* Whether the flush ended because a lock could not be had. */
bool settle_ran_into_lock(const struct batch_end *end);

/* After such a flush: the first n that wait were in it. */
void settle_set_aside(struct settle *settle, size_t n);

#endif
