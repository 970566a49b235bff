/* worker: made, given its handlers, freed. How it lives in between is in worker_life.c. */
#include "lib/worker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/lib.h"

#define ARENA_MAX           (4 * 1024 * 1024)
#define QUEUES_MAX          1000
#define HANDLERS_MAX        1000
#define CONCURRENCY_MAX     10000
#define PREFETCH_MAX        100000
#define LEASE_MIN_MS        100 /* a few renewals have to fit in */
#define DAY_MS              ((int64_t)24 * 60 * 60 * MS_PER_S)
#define LEASE_MAX_MS        DAY_MS
#define TIME_MAX_MS         (10 * 366 * DAY_MS) /* more is a mistake */

#define CONCURRENCY_DEFAULT 4
#define LEASE_DEFAULT_MS    30000
#define POLL_DEFAULT_MS     200
#define POLL_MAX_DEFAULT_MS 5000
#define POLL_MAX_POOLED_MS  1000 /* without notifications the poll is all there is */
#define DRAIN_DEFAULT_MS    25000
#define WATCHDOG_DEFAULT_MS 30000
#define WATCHDOG_MIN_MS     100 /* it must turn several times within it */

int worker_own(const struct pawl_worker *worker, struct pawl_err *err)
{
    if (worker->pid == getpid())
        return 0;
    err_set(err, PAWL_ESTATE, "cannot use a worker of the parent process after fork()");
    err_hint(err, "Make a worker of its own in the child.");
    return PAWL_ESTATE;
}

static int
check_ms(const char *what, int64_t ms, int64_t min_ms, int64_t max_ms, struct pawl_err *err)
{
    if (ms >= min_ms && ms <= max_ms)
        return 0;
    return err_set(err,
                   PAWL_EINVAL,
                   "%s of %lld ms is not between %lld and %lld ms",
                   what,
                   (long long)ms,
                   (long long)min_ms,
                   (long long)max_ms);
}

static int check_most(const char *what, uint64_t n, uint64_t most, struct pawl_err *err)
{
    if (n <= most)
        return 0;
    return err_set(err,
                   PAWL_EINVAL,
                   "%s of %llu is more than the %llu there may be",
                   what,
                   (unsigned long long)n,
                   (unsigned long long)most);
}

static void fill_in(struct pawl_worker_options *o)
{
    if (o->concurrency == 0)
        o->concurrency = CONCURRENCY_DEFAULT;
    if (o->max_concurrency == 0)
        o->max_concurrency = o->rollout > o->concurrency ? o->rollout : o->concurrency;
    if (o->lease_ms == 0)
        o->lease_ms = LEASE_DEFAULT_MS;
    if (o->poll_ms == 0)
        o->poll_ms = POLL_DEFAULT_MS;
    if (o->poll_max_ms == 0) {
        o->poll_max_ms = o->pooled ? POLL_MAX_POOLED_MS : POLL_MAX_DEFAULT_MS;
        if (o->poll_max_ms < o->poll_ms)
            o->poll_max_ms = o->poll_ms;
    }
    if (o->drain_ms == 0)
        o->drain_ms = DRAIN_DEFAULT_MS;
    if (o->watchdog_ms == 0)
        o->watchdog_ms = WATCHDOG_DEFAULT_MS;
    if (o->memory_machine_max_percent == 0)
        o->memory_machine_max_percent = o->memory_max_percent;
}

/* Numbers that say what to do, or go together. */
static int check_choices(const struct pawl_worker_options *o, struct pawl_err *err)
{
    if (o->rollout > 0 && o->rollout <= o->concurrency)
        return err_set(err,
                       PAWL_EINVAL,
                       "rollout of %u is not above the concurrency of %u",
                       o->rollout,
                       o->concurrency);
    if (o->rollout > 0 && o->min_concurrency > 0)
        return err_set(err, PAWL_EINVAL, "rollout and min_concurrency do not go together");
    if (o->log_level < PAWL_LOG_INFO || o->log_level > PAWL_LOG_ERROR)
        return err_set(err, PAWL_EINVAL, "%d is no log_level", (int)o->log_level);
    if (o->log_format < PAWL_LOG_JSON || o->log_format > PAWL_LOG_COLOR)
        return err_set(err, PAWL_EINVAL, "%d is no log_format", (int)o->log_format);
    return 0;
}

static int check_numbers(const struct pawl_worker_options *o, struct pawl_err *err)
{
    const struct {
        const char *what;
        uint64_t n, most;
    } numbers[] = {
        {"max_concurrency", o->max_concurrency, CONCURRENCY_MAX},
        {"concurrency", o->concurrency, o->max_concurrency},
        {"min_concurrency", o->min_concurrency, o->concurrency},
        {"rollout", o->rollout, o->max_concurrency},
        {"prefetch", o->prefetch, PREFETCH_MAX},
        {"min_demand", o->min_demand, PREFETCH_MAX},
        {"memory_max_percent", o->memory_max_percent, 100},
        {"memory_machine_max_percent", o->memory_machine_max_percent, 100},
        {"breaker_percent", o->breaker_percent, 100},
        {"n_queues", o->n_queues, QUEUES_MAX},
    };

    const struct {
        const char *what;
        int64_t ms, min_ms, max_ms;
    } times[] = {
        {"lease_ms", o->lease_ms, LEASE_MIN_MS, LEASE_MAX_MS},
        {"poll_ms", o->poll_ms, 1, TIME_MAX_MS},
        {"poll_max_ms", o->poll_max_ms, o->poll_ms, TIME_MAX_MS},
        {"jitter_ms", o->jitter_ms, 0, TIME_MAX_MS},
        {"drain_ms", o->drain_ms, 1, TIME_MAX_MS},
        {"watchdog_ms", o->watchdog_ms, o->watchdog_ms == -1 ? -1 : WATCHDOG_MIN_MS, TIME_MAX_MS},
        {"rollout_watch_ms", o->rollout_watch_ms, 0, TIME_MAX_MS},
        {"kill_ms", o->kill_ms, 0, TIME_MAX_MS},
    };

    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(numbers) / sizeof(*numbers); i++)
        rc = check_most(numbers[i].what, numbers[i].n, numbers[i].most, err);
    for (size_t i = 0; rc == 0 && i < sizeof(times) / sizeof(*times); i++)
        rc = check_ms(times[i].what, times[i].ms, times[i].min_ms, times[i].max_ms, err);
    return rc < 0 ? rc : check_choices(o, err);
}

/* Copies of what the caller may change or free. */
static int copy_queues(struct pawl_worker *worker, struct pawl_err *err)
{
    struct pawl_worker_options *o = &worker->options;
    static const char *const default_queue[] = {"default"};
    const char *const *from = o->n_queues > 0 ? o->queues : default_queue;
    size_t n = o->n_queues > 0 ? o->n_queues : 1;
    const char **queues = arena_new_array(&worker->arena, n, const char *);

    if (from == NULL)
        return lib_null("pawl_worker_new", "queues", err);
    if (queues == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        if (from[i] == NULL)
            return lib_null("pawl_worker_new", "one of the queues", err);
        int rc = name_check("queue", from[i], err);

        if (rc < 0)
            return rc;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(from[i], queues[j]) == 0)
                return err_set(err, PAWL_EINVAL, "queue %s is named twice", from[i]);
        }
        queues[i] = arena_strdup(&worker->arena, from[i]);
        if (queues[i] == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    o->queues = queues;
    o->n_queues = n;
    return 0;
}

static void set_log(struct pawl_worker *worker)
{
    static const enum log_level levels[] = {LOG_INFO, LOG_DEBUG, LOG_WARN, LOG_ERROR};
    const struct pawl_worker_options *o = &worker->options;

    worker->log = (struct log){
        .fd = -1,
        .level = o->log != NULL ? levels[o->log_level] : LOG_OFF,
        .format = o->log_format == PAWL_LOG_JSON ? LOG_JSON : LOG_TEXT,
        .color = o->log_format == PAWL_LOG_COLOR,
        .clock = &clock_system,
        .sink = o->log,
        .sink_data = o->log_data,
    };
}

static int
fill(struct pawl_worker *worker, const struct pawl_worker_options *options, struct pawl_err *err)
{
    struct pawl_worker_options *o = &worker->options;
    int rc = 0;

    if (options != NULL)
        rc = lib_struct_read(o,
                             sizeof(*o),
                             offsetof(struct pawl_worker_options, conninfo),
                             options,
                             "pawl_worker_options",
                             err);
    if (rc == 0) {
        fill_in(o);
        rc = check_numbers(o, err);
    }
    worker->source = o->server != NULL ? &worker_server : &worker_database;
    if (rc == 0)
        rc = copy_queues(worker, err);
    if (rc == 0)
        rc = worker->source->from_options(worker, err);
    worker->concurrency = o->concurrency;
    if (rc == 0)
        set_log(worker);
    return rc;
}

static void on_call(uv_async_t *call)
{
    struct pawl_worker *worker = call->data;

    if (!worker->open)
        return; /* not yet, or no more */
    unsigned stops = atomic_load(&worker->stops);

    for (; worker->stops_passed_on < 2 && worker->stops_passed_on < stops;
         worker->stops_passed_on++)
        worker->source->stop(worker);
    if (atomic_exchange(&worker->wake, false) && worker->source->wake != NULL)
        worker->source->wake(worker);
    worker_apply_concurrency(worker);
}

/* None of its handles keeps the loop alive: that is the coordinator's and the hands' to do. */
static int make_loop(struct pawl_worker *worker, struct pawl_err *err)
{
    int rc = uv_loop_init(&worker->loop);

    if (rc < 0)
        return err_set(err,
                       rc == UV_ENOMEM ? PAWL_ENOMEM : PAWL_EFULL,
                       "could not make an event loop: %s",
                       uv_strerror(rc));
    rc = uv_async_init(&worker->loop, &worker->call, on_call);
    if (rc < 0) {
        uv_loop_close(&worker->loop);
        return err_set(err, PAWL_EFULL, "could not make a wake-up: %s", uv_strerror(rc));
    }
    uv_prepare_init(&worker->loop, &worker->follow);
    uv_prepare_init(&worker->loop, &worker->publish);
    uv_check_init(&worker->loop, &worker->follow_up);
    worker->call.data = worker;
    worker->follow.data = worker;
    worker->publish.data = worker;
    worker->follow_up.data = worker;
    uv_unref((uv_handle_t *)&worker->call);
    uv_unref((uv_handle_t *)&worker->follow);
    uv_unref((uv_handle_t *)&worker->publish);
    uv_unref((uv_handle_t *)&worker->follow_up);
    return 0;
}

static void forget_source(struct pawl_worker *worker)
{
    if (worker->source->forget != NULL)
        worker->source->forget(worker);
}

int pawl_worker_new(const struct pawl_worker_options *options,
                    struct pawl_worker **ret_worker,
                    struct pawl_err *err)
{
    if (ret_worker == NULL)
        return lib_null("pawl_worker_new", "ret_worker", err);
    struct pawl_worker *worker = calloc(1, sizeof(*worker));

    if (worker == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    worker->pid = getpid();
    arena_init(&worker->arena, ARENA_MAX);
    int rc = fill(worker, options, err);

    if (rc == 0)
        rc = make_loop(worker, err);
    if (rc < 0) {
        forget_source(worker);
        arena_deinit(&worker->arena);
        free(worker);
        return rc;
    }
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&worker->mutex, NULL);
    worker->stats.size = sizeof(worker->stats);
    worker->stats.concurrency = worker->concurrency;
    *ret_worker = worker;
    return 0;
}

/* Kind and command are copied. */
static int
add_handler(struct pawl_worker *worker, const struct worker_handler *wanted, struct pawl_err *err)
{
    const char *kind = wanted->kind;

    if (worker->state != WORKER_NEW)
        return err_set(err, PAWL_ESTATE, "cannot add a handler to a worker that was started");
    for (const struct worker_handler *h = worker->handlers; h != NULL; h = h->next) {
        if (strcmp(h->kind, kind) == 0)
            return err_set(err, PAWL_EEXIST, "kind %s has a handler already", kind);
    }
    if (worker->n_handlers == HANDLERS_MAX)
        return err_set(err, PAWL_ELIMIT, "a worker has at most %d handlers", HANDLERS_MAX);
    struct worker_handler *handler = arena_new(&worker->arena, struct worker_handler);
    const char *command = wanted->command;

    if (handler != NULL) {
        *handler = *wanted;
        handler->next = worker->handlers;
        handler->worker = worker;
        handler->kind = arena_strdup(&worker->arena, kind);
        handler->command = command != NULL ? arena_strdup(&worker->arena, command) : NULL;
    }
    if (handler == NULL || handler->kind == NULL || (command != NULL && handler->command == NULL))
        return err_set(err, PAWL_ENOMEM, "out of memory");
    worker->handlers = handler;
    worker->n_handlers++;
    worker->n_commands += command != NULL;
    return 0;
}

static int
add(struct pawl_worker *worker, const struct worker_handler *handler, struct pawl_err *err)
{
    int rc = worker_own(worker, err);

    if (rc == 0)
        rc = kind_check(handler->kind, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&worker->mutex);
    rc = add_handler(worker, handler, err);
    pthread_mutex_unlock(&worker->mutex);
    return rc;
}

int pawl_worker_handle(struct pawl_worker *worker,
                       const char *kind,
                       pawl_handler_fn fn,
                       void *data,
                       struct pawl_err *err)
{
    if (worker == NULL || kind == NULL || fn == NULL)
        return lib_null("pawl_worker_handle",
                        worker == NULL ? "worker"
                        : kind == NULL ? "kind"
                                       : "the handler",
                        err);
    return add(worker, &(struct worker_handler){.kind = kind, .fn = fn, .data = data}, err);
}

int pawl_worker_exec(struct pawl_worker *worker,
                     const char *kind,
                     const char *command,
                     struct pawl_err *err)
{
    if (worker == NULL || kind == NULL || command == NULL)
        return lib_null("pawl_worker_exec",
                        worker == NULL ? "worker"
                        : kind == NULL ? "kind"
                                       : "the command",
                        err);
    if (command[strspn(command, " \t\n")] == '\0')
        return err_set(err, PAWL_EINVAL, "the command for kind %s is empty", kind);
    return add(worker, &(struct worker_handler){.kind = kind, .command = command}, err);
}

/* Until it has stopped, whoever drives its loop. */
static void end(struct pawl_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    bool threaded = worker->threaded;
    bool working = worker->state == WORKER_WORKING;
    pthread_mutex_unlock(&worker->mutex);

    if (working)
        pawl_worker_stop(worker);
    if (threaded) {
        pthread_join(worker->loop_thread, NULL);
    } else if (working) {
        uv_run(&worker->loop, UV_RUN_DEFAULT);
        worker_close(worker);
    }
}

void pawl_worker_free(struct pawl_worker *worker)
{
    /* A child cannot end its parent's threads, nor a handler itself: better a leak than a deadlock. */
    if (worker == NULL || worker_own(worker, NULL) < 0 || worker_in_handler(worker))
        return;
    end(worker);
    uv_close((uv_handle_t *)&worker->call, NULL);
    uv_close((uv_handle_t *)&worker->follow, NULL);
    uv_close((uv_handle_t *)&worker->publish, NULL);
    uv_close((uv_handle_t *)&worker->follow_up, NULL);
    uv_run(&worker->loop, UV_RUN_DEFAULT);
    uv_loop_close(&worker->loop);
    pthread_mutex_destroy(&worker->mutex);
    pthread_cond_destroy(&worker->changed);
    forget_source(worker);
    arena_deinit(&worker->arena);
    free(worker);
}
