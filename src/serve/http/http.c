/* http: routes, and the life of an exchange. */
#include "serve/http/http.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http/exchange.h"
#include "serve/metrics.h"

#define TEXT_MAX 1024

int http_add(struct http *http, const struct http_route *route, struct pawl_err *err)
{
    size_t at = http->n_routes;

    if (http->n_routes == HTTP_ROUTES_MAX)
        return err_set(err, PAWL_ELIMIT, "more than %d routes", HTTP_ROUTES_MAX);
    while (at > 0 && strlen(http->routes[at - 1]->path) < strlen(route->path)) {
        http->routes[at] = http->routes[at - 1];
        at--;
    }
    http->routes[at] = route;
    http->n_routes++;
    return 0;
}

static const struct {
    int status;
    const char *text;
} statuses[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {303, "See Other"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

const char *http_status_text(int status)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "Unknown";
}

bool http_is_rpc(const char *content_type)
{
    static const char name[] = "application/grpc";

    if (content_type == NULL || strncasecmp(content_type, name, sizeof(name) - 1) != 0)
        return false;
    const char *rest = content_type + sizeof(name) - 1;
    if (strncasecmp(rest, "+proto", 6) == 0)
        rest += 6;
    return *rest == '\0' || *rest == ';' || *rest == ' ';
}

int exchange_init(struct http_exchange *exchange,
                  struct http *http,
                  const char *method,
                  const char *target)
{
    exchange->http = http;
    exchange->method = method;
    exchange->target = strdup(target);
    if (exchange->target == NULL)
        return PAWL_ENOMEM;
    char *query = strchr(exchange->target, '?');
    if (query != NULL)
        *query++ = '\0';
    exchange->query = query != NULL ? query : "";
    buf_init(&exchange->body, (size_t)http->limits->body_bytes);
    http->requests++;
    return 0;
}

void exchange_deinit(struct http_exchange *exchange)
{
    if (exchange->target == NULL)
        return;
    if (!exchange->answered && exchange->ops != NULL)
        exchange->ops->gone(exchange, exchange->data);
    free(exchange->target);
    exchange->target = NULL;
    buf_deinit(&exchange->body);
}

static bool path_fits(const struct http_route *route, const char *path)
{
    size_t len = strlen(route->path);

    if (strncmp(route->path, path, len) != 0)
        return false;
    return path[len] == '\0' ||
           (route->prefix && (path[len] == '/' || (len > 0 && path[len - 1] == '/')));
}

static bool method_fits(const struct http_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (!route->streams && strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

void exchange_dispatch(struct http_exchange *exchange)
{
    const struct http *http = exchange->http;
    const char *allowed = NULL;

    for (size_t i = 0; i < http->n_routes; i++) {
        const struct http_route *route = http->routes[i];
        if (!path_fits(route, exchange->target))
            continue;
        allowed = route->method;
        if (!method_fits(route, exchange->method))
            continue;
        route->handle(exchange, route->data);
        if (!exchange->answered && exchange->ops == NULL)
            http_reply_text(exchange, 500, "%s gave no answer", exchange->target);
        return;
    }
    if (allowed != NULL) {
        http_reply_header(exchange, "allow", allowed);
        http_reply_text(exchange, 405, "%s takes %s", exchange->target, allowed);
    } else if (rpc_has(http->rpc, exchange->target))
        http_reply_text(exchange,
                        415,
                        "%s is a call: use gRPC (HTTP/2, POST, content-type application/grpc)",
                        exchange->target);
    else
        http_reply_text(exchange, 404, "there is nothing at %s", exchange->target);
}

void http_reply(struct http_exchange *exchange,
                int status,
                const char *content_type,
                const void *body,
                size_t len)
{
    struct http_answer answer = {
        .status = status,
        .content_type = content_type,
        .extra = exchange->extra,
        .n_extra = exchange->n_extra,
        .body = strcmp(exchange->method, "HEAD") == 0 ? NULL : body,
        .len = len,
    };

    assert(!exchange->answered && !exchange->begun && status >= 200 && status < 600);
    exchange->answered = true;
    exchange->http->answered[status / 100]++;
    exchange->sink->answer(exchange->stream, &answer);
}

void http_reply_text(struct http_exchange *exchange, int status, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text) - 1, fmt, ap);
    va_end(ap);
    size_t len = strlen(text);
    text[len++] = '\n';
    http_reply(exchange, status, "text/plain; charset=utf-8", text, len);
}

void http_reply_header(struct http_exchange *exchange, const char *name, const char *value)
{
    assert(exchange->n_extra < HTTP_EXTRA_MAX);
    exchange->extra[exchange->n_extra++] = (struct http_extra){name, value};
}

void http_hold(struct http_exchange *exchange, const struct http_exchange_ops *ops, void *data)
{
    assert(!exchange->answered && ops != NULL && ops->gone != NULL);
    exchange->ops = ops;
    exchange->data = data;
}

void http_begin(struct http_exchange *exchange, int status, const char *content_type)
{
    const struct http_answer answer = {.status = status,
                                       .content_type = content_type,
                                       .extra = exchange->extra,
                                       .n_extra = exchange->n_extra,
                                       .begins = true};

    assert(!exchange->answered && !exchange->begun && status >= 200 && status < 600);
    exchange->begun = true;
    exchange->http->answered[status / 100]++;
    exchange->sink->answer(exchange->stream, &answer);
}

int http_write(struct http_exchange *exchange, const void *data, size_t len)
{
    size_t queued = exchange->sink->queued(exchange->stream);

    assert(exchange->begun && !exchange->answered);
    if (len == 0)
        return 0; /* an empty piece would be the end in HTTP/1.1 */
    if (queued > 0 && queued + len > (size_t)exchange->http->limits->queue_bytes) {
        exchange->starved = true;
        return PAWL_EFULL;
    }
    return exchange->sink->write(exchange->stream, data, len);
}

void http_end(struct http_exchange *exchange)
{
    assert(exchange->begun && !exchange->answered);
    exchange->answered = true;
    exchange->sink->end(exchange->stream);
}

void exchange_writable(struct http_exchange *exchange)
{
    exchange->starved = false;
    if (!exchange->answered && exchange->ops != NULL && exchange->ops->writable != NULL)
        exchange->ops->writable(exchange, exchange->data);
}

void exchange_drain(struct http_exchange *exchange)
{
    if (exchange->target != NULL && !exchange->answered && exchange->ops != NULL &&
        exchange->ops->drain != NULL)
        exchange->ops->drain(exchange, exchange->data);
}

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

const char *http_path(const struct http_exchange *exchange)
{
    return exchange->target;
}

const char *http_query(const struct http_exchange *exchange)
{
    return exchange->query;
}

const struct buf *http_body(const struct http_exchange *exchange)
{
    return &exchange->body;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    return exchange->sink->header(exchange->stream, name);
}

const struct rpc_peer *http_peer(const struct http_exchange *exchange)
{
    return exchange->peer;
}

void http_metrics(const struct http *http, struct buf *out)
{
    static const char *const classes[] = {NULL, NULL, "2xx", "3xx", "4xx", "5xx"};

    metrics_gauge(out,
                  "pawl_output_bytes",
                  "What waits to be sent on all streams.",
                  (int64_t)http->queued.used);
    metrics_counter(out, "pawl_http_requests_total", "Plain HTTP requests.", http->requests);
    metrics_family(out, "pawl_http_answers_total", "counter", "Answers to them, by status.");
    for (int i = 2; i < 6; i++) {
        const struct metrics_label label[] = {{"status", classes[i]}, {NULL, NULL}};
        metrics_int(out, "pawl_http_answers_total", label, (int64_t)http->answered[i]);
    }
}
