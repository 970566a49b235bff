/* worker_stats: what the loop's thread counts, copied for others to look at; and the number of
 * handlers that run at a time. */
#include <string.h>

#include "lib/lib.h"
#include "lib/worker.h"

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

    worker->concurrency_changed = false;
    pthread_mutex_unlock(&worker->mutex);
    if (!changed || worker->hands == NULL)
        return;
    /* First the threads: what is handed out next is already bound by it. */
    if (worker->threads != NULL)
        threads_set_limit(worker->threads, concurrency);
    worker->source->set_concurrency(worker, concurrency, guarded);
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
