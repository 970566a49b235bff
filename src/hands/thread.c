/* thread: one thread of the pool: takes a task, runs its handler, reports it. */
#include <assert.h>

#include "hands/threads_internal.h"

static void report(struct pool *pool, struct task *task)
{
    void *item = task;
    bool was_empty;

    /* The mailbox cannot be full: it has room for all tasks. */
    size_t n = mailbox_put(&pool->finished, &item, 1, &was_empty);

    assert(n == 1);
    (void)n;
    if (was_empty)
        uv_async_send(&pool->wake);
}

/* Waits until the thread may run jobs, or all threads are let go. */
static void sit_out(struct thread *thread)
{
    struct pool *pool = thread->pool;

    if (thread->index < atomic_load(&pool->limit))
        return;
    pthread_mutex_lock(&pool->aside);
    while (thread->index >= atomic_load(&pool->limit) && !pool->letting_go)
        pthread_cond_wait(&pool->changed, &pool->aside);
    pthread_mutex_unlock(&pool->aside);
}

void task_release(struct task *task)
{
    task->outcome = (struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1};
}

/* The limit was lowered while this thread waited: another thread takes the task. */
static void pass_on(struct pool *pool, struct task *task)
{
    void *item = task;

    if (mailbox_put(&pool->todo, &item, 1, NULL) == 1)
        return;
    task_release(task); /* all threads are let go */
    report(pool, task);
}

/* The next task, and the time at which it starts: the end of the last one, unless the thread had
 * to wait. */
static struct task *next_task(struct thread *thread, int64_t *now_us)
{
    struct pool *pool = thread->pool;
    void *item;

    for (;;) {
        sit_out(thread);
        if (*now_us != 0 && mailbox_take(&pool->todo, &item, 1) == 1)
            return item;
        item = mailbox_wait(&pool->todo);
        *now_us = clock_mono_us(pool->clock);
        if (item == NULL || thread->index < atomic_load(&pool->limit))
            return item;
        pass_on(pool, item);
    }
}

static void run_task(struct thread *thread, struct task *task, int64_t *now_us)
{
    int64_t timeout_ms = task->run->job.timeout_ms;
    int64_t deadline_us;

    task->started_us = *now_us;
    if (timeout_ms <= 0 || __builtin_mul_overflow(timeout_ms, (int64_t)US_PER_MS, &deadline_us) ||
        __builtin_add_overflow(deadline_us, *now_us, &deadline_us))
        deadline_us = DEADLINE_NONE;
    atomic_store_explicit(&task->deadline_us, deadline_us, memory_order_relaxed);
    atomic_store_explicit(&thread->current, task, memory_order_release);
    task->handler->fn(task->handler->data, task);
    *now_us = clock_mono_us(thread->pool->clock);
    atomic_store_explicit(&thread->current, NULL, memory_order_release);
    task_conclude(task, *now_us);
}

void *thread_main(void *data)
{
    struct thread *thread = data;
    struct pool *pool = thread->pool;
    struct task *task;
    int64_t now_us = 0;

    while ((task = next_task(thread, &now_us)) != NULL) {
        /* The claim was lost or the job cancelled while the task waited: another worker may have
         * the job by now. */
        if (atomic_load_explicit(&task->stop, memory_order_relaxed) != 0)
            task_release(task);
        else
            run_task(thread, task, &now_us);
        report(pool, task);
    }
    atomic_fetch_add(&pool->n_ended, 1);
    uv_async_send(&pool->wake); /* the thread is joined before the handle is closed */
    return NULL;
}
