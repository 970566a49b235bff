/*
 * h2: the nghttp2 session of one connection. Callbacks submit, note and mark the peer dirty; only
 * the flush of the peer (output) takes frames out, outside of every callback. nghttp2 forgets
 * streams silently when a session is deleted, so this file keeps them in a list and ends them.
 */
#include "serve/http/h2.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/http/h2_internal.h"

#define STREAM_WINDOW     (256 * 1024)
#define CONNECTION_WINDOW (1024 * 1024)
#define DISCARD_MAX       ((size_t)64 * 1024) /* of a request that has been answered already */
#define ANSWERED_MS       1000                /* for the client to end its request */
#define NOTICE_MS         1000 /* for the client to see the first GOAWAY before the second */

static const uint8_t drain_ping[8] = "pawlgoes";

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int begin_headers_cb(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct h2 *h2 = data;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    if (frame->hd.stream_id > h2->last_id) {
        /* The stream came before the GOAWAY that names the last stream went out: the client will
         * believe that it was never looked at, and may repeat it elsewhere. */
        if (nghttp2_submit_rst_stream(
                session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM) < 0)
            h2->broken = true;
        return 0;
    }
    struct h2_stream *stream = h2_stream_new(h2, frame->hd.stream_id);
    if (stream == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
    return 0;
}

static int header_cb(nghttp2_session *session,
                     const nghttp2_frame *frame,
                     nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value,
                     uint8_t flags,
                     void *data)
{
    struct h2_stream *stream = stream_of(session, frame->hd.stream_id);

    (void)flags;
    (void)data;
    if (stream == NULL || stream->started) /* trailers of a request are ignored */
        return 0;
    return h2_stream_header(stream, name, value) < 0 ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

static void stop_sending(struct h2 *h2, struct h2_stream *stream);

static int data_cb(nghttp2_session *session,
                   uint8_t flags,
                   int32_t id,
                   const uint8_t *bytes,
                   size_t len,
                   void *data)
{
    struct h2_stream *stream = stream_of(session, id);

    (void)flags;
    if (stream == NULL)
        return 0;
    h2_stream_data(stream, bytes, len);
    if (stream->discarded > DISCARD_MAX && !list_empty(&stream->answered_link))
        stop_sending(data, stream);
    return 0;
}

/* Frames that cost the server and bring the client nothing. A client that gets answers may send
 * many: some libraries measure the network with a PING for each piece of data. */
static int begin_frame_cb(nghttp2_session *session, const nghttp2_frame_hd *hd, void *data)
{
    struct h2 *h2 = data;

    (void)session;
    switch (hd->type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
        return 0;
    case NGHTTP2_DATA:
        if (hd->length > 0 || (hd->flags & NGHTTP2_FLAG_END_STREAM))
            return 0;
        break;
    default:
        break;
    }
    if (++h2->control <= h2->http->limits->control_burst)
        return 0;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void drain_step(struct h2 *h2)
{
    if (h2->drain != H2_NOTICED)
        return;
    h2->drain = H2_GONE;
    h2->last_id = nghttp2_session_get_last_proc_stream_id(h2->session);
    if (nghttp2_submit_goaway(
            h2->session, NGHTTP2_FLAG_NONE, h2->last_id, NGHTTP2_NO_ERROR, NULL, 0) < 0)
        h2->broken = true;
    peer_dirty(h2->peer);
}

static int frame_cb(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct h2 *h2 = data;
    struct h2_stream *stream;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        stream = stream_of(session, frame->hd.stream_id);
        if (stream != NULL && !stream->started)
            h2_stream_start(stream);
        if (stream != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            h2_stream_input_end(stream);
        break;
    case NGHTTP2_DATA:
        stream = stream_of(session, frame->hd.stream_id);
        if (stream != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            h2_stream_input_end(stream);
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) &&
            memcmp(frame->ping.opaque_data, drain_ping, sizeof(drain_ping)) == 0)
            drain_step(h2);
        break;
    default:
        break;
    }
    return h2->broken ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* The answer is complete. A client that still sends gets a moment to finish: some clients take a
 * reset for an error although the answer was whole. */
static int frame_sent_cb(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct h2 *h2 = data;

    /* The answer to the PING proves that the client has seen the GOAWAY. Submitted together, the
     * PING would go first. */
    if (frame->hd.type == NGHTTP2_GOAWAY && h2->drain == H2_NOTICED &&
        nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, drain_ping) < 0)
        h2->broken = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    h2->control = 0;
    struct h2_stream *stream = stream_of(session, frame->hd.stream_id);
    if (stream != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        stream->answered_us = h2->peer->net->now_us;
        list_push(&h2->answered, &stream->answered_link);
        if (stream->discarded > DISCARD_MAX)
            stop_sending(h2, stream);
    }
    return 0;
}

/* Only after the last frame has gone out: a reset would overtake it. */
static void stop_sending(struct h2 *h2, struct h2_stream *stream)
{
    list_remove(&stream->answered_link);
    nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    peer_dirty(h2->peer);
}

static int stream_close_cb(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    struct h2_stream *stream = stream_of(session, id);

    (void)code;
    (void)data;
    if (stream != NULL) {
        nghttp2_session_set_stream_user_data(session, id, NULL);
        h2_stream_free(stream);
    }
    return 0;
}

/* ── the protocol of a peer ── */

static void h2_flooded(struct peer *peer)
{
    peer->net->counters.flooded++;
    log_info(peer->net->options.log, "peer_flood", LOG_STR("address", peer->address));
}

static int h2_input(struct peer *peer, const uint8_t *data, size_t len)
{
    struct h2 *h2 = peer->state;
    ssize_t n = nghttp2_session_mem_recv(h2->session, data, len);

    peer_dirty(peer);
    if (n == (ssize_t)len && !h2->broken)
        return 0;
    bool flood = h2->control > h2->http->limits->control_burst;
    if (flood || n == NGHTTP2_ERR_FLOODED)
        h2_flooded(peer);
    nghttp2_session_terminate_session(h2->session,
                                      flood || n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM
                                      : n == NGHTTP2_ERR_NOMEM || h2->broken
                                          ? NGHTTP2_INTERNAL_ERROR
                                          : NGHTTP2_PROTOCOL_ERROR);
    return PAWL_EINVAL;
}

static int send_data_cb(nghttp2_session *session,
                        nghttp2_frame *frame,
                        const uint8_t *head,
                        size_t len,
                        nghttp2_data_source *source,
                        void *data)
{
    struct h2 *h2 = data;

    (void)session;
    (void)frame; /* nothing is padded */
    if (h2_stream_send(source->ptr, h2->out, head, len) < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    /* Without the pause nghttp2 would go on with the next frames. */
    return h2->out->len < IO_CHUNK ? 0 : NGHTTP2_ERR_PAUSE;
}

static int h2_output(struct peer *peer, struct buf *out)
{
    struct h2 *h2 = peer->state;

    h2->out = out;
    while (out->len < IO_CHUNK) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(h2->session, &data);
        if (n < 0 || h2->broken)
            return PAWL_EFAILED;
        if (n > 0) {
            int rc = buf_append(out, data, (size_t)n);
            if (rc < 0)
                return rc;
            continue;
        }
        if (out->len >= IO_CHUNK) /* send_data_cb paused nghttp2 */
            break;
        /* nghttp2 is outside of its callbacks: handlers may queue more. */
        struct list *link = list_shift(&h2->wake);
        if (link == NULL)
            break;
        struct h2_stream *stream = LIST_ENTRY(link, struct h2_stream, wake_link);
        if (stream->call != NULL)
            rpc_call_writable(stream->call);
        else
            exchange_writable(&stream->exchange);
    }
    return 0;
}

static bool h2_finished(const struct peer *peer)
{
    const struct h2 *h2 = peer->state;

    if (h2->drain == H2_GONE && h2->n_streams == 0)
        return true;
    return !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session);
}

static bool h2_needed(const struct peer *peer)
{
    const struct h2 *h2 = peer->state;

    LIST_FOREACH(link, &h2->streams) {
        const struct h2_stream *stream = LIST_ENTRY(link, struct h2_stream, link);

        if (stream->call != NULL && rpc_call_keeps_connection(stream->call))
            return true;
    }
    return false;
}

static void h2_drain(struct peer *peer)
{
    struct h2 *h2 = peer->state;

    if (h2->drain != H2_TAKING)
        return;
    h2->drain = H2_NOTICED;
    h2->noticed_us = peer->net->now_us;
    /* Calls that are on their way are still taken; a PING follows (frame_sent_cb). */
    if (nghttp2_submit_shutdown_notice(h2->session) < 0)
        h2->broken = true;
    LIST_FOREACH(link, &h2->streams) {
        exchange_drain(&LIST_ENTRY(link, struct h2_stream, link)->exchange);
    }
    peer_dirty(peer);
}

static void h2_tick(struct peer *peer, int64_t now_us)
{
    struct h2 *h2 = peer->state;
    const struct serve_limits *limits = h2->http->limits;

    if (h2->drain == H2_NOTICED && now_us - h2->noticed_us > NOTICE_MS * US_PER_MS)
        drain_step(h2);
    while (!list_empty(&h2->receiving)) {
        struct h2_stream *stream = LIST_ENTRY(h2->receiving.next, struct h2_stream, receiving_link);
        if (now_us - stream->begun_us <= limits->request_ms * US_PER_MS)
            break;
        h2_stream_too_slow(stream);
    }
    while (!list_empty(&h2->answered)) {
        struct h2_stream *stream = LIST_ENTRY(h2->answered.next, struct h2_stream, answered_link);
        if (now_us - stream->answered_us <= ANSWERED_MS * US_PER_MS)
            break;
        stop_sending(h2, stream);
    }
    if (limits->idle_ms > 0 && h2->n_streams == 0 && h2->drain == H2_TAKING &&
        now_us - h2->idle_us > limits->idle_ms * US_PER_MS)
        peer_drain(peer, limits->grace_ms);
    if (limits->keepalive_ms == 0)
        return;
    if (h2->asked_us && peer->read_us > h2->asked_us)
        h2->asked_us = 0;
    if (h2->asked_us && now_us - h2->asked_us > limits->keepalive_timeout_ms * US_PER_MS) {
        peer->net->counters.timed_out++;
        peer_kill(peer);
    } else if (!h2->asked_us && now_us - peer->read_us > limits->keepalive_ms * US_PER_MS) {
        h2->asked_us = now_us;
        if (nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL) < 0)
            peer_kill(peer);
        peer_dirty(peer);
    }
}

static void h2_close(struct peer *peer)
{
    struct h2 *h2 = peer->state;
    struct list *link;

    while ((link = list_shift(&h2->streams)) != NULL)
        h2_stream_free(LIST_ENTRY(link, struct h2_stream, link));
    nghttp2_session_del(h2->session);
    free(h2);
    peer->state = NULL;
}

static const struct peer_protocol h2_protocol = {
    .input = h2_input,
    .output = h2_output,
    .finished = h2_finished,
    .needed = h2_needed,
    .tick = h2_tick,
    .drain = h2_drain,
    .close = h2_close,
};

static int session_new(struct h2 *h2)
{
    const struct serve_limits *limits = h2->http->limits;
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) < 0)
        return PAWL_ENOMEM;
    if (nghttp2_option_new(&option) < 0) {
        nghttp2_session_callbacks_del(callbacks);
        return PAWL_ENOMEM;
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers_cb);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, header_cb);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_cb);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, begin_frame_cb);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_cb);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent_cb);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_close_cb);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data_cb);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_settings(option, 32);
    nghttp2_option_set_max_continuations(option, (size_t)limits->continuations_max);
    nghttp2_option_set_stream_reset_rate_limit(
        option, (uint64_t)limits->resets_burst, (uint64_t)limits->resets_per_s);
    int rc = nghttp2_session_server_new2(&h2->session, callbacks, h2, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    if (rc < 0)
        return PAWL_ENOMEM;

    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)limits->streams_max},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_bytes},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
    };
    if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, 3) < 0 ||
        nghttp2_session_set_local_window_size(
            h2->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) < 0) {
        nghttp2_session_del(h2->session);
        return PAWL_ENOMEM;
    }
    return 0;
}

int h2_attach(struct peer *peer, struct http *http)
{
    struct h2 *h2 = calloc(1, sizeof(*h2));

    if (h2 == NULL)
        return PAWL_ENOMEM;
    h2->peer = peer;
    h2->http = http;
    h2->last_id = INT32_MAX;
    h2->idle_us = peer->net->now_us;
    h2->who = (struct rpc_peer){
        .address = peer->address,
        .subject = peer->io.tls != NULL ? tls_session_subject(peer->io.tls) : NULL,
        .tls = peer->io.tls != NULL,
    };
    list_init(&h2->streams);
    list_init(&h2->wake);
    list_init(&h2->answered);
    list_init(&h2->receiving);
    int rc = session_new(h2);
    if (rc < 0) {
        free(h2);
        return rc;
    }
    peer->protocol = &h2_protocol;
    peer->state = h2;
    return 0;
}
