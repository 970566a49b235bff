/* worker_stats: what the loop's thread counts, copied for others to look at; and the number of
 * handlers that run at a time. */
#include <string.h>

#include "lib/lib.h"
#include "lib/worker.h"

#define GAUGE_EVERY_MS 100

/* What has a name: all that is counted, the gauges, and how long the database took. */
#define NAME(name, what) #name,
#define TIMES(X)         X(claim) X(settle) X(renew) X(sweep)
#define TIME_NAMES(name) #name "_us_mean", #name "_us_max",

static const char *const local_names[] = {COORDINATOR_COUNTERS(NAME) COORDINATOR_GAUGES(NAME)
                                              TIMES(TIME_NAMES)};

_Static_assert(sizeof(local_names) / sizeof(*local_names) <= WORKER_VALUES_MAX, "they fit");

#define ONE(name, what) +1

enum { N_COUNTERS = 0 COORDINATOR_COUNTERS(ONE), N_GAUGES = 0 COORDINATOR_GAUGES(ONE) };

static void name_values(int64_t *values,
                        const struct coordinator_stats *stats,
                        const struct coordinator_gauges *gauges)
{
    int64_t *to = values;

#define COUNTER(name, what) *to++ = (int64_t)stats->name;
#define GAUGE(name, what)   *to++ = gauges->name;
#define TIME(name)                                                                   \
    *to++ = stats->name.n > 0 ? (int64_t)(stats->name.total_us / stats->name.n) : 0; \
    *to++ = (int64_t)stats->name.max_us;
    COORDINATOR_COUNTERS(COUNTER)
    to = values + N_COUNTERS + N_GAUGES;
    TIMES(TIME)
    if (gauges == NULL)
        return;
    to = values + N_COUNTERS;
    COORDINATOR_GAUGES(GAUGE)
#undef COUNTER
#undef GAUGE
#undef TIME
}

static void copy_counters(struct pawl_stats *to, const struct coordinator_stats *from)
{
    to->claims = from->claims;
    to->claimed = from->claimed;
    to->empty_claims = from->empty_claims;
    to->short_claims = from->short_claims;
    to->claim_errors = from->claim_errors;
    to->notify_wakeups = from->notify_wakeups;
    to->poll_wakeups = from->poll_wakeups;
    to->settles = from->settles;
    to->settle_batch_max = from->settle_batch_max;
    to->settle_errors = from->settle_errors;
    to->done = from->done;
    to->retried = from->retried;
    to->failed = from->failed;
    to->parked = from->parked;
    to->snoozed = from->snoozed;
    to->cancelled = from->cancelled;
    to->released = from->released;
    to->stale = from->stale;
    to->expired = from->swept;
    to->renewals = from->renewals;
    to->lost_claims = from->lost_claims;
    to->full_scans = from->full_scans;
    to->errors_transient = from->errors_transient;
    to->errors_permanent = from->errors_permanent;
    to->errors_business = from->errors_business;
    to->rollbacks = from->rollbacks;
    to->stalls = from->stalls;
    to->memory_closings = from->memory_closings;
    to->breaker_openings = from->breaker_openings;
    to->steps = from->steps;
}

static void copy_gauges(struct pawl_stats *to, const struct coordinator_gauges *from)
{
    to->concurrency = (unsigned)from->concurrency;
    to->run_p50_us = (uint64_t)from->run_p50_us;
    to->run_p95_us = (uint64_t)from->run_p95_us;
    to->run_p99_us = (uint64_t)from->run_p99_us;
    to->claim_p99_us = (uint64_t)from->claim_p99_us;
    to->settle_p99_us = (uint64_t)from->settle_p99_us;
    to->throughput = (double)from->runs_per_minute / 60;
    to->memory_bytes = (uint64_t)from->memory_bytes;
    to->memory_limit_bytes = (uint64_t)from->memory_limit_bytes;
    to->memory_gate_closed = from->memory_closed_ms > 0;
    to->breakers_open = (unsigned)from->breakers_open;
}

static void publish_local(struct pawl_worker *worker, bool all)
{
    struct coordinator *c = worker->coordinator;
    const struct coordinator_stats *stats = coordinator_stats(c);
    struct pawl_stats *to = &worker->stats;
    size_t handed_out = coordinator_running(c);
    uint64_t now_ms = uv_now(&worker->loop);
    struct coordinator_gauges gauges;
    /* Working out the gauges takes some microseconds, too many for every turn of a busy loop. */
    bool gauge = all || now_ms - worker->gauged_ms >= GAUGE_EVERY_MS ||
                 stats->concurrency_changes != worker->changes_published;

    if (gauge) {
        worker->gauged_ms = now_ms;
        worker->changes_published = stats->concurrency_changes;
        coordinator_gauges(c, &gauges);
    }
    pthread_mutex_lock(&worker->mutex);
    copy_counters(to, stats);
    if (gauge)
        copy_gauges(to, &gauges);
    name_values(worker->values, stats, gauge ? &gauges : NULL);
    worker->value_names = local_names;
    worker->n_values = sizeof(local_names) / sizeof(*local_names);
    /* Threads notice sooner than the coordinator. */
    if (worker->threads != NULL)
        to->overruns = threads_overruns(worker->threads);
    else if (worker->n_commands == worker->n_handlers)
        to->overruns = stats->overruns;
    /* Those beyond wait for a thread. */
    to->running = (unsigned)(handed_out < to->concurrency ? handed_out : to->concurrency);
    to->buffered = (unsigned)(handed_out - to->running);
    pthread_mutex_unlock(&worker->mutex);
}

void worker_publish(struct pawl_worker *worker, bool all)
{
    if (worker->remote != NULL)
        worker_remote_publish(worker);
    else
        publish_local(worker, all);
}

void pawl_worker_stats(struct pawl_worker *worker, struct pawl_stats *stats)
{
    if (worker == NULL || stats == NULL || worker_own(worker, NULL) < 0)
        return;
    size_t size = stats->size < sizeof(*stats) ? stats->size : sizeof(*stats);

    pthread_mutex_lock(&worker->mutex);
    if (size > sizeof(stats->size))
        memcpy((char *)stats + sizeof(stats->size),
               (const char *)&worker->stats + sizeof(stats->size),
               size - sizeof(stats->size));
    pthread_mutex_unlock(&worker->mutex);
}

void pawl_worker_stats_each(struct pawl_worker *worker, pawl_stat_fn fn, void *data)
{
    int64_t values[WORKER_VALUES_MAX];

    if (worker == NULL || fn == NULL || worker_own(worker, NULL) < 0)
        return;
    pthread_mutex_lock(&worker->mutex);
    const char *const *names = worker->value_names;
    size_t n = worker->n_values;

    memcpy(values, worker->values, n * sizeof(*values));
    pthread_mutex_unlock(&worker->mutex);
    for (size_t i = 0; i < n; i++)
        fn(data, names[i], values[i]);
}

void worker_apply_concurrency(struct pawl_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    bool changed = worker->concurrency_changed;
    unsigned concurrency = worker->concurrency;
    bool guarded = worker->guarded;
    struct pawl_err err = {0};

    worker->concurrency_changed = false;
    pthread_mutex_unlock(&worker->mutex);
    if (!changed || worker->hands == NULL)
        return;
    /* First the threads: what the coordinator hands out next is already bound by it. */
    if (worker->threads != NULL)
        threads_set_limit(worker->threads, concurrency);
    if (worker->remote != NULL) {
        worker_remote_set_concurrency(worker, concurrency);
        return;
    }
    int rc = guarded ? coordinator_rollout(worker->coordinator, concurrency, 0, &err)
                     : coordinator_set_concurrency(worker->coordinator, concurrency, &err);

    if (rc < 0)
        log_error_err(&worker->log, "worker_concurrency", &err, LOG_INT("asked", concurrency));
}

void worker_follow_concurrency(struct pawl_worker *worker)
{
    const struct coordinator_stats *stats = coordinator_stats(worker->coordinator);
    struct coordinator_gauges gauges;

    if (worker->hands == NULL || stats->concurrency_changes == worker->changes_followed)
        return;
    worker->changes_followed = stats->concurrency_changes;
    coordinator_gauges(worker->coordinator, &gauges);
    if (worker->threads != NULL)
        threads_set_limit(worker->threads, (size_t)gauges.concurrency);
}

int pawl_worker_set_concurrency(struct pawl_worker *worker,
                                unsigned concurrency,
                                bool guarded,
                                struct pawl_err *err)
{
    if (worker == NULL)
        return lib_null("pawl_worker_set_concurrency", "worker", err);
    int rc = worker_own(worker, err);

    if (rc < 0)
        return rc;
    if (concurrency == 0 || concurrency > worker->options.max_concurrency)
        return err_set(
            err,
            PAWL_EINVAL,
            "a concurrency of %u is not between 1 and the worker's max_concurrency of %u",
            concurrency,
            worker->options.max_concurrency);
    pthread_mutex_lock(&worker->mutex);
    if (worker->state == WORKER_STOPPED) {
        rc = err_set(err, PAWL_ESTATE, "the worker has stopped");
    } else {
        worker->concurrency = concurrency;
        worker->guarded = guarded;
        worker->concurrency_changed = true;
    }
    pthread_mutex_unlock(&worker->mutex);
    if (rc == 0)
        uv_async_send(&worker->call);
    return rc;
}
