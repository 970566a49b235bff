/* stream: StreamJobs: how a stream opens, what is said on it, and how it ends: by the worker, by
 * the network, or by the server. */
#include <stdio.h>
#include <stdlib.h>

#include "serve/dispatch/dispatch_internal.h"

#define FRAME_LEN       5 /* in front of each message */
#define CANCEL_GRACE_MS 10000

typedef Pawl__V1__StreamJobsRequest Request;
typedef Pawl__V1__StreamJobsResponse Response;

static const char *const default_queue[] = {"default"};

/* ── sending ── */

int stream_send(struct stream *stream, const Response *message)
{
    size_t len = FRAME_LEN + protobuf_c_message_get_packed_size(&message->base);
    int rc = rpc_send(stream->call, &message->base);

    if (rc == 0)
        stream->bytes += len;
    else if (rc != PAWL_EFULL)
        stream->broken = stream->d->any_broken = true;
    return rc;
}

/* Sends a message that is not a job. A worker that does not read its stream misses it. */
static void say(struct stream *stream, const Response *message)
{
    if (stream_send(stream, message) < 0)
        log_warn(stream->d->options.log,
                 "worker_deaf",
                 LOG_STR("worker", stream->worker),
                 LOG_STR("why", "it does not read its stream"));
}

static void say_opened(struct stream *stream, int64_t *lost, size_t n_lost)
{
    Pawl__V1__StreamOpened opened;

    pawl__v1__stream_opened__init(&opened);
    opened.lease_ms = stream->d->options.lease_ms;
    opened.credits = stream->credits;
    opened.server_id = stream->d->server_id;
    opened.lost_job_ids = lost;
    opened.n_lost_job_ids = n_lost;
    say(stream, STREAM_MESSAGE(OPENED, opened, &opened));
}

void stream_tell_drain(struct stream *stream, const char *reason, bool reconnect)
{
    Pawl__V1__Drain drain;

    pawl__v1__drain__init(&drain);
    drain.reason = unconst(reason);
    drain.reconnect = reconnect;
    drain.grace_ms = reconnect ? stream->d->grace_ms : 0;
    streams_drain(stream);
    say(stream, STREAM_MESSAGE(DRAIN, drain, &drain));
}

static const char *stop_reason_text(enum stop_reason reason)
{
    switch (reason) {
    case STOP_CANCELLED:
        return "the job was cancelled";
    case STOP_TIMEOUT:
        return "it ran longer than the job allows";
    case STOP_LOST:
        return "its lease was lost: whatever it does now counts for nothing";
    default:
        return "the server stops";
    }
}

static Pawl__V1__StopReason stop_reason_number(enum stop_reason reason)
{
    switch (reason) {
    case STOP_TIMEOUT:
        return PAWL__V1__STOP_REASON__STOP_REASON_TIMEOUT;
    case STOP_LOST:
        return PAWL__V1__STOP_REASON__STOP_REASON_LOST;
    default:
        return PAWL__V1__STOP_REASON__STOP_REASON_CANCELLED;
    }
}

void stream_stop_run(struct stream_run *run, enum stop_reason reason)
{
    Pawl__V1__CancelRun cancel;

    if (run->stream == NULL || reason == STOP_SHUTDOWN)
        return;
    pawl__v1__cancel_run__init(&cancel);
    cancel.job_id = run->job_id;
    cancel.token = (ProtobufCBinaryData){sizeof(run->ticket.bytes), run->ticket.bytes};
    cancel.reason = unconst(stop_reason_text(reason));
    cancel.grace_ms = CANCEL_GRACE_MS;
    cancel.stop_reason = stop_reason_number(reason);
    say(run->stream, STREAM_MESSAGE(CANCEL_RUN, cancel_run, &cancel));
}

static void set_credits(struct stream *stream, uint32_t credits)
{
    Pawl__V1__CreditChange change;

    pawl__v1__credit_change__init(&change);
    change.credits = credits;
    streams_set_credits(stream, credits);
    say(stream, STREAM_MESSAGE(CREDIT_CHANGE, credit_change, &change));
}

static void set_rate(struct stream *stream, int64_t per_1000_s)
{
    Pawl__V1__RateChange change;

    pawl__v1__rate_change__init(&change);
    change.starts_per_second = (double)per_1000_s / 1000;
    change.burst = streams_burst(per_1000_s);
    streams_set_rate(stream, per_1000_s);
    dispatch_pace(stream->d);
    say(stream, STREAM_MESSAGE(RATE_CHANGE, rate_change, &change));
}

void stream_apply_wish(struct stream *stream, const struct worker_wish *wish)
{
    uint32_t credits = wish != NULL && wish->credits > 0 && (uint32_t)wish->credits < stream->asked
                           ? (uint32_t)wish->credits
                           : stream->asked;
    int64_t per_1000_s = wish != NULL ? wish->per_1000_s : 0;

    if (stream->credits != credits)
        set_credits(stream, credits);
    if (stream->per_1000_s != per_1000_s)
        set_rate(stream, per_1000_s);
    if (wish != NULL && wish->drain && !stream->draining)
        stream_tell_drain(stream, "an operator drains this worker", false);
}

/* ── the end ── */

uint64_t stream_left(const struct stream *stream)
{
    return stream->all_left ? UINT64_MAX : stream->bytes - rpc_queued(stream->call);
}

static void stream_close(struct stream *stream)
{
    struct dispatch *d = stream->d;

    if (stream->take != NULL) { /* the take goes on without a reader */
        stream->take->done = NULL;
        stream->take->data = NULL;
    }
    d->n_until_empty -= stream->until_empty;
    streams_close(stream);
    dispatch_check_drained(d);
}

void stream_end(struct stream *stream, enum rpc_status status, const char *why)
{
    struct rpc_call *call = stream->call;

    stream->all_left = true; /* queued messages go out before the status */
    stream_close(stream);
    if (status == RPC_OK)
        rpc_end_ok(call);
    else
        rpc_end(call, status, "%s", why);
}

static void on_gone(struct rpc_call *call, void *data)
{
    struct stream *stream = data;

    stream->d->counters.streams_broken++;
    /* A call that ends by its deadline, with its token or with the server still sends its queue. */
    stream->all_left = stream->d->draining || rpc_call_is_forced(call);
    stream->d->crowd_changed = true;
    log_info(stream->d->options.log, "worker_gone", LOG_STR("worker", stream->worker));
    stream_close(stream);
}

static void on_writable(struct rpc_call *call, void *data)
{
    struct stream *stream = data;

    (void)call;
    streams_writable(stream);
}

static void on_drain(struct rpc_call *call, void *data)
{
    (void)call;
    stream_end(data, RPC_UNAVAILABLE, "the server stops; connect again");
}

static const struct rpc_call_ops stream_ops = {
    .gone = on_gone, .writable = on_writable, .drain = on_drain, .keeps_connection = true};

/* ── the beginning ── */

static int check_names(const Request *request, struct pawl_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < request->n_queues; i++)
        rc = name_check("queue", request->queues[i], err);
    for (size_t i = 0; rc == 0 && i < request->n_kinds; i++)
        rc = kind_check(request->kinds[i], err);
    if (rc == 0 && request->credits == 0)
        rc = err_set(err, PAWL_EINVAL, "credits is 0: the worker would never get a job");
    if (rc == 0 && request->n_running > RUNNING_MAX)
        rc = err_set(err,
                     PAWL_ELIMIT,
                     "running names %zu jobs, and the limit is %d",
                     request->n_running,
                     RUNNING_MAX);
    return rc;
}

/* The jobs that the worker brought are accounted for: it may get others. */
static void begin(struct stream *stream, int64_t *lost, size_t n_lost)
{
    say_opened(stream, lost, n_lost);
    if (stream->d->draining)
        stream_tell_drain(stream, "the server stops", true);
    stream_apply_wish(stream, wish_of(stream->d, stream->worker));
    streams_begin(stream);
}

static void on_taken(struct take *take, bool known)
{
    struct stream *stream = take->data;
    int64_t *lost = calloc(take->n, sizeof(*lost));
    size_t n_lost = 0;

    stream->take = NULL;
    for (size_t i = 0; i < take->n; i++) {
        const struct held_job *job = &take->jobs[i];

        if (known && take->answers[i] == TAKE_LOST) {
            if (lost != NULL)
                lost[n_lost++] = job->id;
            continue;
        }
        /* A report with a valid ticket counts in any case; this run only takes a credit. */
        if (streams_find(&stream->d->streams, job->id) != NULL)
            continue;
        streams_add_away(&stream->d->streams, job->id, stream, &job->ticket);
        stream->d->counters.jobs_taken++;
    }
    begin(stream, lost, n_lost);
    free(lost);
}

/* Jobs that the worker has from earlier streams: runs that are here move to this stream, the
 * database is asked about the others. */
static struct take *take_up(struct stream *stream, const Request *request)
{
    struct take *take = take_new(request->worker_id, request->n_running);

    stream->d->naming++;
    for (size_t i = 0; take != NULL && i < request->n_running; i++) {
        const Pawl__V1__RunningJob *job = request->running[i];
        struct ticket ticket;
        struct stream_run *run;

        if (!ticket_read(&job->token, &ticket))
            memset(&ticket, 0, sizeof(ticket)); /* matches no job: it is lost */
        run = dispatch_find(stream->d, job->job_id, &ticket);
        if (run != NULL)
            run->named = stream->d->naming;
        if (run != NULL && run->run != NULL && coordinator_holds(run->run) &&
            (run->state == RUN_SENT || (run->state == RUN_LEAVING && !run->on_its_way))) {
            streams_move(&stream->d->streams, run, stream);
            continue;
        }
        if (run != NULL && run->state == RUN_REPORTED)
            continue;
        if (run != NULL && run->state == RUN_AWAY)
            streams_forget_away(&stream->d->streams, run);
        take_add(take, job->job_id, &ticket);
    }
    return take;
}

/* A worker has one stream: an older one is broken, and the network has not reported it yet. */
static void end_older(const struct stream *stream)
{
    struct stream *older = NULL;

    while ((older = streams_next(&stream->d->streams, older)) != NULL) {
        if (older == stream || strcmp(older->worker, stream->worker) != 0)
            continue;
        stream_end(older, RPC_ABORTED, "the worker has opened another stream");
        return;
    }
}

/* Worker ids are no secret: a client that knows one must not be able to end another client's
 * stream. */
static bool is_its_own(struct dispatch *d, struct rpc_call *call, const char *worker)
{
    struct stream *stream = NULL;

    while ((stream = streams_next(&d->streams, stream)) != NULL) {
        if (strcmp(stream->worker, worker) != 0 || stream->client == rpc_call_client(call))
            continue;
        rpc_end(
            call,
            RPC_PERMISSION_DENIED,
            "worker id %s is in use by another client; a worker makes a random one at its start",
            worker);
        return false;
    }
    return true;
}

static int open_stream(struct dispatch *d,
                       struct rpc_call *call,
                       const Request *request,
                       struct stream **ret_stream,
                       struct pawl_err *err)
{
    struct stream *stream;
    int rc = streams_open(
        &d->streams,
        &(struct stream_options){
            .worker = request->worker_id,
            .name = request->worker_name,
            .queues = request->n_queues > 0 ? (const char *const *)request->queues : default_queue,
            .n_queues = request->n_queues > 0 ? request->n_queues : 1,
            .kinds = (const char *const *)request->kinds,
            .n_kinds = request->n_kinds,
            .credits = request->credits,
            .until_empty = request->until_empty,
            .client = rpc_call_client(call),
        },
        &stream,
        err);

    if (rc < 0)
        return rc;
    stream->call = call;
    stream->asked = stream->credits;
    stream->since_us = clock_wall_us(&clock_system);
    snprintf(stream->address, sizeof(stream->address), "%s", rpc_call_peer(call)->address);
    d->n_until_empty += stream->until_empty;
    *ret_stream = stream;
    return 0;
}

/* False: the call was ended. */
static bool may_serve(struct dispatch *d, struct rpc_call *call, const Request *request)
{
    struct auth *auth = d->auth;

    for (size_t i = 0; i < request->n_queues; i++) {
        if (!auth_allows(auth, call, AUTH_WORK, request->queues[i]))
            return false;
    }
    return request->n_queues > 0 || auth_allows(auth, call, AUTH_WORK, default_queue[0]);
}

void handle_stream_jobs(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct dispatch *d = data;
    const Request *request = (const Request *)(const void *)message;
    struct stream *stream;
    struct pawl_err err = {0};

    if (d->draining) {
        rpc_end(call, RPC_UNAVAILABLE, "the server stops; connect to another one");
        return;
    }
    if (!may_serve(d, call, request) || !dispatch_worker_id_ok(call, request->worker_id))
        return;
    if (!is_its_own(d, call, request->worker_id))
        return;
    if (check_names(request, &err) < 0 || open_stream(d, call, request, &stream, &err) < 0) {
        rpc_end_err(call, &err);
        return;
    }
    d->counters.streams_opened++;
    rpc_hold(call, &stream_ops, stream);
    struct take *take = take_up(stream, request);

    end_older(stream);
    dispatch_all_named(d, request->worker_id, rpc_call_client(call));
    d->crowd_changed = true;
    log_info(d->options.log,
             "worker_stream",
             LOG_STR("worker", request->worker_id),
             LOG_STR("name", request->worker_name),
             LOG_INT("credits", request->credits),
             LOG_INT("running", request->n_running));
    if (take == NULL || take->n == 0) {
        take_free(take);
        begin(stream, NULL, 0);
        return;
    }
    take->done = on_taken;
    take->data = stream;
    stream->take = take;
    away_take(d, take);
}
