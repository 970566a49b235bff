/*
 * stats: what a coordinator counts. Written by the coordinator's thread only; others get copies.
 * One table makes the struct and the names under which the numbers are shown.
 */
#ifndef ENGINE_STATS_H
#define ENGINE_STATS_H

#include <stddef.h>
#include <stdint.h>

/* X(name, what it counts) */
#define COORDINATOR_COUNTERS(X)                                                          \
    X(claims, "claims that succeeded, empty ones included")                              \
    X(claimed, "jobs claimed")                                                           \
    X(empty_claims, "claims that found nothing")                                         \
    X(short_claims, "claims that found less than was asked for")                         \
    X(claim_errors, "claims that failed")                                                \
    X(full_scans, "claims that started from the beginning of the queue")                 \
    X(notify_wakeups, "notifications for one of our queues")                             \
    X(poll_wakeups, "looks by the timer")                                                \
    X(settles, "settles that succeeded")                                                 \
    X(settle_errors, "settles that failed and were sent again")                          \
    X(settle_batch_max, "outcomes in the largest settle")                                \
    X(done, "jobs done")                                                                 \
    X(failed, "jobs failed for good")                                                    \
    X(parked, "jobs that wait for an operator now")                                      \
    X(retried, "jobs to be tried again")                                                 \
    X(snoozed, "jobs put off by their handler")                                          \
    X(cancelled, "jobs cancelled")                                                       \
    X(released, "jobs given back without having been started")                           \
    X(stale, "outcomes that came too late and counted for nothing")                      \
    X(resettled, "outcomes sent again after a commit of unknown fate and found settled") \
    X(renewals, "lease renewals")                                                        \
    X(lost_claims, "claims lost to others")                                              \
    X(swept, "jobs of dead workers taken back")

/* Time in the database's hands, from sending to the commit's answer. */
struct latency {
    uint64_t n;
    uint64_t total_us;
    uint64_t max_us;
};

#define COORDINATOR_STAT_FIELD(name, what) uint64_t name;

struct coordinator_stats {
    COORDINATOR_COUNTERS(COORDINATOR_STAT_FIELD)
    struct latency claim;
    struct latency settle;
    struct latency renew;
    struct latency sweep;
};

#undef COORDINATOR_STAT_FIELD

static inline void latency_add(struct latency *latency, int64_t us)
{
    uint64_t took_us = us > 0 ? (uint64_t)us : 0;

    latency->n++;
    latency->total_us += took_us;
    if (took_us > latency->max_us)
        latency->max_us = took_us;
}

#endif
