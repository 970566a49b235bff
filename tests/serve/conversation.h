/* conversation: what a client says that makes two calls and a plain request, as nghttp2 writes it. */
#ifndef TESTS_SERVE_CONVERSATION_H
#define TESTS_SERVE_CONVERSATION_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#define CONVERSATION_MAX 4096

struct conversation_body {
    const uint8_t *data;
    size_t len;
};

static inline ssize_t conversation_read(nghttp2_session *session,
                                        int32_t id,
                                        uint8_t *out,
                                        size_t len,
                                        uint32_t *flags,
                                        nghttp2_data_source *source,
                                        void *data)
{
    const struct conversation_body *body = source->ptr;

    (void)session;
    (void)id;
    (void)data;
    assert(body->len <= len);
    memcpy(out, body->data, body->len);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)body->len;
}

static inline nghttp2_nv conversation_field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

static inline void
conversation_call(nghttp2_session *session, const char *path, struct conversation_body *body)
{
    const nghttp2_nv nv[] = {
        conversation_field(":method", body ? "POST" : "GET"),
        conversation_field(":scheme", "http"),
        conversation_field(":path", path),
        conversation_field(":authority", "x"),
        conversation_field("authorization", "Bearer x"),
        conversation_field("grpc-timeout", "10S"),
        conversation_field("grpc-encoding", "gzip"),
        conversation_field("content-type", "application/grpc"),
    };
    nghttp2_data_provider provider = {.source = {.ptr = body}, .read_callback = conversation_read};

    nghttp2_submit_request(session, NULL, nv, 8, body ? &provider : NULL, NULL);
}

/* Returns its length. */
static inline size_t conversation_make(uint8_t *out, size_t size)
{
    static const uint8_t unary[] = "\0\0\0\0\x07\x0a\x05hello";
    static const uint8_t count[] = "\0\0\0\0\x04\x08\x03\x10\x05";
    static const uint8_t reflect[] = "\0\0\0\0\x02\x3a";
    struct conversation_body bodies[] = {{unary, 5 + 7}, {count, 9}, {reflect, 7}};
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    const uint8_t *data;
    size_t len = 0;
    ssize_t n;

    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_client_new(&session, callbacks, NULL);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0);
    conversation_call(session, "/pawl.test.v1.Echo/Unary", &bodies[0]);
    conversation_call(session, "/pawl.test.v1.Echo/Count", &bodies[1]);
    conversation_call(
        session, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &bodies[2]);
    conversation_call(session, "/metrics", NULL);
    while ((n = nghttp2_session_mem_send(session, &data)) > 0) {
        assert(len + (size_t)n <= size);
        memcpy(out + len, data, (size_t)n);
        len += (size_t)n;
    }
    nghttp2_session_del(session);
    return len;
}

#endif
