/* api: the two services put together: methods, connections and metrics. */
#include "serve/api/api.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "serve/api/api_internal.h"
#include "serve/metrics.h"
#include "store/statements.h"

#define METHOD(text, message, handler)                                               \
    {                                                                                \
        .name = (text), .request = &pawl__v1__##message##_request__descriptor,       \
        .response = &pawl__v1__##message##_response__descriptor, .handle = (handler) \
    }

static const struct rpc_method job_methods[] = {
    METHOD("Enqueue", enqueue, api_enqueue),
    METHOD("Signal", signal, api_signal),
    METHOD("Cancel", cancel, api_cancel),
    METHOD("GetJob", get_job, api_get_job),
    METHOD("ListJobs", list_jobs, api_list_jobs),
};

static const struct rpc_method queue_methods[] = {
    METHOD("PauseQueue", pause_queue, api_pause_queue),
    METHOD("ResumeQueue", resume_queue, api_resume_queue),
    METHOD("Stats", stats, api_stats),
};

/* ── numbers ── */

/* X(field, type, help); the metric is pawl_enqueue_<field>, followed by _total for a counter. */
#define ACCEPT_METRICS(X)                                                                      \
    X(calls, "counter", "_total", "Enqueue calls whose jobs were committed.")                  \
    X(jobs, "counter", "_total", "Jobs that were accepted.")                                   \
    X(commits, "counter", "_total", "Transactions that accepted them.")                        \
    X(splits, "counter", "_total", "Transactions that were refused and sent again in halves.") \
    X(replays, "counter", "_total", "Calls whose idempotency key was used before.")            \
    X(unknown, "counter", "_total", "Calls whose commit nobody knows the end of.")             \
    X(refused, "counter", "_total", "Calls refused because too many waited.")                  \
    X(waiting, "gauge", "", "Calls that wait for a transaction.")                              \
    X(waiting_bytes, "gauge", "", "What they hold.")

static void collect(struct buf *out, void *data)
{
    const struct api *api = data;
    static const struct metrics_label kinds[][2] = {
        {{"keys", "no"}, {NULL, NULL}},
        {{"keys", "yes"}, {NULL, NULL}},
    };
    const struct accept_stats *plain = accept_stats(api->plain);
    const struct accept_stats *once = accept_stats(api->once);

#define METRIC(field, type, suffix, help)                                             \
    metrics_family(out, "pawl_enqueue_" #field suffix, type, help);                   \
    metrics_int(out, "pawl_enqueue_" #field suffix, kinds[0], (int64_t)plain->field); \
    metrics_int(out, "pawl_enqueue_" #field suffix, kinds[1], (int64_t)once->field);
    ACCEPT_METRICS(METRIC)
#undef METRIC
    auth_metrics(api->auth, out);
}

/* ── beginning and end ── */

static void free_api(struct api *api)
{
    void (*closed)(void *) = api->closed;
    void *data = api->closed_data;

    free(api);
    if (closed != NULL)
        closed(data);
}

static void part_closed(void *data)
{
    struct api *api = data;

    if (--api->n_open == 0)
        free_api(api);
}

void api_close(struct api *api, void (*closed)(void *data), void *data)
{
    struct accept *accepts[] = {api->plain, api->once};
    struct conn *conns[] = {api->calls, api->look};

    api->closed = closed;
    api->closed_data = data;
    api->n_open = 2;
    for (size_t i = 0; i < 2; i++) {
        api->n_open += (accepts[i] != NULL) + (conns[i] != NULL);
        if (accepts[i] != NULL)
            accept_close(accepts[i], part_closed, api);
        if (conns[i] != NULL)
            conn_close(conns[i], part_closed, api);
    }
    if (api->auth != NULL) {
        api->n_open++;
        auth_close(api->auth, part_closed, api);
    }
    if (api->calls != NULL) {
        api->n_open++;
        probe_close(&api->probe, part_closed, api);
    }
    checker_close(&api->checker, part_closed, api);
    part_closed(api);
}

struct auth *api_auth(struct api *api)
{
    return api->auth;
}

const char *api_why_not(const struct api *api)
{
    if (!accept_ready(api->plain))
        return "there is no connection to the database";
    return auth_ready(api->auth) ? probe_why(&api->probe) : "access tokens are not known yet";
}

static void on_flushed(void *data, const struct batch_end *end)
{
    struct api *api = data;

    probe_heard(&api->probe, end);
}

static bool may_see_metrics(struct http_exchange *exchange, void *data)
{
    const struct api *api = data;

    return auth_http_allows(api->auth, exchange, AUTH_READ);
}

static int make_auth(struct api *api, struct pawl_err *err)
{
    const struct api_options *o = &api->options;

    if (!o->tokens)
        return 0;
    transport_guard_metrics(o->transport, may_see_metrics, api);
    return auth_new(&(struct auth_options){.loop = o->loop,
                                           .rpc = transport_rpc(o->transport),
                                           .target = o->target,
                                           .deaf = o->unprepared,
                                           .primary = o->primary,
                                           .log = o->log},
                    &api->auth,
                    err);
}

static struct conn *open_conn(struct api *api, const char *name, const struct stmt *session)
{
    const struct api_options *o = &api->options;
    struct conn *conn = conn_new(o->loop,
                                 &(struct conn_options){.target = o->target,
                                                        .name = name,
                                                        .clock = &clock_system,
                                                        .log = o->log,
                                                        .queue_max = TRANSACTION_WAITING_MAX,
                                                        .unprepared = o->unprepared,
                                                        .session = session,
                                                        .primary = o->primary});

    if (conn != NULL)
        conn_start(conn);
    return conn;
}

static bool make_parts(struct api *api)
{
    const struct api_options *o = &api->options;
    struct accept_options accept = {.loop = o->loop,
                                    .target = o->target,
                                    .name = "accept",
                                    .primary = o->primary,
                                    .unprepared = o->unprepared,
                                    .flushed = on_flushed,
                                    .data = api,
                                    .log = o->log};

    api->plain = accept_new(&accept);
    accept.name = "accept_once";
    accept.once = true;
    api->once = accept_new(&accept);
    api->calls = open_conn(api, "calls", STMT(session));
    if (api->calls != NULL)
        probe_init(&api->probe, o->loop, api->calls, o->worker, o->log);
    api->look = open_conn(api, "look", NULL);
    return api->plain != NULL && api->once != NULL && api->calls != NULL && api->look != NULL;
}

int api_new(const struct api_options *options, struct api **ret_api, struct pawl_err *err)
{
    struct rpc *rpc = transport_rpc(options->transport);
    struct api *api = calloc(1, sizeof(*api));

    if (api == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    api->options = *options;
    api->started_us = clock_mono_us(&clock_system);
    checker_init(&api->checker, options->loop);
    api->jobs = (struct rpc_service){.name = "pawl.v1.JobService",
                                     .methods = job_methods,
                                     .n_methods = sizeof(job_methods) / sizeof(*job_methods),
                                     .data = api};
    api->queues = (struct rpc_service){.name = "pawl.v1.QueueService",
                                       .methods = queue_methods,
                                       .n_methods = sizeof(queue_methods) / sizeof(*queue_methods),
                                       .data = api};
    int rc = make_parts(api) ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");

    if (rc == 0)
        rc = make_auth(api, err);
    if (rc == 0)
        rc = rpc_register(rpc, &api->jobs, err);
    if (rc == 0)
        rc = rpc_register(rpc, &api->queues, err);
    if (rc == 0 && transport_add_metrics(options->transport, collect, api) < 0)
        rc = err_set(err, PAWL_ELIMIT, "too many collectors of metrics");
    *ret_api = api;
    return rc;
}
