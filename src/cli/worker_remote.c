/* worker_remote: the worker of worker.c with a server in the place of a database. */
#include "cli/server.h"
#include "cli/worker.h"
#include "remote/remote.h"

static void log_stats(const struct worker *worker)
{
    const struct remote_stats *stats = remote_stats(worker->remote);
#define FIELD(name, what) LOG_INT(#name, stats->name),
    const struct log_field fields[] = {REMOTE_COUNTERS(FIELD)};
#undef FIELD

    log_write(
        worker->options->log, LOG_INFO, "worker_stats", fields, sizeof(fields) / sizeof(*fields));
}

static void on_started(void *data, const struct job *job)
{
    const struct worker *worker = data;

    if (worker->options->started != NULL)
        worker->options->started(worker->options->data, job);
}

static void on_settled(void *data, const struct settled *settled)
{
    const struct worker *worker = data;

    if (worker->options->settled != NULL)
        worker->options->settled(worker->options->data, settled);
}

static void on_stopped(void *data, size_t left, const struct pawl_err *err)
{
    struct worker *worker = data;

    if (err != NULL)
        worker->err = *err;
    worker_stopped(worker, left);
}

int remote_work_open(struct worker *worker, struct pawl_err *err)
{
    const struct worker_options *o = worker->options;

    worker->remote = remote_new(&worker->loop,
                                &(struct remote_options){
                                    .server = &o->server->address,
                                    .token = o->server->token,
                                    .tls = o->server->tls,
                                    .queues = o->queues,
                                    .n_queues = o->n_queues,
                                    .hands = worker->hands,
                                    .concurrency = o->concurrency,
                                    .prefetch = o->prefetch,
                                    .lease_ms = o->lease_ms,
                                    .drain_ms = o->drain_ms,
                                    .until_empty = o->until_empty,
                                    .clock = &clock_system,
                                    .log = o->log,
                                    .started = on_started,
                                    .settled = on_settled,
                                    .stopped = on_stopped,
                                    .data = worker,
                                },
                                err);
    return worker->remote != NULL ? 0 : err->code;
}

void remote_work_start(struct worker *worker)
{
    remote_start(worker->remote);
}

void remote_work_stop(struct worker *worker)
{
    remote_stop(worker->remote);
}

void remote_work_log(struct worker *worker)
{
    log_stats(worker);
}

void remote_work_free(struct worker *worker)
{
    remote_free(worker->remote);
}
