/*
 * stats: what a coordinator counts. Written by the coordinator's thread only; others get copies.
 * One table makes the struct and the names under which the numbers are shown.
 */
#ifndef ENGINE_STATS_H
#define ENGINE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/quantile.h"

/* X(name, what it counts) */
#define COORDINATOR_COUNTERS(X)                                                          \
    X(claims, "claims that succeeded, empty ones included")                              \
    X(claimed, "jobs claimed")                                                           \
    X(empty_claims, "claims that found nothing")                                         \
    X(short_claims, "claims that found less than was asked for")                         \
    X(claim_errors, "claims that failed")                                                \
    X(unclaimable, "jobs parked because their claim failed")                             \
    X(full_scans, "claims that started from the safe marks, or from the beginning")      \
    X(strays, "jobs found behind the marks: committed late")                             \
    X(missed_turns, "large claims that waited in vain for those of others to end")       \
    X(notify_wakeups, "notifications for one of our queues")                             \
    X(poll_wakeups, "looks by the timer")                                                \
    X(settles, "settles that succeeded")                                                 \
    X(settle_errors, "settles that failed and were sent again")                          \
    X(settle_locked, "outcomes set aside while others held rows they needed")            \
    X(settle_batch_max, "outcomes in the largest settle")                                \
    X(done, "jobs done")                                                                 \
    X(failed, "jobs failed for good")                                                    \
    X(parked, "jobs that wait for an operator now")                                      \
    X(retried, "jobs to be tried again")                                                 \
    X(steps, "steps of machines that went on")                                           \
    X(snoozed, "jobs put off by their handler")                                          \
    X(cancelled, "jobs cancelled")                                                       \
    X(released, "jobs given back without having been started")                           \
    X(stale, "outcomes that came too late and counted for nothing")                      \
    X(resettled, "outcomes sent again after a commit of unknown fate and found settled") \
    X(renewals, "lease renewals")                                                        \
    X(lost_claims, "claims lost to others")                                              \
    X(swept, "jobs of dead workers taken back")                                          \
    X(vacuums, "tables, or groups of them, vacuumed")                                    \
    X(statements, "statements sent to the database, of whatever kind")                   \
    X(errors_transient, "runs that ended in an error that may go away")                  \
    X(errors_permanent, "runs that ended in an error that will not")                     \
    X(errors_business, "runs that a rule of the business refused")                       \
    X(memory_closings, "times that claiming stopped because memory was tight")           \
    X(breaker_openings, "times that a kind was left alone because its runs failed")      \
    X(concurrency_changes, "times that the number of jobs at a time was changed")        \
    X(rollbacks, "rollouts that were taken back")                                        \
    X(overruns, "runs that went on long after their timeout")                            \
    X(stalls, "times that the coordinator's loop stood still")

/* Time in the database's hands, from sending to the commit's answer. */
struct latency {
    uint64_t n;
    uint64_t total_us;
    uint64_t max_us;
    struct quantile spread; /* in µs, since the start */
};

#define COORDINATOR_STAT_FIELD(name, what) uint64_t name;

struct coordinator_stats {
    COORDINATOR_COUNTERS(COORDINATOR_STAT_FIELD)
    struct latency claim;
    struct latency settle;
    struct latency renew;
    struct latency sweep;
    struct latency look; /* for strays */
};

#undef COORDINATOR_STAT_FIELD

/* What is the case now, or was lately. X(name, what it is) */
#define COORDINATOR_GAUGES(X)                                                          \
    X(concurrency, "jobs that may run at a time")                                      \
    X(running, "jobs in the hands")                                                    \
    X(buffered, "jobs claimed ahead of need")                                          \
    X(unsettled, "outcomes on their way to the database")                              \
    X(runs_per_minute, "runs that ended, over the last seconds")                       \
    X(run_p50_us, "how long runs took, in the last one to two minutes: median")        \
    X(run_p95_us, "95 of 100 did not take longer")                                     \
    X(run_p99_us, "99 of 100")                                                         \
    X(claim_p99_us, "99 of 100 claims, since the start")                               \
    X(settle_p99_us, "99 of 100 settles, since the start")                             \
    X(memory_bytes, "memory in use of the limit")                                      \
    X(memory_limit_bytes, "of the control group, or the machine; 0: not looked at")    \
    X(memory_rss_bytes, "of this process alone")                                       \
    X(memory_closed_ms, "how long claiming has been stopped for memory; 0: it is not") \
    X(breakers_open, "kinds that are left alone, or probed")

#define COORDINATOR_GAUGE_FIELD(name, what) int64_t name;

struct coordinator_gauges {
    COORDINATOR_GAUGES(COORDINATOR_GAUGE_FIELD)
};

#undef COORDINATOR_GAUGE_FIELD

static inline void latency_add(struct latency *latency, int64_t us)
{
    uint64_t took_us = us > 0 ? (uint64_t)us : 0;

    latency->n++;
    latency->total_us += took_us;
    if (took_us > latency->max_us)
        latency->max_us = took_us;
    quantile_add(&latency->spread, us);
}

#endif
