/* crew: starting, stopping and timing a coordinator with thread hands. */
#include "bench/crew.h"

#include <string.h>
#include <sys/resource.h>

#define DRAIN_MS     5000
#define WAIT_MOST_MS (10 * 60 * 1000)
#define LOOK_MS      20 /* how late the waiting thread may notice the end; nothing is timed by it */

static void do_nothing(void *data, struct task *task)
{
    (void)data;
    (void)task;
}

struct crew_options crew_fast(const struct target *target, struct log *log)
{
    return (struct crew_options){
        .target = target,
        .log = log,
        .queue = BENCH_QUEUE,
        .threads = CREW_THREADS,
        .ahead = CREW_AHEAD,
    };
}

static void on_settled(void *data, const struct settled *settled)
{
    struct crew *crew = data;

    if (settled->state == NULL) {
        crew->n_stale++;
        return;
    }
    crew->n_settled++;
    if (crew->options.time_last)
        crew->last_us = bench_now_us();
    if (crew->n_settled == crew->options.time_after)
        crew->begun_us = bench_now_us();
    if (crew->n_settled == crew->options.stop_after) {
        crew->reached_us = bench_now_us();
        uv_async_send(&crew->stop);
    }
}

static void close_handles(struct crew *crew)
{
    uv_close((uv_handle_t *)&crew->stop, NULL);
    uv_close((uv_handle_t *)&crew->look, NULL);
    uv_close((uv_handle_t *)&crew->look_timer, NULL);
}

static void on_hands_closed(void *data)
{
    close_handles(data);
}

static void on_stopped(void *data, size_t left)
{
    struct crew *crew = data;

    (void)left; /* they are stale at most, or the database is dropped with them */
    threads_close(crew->hands, on_hands_closed, crew);
}

static void on_stop(uv_async_t *async)
{
    struct crew *crew = async->data;

    coordinator_stop(crew->coordinator);
}

static void on_look(uv_async_t *async)
{
    struct crew *crew = async->data;

    crew->view = (struct crew_view){
        .n_settled = crew->n_settled,
        .last_us = crew->last_us,
        .stats = *coordinator_stats(crew->coordinator),
    };
    uv_sem_post(&crew->looked);
}

static void on_look_timer(uv_timer_t *timer)
{
    struct crew *crew = timer->data;

    coordinator_wake(crew->coordinator);
}

static void *crew_main(void *data)
{
    struct crew *crew = data;

    uint64_t look_ms = (uint64_t)crew->options.look_ms;

    coordinator_start(crew->coordinator);
    if (look_ms > 0)
        uv_timer_start(&crew->look_timer, on_look_timer, look_ms, look_ms);
    uv_run(&crew->loop, UV_RUN_DEFAULT);
    crew->stats = *coordinator_stats(crew->coordinator);
    coordinator_free(crew->coordinator);
    uv_loop_close(&crew->loop);
    atomic_store(&crew->over, true);
    return NULL;
}

static int open_parts(struct crew *crew, struct pawl_err *err)
{
    const struct crew_options *o = &crew->options;

    crew->handlers[0] = (struct threads_handler){
        .kind = BENCH_KIND, .fn = o->handler != NULL ? o->handler : do_nothing, .data = o->data};
    crew->queues[0] = o->queue;
    crew->hands = threads_new(&crew->loop,
                              &(struct threads_options){
                                  .handlers = crew->handlers,
                                  .n_handlers = 1,
                                  .threads = o->threads,
                                  .queue_max = o->ahead,
                                  .log = o->log,
                              },
                              err);
    if (crew->hands == NULL)
        return err->code;
    crew->coordinator = coordinator_new(&crew->loop,
                                        &(struct coordinator_options){
                                            .target = o->target,
                                            .queues = crew->queues,
                                            .n_queues = 1,
                                            .hands = crew->hands,
                                            .concurrency = o->threads,
                                            .prefetch = o->ahead,
                                            .lease_ms = CREW_LEASE_MS,
                                            .poll_ms = 200,
                                            .poll_max_ms = CREW_POLL_MAX_MS,
                                            .drain_ms = DRAIN_MS,
                                            .clock = &clock_system,
                                            .log = o->log,
                                            .settled = on_settled,
                                            .stopped = on_stopped,
                                            .data = crew,
                                        },
                                        err);
    return crew->coordinator != NULL ? 0 : err->code;
}

/* The loop, and how other threads get its attention. */
static int open_loop(struct crew *crew, struct pawl_err *err)
{
    int rc = uv_loop_init(&crew->loop);

    if (rc < 0)
        return err_set(err, PAWL_EFULL, "could not make an event loop: %s", uv_strerror(rc));
    rc = uv_sem_init(&crew->looked, 0);
    if (rc == 0) {
        rc = uv_async_init(&crew->loop, &crew->stop, on_stop);
        /* The first makes the loop's own pipe; the second only joins a list. */
        if (rc == 0)
            rc = uv_async_init(&crew->loop, &crew->look, on_look);
        if (rc < 0)
            uv_sem_destroy(&crew->looked);
    }
    if (rc < 0) {
        uv_loop_close(&crew->loop);
        return err_set(err, PAWL_EFULL, "could not make a wake-up: %s", uv_strerror(rc));
    }
    crew->stop.data = crew;
    crew->look.data = crew;
    uv_timer_init(&crew->loop, &crew->look_timer); /* cannot fail */
    crew->look_timer.data = crew;
    return 0;
}

int crew_start(struct crew *crew, const struct crew_options *options, struct pawl_err *err)
{
    *crew = (struct crew){.options = *options, .joined = true};
    int rc = open_loop(crew, err);

    if (rc < 0)
        return rc;
    crew->begun_us = bench_now_us();
    rc = open_parts(crew, err);
    if (rc == 0) {
        int errnum = pthread_create(&crew->thread, NULL, crew_main, crew);

        if (errnum == 0) {
            crew->joined = false;
            return 0;
        }
        rc = err_set_errno(err, errnum, "could not start a thread");
        coordinator_stop(crew->coordinator); /* closes the hands in turn */
    } else if (crew->hands != NULL) {
        threads_close(crew->hands, on_hands_closed, crew);
    } else {
        close_handles(crew);
    }
    uv_run(&crew->loop, UV_RUN_DEFAULT);
    coordinator_free(crew->coordinator);
    uv_loop_close(&crew->loop);
    uv_sem_destroy(&crew->looked);
    return rc;
}

void crew_look(struct crew *crew, struct crew_view *ret_view)
{
    uv_async_send(&crew->look);
    uv_sem_wait(&crew->looked);
    *ret_view = crew->view;
}

int crew_stop(struct crew *crew, struct pawl_err *err)
{
    if (crew->joined)
        return 0;
    if (!atomic_load(&crew->over))
        uv_async_send(&crew->stop);
    pthread_join(crew->thread, NULL);
    crew->joined = true;
    uv_sem_destroy(&crew->looked);
    if (crew->n_stale > 0)
        return err_set(err,
                       PAWL_ESTALE,
                       "%lld outcomes came too late: figures would mean nothing",
                       (long long)crew->n_stale);
    return 0;
}

int crew_wait(struct bench *b, struct crew *crew, int64_t most_ms, struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + most_ms * US_PER_MS;

    while (!atomic_load(&crew->over) && !b->interrupted && bench_now_us() < until_us)
        bench_sleep_ms(b, LOOK_MS);
    bool late = !atomic_load(&crew->over) && !b->interrupted;
    int rc = crew_stop(crew, err);

    if (rc == 0)
        rc = bench_go_on(b, err);
    if (rc == 0 && late)
        rc = err_set(err,
                     PAWL_ETIMEOUT,
                     "only %lld jobs were settled in %lld s",
                     (long long)crew->n_settled,
                     (long long)(most_ms / MS_PER_S));
    return rc;
}

double crew_seconds(const struct crew *crew)
{
    return (double)(crew->reached_us - crew->begun_us) / US_PER_S;
}

int crew_drain(struct bench *b,
               struct crew *crew,
               const struct crew_options *options,
               double *ret_rate,
               struct pawl_err *err)
{
    int rc = crew_start(crew, options, err);

    if (rc == 0)
        rc = crew_wait(b, crew, WAIT_MOST_MS, err);
    if (rc == 0) {
        *ret_rate = (double)(options->stop_after - options->time_after) / crew_seconds(crew);
        log_debug(options->log,
                  "bench_drain",
                  LOG_INT("rate", *ret_rate),
                  LOG_INT("claims", crew->stats.claims),
                  LOG_INT("claim_us", crew->stats.claim.total_us),
                  LOG_INT("full_scans", crew->stats.full_scans),
                  LOG_INT("settles", crew->stats.settles),
                  LOG_INT("settle_us", crew->stats.settle.total_us));
    }
    return rc;
}

int64_t crew_cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage); /* cannot fail with these arguments */
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * (int64_t)US_PER_S +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}
