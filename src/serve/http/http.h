/*
 * http: the seam for plain HTTP, the same over HTTP/1.1 and HTTP/2. Routes are registered by method
 * and path; a handler gets a whole request and answers at once or later. Loop's thread.
 *
 * An exchange belongs to the transport. A handler may use it until it has answered, or until `gone`
 * is called.
 */
#ifndef SERVE_HTTP_HTTP_H
#define SERVE_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "serve/limits.h"
#include "serve/rpc/rpc.h"
#include "wire/queue.h"

struct http_exchange;

typedef void http_handler(struct http_exchange *exchange, void *data);

/* A route for GET also answers HEAD, unless it streams. */
struct http_route {
    const char *method; /* "GET" */
    const char *path;   /* "/metrics"; with prefix also every path below it */
    bool prefix;
    bool streams; /* answers with http_begin */
    http_handler *handle;
    void *data; /* borrowed */
};

#define HTTP_ROUTES_MAX 64

/* The plain routes of a server, and the calls beside them. */
struct http {
    const struct serve_limits *limits; /* borrowed */
    struct rpc *rpc;                   /* borrowed */
    struct net *net;                   /* borrowed */
    const struct http_route *routes[HTTP_ROUTES_MAX];
    size_t n_routes;
    struct queue_total queued; /* bytes that wait to be sent */
    uint64_t requests;
    uint64_t answered[6]; /* by the first digit of the status */
};

/* The route is borrowed. Longer paths are matched before shorter ones. */
int http_add(struct http *http, const struct http_route *route, struct pawl_err *err) MUST_CHECK;

/* Answers; body is copied. The exchange is over. */
void http_reply(struct http_exchange *exchange,
                int status,
                const char *content_type,
                const void *body,
                size_t len);
/* Answers with a line of text. */
void http_reply_text(struct http_exchange *exchange, int status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* Adds a header, before the answer. Both texts are static or live until then. */
#define HTTP_EXTRA_MAX 8
void http_reply_header(struct http_exchange *exchange, const char *name, const char *value);

/* A stream of bytes instead of one answer, for events: begin, any number of writes, end.
 * PAWL_EFULL: the client does not read fast enough, and `writable` follows, as with calls.
 * PAWL_ENOMEM: end the stream. */
void http_begin(struct http_exchange *exchange, int status, const char *content_type);
int http_write(struct http_exchange *exchange, const void *data, size_t len) MUST_CHECK;
void http_end(struct http_exchange *exchange);

struct http_exchange_ops {
    /* The client went away; the handler must forget the exchange. Required. */
    void (*gone)(struct http_exchange *exchange, void *data);
    void (*writable)(struct http_exchange *exchange, void *data);
    /* The server stops: end the exchange soon. */
    void (*drain)(struct http_exchange *exchange, void *data);
};

/* The handler answers later. ops: static. */
void http_hold(struct http_exchange *exchange, const struct http_exchange_ops *ops, void *data);

const char *http_method(const struct http_exchange *exchange);
const char *http_path(const struct http_exchange *exchange);  /* without the query */
const char *http_query(const struct http_exchange *exchange); /* behind the '?'; "" for none */
const struct buf *http_body(const struct http_exchange *exchange);
/* The header with this name in lower case; NULL: none. */
const char *http_header(const struct http_exchange *exchange, const char *name);
const struct rpc_peer *http_peer(const struct http_exchange *exchange);

void http_metrics(const struct http *http, struct buf *out);

#endif
