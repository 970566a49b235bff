/*
 * arrivals: how long single jobs take from their commit to a worker that has nothing else to do: one after the other, each noted by the
 * worker's own thread when it comes.
 */
#ifndef BENCH_ARRIVALS_H
#define BENCH_ARRIVALS_H

#include <stdatomic.h>

#include "bench/singles.h"
#include "core/job.h"

struct arrivals {
    atomic_int_least64_t at_us; /* when the job that was sent last came; 0: not yet */
    double *ms;                 /* owned */
    size_t n;
    size_t max;
};

int arrivals_init(struct arrivals *a, size_t max, struct pawl_err *err) MUST_CHECK;
void arrivals_deinit(struct arrivals *a);

/* For `started` of a gang; data is the arrivals. */
void arrivals_note(void *data, const struct job *job);
/* Sends and waits until there are `max` of them, in place of those before. */
int arrivals_measure(struct bench *b,
                     struct arrivals *a,
                     struct single *single,
                     struct pawl_err *err) MUST_CHECK;
/* In ms. */
double arrivals_percentile(const struct arrivals *a, int percent);

#endif
