/*
 * floor: the least that a queue on these tables can cost: the engine's own claim statement on one
 * connection and a bare DELETE on another, side by side, in a loop that does nothing else. No
 * threads, no hands, no leases, no history. Blocking.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "bench/bench.h"

/* Claims and deletes n jobs of the queue. ret_rate: jobs a second, connecting included. */
int floor_drain(struct bench *b, int64_t n, int32_t batch, double *ret_rate, struct pawl_err *err)
    MUST_CHECK;

#endif
