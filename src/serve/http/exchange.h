/*
 * exchange: the other side of http.h, for HTTP/1.1 and HTTP/2. A protocol fills in an exchange,
 * dispatches it, and sends what the sink gets. Loop's thread.
 */
#ifndef SERVE_HTTP_EXCHANGE_H
#define SERVE_HTTP_EXCHANGE_H

#include "serve/http/http.h"

struct http_extra {
    const char *name;
    const char *value;
};

struct http_answer {
    int status;
    const char *content_type;
    const struct http_extra *extra;
    size_t n_extra;
    const void *body; /* copied before the sink returns; NULL for HEAD */
    size_t len;       /* of the body, also when the body is left out */
    bool begins;      /* no body: pieces follow, then the end */
};

struct http_sink {
    void (*answer)(void *stream, const struct http_answer *answer);
    const char *(*header)(const void *stream, const char *name);
    int (*write)(void *stream, const void *data, size_t len);
    void (*end)(void *stream);
    size_t (*queued)(const void *stream);
};

struct http_exchange {
    struct http *http;
    const struct http_sink *sink;
    void *stream;
    const struct rpc_peer *peer;
    const char *method;
    char *target; /* owned; the path, cut at the query */
    const char *query;
    struct buf body;
    struct http_extra extra[HTTP_EXTRA_MAX];
    size_t n_extra;
    const struct http_exchange_ops *ops;
    void *data;
    bool begun;
    bool starved; /* a write was refused */
    bool answered;
};

/* target is copied. PAWL_ENOMEM. */
int exchange_init(struct http_exchange *exchange,
                  struct http *http,
                  const char *method,
                  const char *target) MUST_CHECK;
/* Tells a handler that holds the exchange. */
void exchange_deinit(struct http_exchange *exchange);
/* The queue has room again after a refused write; the server stops. Both may end the exchange. */
void exchange_writable(struct http_exchange *exchange);
void exchange_drain(struct http_exchange *exchange);
/* Finds the route and runs it. */
void exchange_dispatch(struct http_exchange *exchange);

const char *http_status_text(int status); /* "Not Found" */

/* Whether a content type is that of a call: "application/grpc", with or without "+proto" or
 * parameters. */
bool http_is_rpc(const char *content_type);

#endif
