/* threads: two mailboxes, and a pool between them. */
#include "hands/threads.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "hands/threads_internal.h"

#define COLLECT_MAX          256              /* reports taken out of the mailbox at a time */
#define TIMEOUT_WATCH_MAX_MS (60 * 60 * 1000) /* longer timeouts are checked every hour */

/* Loop's thread, like task_put. NULL: all are in use. */
static struct task *task_get(struct pool *pool)
{
    struct task *task = pool->free_tasks;

    if (task != NULL)
        pool->free_tasks = task->next_free;
    return task;
}

static void task_put(struct pool *pool, struct task *task)
{
    free(task->text);
    task->text = NULL;
    free(atomic_exchange(&task->progress, NULL));
    task->next_free = pool->free_tasks;
    pool->free_tasks = task;
}

static struct pool *pool_of(struct hands *hands)
{
    return (struct pool *)(void *)hands;
}

/* Once for a run, as a warning: only the handler can end it. Until the handler has returned its
 * thread may write to task->overran, so the caller passes the value. */
static void tell_overrun(struct pool *pool, struct task *task, bool returned)
{
    const struct job *job = &task->run->job;

    if (task->overrun_told)
        return;
    task->overrun_told = true;
    pool->n_overruns++;
    log_error(pool->log,
              "job_overrun",
              LOG_INT("job", job->id),
              LOG_STR("kind", job->kind),
              LOG_INT("attempt", job->attempt),
              LOG_INT("timeout_ms", job->timeout_ms),
              LOG_STR("why",
                      returned ? "the handler returned after its timeout; it counts as a retry"
                               : "the handler runs past its timeout; it was told to stop, "
                                 "and its slot is free when it returns"));
}

static void tell_progress(struct pool *pool, struct task *task)
{
    char *text = atomic_exchange(&task->progress, NULL);

    if (text != NULL && pool->progress != NULL)
        pool->progress(pool->data, task->run, text);
    free(text);
}

static void hand_over(struct pool *pool, struct task *task)
{
    if (task->overran)
        tell_overrun(pool, task, true);
    tell_progress(pool, task);
    if (task->run->job.timeout_ms > 0 && --pool->n_timed == 0)
        uv_timer_stop(&pool->timer);
    pool->hands.finished(pool->hands.finished_data, task->run, &task->outcome);
    task_put(pool, task);
}

static void collect(struct pool *pool)
{
    void *items[COLLECT_MAX] __attribute__((uninitialized));
    size_t n;

    while ((n = mailbox_take(&pool->finished, items, COLLECT_MAX)) > 0) {
        for (size_t i = 0; i < n; i++)
            hand_over(pool, items[i]);
    }
}

/* Running tasks. A task that ended meanwhile is still in the pool, so reading it is safe. */
static void collect_progress(struct pool *pool)
{
    if (!atomic_exchange(&pool->progressed, false))
        return;
    for (size_t i = 0; i < pool->n_threads; i++) {
        struct task *task = atomic_load_explicit(&pool->threads[i].current, memory_order_acquire);

        if (task != NULL)
            tell_progress(pool, task);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    int64_t now_us = clock_mono_us(pool->clock);
    /* A task that waits for its thread begins now at the earliest. */
    int64_t next_us = now_us + pool->least_timeout_ms * US_PER_MS;

    for (size_t i = 0; i < pool->n_threads; i++) {
        struct task *task = atomic_load_explicit(&pool->threads[i].current, memory_order_acquire);
        int64_t deadline_us = task != NULL
                                  ? atomic_load_explicit(&task->deadline_us, memory_order_relaxed)
                                  : DEADLINE_NONE;

        if (deadline_us == DEADLINE_NONE)
            continue;
        if (task_expire(task, now_us))
            tell_overrun(pool, task, false);
        else if (deadline_us < next_us)
            next_us = deadline_us;
    }
    uv_timer_start(timer, on_timer, (uint64_t)((next_us - now_us) / US_PER_MS + 1), 0);
}

/* A run with a timeout is checked when the timeout may be over. */
static void watch(struct pool *pool, int64_t timeout_ms)
{
    if (timeout_ms <= 0)
        return;
    if (timeout_ms > TIMEOUT_WATCH_MAX_MS)
        timeout_ms = TIMEOUT_WATCH_MAX_MS;
    if (pool->n_timed++ == 0 || timeout_ms < pool->least_timeout_ms)
        pool->least_timeout_ms = timeout_ms;
    if (!uv_is_active((uv_handle_t *)&pool->timer) ||
        uv_timer_get_due_in(&pool->timer) > (uint64_t)timeout_ms)
        uv_timer_start(&pool->timer, on_timer, (uint64_t)timeout_ms + 1, 0);
}

static const struct threads_handler *find(const struct pool *pool, const char *kind)
{
    for (size_t i = 0; i < pool->n_handlers; i++) {
        if (strcmp(pool->handlers[i].kind, kind) == 0)
            return &pool->handlers[i];
    }
    return NULL;
}

static int threads_run(struct hands *hands, struct run *run, struct pawl_err *err)
{
    struct pool *pool = pool_of(hands);
    const struct threads_handler *handler = find(pool, run->job.kind);

    if (handler == NULL)
        return err_set(err, PAWL_ENOTFOUND, "there is no handler for kind %s", run->job.kind);
    if (pool->closing)
        return err_set(err, PAWL_ESTATE, "the threads are being closed");
    struct task *task = task_get(pool);

    if (task == NULL)
        return err_set(err, PAWL_EFULL, "all threads are busy and their mailbox is full");
    task->run = run;
    task->handler = handler;
    task->outcome = (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1};
    task->overran = false;
    task->overrun_told = false;
    atomic_store_explicit(&task->stop, 0, memory_order_relaxed);
    atomic_store_explicit(&task->deadline_us, DEADLINE_NONE, memory_order_relaxed);
    run->hands_data = task;
    watch(pool, run->job.timeout_ms);
    pool->gathered[pool->n_gathered++] = task;
    return 0;
}

static void threads_flush(struct hands *hands)
{
    struct pool *pool = pool_of(hands);
    /* The mailbox cannot be full: it has room for all tasks. */
    size_t n = mailbox_put(&pool->todo, pool->gathered, pool->n_gathered, NULL);

    assert(n == pool->n_gathered);
    (void)n;
    pool->n_gathered = 0;
}

static void threads_stop(struct hands *hands, struct run *run, enum stop_reason reason)
{
    struct task *task = run->hands_data;

    int none = 0;

    (void)hands;
    /* The first reason stands, except that a lost claim replaces every other. */
    if (reason == STOP_LOST)
        atomic_store_explicit(&task->stop, STOP_LOST + 1, memory_order_relaxed);
    else
        atomic_compare_exchange_strong(&task->stop, &none, (int)reason + 1);
}

static const char *const *threads_kinds(struct hands *hands)
{
    return pool_of(hands)->kinds;
}

static void threads_recall(struct hands *hands)
{
    struct pool *pool = pool_of(hands);
    void *item;

    threads_flush(hands);
    while (mailbox_take(&pool->todo, &item, 1) == 1) {
        struct task *task = item;

        task_release(task);
        hand_over(pool, task);
    }
}

static const struct hands_ops ops = {
    .run = threads_run,
    .flush = threads_flush,
    .stop = threads_stop,
    .kinds = threads_kinds,
    .recall = threads_recall,
};

static void pool_free(struct pool *pool)
{
    if (pool->todo.ring != NULL)
        mailbox_deinit(&pool->todo);
    if (pool->finished.ring != NULL)
        mailbox_deinit(&pool->finished);
    for (size_t i = 0; i < pool->n_tasks; i++) {
        free(pool->tasks[i].text);
        free(atomic_load(&pool->tasks[i].progress));
    }
    pthread_mutex_destroy(&pool->aside);
    pthread_cond_destroy(&pool->changed);
    free(pool->tasks);
    free(pool->gathered);
    free(pool->handlers);
    free(pool->kinds);
    free(pool->threads);
    free(pool);
}

/* Signals belong to the threads of the program. */
static int start_threads(struct pool *pool, size_t n, struct pawl_err *err)
{
    sigset_t all;
    sigset_t before;
    int rc = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (rc == 0 && pool->n_threads < n) {
        struct thread *thread = &pool->threads[pool->n_threads];

        thread->pool = pool;
        thread->index = pool->n_threads;
        rc = pthread_create(&thread->id, NULL, thread_main, thread);
        pool->n_threads += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0
                   : err_set_errno(
                         err, rc, "could not start thread %zu of %zu", pool->n_threads + 1, n);
}

static void let_go(struct pool *pool)
{
    mailbox_close(&pool->todo);
    pthread_mutex_lock(&pool->aside);
    pool->letting_go = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->aside);
}

static void join_threads(struct pool *pool)
{
    for (size_t i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i].id, NULL);
    pool->n_threads = 0;
}

static int fill_pool(struct pool *pool, const struct threads_options *options, struct pawl_err *err)
{
    size_t n = options->n_handlers;
    size_t most = options->threads + options->queue_max;
    int rc = mailbox_init(&pool->todo, most, err);

    if (rc == 0)
        rc = mailbox_init(&pool->finished, most, err);
    if (rc < 0)
        return rc;
    pool->tasks = calloc(most, sizeof(*pool->tasks));
    pool->gathered = calloc(most, sizeof(*pool->gathered));
    pool->handlers = calloc(n, sizeof(*pool->handlers));
    pool->kinds = calloc(n + 1, sizeof(*pool->kinds));
    pool->threads = calloc(options->threads, sizeof(*pool->threads));
    if (pool->handlers == NULL || pool->kinds == NULL || pool->threads == NULL ||
        pool->tasks == NULL || pool->gathered == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    pool->n_tasks = most;
    for (size_t i = most; i > 0; i--) {
        pool->tasks[i - 1].pool = pool;
        task_put(pool, &pool->tasks[i - 1]);
    }
    for (size_t i = 0; i < n; i++) {
        rc = kind_check(options->handlers[i].kind, err);
        if (rc < 0)
            return rc;
        if (find(pool, options->handlers[i].kind) != NULL)
            return err_set(err, PAWL_EINVAL, "kind %s has two handlers", options->handlers[i].kind);
        pool->handlers[i] = options->handlers[i];
        pool->kinds[i] = options->handlers[i].kind;
        pool->n_handlers++;
    }
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct pool *pool = handle->data;
    void (*closed)(void *data) = pool->closed;
    void *data = pool->closed_data;

    if (--pool->n_closing > 0)
        return;
    pool_free(pool);
    if (closed != NULL)
        closed(data);
}

static void close_handles(struct pool *pool)
{
    pool->n_closing = 2;
    uv_close((uv_handle_t *)&pool->wake, on_closed);
    uv_close((uv_handle_t *)&pool->timer, on_closed);
}

static void on_wake(uv_async_t *wake)
{
    struct pool *pool = wake->data;

    collect_progress(pool);
    collect(pool);
    if (!pool->closing || pool->n_closing > 0 || atomic_load(&pool->n_ended) < pool->n_threads)
        return;
    /* All threads are past their last task, so no join waits. */
    join_threads(pool);
    collect(pool);
    close_handles(pool);
}

struct hands *
threads_new(uv_loop_t *loop, const struct threads_options *options, struct pawl_err *err)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    assert(options->threads > 0 && options->limit <= options->threads);
    if (pool == NULL) {
        err_set(err, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    pool->hands.ops = &ops;
    pool->hands.queue_max = options->queue_max;
    pool->log = options->log;
    pool->clock = options->clock != NULL ? options->clock : &clock_system;
    pool->progress = options->progress;
    pool->data = options->data;
    atomic_store(&pool->limit, options->limit > 0 ? options->limit : options->threads);
    pthread_mutex_init(&pool->aside, NULL);
    pthread_cond_init(&pool->changed, NULL);
    if (fill_pool(pool, options, err) < 0) {
        pool_free(pool);
        return NULL;
    }
    int rc = uv_async_init(loop, &pool->wake, on_wake);

    if (rc < 0) {
        pool_free(pool);
        err_set(err, PAWL_EFULL, "could not make a wake-up: %s", uv_strerror(rc));
        return NULL;
    }
    uv_timer_init(loop, &pool->timer);
    pool->wake.data = pool;
    pool->timer.data = pool;
    if (start_threads(pool, options->threads, err) < 0) {
        let_go(pool);
        join_threads(pool);
        close_handles(pool); /* freed by the loop's next turn */
        return NULL;
    }
    return &pool->hands;
}

void threads_set_limit(struct hands *hands, size_t limit)
{
    struct pool *pool = pool_of(hands);

    assert(limit > 0 && limit <= pool->n_threads);
    if (limit == atomic_load(&pool->limit))
        return;
    pthread_mutex_lock(&pool->aside);
    atomic_store(&pool->limit, limit);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->aside);
}

uint64_t threads_overruns(const struct hands *hands)
{
    return ((const struct pool *)(const void *)hands)->n_overruns;
}

void threads_close(struct hands *hands, void (*closed)(void *data), void *data)
{
    struct pool *pool = pool_of(hands);

    assert(!pool->closing);
    pool->closing = true;
    pool->closed = closed;
    pool->closed_data = data;
    threads_recall(hands);
    let_go(pool); /* each thread that ends wakes the loop */
}
