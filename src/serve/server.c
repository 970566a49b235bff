/* server: the parts put together, the routes every server has, and the order in which it stops. */
#include "serve/server.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve/http/h1.h"
#include "serve/http/h2.h"
#include "serve/metrics.h"
#include "serve/net/net.h"
#include "serve/net/peer.h"

#define LAST_WORDS_MS 500 /* for statuses to go out after the grace */

struct collector {
    void (*collect)(struct buf *out, void *data);
    void *data;
};

struct server {
    struct server_options options;
    struct net net;
    struct http http;
    struct rpc *rpc;
    struct health *health;
    struct reflection *reflection;
    bool (*metrics_allows)(struct http_exchange *exchange, void *data); /* NULL: everybody */
    void *metrics_data;
    struct collector collectors[SERVER_METRICS_MAX];
    size_t n_collectors;
    struct http_route routes[3];
    const char *why; /* static; why it is not ready, if it is not */
    uv_timer_t grace;
    bool stopping;
    int closing; /* parts that are not closed yet */
    void (*stopped)(void *data);
    void *stopped_data;
};

static int attach(struct peer *peer, bool http2, void *data)
{
    struct server *server = data;

    return http2 ? h2_attach(peer, &server->http) : h1_attach(peer, &server->http);
}

static void handle_health(struct http_exchange *exchange, void *data)
{
    (void)data;
    http_reply_text(exchange, 200, "ok");
}

static void handle_ready(struct http_exchange *exchange, void *data)
{
    const struct server *server = data;

    if (health_serving(server->health, ""))
        http_reply_text(exchange, 200, "ready");
    else
        http_reply_text(exchange, 503, "not ready: %s", server->why);
}

int server_set_ready(struct server *server, const char *why)
{
    server->why = why ? why : "the server stops"; /* which is all that can come between */
    return health_set(server->health, "", why == NULL);
}

static void net_metrics(const struct net *net, struct buf *out)
{
#define NET_METRIC(name, help)                                                \
    metrics_family(out, "pawl_connections_" #name "_total", "counter", help); \
    metrics_int(out, "pawl_connections_" #name "_total", NULL, (int64_t)net->counters.name);
    NET_COUNTERS(NET_METRIC)
#undef NET_METRIC
    metrics_family(out, "pawl_connections_open", "gauge", "Connections that are open.");
    metrics_int(out, "pawl_connections_open", NULL, (int64_t)net->n_peers);
}

static void handle_metrics(struct http_exchange *exchange, void *data)
{
    const struct server *server = data;
    struct buf out;

    if (server->metrics_allows && !server->metrics_allows(exchange, server->metrics_data))
        return;
    buf_init(&out, METRICS_BYTES_MAX);
    net_metrics(&server->net, &out);
    http_metrics(&server->http, &out);
    rpc_metrics(server->rpc, &out);
    for (size_t i = 0; i < server->n_collectors; i++)
        server->collectors[i].collect(&out, server->collectors[i].data);
    if (out.failed)
        http_reply_text(exchange, 503, "there is no memory for the metrics");
    else
        http_reply(exchange, 200, METRICS_CONTENT_TYPE, out.data, out.len);
    buf_deinit(&out);
}

static int add_routes(struct server *server, struct pawl_err *err)
{
    server->routes[0] = (struct http_route){
        .method = "GET", .path = "/health", .handle = handle_health, .data = server};
    server->routes[1] = (struct http_route){
        .method = "GET", .path = "/ready", .handle = handle_ready, .data = server};
    server->routes[2] = (struct http_route){
        .method = "GET", .path = "/metrics", .handle = handle_metrics, .data = server};
    for (size_t i = 0; i < 3; i++) {
        int rc = http_add(&server->http, &server->routes[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int make_rpc(struct server *server, struct pawl_err *err)
{
    server->rpc = rpc_new(server->options.loop, &server->options.limits, server->options.log);
    if (!server->rpc)
        return err_set(err, PAWL_ENOMEM, "no memory for the server");
    int rc = health_new(server->rpc, &server->health, err);
    if (rc == 0)
        rc = reflection_new(server->rpc, &server->reflection, err);
    return rc;
}

int server_new(const struct server_options *options,
               struct server **ret_server,
               struct pawl_err *err)
{
    struct server *server = calloc(1, sizeof(*server));

    if (!server)
        return err_set(err, PAWL_ENOMEM, "no memory for the server");
    server->options = *options;
    server->why = "the server stops";
    server->http.limits = &server->options.limits;
    server->http.net = &server->net;
    server->http.queued.max = (size_t)server->options.limits.output_bytes;
    const struct net_options net = {.loop = options->loop,
                                    .log = options->log,
                                    .limits = &server->options.limits,
                                    .attach = attach,
                                    .data = server};
    int rc = make_rpc(server, err);
    server->http.rpc = server->rpc;
    if (rc == 0)
        rc = add_routes(server, err);
    if (rc == 0)
        rc = net_init(&server->net, &net, err);
    if (rc < 0) {
        server_free(server);
        return rc;
    }
    uv_timer_init(options->loop, &server->grace);
    server->grace.data = server;
    *ret_server = server;
    return 0;
}

int server_listen(
    struct server *server, const char *address, struct tls *tls, bool open, struct pawl_err *err)
{
    return net_listen(&server->net, address, tls, open, err);
}

bool server_address(const struct server *server, size_t i, char *out, size_t size)
{
    return net_address(&server->net, i, out, size);
}

struct rpc *server_rpc(struct server *server)
{
    return server->rpc;
}

struct http *server_http(struct server *server)
{
    return &server->http;
}

struct health *server_health(struct server *server)
{
    return server->health;
}

struct reflection *server_reflection(struct server *server)
{
    return server->reflection;
}

int server_add_metrics(struct server *server,
                       void (*collect)(struct buf *out, void *data),
                       void *data)
{
    if (server->n_collectors == SERVER_METRICS_MAX)
        return PAWL_ELIMIT;
    server->collectors[server->n_collectors++] = (struct collector){collect, data};
    return 0;
}

void server_guard_metrics(struct server *server,
                          bool (*allows)(struct http_exchange *exchange, void *data),
                          void *data)
{
    server->metrics_allows = allows;
    server->metrics_data = data;
}

/* --- stopping ------------------------------------------------------------------------------------------------------ */

static void part_closed(struct server *server)
{
    if (--server->closing == 0)
        server->stopped(server->stopped_data);
}

static void grace_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void net_stopped(void *data)
{
    struct server *server = data;

    uv_close((uv_handle_t *)&server->grace, grace_closed);
    part_closed(server);
}

static void grace_cb(uv_timer_t *timer)
{
    struct server *server = timer->data;

    rpc_end_all(server->rpc);
}

void server_quiesce(struct server *server)
{
    server->why = "the server stops";
    health_shutdown(server->health); /* first: who watches hears why */
    net_quiesce(&server->net);
}

void server_stop(struct server *server, int64_t grace_ms, void (*stopped)(void *data), void *data)
{
    if (server->stopping) {
        rpc_end_all(server->rpc);
        net_kill(&server->net);
        return;
    }
    server->stopping = true;
    server->stopped = stopped;
    server->stopped_data = data;
    server->closing = 2;
    uv_timer_start(&server->grace, grace_cb, (uint64_t)grace_ms, 0);
    health_shutdown(server->health);
    net_stop(&server->net, grace_ms + LAST_WORDS_MS, net_stopped, server);
    rpc_drain(server->rpc);
}

void server_free(struct server *server)
{
    if (!server)
        return;
    rpc_free(server->rpc);
    health_free(server->health);
    reflection_free(server->reflection);
    free(server);
}
