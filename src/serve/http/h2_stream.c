/*
 * h2_stream: one stream. The answer passes through its queue, from which nghttp2 takes what the
 * client's windows allow. Conserved: after `finishing` nothing is added, and the status follows the
 * last byte of the queue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http/h2_internal.h"

#define FIELD_OVERHEAD 32 /* bytes that HTTP/2 counts for each header besides its text */
#define FIELDS_FIRST   16 /* enough for the headers of most calls */
/* beyond this many times the limit the stream is reset without an answer */
#define RESET_FACTOR 4

#define NV(n, v, vlen)                                                               \
    {                                                                                \
        (uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), sizeof(n) - 1, (vlen), \
            NGHTTP2_NV_FLAG_NO_COPY_NAME                                             \
    }

static const struct rpc_sink rpc_sink;
static const struct http_sink http_sink;

struct h2_stream *h2_stream_new(struct h2 *h2, int32_t id)
{
    struct h2_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL)
        return NULL;
    stream->h2 = h2;
    stream->id = id;
    stream->queue.total = &h2->http->queued;
    stream->begun_us = h2->peer->net->now_us;
    list_init(&stream->receiving_link);
    list_push(&h2->receiving, &stream->receiving_link);
    list_init(&stream->wake_link);
    list_init(&stream->answered_link);
    list_push(&h2->streams, &stream->link);
    h2->n_streams++;
    return stream;
}

static void forget_fields(struct h2_stream *stream)
{
    for (size_t i = 0; i < stream->n_fields; i++) {
        nghttp2_rcbuf_decref(stream->fields[i].name);
        nghttp2_rcbuf_decref(stream->fields[i].value);
    }
    free(stream->fields);
    stream->fields = NULL;
    stream->n_fields = stream->fields_size = 0;
}

void h2_stream_free(struct h2_stream *stream)
{
    struct h2 *h2 = stream->h2;

    stream->finishing = true;
    if (stream->call != NULL)
        rpc_call_abort(stream->call);
    stream->call = NULL;
    exchange_deinit(&stream->exchange);
    forget_fields(stream);
    list_remove(&stream->link);
    list_remove(&stream->wake_link);
    list_remove(&stream->receiving_link);
    list_remove(&stream->answered_link);
    queue_deinit(&stream->queue);
    free(stream->message);
    free(stream);
    h2->n_streams--;
    h2->idle_us = h2->peer->net->now_us;
}

static int grow_fields(struct h2_stream *stream)
{
    size_t size = stream->fields_size > 0 ? H2_FIELDS_MAX : FIELDS_FIRST;
    struct h2_field *fields = realloc(stream->fields, size * sizeof(*fields));

    if (fields == NULL)
        return PAWL_ENOMEM;
    stream->fields = fields;
    stream->fields_size = size;
    return 0;
}

int h2_stream_header(struct h2_stream *stream, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
    const size_t max = (size_t)stream->h2->http->limits->header_bytes;
    nghttp2_vec n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);

    stream->header_bytes += n.len + v.len + FIELD_OVERHEAD;
    if (stream->header_bytes > RESET_FACTOR * max)
        return PAWL_ELIMIT;
    if (stream->header_bytes > max || stream->n_fields == H2_FIELDS_MAX) {
        stream->headers_too_large = true;
        return 0;
    }
    if (stream->n_fields == stream->fields_size && grow_fields(stream) < 0)
        return PAWL_ENOMEM;
    nghttp2_rcbuf_incref(name);
    nghttp2_rcbuf_incref(value);
    stream->fields[stream->n_fields++] = (struct h2_field){name, value};
    return 0;
}

static const char *field(const struct h2_stream *stream, const char *wanted, size_t len)
{
    for (size_t i = 0; i < stream->n_fields; i++) {
        nghttp2_vec name = nghttp2_rcbuf_get_buf(stream->fields[i].name);
        if (name.len == len && memcmp(name.base, wanted, len) == 0)
            return (const char *)nghttp2_rcbuf_get_buf(stream->fields[i].value).base;
    }
    return NULL;
}

#define FIELD(stream, name) field((stream), (name), sizeof(name) - 1)

static void start_rpc(struct h2_stream *stream, const char *path)
{
    stream->is_rpc = true;
    if (stream->headers_too_large) {
        rpc_sink.finish(
            stream, RPC_RESOURCE_EXHAUSTED, "the headers are larger than the limit", RPC_DONE_NO);
        return;
    }
    const struct rpc_head head = {
        .path = path,
        .timeout = FIELD(stream, "grpc-timeout"),
        .encoding = FIELD(stream, "grpc-encoding"),
        .authorization = FIELD(stream, "authorization"),
        .peer = &stream->h2->who,
    };
    stream->call = rpc_call_begin(stream->h2->http->rpc, &head, &rpc_sink, stream);
}

void h2_stream_start(struct h2_stream *stream)
{
    const char *method = FIELD(stream, ":method");
    const char *path = FIELD(stream, ":path");

    stream->started = true;
    if (path == NULL ||
        method == NULL) { /* nghttp2 checks that they are there, but they may have been too large */
        path = path != NULL ? path : "/";
        method = method != NULL ? method : "GET";
    }
    if (strcmp(method, "POST") == 0 && http_is_rpc(FIELD(stream, "content-type"))) {
        start_rpc(stream, path);
        forget_fields(stream);
        return;
    }
    stream->exchange.sink = &http_sink;
    stream->exchange.stream = stream;
    stream->exchange.peer = &stream->h2->who;
    if (exchange_init(&stream->exchange, stream->h2->http, method, path) < 0)
        stream->h2->broken = true;
    else if (stream->headers_too_large)
        http_reply_text(&stream->exchange, 431, "the headers are larger than the limit");
}

void h2_stream_data(struct h2_stream *stream, const uint8_t *data, size_t len)
{
    struct http_exchange *exchange = &stream->exchange;

    if (stream->finishing)
        stream->discarded += len;
    if (stream->call != NULL)
        rpc_call_input(stream->call, data, len);
    else if (!stream->is_rpc && exchange->target != NULL && !exchange->answered &&
             buf_append(&exchange->body, data, len) < 0)
        http_reply_text(
            exchange, 413, "the body is larger than the limit of %zu bytes", exchange->body.max);
}

void h2_stream_too_slow(struct h2_stream *stream)
{
    list_remove(&stream->receiving_link);
    if (stream->call != NULL)
        rpc_call_too_slow(stream->call);
    else if (!stream->is_rpc && stream->exchange.target != NULL && !stream->exchange.answered)
        http_reply_text(&stream->exchange, 408, "the request was not complete in time");
}

void h2_stream_input_end(struct h2_stream *stream)
{
    list_remove(&stream->receiving_link);
    if (stream->call != NULL)
        rpc_call_input_end(stream->call);
    else if (!stream->is_rpc && stream->exchange.target != NULL && !stream->exchange.answered)
        exchange_dispatch(&stream->exchange);
}

/* ── output ── */

/* Message and effect of the status, where there are any; returns the number of fields. */
static size_t add_status(const struct h2_stream *stream, nghttp2_nv *nv, size_t n)
{
    if (stream->message != NULL) {
        nghttp2_nv message = NV("grpc-message", stream->message, strlen(stream->message));
        nv[n++] = message;
    }
    if (stream->done != NULL) {
        nghttp2_nv done = NV(RPC_DONE_TRAILER, stream->done, strlen(stream->done));
        nv[n++] = done;
    }
    return n;
}

/* The status, behind the last byte. nghttp2 wants it from inside the read callback. */
static int submit_trailers(nghttp2_session *session, struct h2_stream *stream)
{
    char status[12];
    int n = snprintf(status, sizeof(status), "%d", stream->status);
    nghttp2_nv nv[3] = {NV("grpc-status", status, (size_t)n)};

    return nghttp2_submit_trailer(session, stream->id, nv, add_status(stream, nv, 1));
}

/* Says how many bytes of the queue the next frame takes. h2_stream_send follows and takes them
 * without a copy through nghttp2's buffer, whose 16 KiB for each connection then stay untouched. */
static ssize_t read_cb(nghttp2_session *session,
                       int32_t id,
                       uint8_t *out,
                       size_t len,
                       uint32_t *flags,
                       nghttp2_data_source *source,
                       void *data)
{
    struct h2_stream *stream = source->ptr;

    (void)id;
    (void)out;
    (void)data;
    size_t n = stream->queue.len < len ? stream->queue.len : len;
    size_t left = stream->queue.len - n;

    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (left == 0 && stream->finishing) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (!stream->is_rpc)
            return (ssize_t)n;
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (submit_trailers(session, stream) < 0)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        return (ssize_t)n;
    }
    bool starved = stream->call != NULL ? rpc_call_starved(stream->call) : stream->exchange.starved;
    if (starved && left < (size_t)stream->h2->http->limits->queue_bytes / 2 &&
        list_empty(&stream->wake_link))
        list_push(&stream->h2->wake, &stream->wake_link);
    if (n == 0) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

int h2_stream_send(struct h2_stream *stream,
                   struct buf *out,
                   const uint8_t head[H2_FRAME_HEAD_LEN],
                   size_t len)
{
    int rc = buf_append(out, head, H2_FRAME_HEAD_LEN);

    if (rc == 0 && len > 0) {
        rc = buf_append(out, queue_front(&stream->queue), len);
        queue_drop(&stream->queue, len);
    }
    return rc;
}

static void resume(struct h2_stream *stream)
{
    if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(stream->h2->session, stream->id);
    }
    peer_dirty(stream->h2->peer);
}

static int submit(struct h2_stream *stream, const nghttp2_nv *nv, size_t n_nv, bool with_data)
{
    nghttp2_data_provider provider = {.source = {.ptr = stream}, .read_callback = read_cb};

    stream->responded = true;
    peer_dirty(stream->h2->peer);
    int rc = nghttp2_submit_response(
        stream->h2->session, stream->id, nv, n_nv, with_data ? &provider : NULL);
    if (rc < 0)
        stream->h2->broken = true;
    return rc;
}

static uint8_t *sink_reserve(void *data, size_t len)
{
    struct h2_stream *stream = data;
    static const nghttp2_nv nv[] = {
        NV(":status", "200", 3),
        NV("content-type", "application/grpc", 16),
    };

    uint8_t *room = queue_reserve(&stream->queue, len);
    if (room == NULL)
        return NULL;
    if (!stream->responded && submit(stream, nv, 2, true) < 0) {
        queue_deinit(&stream->queue);
        return NULL;
    }
    resume(stream);
    return room;
}

static size_t sink_queued(const void *data)
{
    const struct h2_stream *stream = data;

    return stream->queue.len;
}

/* A status without headers before it. */
static void submit_status_only(struct h2_stream *stream)
{
    char status[12];
    int n = snprintf(status, sizeof(status), "%d", stream->status);
    nghttp2_nv nv[6] = {
        NV(":status", "200", 3),
        NV("content-type", "application/grpc", 16),
        NV("grpc-status", status, (size_t)n),
    };
    size_t n_nv = add_status(stream, nv, 3);

    if (stream->status == RPC_UNIMPLEMENTED) {
        nghttp2_nv accepted = NV("grpc-accept-encoding", "identity,gzip", 13);
        nv[n_nv++] = accepted;
    }
    (void)submit(stream, nv, n_nv, false);
}

static void sink_finish(void *data, enum rpc_status status, const char *message, const char *done)
{
    struct h2_stream *stream = data;
    char encoded[RPC_MESSAGE_ENCODED_MAX];

    stream->call = NULL;
    stream->finishing = true;
    stream->status = (int)status;
    stream->done = done;
    if (message[0]) {
        rpc_message_encode(message, encoded);
        stream->message = strdup(encoded); /* without memory the status goes without its message */
    }
    if (!stream->responded)
        submit_status_only(stream);
    else
        resume(stream);
}

static const struct rpc_sink rpc_sink = {
    .reserve = sink_reserve, .queued = sink_queued, .finish = sink_finish};

static void sink_answer(void *data, const struct http_answer *answer)
{
    struct h2_stream *stream = data;
    nghttp2_nv nv[HTTP_EXTRA_MAX + 3];
    char status[12], length[24];
    size_t n_nv = 0;
    int n_status = snprintf(status, sizeof(status), "%d", answer->status);
    int n_length = snprintf(length, sizeof(length), "%zu", answer->len);
    bool with_data = answer->body != NULL && answer->len > 0;

    const nghttp2_nv fixed[] = {
        NV(":status", status, (size_t)n_status),
        NV("content-type", answer->content_type, strlen(answer->content_type)),
        NV("content-length", length, (size_t)n_length),
    };
    /* the length of a stream of pieces is not known */
    for (size_t i = 0; i < (answer->begins ? 2 : 3); i++)
        nv[n_nv++] = fixed[i];
    for (size_t i = 0; i < answer->n_extra; i++)
        nv[n_nv++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)answer->extra[i].name,
                                  .value = (uint8_t *)(uintptr_t)answer->extra[i].value,
                                  .namelen = strlen(answer->extra[i].name),
                                  .valuelen = strlen(answer->extra[i].value)};
    if (with_data) {
        uint8_t *room = queue_reserve(&stream->queue, answer->len);
        if (room == NULL) {
            stream->h2->broken = true;
            return;
        }
        memcpy(room, answer->body, answer->len);
    }
    stream->finishing = !answer->begins;
    (void)submit(stream, nv, n_nv, with_data || answer->begins);
}

static const char *sink_header(const void *data, const char *name)
{
    return field(data, name, strlen(name));
}

static int sink_write(void *data, const void *bytes, size_t len)
{
    struct h2_stream *stream = data;
    uint8_t *room = queue_reserve(&stream->queue, len);

    if (room == NULL)
        return PAWL_ENOMEM;
    memcpy(room, bytes, len);
    resume(stream);
    return 0;
}

static void sink_end(void *data)
{
    struct h2_stream *stream = data;

    stream->finishing = true;
    resume(stream);
}

static const struct http_sink http_sink = {.answer = sink_answer,
                                           .header = sink_header,
                                           .write = sink_write,
                                           .end = sink_end,
                                           .queued = sink_queued};
