/* h2_internal: what h2.c (the session) and h2_stream.c (one stream) share. */
#ifndef SERVE_HTTP_H2_INTERNAL_H
#define SERVE_HTTP_H2_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "serve/http/exchange.h"
#include "serve/net/peer.h"
#include "serve/rpc/call.h"
#include "wire/queue.h"

#define H2_FIELDS_MAX     64 /* headers of one request */
#define H2_FRAME_HEAD_LEN 9

enum h2_drain { H2_TAKING, H2_NOTICED, H2_GONE };

struct h2 {
    struct peer *peer;
    struct http *http;
    nghttp2_session *session;
    struct rpc_peer who;
    struct list streams; /* h2_stream.link */
    size_t n_streams;
    struct list wake; /* h2_stream.wake_link: their queue has room again */
    struct list
        receiving; /* h2_stream.receiving_link: their request is not complete; oldest first */
    struct list
        answered; /* h2_stream.answered_link: complete but for the client's own end; oldest first */
    int64_t idle_us;    /* since when there is no stream */
    int64_t asked_us;   /* when a keepalive PING went out; 0: none is out */
    int64_t noticed_us; /* when the first GOAWAY went out */
    int64_t control;    /* frames without use since the last answer of ours */
    enum h2_drain drain;
    int32_t last_id; /* of a stream that is taken; what the second GOAWAY names */
    bool broken;     /* no memory inside a callback: to be closed */
    struct buf *out; /* borrowed, while nghttp2 is asked for what to send */
};

struct h2_field {
    nghttp2_rcbuf *name;
    nghttp2_rcbuf *value;
};

struct h2_stream {
    struct list link;
    struct list wake_link;
    struct list receiving_link;
    struct list answered_link;
    int64_t begun_us;    /* when its head began */
    int64_t answered_us; /* when our last frame went out */
    size_t discarded;    /* bytes that came after it */
    struct h2 *h2;
    int32_t id;
    struct rpc_call *call; /* NULL when it is none, or over */
    struct http_exchange exchange;
    struct queue queue;
    struct h2_field *
        fields; /* owned, with references; NULL once a call has begun: thousands may wait, and need them no more */
    size_t n_fields;
    size_t fields_size;
    size_t header_bytes;
    bool is_rpc;
    bool started; /* its headers are complete */
    bool headers_too_large;
    bool responded;   /* our headers are submitted */
    bool deferred;    /* nghttp2 waits for data */
    bool finishing;   /* nothing is added to the queue any more */
    int status;       /* of a call; for the trailers */
    char *message;    /* owned; encoded; NULL for none */
    const char *done; /* static; NULL for none */
};

struct h2_stream *h2_stream_new(struct h2 *h2, int32_t id);
/* Aborts what is under way. */
void h2_stream_free(struct h2_stream *stream);
/* Keeps a header. Negative: so much that the stream must be reset. */
int h2_stream_header(struct h2_stream *stream, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
/* The headers are complete: it becomes a call or a plain request. */
void h2_stream_start(struct h2_stream *stream);
void h2_stream_data(struct h2_stream *stream, const uint8_t *data, size_t len);
void h2_stream_input_end(struct h2_stream *stream);
/* A frame of the next len bytes of its queue. */
int h2_stream_send(struct h2_stream *stream,
                   struct buf *out,
                   const uint8_t head[H2_FRAME_HEAD_LEN],
                   size_t len);
/* The request should be complete by now. */
void h2_stream_too_slow(struct h2_stream *stream);

#endif
