/* worker_database: a worker whose jobs come from a database: a coordinator (engine/coordinator.h). The loop's thread, but for
 * from_options. */
#include <string.h>

#include "base/defer.h"
#include "client/job.h"
#include "lib/worker.h"
#include "pg/sync.h"
#include "store/migrate.h"

#define GAUGE_EVERY_MS 100

/* NULL: what the environment says, and where that is silent what libpq takes by itself. A program's
 * jobs never go to the private PostgreSQL of `pawl` by accident. */
static int from_options(struct pawl_worker *worker, struct pawl_err *err)
{
    const char *conninfo = worker->options.conninfo;

    worker->options.conninfo = NULL; /* the target has all of it */
    if (conninfo != NULL && *conninfo == '\0')
        return err_set(err, PAWL_EINVAL, "the connection string is empty");
    if (conninfo != NULL)
        return target_set(&worker->target, &worker->arena, TARGET_CALLER, conninfo, err);
    int rc = target_resolve(&worker->target, &worker->arena, NULL, err);

    if (rc == 0 && worker->target.source == TARGET_PRIVATE)
        rc = target_set(&worker->target, &worker->arena, TARGET_PG_VARIABLES, "", err);
    return rc;
}

static int check_database(struct pawl_worker *worker, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = sync_connect(&worker->target, &conn, err);

    if (rc == 0)
        rc = schema_check(conn, err);
    if (rc == 0)
        rc = client_claim_try(conn, worker->options.queues[0], worker->options.lease_ms, err);
    if (rc == PAWL_EDENIED && strcmp(err->sqlstate, "42501") == 0) {
        const char *user = target_value(&worker->target, "user");

        err_hint(err,
                 "Connect as another user, or have an administrator of the database run: GRANT "
                 "pawl_worker TO %s%s%s",
                 user != NULL ? "\"" : "",
                 user != NULL ? user : "this user",
                 user != NULL ? "\"" : "");
    }
    return rc;
}

/* ---- its life */

static int make_coordinator(struct pawl_worker *worker, struct pawl_err *err)
{
    const struct pawl_worker_options *o = &worker->options;

    worker->coordinator =
        coordinator_new(&worker->loop,
                        &(struct coordinator_options){
                            .target = &worker->target,
                            .queues = o->queues,
                            .n_queues = o->n_queues,
                            .hands = worker->hands,
                            .concurrency = worker->concurrency,
                            .max_concurrency = o->max_concurrency,
                            .min_concurrency = o->min_concurrency,
                            .prefetch = o->prefetch,
                            .min_demand = o->min_demand,
                            .lease_ms = o->lease_ms,
                            .poll_ms = o->poll_ms,
                            .poll_max_ms = o->poll_max_ms,
                            .jitter_ms = o->jitter_ms,
                            .drain_ms = o->drain_ms,
                            .until_empty = o->until_empty,
                            .unprepared = o->pooled,
                            .deaf = o->pooled,
                            .memory_percent = (int)o->memory_max_percent,
                            .memory_machine_percent = (int)o->memory_machine_max_percent,
                            .breaker = {.percent = (int)o->breaker_percent},
                            .stall_ms = o->watchdog_ms > 0 ? o->watchdog_ms : 0,
                            .rollout = o->rollout,
                            .rollout_ms = o->rollout_watch_ms,
                            .clock = &clock_system,
                            .log = &worker->log,
                            .settled = o->settled != NULL ? worker_on_settled : NULL,
                            .stopped = worker_source_stopped,
                            .data = worker,
                        },
                        err);
    return worker->coordinator != NULL ? 0 : err->code;
}

/* The coordinator changes the number by itself, too. */
static void on_follow(uv_prepare_t *prepare)
{
    struct pawl_worker *worker = prepare->data;
    const struct coordinator_stats *stats = coordinator_stats(worker->coordinator);
    struct coordinator_gauges gauges;

    if (worker->hands == NULL || stats->concurrency_changes == worker->changes_followed)
        return;
    worker->changes_followed = stats->concurrency_changes;
    coordinator_gauges(worker->coordinator, &gauges);
    if (worker->threads != NULL)
        threads_set_limit(worker->threads, (size_t)gauges.concurrency);
}

static int start(struct pawl_worker *worker, struct pawl_err *err)
{
    (void)err;
    coordinator_start(worker->coordinator);
    uv_prepare_start(&worker->follow, on_follow);
    return 0;
}

static void stop(struct pawl_worker *worker)
{
    coordinator_stop(worker->coordinator);
}

static void turn(struct pawl_worker *worker)
{
    coordinator_turn(worker->coordinator);
}

static void wake(struct pawl_worker *worker)
{
    coordinator_wake(worker->coordinator);
}

static void note(struct pawl_worker *worker, struct run *run, const char *text)
{
    coordinator_note(worker->coordinator, run, text);
}

static void set_concurrency(struct pawl_worker *worker, unsigned concurrency, bool guarded)
{
    struct pawl_err err = {0};
    int rc = guarded ? coordinator_rollout(worker->coordinator, concurrency, 0, &err)
                     : coordinator_set_concurrency(worker->coordinator, concurrency, &err);

    if (rc < 0)
        log_error_err(&worker->log, "worker_concurrency", &err, LOG_INT("asked", concurrency));
}

static void free_coordinator(struct pawl_worker *worker)
{
    coordinator_free(worker->coordinator);
    worker->coordinator = NULL;
}

/* ---- counters */

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

static void publish(struct pawl_worker *worker, bool all)
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

const struct worker_source worker_database = {
    .from_options = from_options,
    .check = check_database,
    .make = make_coordinator,
    .start = start,
    .stop = stop,
    .turn = turn,
    .wake = wake,
    .note = note,
    .set_concurrency = set_concurrency,
    .publish = publish,
    .free = free_coordinator,
};
