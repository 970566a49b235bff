/*
 * call: one call, from its request to its status. Bounded: a message by CHANNEL_MESSAGE_MAX, what it is unpacked into by an
 * arena in proportion to it.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/channel_internal.h"
#include "wire/wire.h"

#define HTTP_OK 200
#define GRPC    "application/grpc"

void call_free(struct call *call)
{
    list_remove(&call->link);
    queue_deinit(&call->out);
    frame_reader_deinit(&call->reader);
    arena_deinit(&call->arena);
    free(call);
}

int call_start(struct channel *channel, const struct call_new *options, struct call **ret_call)
{
    struct session *session = channel->current;
    size_t len = protobuf_c_message_get_packed_size(options->request);

    if (!channel_is_up(channel))
        return PAWL_ECONN;
    if (session->n_calls >= CHANNEL_CALLS_MAX)
        return PAWL_EFULL;
    if (len > CHANNEL_MESSAGE_MAX)
        return PAWL_ELIMIT;
    struct call *call = calloc(1, sizeof(*call));

    if (call == NULL)
        return PAWL_ENOMEM;
    call->session = session;
    call->options = *options;
    call->options.request = NULL;
    call->status = -1;
    call->deadline_ms = UINT64_MAX;
    list_init(&call->link);
    frame_reader_init(&call->reader, CHANNEL_MESSAGE_MAX);
    arena_init(&call->arena, WIRE_ARENA_MAX(CHANNEL_MESSAGE_MAX));
    uint8_t *room = queue_reserve(&call->out, FRAME_PREFIX_LEN + len);

    if (room != NULL) {
        frame_prefix(room, len);
        protobuf_c_message_pack(options->request, room + FRAME_PREFIX_LEN);
    }
    int rc = room != NULL ? http2_submit(session, call) : PAWL_ENOMEM;

    if (rc < 0) {
        call_free(call);
        return rc;
    }
    list_push(&session->calls, &call->link);
    session->n_calls++;
    if (options->timeout_ms > 0) {
        call->deadline_ms = uv_now(channel->options.loop) + (uint64_t)options->timeout_ms;
        channel_tick_at(channel, call->deadline_ms);
    }
    if (ret_call != NULL)
        *ret_call = call;
    return 0;
}

/* Nothing of it is heard or said from now on; its memory goes when HTTP/2 has done with it. */
static void let_go(struct call *call)
{
    struct session *session = call->session;

    if (call->gone)
        return;
    call->gone = true;
    if (session->state == SESSION_DEAD)
        return; /* goes with its session */
    /* The stream is there until its reset was sent, and its request may be read until then. */
    nghttp2_submit_rst_stream(session->h2, NGHTTP2_FLAG_NONE, call->id, NGHTTP2_CANCEL);
    session->dirty = true;
}

void call_cancel(struct call *call)
{
    let_go(call);
}

/* The owner hears of it, once. */
static void
tell(struct call *call, enum rpc_status status, const char *message, enum call_done done)
{
    if (call->gone)
        return;
    call->gone = true;
    call->options.ops->ended(
        call->options.data, &(struct call_end){.status = status, .message = message, .done = done});
}

/* Of a call whose end was not said by the server. */
static enum call_done done_of(const struct call *call)
{
    return call->whole ? CALL_UNKNOWN : CALL_UNTOUCHED;
}

void call_fail(struct call *call, enum rpc_status status, const char *message)
{
    if (call->gone)
        return;
    let_go(call);
    call->gone = false;
    tell(call, status, message, done_of(call));
}

/* --- what comes --- */

static bool is(const uint8_t *name, size_t len, const char *wanted)
{
    return len == strlen(wanted) && memcmp(name, wanted, len) == 0;
}

static int parse_small(const uint8_t *value, size_t len)
{
    int n = 0;

    if (len == 0 || len > 3)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return -1;
        n = n * 10 + (value[i] - '0');
    }
    return n;
}

void call_header(
    struct call *call, const uint8_t *name, size_t name_len, const uint8_t *value, size_t len)
{
    if (is(name, name_len, ":status")) {
        call->http_status = parse_small(value, len);
    } else if (is(name, name_len, "content-type")) {
        call->not_grpc = len < sizeof(GRPC) - 1 || memcmp(value, GRPC, sizeof(GRPC) - 1) != 0;
    } else if (is(name, name_len, "grpc-status")) {
        int status = parse_small(value, len);

        call->status = status < 0 || status >= RPC_STATUS_COUNT ? RPC_UNKNOWN : status;
    } else if (is(name, name_len, "grpc-message")) {
        rpc_message_decode((const char *)value, len, call->message);
    } else if (is(name, name_len, RPC_DONE_TRAILER)) {
        call->said_done = is(value, len, RPC_DONE_NO) ? CALL_REFUSED : CALL_UNKNOWN;
    } else if (is(name, name_len, "grpc-encoding")) {
        call->reader.gzip = is(value, len, "gzip");
    }
}

static bool show(struct call *call, const uint8_t *bytes, size_t len)
{
    ProtobufCMessage *message;
    struct pawl_err err;

    if (!call->options.streams && call->n_messages > 0) {
        call_fail(call, RPC_INTERNAL, "the server answered more than once");
        return false;
    }
    if (wire_unpack(call->options.response, &call->arena, bytes, len, &message, &err) < 0) {
        call_fail(call, RPC_INTERNAL, err.message);
        return false;
    }
    call->n_messages++;
    call->options.ops->message(call->options.data, message);
    arena_clear(&call->arena);
    return true;
}

void call_data(struct call *call, const uint8_t *data, size_t len)
{
    const uint8_t *message;
    size_t message_len;
    int rc = 0;

    if (call->http_status != HTTP_OK || call->not_grpc)
        return; /* a page of somebody else's */
    while (!call->gone && call->session->state != SESSION_DEAD &&
           (rc = frame_next(&call->reader, &data, &len, &message, &message_len)) > 0) {
        if (!show(call, message, message_len))
            return;
    }
    if (rc < 0 && !call->gone)
        call_fail(call, call->reader.status, call->reader.error);
}

/* Without a status of gRPC's: what HTTP says. */
static enum rpc_status status_of_http(int status)
{
    switch (status) {
    case 400:
        return RPC_INTERNAL;
    case 401:
        return RPC_UNAUTHENTICATED;
    case 403:
        return RPC_PERMISSION_DENIED;
    case 404:
        return RPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return RPC_UNAVAILABLE;
    default:
        return RPC_UNKNOWN;
    }
}

/* With such a status a proxy, or what is no gRPC server, has passed nothing on. */
static bool is_turned_away(int http_status)
{
    return http_status == 400 || http_status == 401 || http_status == 403 || http_status == 404 ||
           http_status == 405 || http_status == 415;
}

static void end_without_status(struct call *call, uint32_t code)
{
    char text[128];

    if (call->http_status > 0 && (call->http_status != HTTP_OK || call->not_grpc)) {
        snprintf(text,
                 sizeof(text),
                 "the server answered with HTTP status %d, and not with gRPC",
                 call->http_status);
        tell(call,
             status_of_http(call->http_status),
             text,
             is_turned_away(call->http_status) ? CALL_REFUSED : done_of(call));
        return;
    }
    switch (code) {
    case NGHTTP2_REFUSED_STREAM:
        tell(call,
             RPC_UNAVAILABLE,
             "the server refused the call without looking at it",
             CALL_UNTOUCHED);
        return;
    case NGHTTP2_CANCEL:
        tell(call, RPC_CANCELLED, "the server cancelled the call", done_of(call));
        return;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        tell(call, RPC_RESOURCE_EXHAUSTED, "the server wants us to be calmer", done_of(call));
        return;
    default:
        snprintf(text,
                 sizeof(text),
                 "the call ended without a status (%s)",
                 nghttp2_http2_strerror(code));
        tell(call, RPC_INTERNAL, text, done_of(call));
    }
}

/* Where the server does not say: statuses that are given to a call before it is done. The others are also those of a
 * proxy that lost the server, or of a deadline that passed in the middle. */
static enum call_done done_of_status(const struct call *call)
{
    if (call->said_done != CALL_UNSAID)
        return call->said_done;
    switch (call->status) {
    case RPC_INVALID_ARGUMENT:
    case RPC_NOT_FOUND:
    case RPC_ALREADY_EXISTS:
    case RPC_PERMISSION_DENIED:
    case RPC_RESOURCE_EXHAUSTED:
    case RPC_FAILED_PRECONDITION:
    case RPC_ABORTED:
    case RPC_OUT_OF_RANGE:
    case RPC_UNIMPLEMENTED:
    case RPC_UNAUTHENTICATED:
        return CALL_REFUSED;
    default:
        return CALL_UNKNOWN;
    }
}

void call_closed(struct call *call, uint32_t code)
{
    struct session *session = call->session;

    if (call->gone)
        ;
    else if (call->status < 0)
        end_without_status(call, code);
    else if (call->status == RPC_OK &&
             (frame_partial(&call->reader) || (!call->options.streams && call->n_messages != 1)))
        tell(call, RPC_INTERNAL, "the server answered OK without a whole message", CALL_UNKNOWN);
    else
        tell(call, (enum rpc_status)call->status, call->message, done_of_status(call));
    session->n_calls--;
    call_free(call);
}

int call_error(const struct call_end *end,
               const struct address *server,
               const char *what,
               struct pawl_err *err)
{
    static const int codes[RPC_STATUS_COUNT] = {
        [RPC_INVALID_ARGUMENT] = PAWL_EINVAL,
        [RPC_DEADLINE_EXCEEDED] = PAWL_ETIMEOUT,
        [RPC_NOT_FOUND] = PAWL_ENOTFOUND,
        [RPC_ALREADY_EXISTS] = PAWL_EEXIST,
        [RPC_PERMISSION_DENIED] = PAWL_EDENIED,
        [RPC_RESOURCE_EXHAUSTED] = PAWL_EFULL,
        [RPC_FAILED_PRECONDITION] = PAWL_ESTATE,
        [RPC_ABORTED] = PAWL_ERETRY,
        [RPC_UNAVAILABLE] = PAWL_ECONN,
        [RPC_UNAUTHENTICATED] = PAWL_EAUTH,
        [RPC_CANCELLED] = PAWL_EINTERRUPTED,
    };
    int code = codes[end->status] < 0 ? codes[end->status] : PAWL_EFAILED;

    err_set(err, code, "could not %s", what);
    err_detail(err,
               "The server at %s says %s%s%s.",
               server->text,
               rpc_status_name((int)end->status),
               end->message[0] != '\0' ? ": " : "",
               end->message);
    if (end->status == RPC_UNAUTHENTICATED)
        err_hint(
            err,
            "A token is made by `pawl token create` and passed in PAWL_TOKEN or by --token-file.");
    else if (end->status == RPC_PERMISSION_DENIED)
        err_hint(err, "The token lacks the right: `pawl token list` shows what it may do.");
    else if (end->status == RPC_UNIMPLEMENTED)
        err_hint(err, "The server may be older than this program, or no pawl server.");
    return code;
}
