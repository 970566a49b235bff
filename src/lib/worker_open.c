/* worker_open: a look at the database, then hands and coordinator on the worker's loop; and the way
 * back. The loop's thread. */
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "client/job.h"
#include "lib/worker.h"
#include "pg/sync.h"
#include "store/migrate.h"

static int check_database(const struct pawl_worker *worker, struct pawl_err *err)
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

void worker_source_stopped(struct pawl_worker *worker, size_t left)
{
    pthread_mutex_lock(&worker->mutex);
    worker->left = left;
    pthread_mutex_unlock(&worker->mutex);
    worker_hands_close(worker);
}

static void on_stopped(void *data, size_t left)
{
    worker_source_stopped(data, left);
}

void worker_source_stop(struct pawl_worker *worker)
{
    if (worker->remote != NULL)
        worker_remote_stop(worker);
    else
        coordinator_stop(worker->coordinator);
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
                            .stopped = on_stopped,
                            .data = worker,
                        },
                        err);
    return worker->coordinator != NULL ? 0 : err->code;
}

static void on_publish(uv_prepare_t *prepare)
{
    worker_publish(prepare->data, false);
}

static void on_follow(uv_prepare_t *prepare)
{
    worker_follow_concurrency(prepare->data);
}

static int open_parts(struct pawl_worker *worker, struct pawl_err *err)
{
    int rc = worker->server != NULL ? 0 : check_database(worker, err);

    if (rc == 0)
        rc = worker_hands_make(worker, err);
    if (rc == 0)
        rc = worker->server != NULL ? worker_remote_make(worker, err)
                                    : make_coordinator(worker, err);
    if (rc < 0) {
        worker_hands_close(worker);
        uv_run(&worker->loop, UV_RUN_DEFAULT); /* until all that was opened is closed */
        return rc;
    }
    /* The last that is started runs first; the coordinator's turn is between the two. */
    uv_prepare_start(&worker->publish, on_publish);
    if (worker->remote != NULL)
        return worker_remote_start(worker, err);
    coordinator_start(worker->coordinator);
    uv_prepare_start(&worker->follow, on_follow);
    uv_async_send(&worker->call); /* notes that were left before */
    return 0;
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
    worker_publish(worker, true);
    coordinator_free(worker->coordinator);
    worker->coordinator = NULL;
    worker_remote_free(worker);
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
