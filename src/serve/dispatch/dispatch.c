/* dispatch: life from new to free, and metrics. */
#include "serve/dispatch/dispatch.h"

#include <stdio.h>
#include <stdlib.h>

#include "serve/dispatch/dispatch_internal.h"
#include "serve/metrics.h"
#include "store/statements.h"

#define TICK_MS           1000
#define LEAVE_MS          5000 /* after the last stream, to write leases to pawl.held */
#define SCRATCH_BYTES_MAX ((size_t)64 * 1024 * 1024)

/* ── what the parts share ── */

bool ticket_read(const ProtobufCBinaryData *token, struct ticket *ret_ticket)
{
    if (token->len != sizeof(ret_ticket->bytes))
        return false;
    memcpy(ret_ticket->bytes, token->data, sizeof(ret_ticket->bytes));
    return true;
}

struct stream_run *
dispatch_find(const struct dispatch *d, int64_t job_id, const struct ticket *ticket)
{
    struct stream_run *run = streams_find(&d->streams, job_id);

    /* A run that was never sent has no ticket: a row of zeros must not match. */
    if (run == NULL || (run->state == RUN_FRESH && run->steps == 0) ||
        memcmp(&run->ticket, ticket, sizeof(*ticket)) != 0)
        return NULL;
    return run;
}

bool dispatch_refuses(struct dispatch *d, struct rpc_call *call)
{
    if (!d->stopped)
        return false;
    rpc_end(call, RPC_UNAVAILABLE, "the server stops; send it to another one");
    return true;
}

bool dispatch_worker_id_ok(struct rpc_call *call, const char *worker_id)
{
    size_t len = strlen(worker_id);

    if (len > 0 && len <= WORKER_ID_MAX)
        return true;
    rpc_end(
        call,
        RPC_INVALID_ARGUMENT,
        "worker_id has %zu bytes; it must be a random id of 1 to %d that the worker made for itself",
        len,
        WORKER_ID_MAX);
    return false;
}

void dispatch_all_named(struct dispatch *d, const char *worker, const void *client)
{
    LIST_FOREACH_SAFE(link, after, &d->streams.leaving) {
        struct stream_run *run = LIST_ENTRY(link, struct stream_run, link);

        /* A run that is still on a stream has arrived long ago, and is only silent. */
        if (run->stream == NULL && !run->on_its_way && run->named != d->naming &&
            run->worker != NULL && run->client == client && strcmp(run->worker, worker) == 0)
            streams_never_arrived(&d->streams, run);
    }
}

/* ── making ── */

static void on_notify(void *data, const char *channel, const char *payload)
{
    wish_on_notify(data, channel, payload);
}

static void on_state(void *data, enum conn_state state, const struct pawl_err *err)
{
    struct dispatch *d = data;

    (void)err;
    /* Notifications before LISTEN are lost, so the wishes are read once. */
    if (state == CONN_READY)
        wish_on_notify(d, NULL, NULL);
}

/* Ends streams on which nothing can be sent, until_empty streams for which nothing is due, and,
 * when the server stops, streams of workers that have no job. */
static void end_idle(struct dispatch *d)
{
    struct stream *stream = streams_next(&d->streams, NULL);

    while (stream != NULL) {
        struct stream *next = streams_next(&d->streams, stream);

        if (stream->broken)
            stream_end(
                stream, RPC_RESOURCE_EXHAUSTED, "no memory for what was to be sent; connect again");
        else if (d->draining && stream->used == 0 && stream->take == NULL)
            stream_end(stream, RPC_OK, NULL);
        else if (streams_is_over(stream)) {
            stream_tell_drain(stream, "nothing is due", false);
            stream_end(stream, RPC_OK, NULL);
        }
        stream = next;
    }
    d->any_broken = false;
}

static void on_turn(uv_prepare_t *turn)
{
    struct dispatch *d = turn->data;

    if ((d->draining && !d->cutting) || d->any_broken || d->n_until_empty > 0)
        end_idle(d);
    away_turn(d);
}

static void on_pace(uv_timer_t *timer)
{
    struct dispatch *d = timer->data;

    streams_pace(&d->streams);
    if (d->streams.n_paced == 0)
        uv_timer_stop(timer);
}

void dispatch_pace(struct dispatch *d)
{
    if (!uv_is_active((uv_handle_t *)&d->pace))
        uv_timer_start(&d->pace, on_pace, STREAMS_PACE_MS, STREAMS_PACE_MS);
}

static void on_tick(uv_timer_t *timer)
{
    struct dispatch *d = timer->data;

    streams_tick(&d->streams);
    wish_tick(d);
}

static const struct rpc_method methods[] = {
    {.name = "StreamJobs",
     .request = &pawl__v1__stream_jobs_request__descriptor,
     .response = &pawl__v1__stream_jobs_response__descriptor,
     .server_streams = true,
     .handle = handle_stream_jobs},
    {.name = "Heartbeat",
     .request = &pawl__v1__heartbeat_request__descriptor,
     .response = &pawl__v1__heartbeat_response__descriptor,
     .handle = handle_heartbeat},
    {.name = "ReportResult",
     .request = &pawl__v1__report_result_request__descriptor,
     .response = &pawl__v1__report_result_response__descriptor,
     .handle = handle_report_result},
};

static void metrics(struct buf *out, void *data);

static void init_parts(struct dispatch *d)
{
    struct uuid id = uuid_random();

    uuid_format(&id, d->server_id);
    list_init(&d->takes);
    list_init(&d->lookups);
    list_init(&d->sent_takes);
    list_init(&d->sent_lookups);
    arena_init(&d->scratch, SCRATCH_BYTES_MAX);
    map_init(&d->wishes, 10000);
    d->service = (struct rpc_service){.name = "pawl.v1.WorkerService",
                                      .methods = methods,
                                      .n_methods = sizeof(methods) / sizeof(*methods),
                                      .data = d};
    uv_timer_init(d->options.loop, &d->tick);
    uv_timer_init(d->options.loop, &d->pace);
    uv_timer_init(d->options.loop, &d->retry);
    uv_timer_init(d->options.loop, &d->linger);
    uv_prepare_init(d->options.loop, &d->turn);
    d->tick.data = d->pace.data = d->retry.data = d->linger.data = d->turn.data = d;
}

int dispatch_new(const struct dispatch_options *options,
                 struct dispatch **ret_dispatch,
                 struct pawl_err *err)
{
    struct dispatch *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    d->options = *options;
    d->recent = calloc(RECENT_MAX, sizeof(*d->recent));
    streams_init(&d->streams, d, &clock_system);
    d->conn = conn_new(options->loop,
                       &(struct conn_options){.target = options->target,
                                              .name = "serve",
                                              .clock = &clock_system,
                                              .log = options->log,
                                              .unprepared = options->unprepared,
                                              .primary = options->primary,
                                              .session = STMT(session),
                                              .on_state = on_state,
                                              .on_notify = on_notify,
                                              .data = d});
    if (d->recent == NULL || d->conn == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory"); /* the process ends */
    init_parts(d);
    if (!options->unprepared)
        conn_listen(d->conn, STMT(listen_serve));
    *ret_dispatch = d;
    int rc = rpc_register(transport_rpc(options->transport), &d->service, err);

    if (rc == 0 && transport_add_metrics(options->transport, metrics, d) < 0)
        rc = err_set(err, PAWL_ELIMIT, "too many metrics");
    return rc;
}

struct hands *dispatch_hands(struct dispatch *d)
{
    return &d->streams.hands;
}

void dispatch_start(struct dispatch *d, struct coordinator *coordinator, struct auth *auth)
{
    d->coordinator = coordinator;
    d->auth = auth;
    conn_start(d->conn);
    uv_timer_start(&d->tick, on_tick, TICK_MS, TICK_MS);
    uv_prepare_start(&d->turn, on_turn);
}

bool dispatch_connected(const struct dispatch *d)
{
    return conn_state(d->conn) == CONN_READY;
}

/* ── the end ── */

static void tell_drained(struct dispatch *d)
{
    void (*drained)(void *data) = d->drained;

    d->drained = NULL;
    d->stopped = true;
    if (drained != NULL)
        drained(d->drained_data);
}

void dispatch_check_drained(struct dispatch *d)
{
    if (d->drained != NULL && d->streams.n == 0 && list_empty(&d->streams.leaving) &&
        !d->leaving_sent)
        tell_drained(d);
}

static void end_all(struct dispatch *d)
{
    struct stream *stream;

    d->cutting = true;
    while ((stream = streams_next(&d->streams, NULL)) != NULL)
        stream_end(stream, RPC_UNAVAILABLE, "the server stops; connect again");
}

/* The database is away: jobs that left keep the leases of their claims. */
static void on_left_too_late(uv_timer_t *timer)
{
    tell_drained(timer->data);
}

static void on_grace_over(uv_timer_t *timer)
{
    end_all(timer->data);
    uv_timer_start(timer, on_left_too_late, LEAVE_MS, 0);
}

void dispatch_drain(struct dispatch *d, int64_t grace_ms, void (*drained)(void *data), void *data)
{
    struct stream *stream = NULL;

    d->draining = true;
    d->grace_ms = grace_ms;
    d->drained = drained;
    d->drained_data = data;
    while ((stream = streams_next(&d->streams, stream)) != NULL)
        stream_tell_drain(stream, "the server stops", true);
    /* Runs are not checked any more: from now on leases expire in the database. */
    uv_timer_start(&d->tick, on_grace_over, (uint64_t)grace_ms, 0);
    dispatch_check_drained(d);
}

void dispatch_cut(struct dispatch *d)
{
    d->drained = NULL;
    d->stopped = true;
    end_all(d);
}

static void part_closed(struct dispatch *d)
{
    if (--d->closing == 0)
        d->closed(d->closed_data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void on_conn_closed(void *data)
{
    part_closed(data);
}

void dispatch_close(struct dispatch *d, void (*closed)(void *data), void *data)
{
    d->closed = closed;
    d->closed_data = data;
    d->closing = 6;
    uv_close((uv_handle_t *)&d->tick, on_handle_closed);
    uv_close((uv_handle_t *)&d->pace, on_handle_closed);
    uv_close((uv_handle_t *)&d->retry, on_handle_closed);
    uv_close((uv_handle_t *)&d->linger, on_handle_closed);
    uv_close((uv_handle_t *)&d->turn, on_handle_closed);
    conn_close(d->conn, on_conn_closed, d);
}

void dispatch_free(struct dispatch *d)
{
    if (d == NULL)
        return;
    away_deinit(d);
    wish_deinit(d);
    streams_deinit(&d->streams);
    arena_deinit(&d->scratch);
    free(d->recent);
    free(d);
}

/* ── numbers ── */

void dispatch_workers(void *data, api_worker_fn *fn, void *fn_data)
{
    const struct dispatch *d = data;
    struct stream *stream = NULL;

    while ((stream = streams_next(&d->streams, stream)) != NULL) {
        Pawl__V1__WorkerStats worker;

        pawl__v1__worker_stats__init(&worker);
        worker.worker_id = unconst(stream->worker);
        worker.worker_name = unconst(stream->name);
        worker.credits = stream->credits;
        worker.running = stream->used;
        worker.ended = stream->ended;
        worker.draining = stream->draining;
        worker.connected_at_us = stream->since_us;
        fn(fn_data, &worker);
    }
}

static void coordinator_metrics(struct buf *out, const struct coordinator *c)
{
    const struct coordinator_stats *stats = coordinator_stats(c);
    struct coordinator_gauges gauges;

    coordinator_gauges(c, &gauges);
#define COUNTER(name, what) metrics_counter(out, "pawl_engine_" #name "_total", what, stats->name);
#define GAUGE(name, what)   metrics_gauge(out, "pawl_engine_" #name, what, gauges.name);
    COORDINATOR_COUNTERS(COUNTER)
    COORDINATOR_GAUGES(GAUGE)
#undef COUNTER
#undef GAUGE
}

static void metrics(struct buf *out, void *data)
{
    const struct dispatch *d = data;
    struct stream *stream = NULL;
    int64_t credits = 0, used = 0, draining = 0;

    while ((stream = streams_next(&d->streams, stream)) != NULL) {
        credits += stream->credits;
        used += stream->used;
        draining += stream->draining;
    }
    metrics_gauge(out, "pawl_workers", "Workers whose streams are open.", (int64_t)d->streams.n);
    metrics_gauge(
        out, "pawl_workers_draining", "Of these, workers that get no more jobs.", draining);
    metrics_gauge(out, "pawl_worker_credits", "Jobs that workers may hold at once.", credits);
    metrics_gauge(out, "pawl_worker_jobs", "Jobs that workers hold.", used);
#define COUNTER(name, what) \
    metrics_counter(out, "pawl_worker_" #name "_total", what, d->counters.name);
    DISPATCH_COUNTERS(COUNTER)
#undef COUNTER
    if (d->coordinator != NULL)
        coordinator_metrics(out, d->coordinator);
}
