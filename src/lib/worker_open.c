/* worker_open: hands, and what gives them jobs, on the worker's loop; and the way back. The loop's
 * thread. */
#include "lib/worker.h"

void worker_source_stopped(void *data, size_t left)
{
    struct pawl_worker *worker = data;

    pthread_mutex_lock(&worker->mutex);
    worker->left = left;
    pthread_mutex_unlock(&worker->mutex);
    worker_hands_close(worker);
}

void worker_on_settled(void *data, const struct settled *settled)
{
    const struct pawl_worker *worker = data;
    const struct job *job = settled->job;
    const struct outcome *outcome = settled->outcome;
    const struct pawl_settled told = {
        .id = job->id,
        .queue = job->queue,
        .kind = job->kind,
        .attempt = job->attempt,
        .max_attempts = job->max_attempts,
        .state = settled->state,
        .run_us = outcome->run_us,
        .error = outcome->error,
        .result = outcome->result,
        .result_len = outcome->result_len,
    };

    const struct pawl_worker *before = worker_enter(worker);

    worker->options.settled(worker->options.settled_data, &told);
    worker_enter(before);
}

static void on_publish(uv_prepare_t *prepare)
{
    struct pawl_worker *worker = prepare->data;

    worker->source->publish(worker, false);
}

static int open_parts(struct pawl_worker *worker, struct pawl_err *err)
{
    int rc = worker->source->check != NULL ? worker->source->check(worker, err) : 0;

    if (rc == 0)
        rc = worker_hands_make(worker, err);
    if (rc == 0)
        rc = worker->source->make(worker, err);
    if (rc < 0) {
        worker_hands_close(worker);
        uv_run(&worker->loop, UV_RUN_DEFAULT); /* until all that was opened is closed */
        return rc;
    }
    worker->open = true;
    /* The last that is started runs first; the turn of what gives jobs is between the two. */
    uv_prepare_start(&worker->publish, on_publish);
    uv_async_send(&worker->call); /* notes that were left before */
    return worker->source->start(worker, err);
}

static int begin(struct pawl_worker *worker, struct pawl_err *err)
{
    if (worker->state == WORKER_STOPPED)
        return err_set(err, PAWL_ESTATE, "cannot start a worker twice");
    if (worker->state != WORKER_NEW)
        return err_set(err, PAWL_ESTATE, "the worker was started already");
    if (worker->n_handlers == 0) {
        err_set(err, PAWL_ESTATE, "the worker has no handler, so there is nothing it could run");
        return err_hint(err, "Call pawl_worker_handle or pawl_worker_exec first.");
    }
    worker->state = WORKER_STARTING;
    worker->loop_thread = pthread_self();
    return 0;
}

int worker_open(struct pawl_worker *worker, struct pawl_err *err)
{
    struct pawl_err local;
    int rc = worker_own(worker, err);

    if (rc < 0)
        return rc;
    if (err == NULL)
        err = &local; /* parts below hand their code on in it */
    pthread_mutex_lock(&worker->mutex);
    rc = begin(worker, err);
    pthread_mutex_unlock(&worker->mutex);
    if (rc < 0)
        return rc;
    rc = open_parts(worker, err);
    pthread_mutex_lock(&worker->mutex);
    worker->state = rc == 0 ? WORKER_WORKING : WORKER_NEW;
    pthread_mutex_unlock(&worker->mutex);
    return rc;
}

void worker_close(struct pawl_worker *worker)
{
    worker->source->publish(worker, true);
    worker->source->free(worker);
    worker->open = false;
    pthread_mutex_lock(&worker->mutex);
    worker->state = WORKER_STOPPED;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
}

int worker_verdict(struct pawl_worker *worker, struct pawl_err *err)
{
    pthread_mutex_lock(&worker->mutex);
    size_t left = worker->left;
    bool one = left == 1;

    pthread_mutex_unlock(&worker->mutex);
    if (left == 0)
        return 0;
    err_set(err, PAWL_EINTERRUPTED, "stopped with %zu job%s unfinished", left, one ? "" : "s");
    err_hint(err,
             "Another worker gets %s when %s lease has run out.",
             one ? "it" : "them",
             one ? "its" : "their");
    return PAWL_EINTERRUPTED;
}
