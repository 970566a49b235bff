/* worker: putting loop, signals, hands and coordinator together, and taking them apart in the right
 * order. */
#include "cli/worker.h"

#include <signal.h>

#include "base/defer.h"
#include "pg/sync.h"
#include "store/job.h"
#include "store/statements.h"

#define POLL_MAX_MS      5000 /* how long a lost notification goes unnoticed */
#define POLL_MAX_DEAF_MS 1000 /* without notifications the poll is all there is */
#define CHECK_BYTES_MAX  (64 * 1024)

static const int stop_signals[] = {SIGTERM, SIGINT, SIGHUP};

static void close_handles(struct worker *worker)
{
    for (size_t i = 0; i < sizeof(stop_signals) / sizeof(*stop_signals); i++)
        uv_close((uv_handle_t *)&worker->signals[i], NULL);
    uv_close((uv_handle_t *)&worker->stats_signal, NULL);
    uv_close((uv_handle_t *)&worker->tick, NULL);
}

/* One event with everything that was counted. */
static void log_stats(struct worker *worker)
{
    const struct coordinator_stats *stats = coordinator_stats(worker->coordinator);
    struct coordinator_gauges gauges;

    coordinator_gauges(worker->coordinator, &gauges);
#define FIELD(name, what) LOG_INT(#name, stats->name),
#define GAUGE(name, what) LOG_INT(#name, gauges.name),
#define STAT_MEAN(name) \
    LOG_INT(#name "_us_mean", stats->name.n > 0 ? stats->name.total_us / stats->name.n : 0)
#define STAT_MAX(name) LOG_INT(#name "_us_max", stats->name.max_us)
    const struct log_field fields[] = {
        COORDINATOR_COUNTERS(FIELD) COORDINATOR_GAUGES(GAUGE) STAT_MEAN(claim),
        STAT_MAX(claim),
        STAT_MEAN(settle),
        STAT_MAX(settle),
        STAT_MEAN(renew),
        STAT_MAX(renew),
        STAT_MEAN(sweep),
        STAT_MAX(sweep),
    };
#undef FIELD
#undef GAUGE
#undef STAT_MEAN
#undef STAT_MAX

    log_write(
        worker->options->log, LOG_INFO, "worker_stats", fields, sizeof(fields) / sizeof(*fields));
}

static void on_stats_signal(uv_signal_t *handle, int signum)
{
    struct worker *worker = handle->data;

    (void)signum;
    if (worker->remote != NULL)
        remote_work_log(worker);
    else
        log_stats(worker);
}

static void on_hands_closed(void *data)
{
    close_handles(data);
}

void worker_stopped(struct worker *worker, size_t left)
{
    worker->left = left;
    if (worker->options->stats && worker->remote != NULL)
        remote_work_log(worker);
    else if (worker->options->stats)
        log_stats(worker);
    processes_close(worker->hands, on_hands_closed, worker);
}

static void on_stopped(void *data, size_t left)
{
    worker_stopped(data, left);
}

static void stop_source(struct worker *worker)
{
    worker->stopping = true;
    if (worker->remote != NULL)
        remote_work_stop(worker);
    else
        coordinator_stop(worker->coordinator);
}

void worker_stop(struct worker *worker)
{
    if (!worker->stopping)
        stop_source(worker);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct worker *worker = handle->data;

    log_info(worker->options->log,
             "signal",
             LOG_STR("name",
                     signum == SIGINT   ? "SIGINT"
                     : signum == SIGHUP ? "SIGHUP"
                                        : "SIGTERM"),
             LOG_STR("then",
                     worker->stopping ? "ending now" : "finishing what runs; once more ends it"));
    stop_source(worker);
}

static void on_started(void *data, const struct job *job)
{
    struct worker *worker = data;

    if (worker->options->started != NULL)
        worker->options->started(worker->options->data, job);
}

static void on_settled(void *data, const struct settled *settled)
{
    struct worker *worker = data;

    if (worker->options->settled != NULL)
        worker->options->settled(worker->options->data, settled);
}

static void on_tick(uv_timer_t *timer)
{
    struct worker *worker = timer->data;

    worker->options->tick(worker->options->data);
}

/* As nohup does, and a shell without job control for what it puts into the background. */
static bool is_ignored(int signum)
{
    struct sigaction action;

    return sigaction(signum, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void watch(struct worker *worker)
{
    for (size_t i = 0; i < sizeof(stop_signals) / sizeof(*stop_signals); i++) {
        uv_signal_init(&worker->loop, &worker->signals[i]);
        worker->signals[i].data = worker;
        if (!is_ignored(stop_signals[i]))
            uv_signal_start(&worker->signals[i], on_signal, stop_signals[i]);
    }
    uv_signal_init(&worker->loop, &worker->stats_signal);
    worker->stats_signal.data = worker;
    uv_signal_start(&worker->stats_signal, on_stats_signal, SIGUSR1);
    uv_timer_init(&worker->loop, &worker->tick);
    worker->tick.data = worker;
    if (worker->options->tick_ms > 0)
        uv_timer_start(&worker->tick, on_tick, 0, (uint64_t)worker->options->tick_ms);
}

static int64_t poll_max_ms(const struct worker_options *options)
{
    if (options->poll_max_ms > 0)
        return options->poll_max_ms;
    return options->unprepared ? POLL_MAX_DEAF_MS : POLL_MAX_MS;
}

static int open_hands(struct worker *worker, struct pawl_err *err)
{
    const struct worker_options *options = worker->options;

    worker->hands = processes_new(&worker->loop,
                                  &(struct processes_options){
                                      .handlers = options->handlers,
                                      .n_handlers = options->n_handlers,
                                      .log = options->log,
                                      .clock = &clock_system,
                                      .log_stderr = options->log_stderr,
                                  },
                                  err);
    return worker->hands != NULL ? 0 : err->code;
}

static int open_coordinator(struct worker *worker, struct pawl_err *err)
{
    const struct worker_options *options = worker->options;
    bool dynamic = options->min_concurrency > 0 && options->min_concurrency < options->concurrency;

    worker->coordinator = coordinator_new(
        &worker->loop,
        &(struct coordinator_options){
            .target = options->target,
            .queues = options->queues,
            .n_queues = options->n_queues,
            .hands = worker->hands,
            .concurrency = dynamic ? options->min_concurrency : options->concurrency,
            .max_concurrency = options->concurrency,
            .min_concurrency = options->min_concurrency,
            .rollout = options->rollout,
            .rollout_ms = options->rollout_ms,
            .memory_percent = options->memory_percent,
            .memory_machine_percent = options->memory_machine_percent,
            .breaker = {.percent = options->breaker_percent},
            .stall_ms = options->stall_ms,
            .prefetch = options->prefetch,
            .min_demand = options->min_demand,
            .jitter_ms = options->jitter_ms,
            .lease_ms = options->lease_ms,
            .poll_ms = options->poll_ms,
            .poll_max_ms = poll_max_ms(options),
            .drain_ms = options->drain_ms,
            .until_empty = options->until_empty,
            .unprepared = options->unprepared,
            .deaf = options->unprepared,
            .clock = &clock_system,
            .log = options->log,
            .started = on_started,
            .settled = on_settled,
            .stopped = on_stopped,
            .data = worker,
        },
        err);
    return worker->coordinator != NULL ? 0 : err->code;
}

static int open_parts(struct worker *worker, struct pawl_err *err)
{
    int rc = open_hands(worker, err);

    if (rc < 0)
        return rc;
    rc = worker->options->server != NULL ? remote_work_open(worker, err)
                                         : open_coordinator(worker, err);
    if (rc < 0)
        processes_close(worker->hands, NULL, NULL);
    return rc;
}

int worker_check(PGconn *conn, const struct worker_options *options, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    struct params params;
    struct job_claim nothing = {
        .queue = options->queues[0],
        .limit = 0,
        .token = uuid_random(),
        .worker = uuid_random(),
        .lease_ms = options->lease_ms,
    };

    arena_init(&arena, CHECK_BYTES_MAX);
    params_init(&params, &arena);
    job_claim_bind(&params, &nothing);
    return sync_exec(conn, STMT(job_claim), &params, NULL, err);
}

int worker_run(struct worker *worker, const struct worker_options *options, struct pawl_err *err)
{
    *worker = (struct worker){.options = options};
    int rc = uv_loop_init(&worker->loop);

    if (rc < 0)
        return err_set(err, PAWL_EFULL, "could not make an event loop: %s", uv_strerror(rc));
    rc = open_parts(worker, err);
    if (rc == 0) {
        watch(worker);
        if (worker->remote != NULL)
            remote_work_start(worker);
        else
            coordinator_start(worker->coordinator);
    }
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    coordinator_free(worker->coordinator);
    remote_work_free(worker);
    uv_loop_close(&worker->loop);
    if (rc == 0 && worker->err.code < 0) {
        *err = worker->err;
        return err->code;
    }
    if (rc == 0 && worker->left > 0) {
        bool one = worker->left == 1;

        err_set(err,
                PAWL_EINTERRUPTED,
                "stopped with %zu job%s unfinished",
                worker->left,
                one ? "" : "s");
        rc = err_hint(err,
                      "Another worker gets %s when %s lease has run out.",
                      one ? "it" : "them",
                      one ? "its" : "their");
    }
    return rc;
}
