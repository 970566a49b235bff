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
    struct list wake; /* h2_stream.wake_link: streams whose queue has room again */
    struct list
        receiving; /* h2_stream.receiving_link: requests that are not complete; oldest first */
    struct list
        answered;     /* h2_stream.answered_link: only the client's end is missing; oldest first */
    int64_t idle_us;  /* since when there is no stream */
    int64_t asked_us; /* when a keepalive PING went out; 0: no answer is awaited */
    int64_t noticed_us; /* when the first GOAWAY went out */
    int64_t control;    /* useless frames since the last answer */
    enum h2_drain drain;
    int32_t last_id; /* of the last stream that is taken, for the second GOAWAY */
    bool broken;     /* no memory inside a callback: the connection is to be closed */
    struct buf *out; /* borrowed, while nghttp2 gives frames */
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
    int64_t begun_us;    /* when the head of the request began */
    int64_t answered_us; /* when the last frame of the answer went out */
    size_t discarded;    /* bytes of the request after that */
    struct h2 *h2;
    int32_t id;
    struct rpc_call *call; /* NULL: a plain request, or the call is over */
    struct http_exchange exchange;
    struct queue queue;
    struct h2_field
        *fields; /* owned, with references; NULL once a call has begun, for thousands may wait */
    size_t n_fields;
    size_t fields_size;
    size_t header_bytes;
    bool is_rpc;
    bool started; /* the headers of the request are complete */
    bool headers_too_large;
    bool responded;   /* the headers of the answer are submitted */
    bool deferred;    /* nghttp2 waits for data */
    bool finishing;   /* nothing more is added to the queue */
    int status;       /* of a call; for the trailers */
    char *message;    /* owned; encoded; NULL for none */
    const char *done; /* static; NULL for none */
};

struct h2_stream *h2_stream_new(struct h2 *h2, int32_t id);
/* Aborts the call or the request of the stream. */
void h2_stream_free(struct h2_stream *stream);
/* Keeps a header. Negative: there are too many, and the stream must be reset. */
int h2_stream_header(struct h2_stream *stream, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
/* The headers are complete: the stream becomes a call or a plain request. */
void h2_stream_start(struct h2_stream *stream);
void h2_stream_data(struct h2_stream *stream, const uint8_t *data, size_t len);
void h2_stream_input_end(struct h2_stream *stream);
/* Writes a frame with the next len bytes of the queue. */
int h2_stream_send(struct h2_stream *stream,
                   struct buf *out,
                   const uint8_t head[H2_FRAME_HEAD_LEN],
                   size_t len);
/* The request should be complete by now. */
void h2_stream_too_slow(struct h2_stream *stream);

#endif
