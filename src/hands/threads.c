/* threads: two mailboxes, a pool between them. */
#include "hands/threads.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <stdatomic.h>

#include "engine/mailbox.h"

#define COLLECT_MAX 256 /* reports taken out of the mailbox at a time */

struct pool;

struct task {
    struct task *next_free; /* while nobody needs it; the loop's thread */
    struct run *run;        /* lent by the coordinator */
    const struct threads_handler *handler;
    const struct clock *clock;
    atomic_bool should_stop;
    struct outcome outcome;
    char *text; /* owned: the result or the error */
    int64_t started_us;
};

struct pool {
    struct hands hands; /* first: the coordinator's view */
    struct log *log;
    const struct clock *clock;
    struct threads_handler *handlers; /* owned */
    const char **kinds;               /* owned; NULL-terminated */
    size_t n_handlers;
    pthread_t *threads; /* owned */
    size_t n_threads;
    struct task *tasks; /* owned array: as many as may be here at a time */
    size_t n_tasks;
    struct task *free_tasks;
    void **gathered; /* owned; tasks that wait for flush */
    size_t n_gathered;
    struct mailbox todo;     /* struct task *, coordinator to threads */
    struct mailbox finished; /* struct task *, threads to coordinator; as large as todo */
    uv_async_t wake;
    bool closing;
    void (*closed)(void *data);
    void *closed_data;
};

const struct job *task_job(const struct task *task)
{
    return &task->run->job;
}

bool task_should_stop(const struct task *task)
{
    int64_t timeout_ms = task->run->job.timeout_ms;

    if (atomic_load_explicit(&task->should_stop, memory_order_relaxed))
        return true;
    return timeout_ms > 0 && clock_mono_us(task->clock) - task->started_us > timeout_ms * US_PER_MS;
}

static void
set(struct task *task, enum outcome_kind kind, const void *text, size_t len, int64_t delay_ms)
{
    char *copy = NULL;

    if (text != NULL) {
        copy = malloc(len + 1);
        if (copy == NULL) {
            /* Without its result it is not done. */
            kind = kind == OUTCOME_DONE ? OUTCOME_RETRY : kind;
        } else {
            memcpy(copy, text, len);
            copy[len] = '\0';
        }
    }
    free(task->text);
    task->text = copy;
    task->outcome = (struct outcome){.kind = kind, .delay_ms = delay_ms};
    if (kind == OUTCOME_DONE) {
        task->outcome.result = copy;
        task->outcome.result_len = copy != NULL ? len : 0;
    } else {
        task->outcome.error = copy;
    }
}

void task_done(struct task *task, const void *result, size_t len)
{
    set(task, OUTCOME_DONE, result, len, -1);
}

void task_retry(struct task *task, const char *error, int64_t delay_ms)
{
    set(task, OUTCOME_RETRY, error, error != NULL ? strlen(error) : 0, delay_ms);
}

void task_fail(struct task *task, const char *error)
{
    set(task, OUTCOME_FAIL, error, error != NULL ? strlen(error) : 0, -1);
}

void task_reject(struct task *task, const char *error)
{
    set(task, OUTCOME_REJECT, error, error != NULL ? strlen(error) : 0, -1);
}

void task_snooze(struct task *task, int64_t delay_ms)
{
    set(task, OUTCOME_SNOOZE, NULL, 0, delay_ms);
}

void task_cancel(struct task *task)
{
    set(task, OUTCOME_CANCEL, NULL, 0, -1);
}

/* The loop's thread, like task_put. NULL: all are in use. */
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
    task->next_free = pool->free_tasks;
    pool->free_tasks = task;
}

static void report(struct pool *pool, struct task *task)
{
    void *item = task;
    bool was_empty;

    /* It cannot be full: it holds as many as are taken at all. */
    size_t n = mailbox_put(&pool->finished, &item, 1, &was_empty);

    assert(n == 1);
    (void)n;
    if (was_empty)
        uv_async_send(&pool->wake);
}

/* The next one to run, and the time at which it starts: that is when the last one ended, unless it
 * had to be waited for. */
static struct task *next_task(struct pool *pool, int64_t *now_us)
{
    void *item;

    if (*now_us != 0 && mailbox_take(&pool->todo, &item, 1) == 1)
        return item;
    item = mailbox_wait(&pool->todo);
    *now_us = clock_mono_us(pool->clock);
    return item;
}

static void *thread_main(void *data)
{
    struct pool *pool = data;
    struct task *task;
    int64_t now_us = 0;

    while ((task = next_task(pool, &now_us)) != NULL) {
        task->started_us = now_us;
        if (atomic_load_explicit(&task->should_stop, memory_order_relaxed)) {
            /* Lost or cancelled while it waited: another worker may have it by now. */
            task->outcome = (struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1};
        } else {
            task->handler->fn(task->handler->data, task);
            now_us = clock_mono_us(pool->clock);
            task->outcome.run_us = now_us - task->started_us;
        }
        report(pool, task);
    }
    return NULL;
}

static struct pool *pool_of(struct hands *hands)
{
    return (struct pool *)(void *)hands;
}

static void hand_over(struct pool *pool, struct task *task)
{
    pool->hands.finished(pool->hands.finished_data, task->run, &task->outcome);
    task_put(pool, task);
}

static void collect(struct pool *pool)
{
    void *items[COLLECT_MAX];
    size_t n;

    while ((n = mailbox_take(&pool->finished, items, COLLECT_MAX)) > 0) {
        for (size_t i = 0; i < n; i++)
            hand_over(pool, items[i]);
    }
}

static void on_wake(uv_async_t *wake)
{
    collect(wake->data);
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
    task->clock = pool->clock;
    task->outcome = (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1};
    atomic_store_explicit(&task->should_stop, false, memory_order_relaxed);
    run->hands_data = task;
    pool->gathered[pool->n_gathered++] = task;
    return 0;
}

static void threads_flush(struct hands *hands)
{
    struct pool *pool = pool_of(hands);
    /* It cannot be full: it holds as many as there are tasks. */
    size_t n = mailbox_put(&pool->todo, pool->gathered, pool->n_gathered, NULL);

    assert(n == pool->n_gathered);
    (void)n;
    pool->n_gathered = 0;
}

static void threads_stop(struct hands *hands, struct run *run, enum stop_reason reason)
{
    struct task *task = run->hands_data;

    (void)hands;
    (void)reason;
    atomic_store_explicit(&task->should_stop, true, memory_order_relaxed);
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

        task->outcome = (struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1};
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
    for (size_t i = 0; i < pool->n_tasks; i++)
        free(pool->tasks[i].text);
    free(pool->tasks);
    free(pool->gathered);
    free(pool->handlers);
    free(pool->kinds);
    free(pool->threads);
    free(pool);
}

/* Signals belong to the program's own threads. */
static int start_threads(struct pool *pool, size_t n, struct pawl_err *err)
{
    sigset_t all;
    sigset_t before;
    int rc = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (rc == 0 && pool->n_threads < n) {
        rc = pthread_create(&pool->threads[pool->n_threads], NULL, thread_main, pool);
        pool->n_threads += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0
                   : err_set_errno(
                         err, rc, "could not start thread %zu of %zu", pool->n_threads + 1, n);
}

static void join_threads(struct pool *pool)
{
    mailbox_close(&pool->todo);
    for (size_t i = 0; i < pool->n_threads; i++)
        pthread_join(pool->threads[i], NULL);
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
    for (size_t i = most; i > 0; i--)
        task_put(pool, &pool->tasks[i - 1]);
    for (size_t i = 0; i < n; i++) {
        rc = name_check("kind", options->handlers[i].kind, err);
        if (rc < 0)
            return rc;
        if (find(pool, options->handlers[i].kind) != NULL)
            return err_set(err, PAWL_EINVAL, "kind %s has two handlers", options->handlers[i].kind);
        pool->handlers[i] = options->handlers[i];
        pool->kinds[i] = options->handlers[i].kind;
        pool->n_handlers++;
    }
    return start_threads(pool, options->threads, err);
}

struct hands *
threads_new(uv_loop_t *loop, const struct threads_options *options, struct pawl_err *err)
{
    struct pool *pool = calloc(1, sizeof(*pool));

    assert(options->threads > 0);
    if (pool == NULL) {
        err_set(err, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    pool->hands.ops = &ops;
    pool->hands.queue_max = options->queue_max;
    pool->log = options->log;
    pool->clock = options->clock != NULL ? options->clock : &clock_system;
    if (fill_pool(pool, options, err) < 0) {
        if (pool->n_threads > 0)
            join_threads(pool);
        pool_free(pool);
        return NULL;
    }
    int rc = uv_async_init(loop, &pool->wake, on_wake);

    if (rc < 0) {
        join_threads(pool);
        pool_free(pool);
        err_set(err, PAWL_EFULL, "could not make a wake-up: %s", uv_strerror(rc));
        return NULL;
    }
    pool->wake.data = pool;
    return &pool->hands;
}

static void on_closed(uv_handle_t *handle)
{
    struct pool *pool = handle->data;
    void (*closed)(void *data) = pool->closed;
    void *data = pool->closed_data;

    pool_free(pool);
    if (closed != NULL)
        closed(data);
}

void threads_close(struct hands *hands, void (*closed)(void *data), void *data)
{
    struct pool *pool = pool_of(hands);

    assert(!pool->closing);
    pool->closing = true;
    pool->closed = closed;
    pool->closed_data = data;
    threads_recall(hands);
    join_threads(pool);
    collect(pool);
    uv_close((uv_handle_t *)&pool->wake, on_closed);
}
