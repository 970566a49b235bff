/*
 * served: a `pawl serve` of this very binary in a process of its own, on the database of the benchmark. The caller's thread.
 */
#ifndef BENCH_SERVED_H
#define BENCH_SERVED_H

#include <sys/types.h>

#include "bench/bench.h"
#include "remote/address.h"

struct served {
    pid_t pid; /* 0: none */
    int from;  /* its standard output */
    struct address address;
};

/* Returns when it listens and its database answers. served_stop is due for it in any case. */
int served_start(struct bench *b, struct served *ret_served, struct pawl_err *err) MUST_CHECK;
/* SIGTERM, and waits. Whether it ended well. */
int served_stop(struct served *served, struct pawl_err *err) MUST_CHECK;

/* The same after a measurement that came to rc: the first error counts. */
int served_finish(struct served *served, int rc, struct pawl_err *err) MUST_CHECK;

/* Empty tables with so many jobs in them. */
int served_prepare(struct bench *b, int64_t jobs, struct pawl_err *err) MUST_CHECK;

int64_t served_rss_kb(const struct served *served);
int64_t served_cpu_us(const struct served *served);

#endif
