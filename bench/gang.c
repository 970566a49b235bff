/* gang: remote workers by the dozen. */
#include "bench/gang.h"

#include <stdlib.h>

#include "hands/threads.h"

#define LEASE_MS   30000
#define DRAIN_MS   5000
#define LOOK_MS    10
#define CONNECT_MS 60000
#define RUNS_MAX   16384 /* at once in hands that do nothing */

/* Hands that are done with a run as soon as it is handed over. */
struct idle_hands {
    struct hands hands; /* first */
    struct run **runs;  /* owned; until flush */
    size_t n;
};

struct gang_worker {
    struct gang *gang;
    struct remote *remote;
    struct hands *threads; /* or: */
    struct idle_hands idle;
    bool taken;
};

static const char *const kinds[] = {BENCH_KIND, NULL};
static const char *const queues[] = {BENCH_QUEUE};

static int idle_run(struct hands *hands, struct run *run, struct pawl_err *err)
{
    struct idle_hands *idle = (struct idle_hands *)(void *)hands;

    if (idle->n == RUNS_MAX)
        return err_set(err, PAWL_EFULL, "too many at once");
    idle->runs[idle->n++] = run;
    return 0;
}

static void idle_flush(struct hands *hands)
{
    struct idle_hands *idle = (struct idle_hands *)(void *)hands;

    while (idle->n > 0)
        hands->finished(
            hands->finished_data, idle->runs[--idle->n], &(struct outcome){.kind = OUTCOME_DONE});
}

static void idle_stop(struct hands *hands, struct run *run, enum stop_reason reason)
{
    (void)hands;
    (void)run;
    (void)reason;
}

static const char *const *idle_kinds(struct hands *hands)
{
    (void)hands;
    return kinds;
}

static const struct hands_ops idle_ops = {
    .run = idle_run, .flush = idle_flush, .stop = idle_stop, .kinds = idle_kinds};

static void do_nothing(void *data, struct task *task)
{
    (void)data;
    (void)task;
}

/* --- the gang's thread --- */

static void count_taken(struct gang_worker *worker)
{
    if (worker->taken || !remote_is_taken(worker->remote))
        return;
    worker->taken = true;
    atomic_fetch_add(&worker->gang->n_taken, 1);
}

static void on_started(void *data, const struct job *job)
{
    struct gang_worker *worker = data;

    if (worker->gang->options.started != NULL)
        worker->gang->options.started(worker->gang->options.data, job);
}

static void on_settled(void *data, const struct settled *settled)
{
    struct gang_worker *worker = data;
    struct gang *gang = worker->gang;

    if (settled->state == NULL) {
        gang->n_stale++;
        return;
    }
    gang->n_settled++;
    if (gang->n_settled == gang->options.time_after)
        gang->begun_us = bench_now_us();
    if (gang->n_settled == gang->options.stop_after) {
        gang->reached_us = bench_now_us();
        uv_async_send(&gang->stop);
    }
}

static void on_worker_closed(void *data)
{
    struct gang *gang = data;

    if (--gang->n_open == 0)
        uv_close((uv_handle_t *)&gang->stop, NULL);
}

static void on_stopped(void *data, size_t left, const struct pawl_err *err)
{
    struct gang_worker *worker = data;
    struct gang *gang = worker->gang;

    (void)left;
    if (err != NULL && gang->err.code == 0)
        gang->err = *err;
    gang->n_reports += remote_stats(worker->remote)->reports;
    if (worker->threads != NULL)
        threads_close(worker->threads, on_worker_closed, gang);
    else
        on_worker_closed(gang);
}

static void on_stop(uv_async_t *async)
{
    struct gang *gang = async->data;

    for (size_t i = 0; i < gang->options.workers; i++)
        remote_stop(gang->workers[i].remote);
}

static void on_turn(uv_prepare_t *turn)
{
    struct gang *gang = turn->data;

    for (size_t i = 0; i < gang->options.workers; i++)
        count_taken(&gang->workers[i]);
    if (atomic_load(&gang->n_taken) == gang->options.workers || gang->err.code < 0)
        uv_close((uv_handle_t *)turn, NULL);
}

static void *gang_main(void *data)
{
    struct gang *gang = data;
    uv_prepare_t turn;

    uv_prepare_init(&gang->loop, &turn);
    turn.data = gang;
    uv_prepare_start(&turn, on_turn);
    uv_unref((uv_handle_t *)&turn);
    for (size_t i = 0; i < gang->options.workers; i++)
        remote_start(gang->workers[i].remote);
    uv_run(&gang->loop, UV_RUN_DEFAULT);
    if (!uv_is_closing((uv_handle_t *)&turn))
        uv_close((uv_handle_t *)&turn, NULL);
    uv_run(&gang->loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < gang->options.workers; i++) {
        remote_free(gang->workers[i].remote);
        free(gang->workers[i].idle.runs);
    }
    uv_loop_close(&gang->loop);
    atomic_store(&gang->over, true);
    return NULL;
}

/* --- the caller's --- */

static int open_worker(struct gang *gang, struct gang_worker *worker, struct pawl_err *err)
{
    const struct gang_options *o = &gang->options;
    struct hands *hands = &worker->idle.hands;

    worker->gang = gang;
    if (o->threads > 0) {
        const struct threads_handler handler = {.kind = BENCH_KIND, .fn = do_nothing};

        worker->threads = threads_new(&gang->loop,
                                      &(struct threads_options){.handlers = &handler,
                                                                .n_handlers = 1,
                                                                .threads = o->threads,
                                                                .queue_max = o->prefetch,
                                                                .log = o->log},
                                      err);
        if (worker->threads == NULL)
            return err->code;
        hands = worker->threads;
    } else {
        worker->idle = (struct idle_hands){.hands = {.ops = &idle_ops}};
        worker->idle.runs = calloc(RUNS_MAX, sizeof(*worker->idle.runs));
        if (worker->idle.runs == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    worker->remote = remote_new(&gang->loop,
                                &(struct remote_options){.server = o->server,
                                                         .queues = queues,
                                                         .n_queues = 1,
                                                         .hands = hands,
                                                         .concurrency = o->concurrency,
                                                         .prefetch = o->prefetch,
                                                         .lease_ms = LEASE_MS,
                                                         .drain_ms = DRAIN_MS,
                                                         .clock = &clock_system,
                                                         .log = o->log,
                                                         .started = on_started,
                                                         .settled = on_settled,
                                                         .stopped = on_stopped,
                                                         .data = worker},
                                err);
    return worker->remote != NULL ? 0 : err->code;
}

int gang_start(struct bench *b,
               struct gang *gang,
               const struct gang_options *options,
               struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + CONNECT_MS * US_PER_MS;
    int rc = 0;

    *gang = (struct gang){.options = *options, .joined = true, .begun_us = bench_now_us()};
    gang->workers = calloc(options->workers, sizeof(*gang->workers));
    if (gang->workers == NULL || uv_loop_init(&gang->loop) < 0)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    uv_async_init(&gang->loop, &gang->stop, on_stop);
    gang->stop.data = gang;
    /* What cannot be opened here ends the benchmark, and what is open by then goes with the process. */
    for (size_t i = 0; rc == 0 && i < options->workers; i++)
        rc = open_worker(gang, &gang->workers[i], err);
    if (rc < 0)
        return rc;
    gang->n_open = options->workers;
    int errnum = pthread_create(&gang->thread, NULL, gang_main, gang);

    if (errnum != 0)
        return err_set_errno(err, errnum, "could not start a thread");
    gang->joined = false;
    while (rc == 0 && atomic_load(&gang->n_taken) < options->workers && !atomic_load(&gang->over)) {
        rc = bench_go_on(b, err);
        if (rc == 0 && bench_now_us() > until_us)
            rc = err_set(err, PAWL_ETIMEOUT, "the workers did not get connected");
        if (rc == 0)
            bench_sleep_ms(b, 1);
    }
    if (rc < 0) {
        struct pawl_err ignored;

        (void)!gang_stop(gang, &ignored);
    }
    return rc;
}

int gang_stop(struct gang *gang, struct pawl_err *err)
{
    if (gang->joined)
        return 0;
    if (!atomic_load(&gang->over))
        uv_async_send(&gang->stop);
    pthread_join(gang->thread, NULL);
    gang->joined = true;
    free(gang->workers);
    gang->workers = NULL;
    if (gang->err.code < 0) {
        *err = gang->err;
        return err->code;
    }
    if (gang->n_stale > 0)
        return err_set(err,
                       PAWL_ESTALE,
                       "%lld outcomes came too late: figures would mean nothing",
                       (long long)gang->n_stale);
    return 0;
}

int gang_wait(struct bench *b, struct gang *gang, int64_t most_ms, struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + most_ms * US_PER_MS;

    while (!atomic_load(&gang->over) && !b->interrupted && bench_now_us() < until_us)
        bench_sleep_ms(b, LOOK_MS);
    bool late = !atomic_load(&gang->over) && !b->interrupted;
    int rc = gang_stop(gang, err);

    if (rc == 0)
        rc = bench_go_on(b, err);
    if (rc == 0 && late)
        rc = err_set(err,
                     PAWL_ETIMEOUT,
                     "only %lld jobs were settled in %lld s",
                     (long long)gang->n_settled,
                     (long long)(most_ms / MS_PER_S));
    return rc;
}

double gang_rate(const struct gang *gang)
{
    return (double)(gang->options.stop_after - gang->options.time_after) * US_PER_S /
           (double)(gang->reached_us - gang->begun_us);
}
