/*
 * call: the life of one call. The call is on rpc->active from rpc_call_begin until it has ended and
 * no function here uses it (busy == 0); then it returns to the idle ones. Conserved: finish and
 * gone are called at most once each, and every call that began is counted as ended exactly once.
 */
#include "serve/rpc/call.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "serve/rpc/rpc_internal.h"
#include "wire/wire.h"

/* Requests are small, and a thousand workers have a stream open each, and as many reports under
 * way. */
#define HEAD_FIRST ((size_t)256)
#define BODY_FIRST ((size_t)512)

static int64_t now_us(void)
{
    return (int64_t)(uv_hrtime() / 1000);
}

static void call_closed(uv_handle_t *handle)
{
    struct rpc_call *call = handle->data;

    arena_deinit(&call->head);
    arena_deinit(&call->body);
    frame_reader_deinit(&call->reader);
    free(call);
}

void rpc_call_free(struct rpc_call *call)
{
    uv_close((uv_handle_t *)&call->timer, call_closed);
}

static struct rpc_call *call_get(struct rpc *rpc)
{
    struct list *link = list_shift(&rpc->idle);

    if (link != NULL) {
        rpc->n_idle--;
        return LIST_ENTRY(link, struct rpc_call, link);
    }
    struct rpc_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return NULL;
    list_init(&call->link);
    call->rpc = rpc;
    arena_init(&call->head, (size_t)rpc->limits->header_bytes + 1024);
    arena_init(&call->body, WIRE_ARENA_BASE);
    call->head.first = HEAD_FIRST;
    call->body.first = BODY_FIRST;
    frame_reader_init(&call->reader, (size_t)rpc->limits->message_bytes);
    uv_timer_init(rpc->loop, &call->timer);
    call->timer.data = call;
    return call;
}

/* Counts the memory of the call against the limit of all calls. */
static int call_charge(struct rpc_call *call)
{
    struct rpc *rpc = call->rpc;
    size_t memory = frame_memory(&call->reader) + call->body.used;

    rpc->memory_used = rpc->memory_used - call->charged + memory;
    call->charged = memory;
    if (rpc->memory_used <= (size_t)rpc->limits->memory_bytes)
        return 0;
    rpc->memory_refused++;
    return PAWL_EFULL;
}

static void call_put(struct rpc_call *call)
{
    struct rpc *rpc = call->rpc;

    assert(call->ended && call->busy == 0);
    rpc->memory_used -= call->charged;
    call->charged = 0;
    list_remove(&call->link);
    rpc->n_active--;
    if (rpc->n_idle >= RPC_IDLE_MAX) {
        rpc_call_free(call);
        return;
    }
    arena_clear(&call->head);
    arena_clear(&call->body);
    frame_reader_clear(&call->reader);
    rpc->n_idle++;
    list_push(&rpc->idle, &call->link);
}

static void call_leave(struct rpc_call *call)
{
    call->busy--;
    if (call->ended && call->busy == 0)
        call_put(call);
}

/* The call ended: metrics and timer. */
static void call_close(struct rpc_call *call, enum rpc_status status)
{
    struct rpc_entry *entry = call->entry;

    assert(!call->ended);
    call->ended = true;
    call->stream = NULL;
    uv_timer_stop(&call->timer);
    entry->ended[status]++;
    entry->active--;
    if (entry->method != NULL && !entry->method->server_streams)
        histogram_add(&entry->latency, now_us() - call->started_us);
}

/* Whether a call that ends like this was done, for the client. Nothing is said of a stream,
 * which has several effects. */
static const char *call_done(const struct rpc_call *call, enum rpc_status status)
{
    if (status == RPC_OK || (call->entry->method != NULL && call->entry->method->server_streams))
        return NULL;
    return call->unknown ? RPC_DONE_UNKNOWN : RPC_DONE_NO;
}

static void call_finish(struct rpc_call *call, enum rpc_status status, const char *message)
{
    void *stream = call->stream;

    call->busy++;
    call_close(call, status);
    call->sink->finish(stream, status, message, call_done(call, status));
    call_leave(call);
}

/* Tells the handler that holds the call to forget it. */
static void call_gone(struct rpc_call *call)
{
    const struct rpc_call_ops *ops = call->ops;

    call->ops = NULL;
    if (ops != NULL)
        ops->gone(call, call->data);
}

void rpc_call_end_by_force(struct rpc_call *call, enum rpc_status status, const char *message)
{
    call->busy++;
    call->forced = true;
    call->unknown = call->handled;
    call_gone(call);
    call_finish(call, status, message);
    call_leave(call);
}

static void deadline_cb(uv_timer_t *timer)
{
    rpc_call_end_by_force(timer->data,
                          RPC_DEADLINE_EXCEEDED,
                          "the call's deadline passed before there was an answer");
}

/* Sets what the head asks for; -1: the call was refused. */
static int call_accept(struct rpc_call *call, const struct rpc_head *head)
{
    int64_t timeout_us;

    if (head->encoding != NULL && strcmp(head->encoding, "gzip") == 0)
        call->reader.gzip = true;
    else if (head->encoding != NULL && strcmp(head->encoding, "identity") != 0) {
        rpc_end(call,
                RPC_UNIMPLEMENTED,
                "compression \"%s\" is not known here; use gzip or identity",
                head->encoding);
        return -1;
    }
    if (head->authorization != NULL) {
        call->authorization = arena_strdup(&call->head, head->authorization);
        if (call->authorization == NULL) {
            rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory for the call");
            return -1;
        }
    }
    if (head->timeout == NULL)
        return 0;
    if (rpc_timeout_parse(head->timeout, strlen(head->timeout), &timeout_us) < 0) {
        rpc_end(call, RPC_INVALID_ARGUMENT, "grpc-timeout \"%s\" is not a timeout", head->timeout);
        return -1;
    }
    call->deadline_us = call->started_us + timeout_us;
    if (timeout_us == 0) {
        rpc_end(call, RPC_DEADLINE_EXCEEDED, "the call's deadline had passed when it arrived");
        return -1;
    }
    uv_timer_start(
        &call->timer, deadline_cb, (uint64_t)(timeout_us + US_PER_MS - 1) / US_PER_MS, 0);
    return 0;
}

struct rpc_call *rpc_call_begin(struct rpc *rpc,
                                const struct rpc_head *head,
                                const struct rpc_sink *sink,
                                void *stream)
{
    struct rpc_call *call = call_get(rpc);

    if (call == NULL) {
        sink->finish(stream, RPC_RESOURCE_EXHAUSTED, "no memory for the call", RPC_DONE_NO);
        return NULL;
    }
    struct rpc_entry *entry = map_get(&rpc->by_path, head->path, strlen(head->path));
    call->entry = entry != NULL ? entry : &rpc->unknown;
    call->sink = sink;
    call->stream = stream;
    call->peer = *head->peer;
    call->authorization = NULL;
    call->request = NULL;
    call->client = NULL;
    call->forced = call->handled = call->unknown = false;
    call->ops = NULL;
    call->data = NULL;
    call->started_us = now_us();
    call->deadline_us = INT64_MAX;
    call->ended = call->input_ended = call->starved = call->guarded = false;
    call->body.max = WIRE_ARENA_BASE;
    call->entry->started++;
    call->entry->active++;
    list_push(&rpc->active, &call->link);
    rpc->n_active++;

    call->busy++;
    if (entry == NULL)
        rpc_end(call, RPC_UNIMPLEMENTED, "there is no method %s here", head->path);
    else
        (void)call_accept(call, head);
    bool refused = call->ended;
    call_leave(call);
    return refused ? NULL : call;
}

/* Runs the handler, and answers if the handler did not. */
static void call_handle(struct rpc_call *call, const ProtobufCMessage *request)
{
    const struct rpc_method *method = call->entry->method;
    const struct rpc *rpc = call->rpc;
    bool asked = call->guarded || method->client_streams;

    call->guarded = true;
    if (asked || rpc->guard == NULL || rpc->guard(call, rpc->guard_data)) {
        call->handled = true;
        method->handle(call, request, call->entry->service->data);
    }
    if (!call->ended && call->ops == NULL && (!method->client_streams || request == NULL))
        rpc_end(call, RPC_INTERNAL, "%s gave no answer", method->name);
}

void rpc_proceed(struct rpc_call *call)
{
    assert(!call->ended && call->guarded);
    call->ops = NULL;
    call->busy++;
    call_handle(call, call->request);
    call_leave(call);
}

static void call_message(struct rpc_call *call, const uint8_t *data, size_t len)
{
    const struct rpc_method *method = call->entry->method;
    struct pawl_err err;

    call->entry->messages_in++;
    if (call->request != NULL && !method->client_streams) {
        rpc_end(call, RPC_INTERNAL, "%s takes one message, and there is another", method->name);
        return;
    }
    arena_clear(&call->body);
    call->body.max = WIRE_ARENA_MAX(len);
    int rc = wire_unpack(method->request, &call->body, data, len, &call->request, &err);
    if (rc < 0) {
        rpc_end(call,
                rc == PAWL_ELIMIT ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT,
                "%s",
                err.message);
        return;
    }
    if (method->client_streams)
        call_handle(call, call->request);
}

void rpc_call_input(struct rpc_call *call, const uint8_t *data, size_t len)
{
    const uint8_t *message;
    size_t message_len;
    int rc = 0;

    call->busy++;
    while (!call->ended &&
           (rc = frame_next(&call->reader, &data, &len, &message, &message_len)) > 0)
        call_message(call, message, message_len);
    if (!call->ended && rc < 0) {
        call_gone(call);
        rpc_end(call,
                call->reader.status,
                "%s%s",
                call->reader.error,
                call->reader.status == RPC_RESOURCE_EXHAUSTED ? "; send less at once" : "");
    }
    if (!call->ended && call_charge(call) < 0) {
        call_gone(call);
        rpc_end(call,
                RPC_RESOURCE_EXHAUSTED,
                "requests hold more memory than the server allows; try again later");
    }
    call_leave(call);
}

void rpc_call_input_end(struct rpc_call *call)
{
    const struct rpc_method *method = call->entry->method;

    assert(!call->input_ended);
    call->input_ended = true;
    call->busy++;
    if (frame_partial(&call->reader)) {
        call_gone(call);
        rpc_end(call, RPC_INTERNAL, "the request ends in the middle of a message");
    } else if (method->client_streams)
        call_handle(call, NULL);
    else if (call->request == NULL)
        rpc_end(call, RPC_INTERNAL, "%s takes one message, and there is none", method->name);
    else
        call_handle(call, call->request);
    call_leave(call);
}

void rpc_call_too_slow(struct rpc_call *call)
{
    if (!call->entry->method->client_streams || frame_partial(&call->reader))
        rpc_call_end_by_force(
            call, RPC_DEADLINE_EXCEEDED, "the request was not complete in time; send it faster");
}

bool rpc_call_starved(const struct rpc_call *call)
{
    return call->starved;
}

bool rpc_call_keeps_connection(const struct rpc_call *call)
{
    return call->ops != NULL && call->ops->keeps_connection;
}

void rpc_call_writable(struct rpc_call *call)
{
    call->starved = false;
    call->busy++;
    if (call->ops != NULL && call->ops->writable != NULL)
        call->ops->writable(call, call->data);
    call_leave(call);
}

void rpc_call_abort(struct rpc_call *call)
{
    if (call->ended)
        return;
    call->busy++;
    call_gone(call);
    call_close(call, RPC_CANCELLED);
    call_leave(call);
}

/* ── answering ── */

/* Appends the message with its prefix to the queue. */
static int call_pack(struct rpc_call *call, const ProtobufCMessage *message)
{
    assert(message->descriptor == call->entry->method->response);
    size_t len = protobuf_c_message_get_packed_size(message);
    if (len > UINT32_MAX)
        return PAWL_ELIMIT;
    uint8_t *out = call->sink->reserve(call->stream, FRAME_PREFIX_LEN + len);
    if (out == NULL)
        return PAWL_ENOMEM;
    frame_prefix(out, len);
    size_t packed = protobuf_c_message_pack(message, out + FRAME_PREFIX_LEN);
    assert(packed == len);
    (void)packed;
    call->entry->messages_out++;
    return 0;
}

void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
    assert(!call->ended);
    if (call_pack(call, message) < 0) {
        call->unknown = true; /* there is an answer, so the call was done */
        call_finish(call, RPC_RESOURCE_EXHAUSTED, "no memory for the answer");
        return;
    }
    call_finish(call, RPC_OK, "");
}

int rpc_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    size_t queued = rpc_queued(call);
    size_t len = FRAME_PREFIX_LEN + protobuf_c_message_get_packed_size(message);

    assert(!call->ended && call->entry->method->server_streams);
    if (queued > 0 && queued + len > (size_t)call->rpc->limits->queue_bytes) {
        call->starved = true;
        return PAWL_EFULL;
    }
    return call_pack(call, message);
}

size_t rpc_queued(const struct rpc_call *call)
{
    return call->stream != NULL ? call->sink->queued(call->stream) : 0;
}

static void end_with(struct rpc_call *call, enum rpc_status status, const char *fmt, va_list ap)
    PRINTF_LIKE(3, 0);

static void end_with(struct rpc_call *call, enum rpc_status status, const char *fmt, va_list ap)
{
    char message[RPC_MESSAGE_MAX + 1];

    if (vsnprintf(message, sizeof(message), fmt, ap) > RPC_MESSAGE_MAX)
        message[text_whole(message, RPC_MESSAGE_MAX)] = '\0';
    call_finish(call, status, message);
}

void rpc_end(struct rpc_call *call, enum rpc_status status, const char *fmt, ...)
{
    va_list ap;

    assert(status < RPC_STATUS_COUNT);
    va_start(ap, fmt);
    end_with(call, status, fmt, ap);
    va_end(ap);
}

void rpc_end_unknown(struct rpc_call *call, enum rpc_status status, const char *fmt, ...)
{
    va_list ap;

    call->unknown = true;
    va_start(ap, fmt);
    end_with(call, status, fmt, ap);
    va_end(ap);
}

void rpc_end_ok(struct rpc_call *call)
{
    call_finish(call, RPC_OK, "");
}

void rpc_end_err(struct rpc_call *call, const struct pawl_err *err)
{
    rpc_end(call,
            rpc_status_of(err->code),
            "%s%s%s%s%s",
            err->message,
            err->detail[0] ? ". " : "",
            err->detail,
            err->hint[0] ? " Hint: " : "",
            err->hint);
}

void rpc_hold(struct rpc_call *call, const struct rpc_call_ops *ops, void *data)
{
    assert(!call->ended && ops != NULL && ops->gone != NULL);
    call->ops = ops;
    call->data = data;
}

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call)
{
    return &call->peer;
}

const char *rpc_call_authorization(const struct rpc_call *call)
{
    return call->authorization;
}

const char *rpc_call_path(const struct rpc_call *call)
{
    return call->entry->path != NULL ? call->entry->path : "";
}

int64_t rpc_call_deadline_us(const struct rpc_call *call)
{
    return call->deadline_us;
}

void rpc_call_set_client(struct rpc_call *call, void *client)
{
    call->client = client;
}

bool rpc_call_is_forced(const struct rpc_call *call)
{
    return call->forced;
}

void *rpc_call_client(const struct rpc_call *call)
{
    return call->client;
}
