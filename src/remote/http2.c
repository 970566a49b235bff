/*
 * http2: what is said on a connection: nghttp2's client side. Callbacks note, and call back calls; only the session's flush
 * takes frames out, outside of every callback.
 */
#include <stdio.h>
#include <string.h>

#include "remote/channel_internal.h"

#define STREAM_WINDOW     (1024 * 1024)
#define CONNECTION_WINDOW (8 * 1024 * 1024)
#define HEADERS_MAX       16384
#define SETTINGS_MAX      32
#define CONTINUATIONS_MAX 8

#define NV(n, v, vlen)                                                               \
    {                                                                                \
        (uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), sizeof(n) - 1, (vlen), \
            NGHTTP2_NV_FLAG_NO_COPY_NAME                                             \
    }

static struct call *call_of(nghttp2_session *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2, id);
}

static int header_cb(nghttp2_session *h2,
                     const nghttp2_frame *frame,
                     const uint8_t *name,
                     size_t name_len,
                     const uint8_t *value,
                     size_t len,
                     uint8_t flags,
                     void *data)
{
    struct call *call = call_of(h2, frame->hd.stream_id);

    (void)flags;
    (void)data;
    if (call != NULL && frame->hd.type == NGHTTP2_HEADERS)
        call_header(call, name, name_len, value, len);
    return 0;
}

static int data_cb(
    nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len, void *data)
{
    struct call *call = call_of(h2, id);

    (void)flags;
    (void)data;
    if (call != NULL)
        call_data(call, bytes, len);
    return 0;
}

static int frame_cb(nghttp2_session *h2, const nghttp2_frame *frame, void *data)
{
    struct session *session = data;

    (void)h2;
    if (session->state == SESSION_DEAD)
        return 0;
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0 &&
        session->state == SESSION_GREETING) {
        session->state = SESSION_OPEN;
        channel_session_open(session->channel, session);
    } else if (frame->hd.type == NGHTTP2_GOAWAY && session->state == SESSION_OPEN) {
        session->state = SESSION_LEAVING;
        channel_session_leaving(session->channel, session);
    }
    return 0;
}

static int close_cb(nghttp2_session *h2, int32_t id, uint32_t code, void *data)
{
    struct call *call = call_of(h2, id);

    (void)data;
    if (call == NULL)
        return 0;
    nghttp2_session_set_stream_user_data(h2, id, NULL);
    call_closed(call, code);
    return 0;
}

/* A request that never became a stream, because the server takes none any more. */
static int not_sent_cb(nghttp2_session *h2, const nghttp2_frame *frame, int error, void *data)
{
    (void)error;
    if (frame->hd.type == NGHTTP2_HEADERS)
        return close_cb(h2, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM, data);
    return 0;
}

int http2_new(struct session *session)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) < 0)
        return PAWL_ENOMEM;
    if (nghttp2_option_new(&option) < 0) {
        nghttp2_session_callbacks_del(callbacks);
        return PAWL_ENOMEM;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header_cb);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_cb);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_cb);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, close_cb);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, not_sent_cb);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    int rc = nghttp2_session_client_new2(&session->h2, callbacks, session, option);

    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    if (rc < 0)
        return PAWL_ENOMEM;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
    };

    if (nghttp2_submit_settings(session->h2, NGHTTP2_FLAG_NONE, settings, 3) < 0 ||
        nghttp2_session_set_local_window_size(
            session->h2, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) < 0)
        return PAWL_ENOMEM;
    return 0;
}

bool http2_is_over(const struct session *session)
{
    return nghttp2_session_want_read(session->h2) == 0 &&
           (session->state != SESSION_LEAVING || session->n_calls > 0);
}

int http2_input(struct session *session, const uint8_t *data, size_t len)
{
    session->channel->inside++;
    ssize_t n = nghttp2_session_mem_recv(session->h2, data, len);

    session->channel->inside--;
    session->dirty = true;
    if (session->state == SESSION_DEAD)
        return 0;
    if (n != (ssize_t)len)
        return n == NGHTTP2_ERR_NOMEM ? PAWL_ENOMEM : PAWL_EINVAL;
    return http2_is_over(session) ? PAWL_EINVAL : 0;
}

int http2_output(struct session *session, struct buf *out)
{
    while (out->len < IO_CHUNK) {
        const uint8_t *data;

        session->channel->inside++;
        ssize_t n = nghttp2_session_mem_send(session->h2, &data);

        session->channel->inside--;
        if (n < 0)
            return PAWL_ENOMEM;
        if (n == 0)
            break;
        int rc = buf_append(out, data, (size_t)n);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static ssize_t read_cb(nghttp2_session *h2,
                       int32_t id,
                       uint8_t *out,
                       size_t len,
                       uint32_t *flags,
                       nghttp2_data_source *source,
                       void *data)
{
    struct call *call = source->ptr;

    (void)h2;
    (void)id;
    (void)data;
    size_t n = queue_take(&call->out, out, len);

    if (call->out.len == 0) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        call->whole = true;
    }
    return (ssize_t)n;
}

int http2_submit(struct session *session, struct call *call)
{
    const struct channel_options *o = &session->channel->options;
    const char *authorization = session->channel->authorization;
    const char *authority = o->server->is_unix ? "localhost" : o->server->text;
    const char *path = call->options.path;
    nghttp2_data_provider provider = {.source = {.ptr = call}, .read_callback = read_cb};
    char timeout[RPC_TIMEOUT_LEN] = "";
    nghttp2_nv nv[9] = {
        NV(":method", "POST", 4),
        NV(":scheme", o->tls != NULL ? "https" : "http", o->tls != NULL ? 5 : 4),
        NV(":path", path, strlen(path)),
        NV(":authority", authority, strlen(authority)),
        NV("te", "trailers", 8),
        NV("content-type", "application/grpc", 16),
        NV("user-agent", "pawl/" PAWL_VERSION, sizeof("pawl/" PAWL_VERSION) - 1),
    };
    size_t n = 7;

    if (call->options.timeout_ms > 0) {
        rpc_timeout_format(call->options.timeout_ms, timeout);
        nghttp2_nv field = NV("grpc-timeout", timeout, strlen(timeout));
        nv[n++] = field;
    }
    if (authorization[0] != '\0') {
        nghttp2_nv field = NV("authorization", authorization, strlen(authorization));
        field.flags |= NGHTTP2_NV_FLAG_NO_INDEX; /* a secret stays out of tables */
        nv[n++] = field;
    }
    int32_t id = nghttp2_submit_request(session->h2, NULL, nv, n, &provider, call);

    if (id < 0)
        return id == NGHTTP2_ERR_NOMEM ? PAWL_ENOMEM : PAWL_ECONN;
    call->id = id;
    session->dirty = true;
    return 0;
}
