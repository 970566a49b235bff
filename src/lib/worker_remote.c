/* worker_remote: a worker whose jobs come from a server: what stands in the place of the coordinator and its database. The
 * loop's thread, but for from_options and forget. */
#include "lib/lib.h"
#include "lib/server.h"
#include "lib/worker.h"
#include "remote/remote.h"

static int check_options(const struct pawl_worker_options *o, struct pawl_err *err)
{
    const struct {
        bool given;
        const char *name;
    } local[] = {
        {o->conninfo != NULL, "conninfo"},
        {o->pooled, "pooled"},
        {o->min_concurrency > 0, "min_concurrency"},
        {o->rollout > 0, "rollout"},
        {o->memory_max_percent > 0, "memory_max_percent"},
        {o->memory_machine_max_percent > 0, "memory_machine_max_percent"},
        {o->breaker_percent > 0, "breaker_percent"},
    };

    for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++) {
        if (local[i].given)
            return err_set(err,
                           PAWL_EINVAL,
                           "%s does not go with a server: it is for a worker with a database",
                           local[i].name);
    }
    return 0;
}

static int from_options(struct pawl_worker *worker, struct pawl_err *err)
{
    struct pawl_worker_options *o = &worker->options;
    struct server *server = arena_new(&worker->arena, struct server);
    int rc = server != NULL ? check_options(o, err) : err_set(err, PAWL_ENOMEM, "out of memory");

    if (rc == 0)
        rc = server_init(server,
                         &(struct pawl_server_options){.address = o->server,
                                                       .token = o->token,
                                                       .tls_ca = o->tls_ca,
                                                       .tls_certificate = o->tls_certificate,
                                                       .tls_key = o->tls_key},
                         err);
    if (rc == 0)
        worker->server = server;
    /* The caller's, and one of them a secret; we have all of it. */
    o->server = o->token = o->tls_ca = o->tls_certificate = o->tls_key = NULL;
    return rc;
}

static void forget(struct pawl_worker *worker)
{
    if (worker->server != NULL)
        server_deinit(worker->server);
    worker->server = NULL;
}

/* --- its life --- */

static void on_stopped(void *data, size_t left, const struct pawl_err *err)
{
    struct pawl_worker *worker = data;

    if (err != NULL)
        worker->remote_err = *err;
    worker->remote_stopped = true;
    worker_source_stopped(worker, left);
}

static int make(struct pawl_worker *worker, struct pawl_err *err)
{
    const struct pawl_worker_options *o = &worker->options;

    worker->remote_stopped = false;
    worker->remote_err.code = 0;

    worker->remote = remote_new(&worker->loop,
                                &(struct remote_options){
                                    .server = &worker->server->address,
                                    .token = server_token(worker->server),
                                    .tls = worker->server->tls,
                                    .queues = o->queues,
                                    .n_queues = o->n_queues,
                                    .hands = worker->hands,
                                    .concurrency = worker->concurrency,
                                    .prefetch = o->prefetch,
                                    .lease_ms = o->lease_ms,
                                    .until_empty = o->until_empty,
                                    .drain_ms = o->drain_ms,
                                    .clock = &clock_system,
                                    .log = &worker->log,
                                    .settled = o->settled != NULL ? worker_on_settled : NULL,
                                    .stopped = on_stopped,
                                    .data = worker,
                                },
                                err);
    return worker->remote != NULL ? 0 : err->code;
}

static void free_remote(struct pawl_worker *worker)
{
    remote_free(worker->remote);
    worker->remote = NULL;
}

/* Returns when the server has taken the worker; fails without a trace. */
static int start(struct pawl_worker *worker, struct pawl_err *err)
{
    remote_start(worker->remote);
    /* Until the server has taken it; what it sends at once is run at once. */
    while (!worker->remote_stopped && !remote_is_taken(worker->remote))
        uv_run(&worker->loop, UV_RUN_ONCE);
    if (worker->remote_err.code == 0)
        return 0;
    uv_run(&worker->loop, UV_RUN_DEFAULT); /* until all that was opened is closed */
    *err = worker->remote_err;
    free_remote(worker);
    worker->open = false;
    return err->code;
}

static void stop(struct pawl_worker *worker)
{
    remote_stop(worker->remote);
}

static void turn(struct pawl_worker *worker)
{
    remote_turn(worker->remote);
}

static void note(struct pawl_worker *worker, struct run *run, const char *text)
{
    remote_note(worker->remote, run, text);
}

static void set_concurrency(struct pawl_worker *worker, unsigned concurrency, bool guarded)
{
    (void)guarded; /* the server's numbers say nothing of how it goes */
    remote_set_concurrency(worker->remote, concurrency);
}

static const char *const names[] = {
#define NAME(name, what) #name,
    REMOTE_COUNTERS(NAME)
#undef NAME
};

_Static_assert(sizeof(names) / sizeof(*names) <= WORKER_VALUES_MAX, "they fit");

static void name_values(struct pawl_worker *worker, const struct remote_stats *stats)
{
    int64_t *to = worker->values;

#define COUNTER(name, what) *to++ = (int64_t)stats->name;
    REMOTE_COUNTERS(COUNTER)
#undef COUNTER
    worker->value_names = names;
    worker->n_values = sizeof(names) / sizeof(*names);
}

/* What is counted under the same name in both. */
#define SAME(X) \
    X(done) X(retried) X(failed) X(parked) X(snoozed) X(cancelled) X(released) X(stale) X(steps)

/* Counters of the same meaning; what only a database can tell stays 0. */
static void publish(struct pawl_worker *worker, bool all)
{
    const struct remote_stats *from = remote_stats(worker->remote);
    struct pawl_stats *to = &worker->stats;
    size_t handed_out = remote_running(worker->remote);

    (void)all; /* all of it is cheap */
    pthread_mutex_lock(&worker->mutex);
#define COPY(name) to->name = from->name;
    SAME(COPY)
#undef COPY
    to->claimed = from->assigned;
    to->settles = from->reports;
    to->settle_batch_max = from->report_batch_max;
    to->settle_errors = from->report_errors;
    to->renewals = from->beats;
    to->lost_claims = from->lost;
    to->concurrency = worker->concurrency;
    name_values(worker, from);
    if (worker->threads != NULL)
        to->overruns = threads_overruns(worker->threads);
    to->running = (unsigned)(handed_out < to->concurrency ? handed_out : to->concurrency);
    to->buffered = (unsigned)(handed_out - to->running + remote_buffered(worker->remote));
    pthread_mutex_unlock(&worker->mutex);
}

const struct worker_source worker_server = {
    .from_options = from_options,
    .forget = forget,
    .make = make,
    .start = start,
    .stop = stop,
    .turn = turn,
    .note = note,
    .set_concurrency = set_concurrency,
    .publish = publish,
    .free = free_remote,
};
