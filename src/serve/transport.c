/* transport: the parts put together, the routes that every server has, and the order in which it
 * stops. */
#include "serve/transport.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve/http/h1.h"
#include "serve/http/h2.h"
#include "serve/metrics.h"
#include "serve/net/net.h"
#include "serve/net/peer.h"

#define LAST_WORDS_MS 500 /* for the last statuses to go out after the grace */

struct collector {
    void (*collect)(struct buf *out, void *data);
    void *data;
};

struct transport {
    struct transport_options options;
    struct net net;
    struct http http;
    struct rpc *rpc;
    struct health *health;
    struct reflection *reflection;
    bool (*metrics_allows)(struct http_exchange *exchange, void *data); /* NULL: every client */
    void *metrics_data;
    struct collector collectors[TRANSPORT_METRICS_MAX];
    size_t n_collectors;
    struct http_route routes[3];
    const char *why; /* static; why the server is not ready */
    uv_timer_t grace;
    bool stopping;
    int closing; /* parts that are not closed yet */
    void (*stopped)(void *data);
    void *stopped_data;
};

static int attach(struct peer *peer, bool http2, void *data)
{
    struct transport *transport = data;

    return http2 ? h2_attach(peer, &transport->http) : h1_attach(peer, &transport->http);
}

static void handle_health(struct http_exchange *exchange, void *data)
{
    (void)data;
    http_reply_text(exchange, 200, "ok");
}

static void handle_ready(struct http_exchange *exchange, void *data)
{
    const struct transport *transport = data;

    if (health_serving(transport->health, ""))
        http_reply_text(exchange, 200, "ready");
    else
        http_reply_text(exchange, 503, "not ready: %s", transport->why);
}

int transport_set_ready(struct transport *transport, const char *why)
{
    transport->why =
        why != NULL ? why : "the server stops"; /* a stop is all that can come between */
    return health_set(transport->health, "", why == NULL);
}

static void net_metrics(const struct net *net, struct buf *out)
{
#define NET_METRIC(name, help) \
    metrics_counter(out, "pawl_connections_" #name "_total", help, net->counters.name);
    NET_COUNTERS(NET_METRIC)
#undef NET_METRIC
    metrics_gauge(
        out, "pawl_connections_open", "Connections that are open.", (int64_t)net->n_peers);
}

static void handle_metrics(struct http_exchange *exchange, void *data)
{
    const struct transport *transport = data;
    struct buf out;

    if (transport->metrics_allows != NULL &&
        !transport->metrics_allows(exchange, transport->metrics_data))
        return;
    buf_init(&out, METRICS_BYTES_MAX);
    net_metrics(&transport->net, &out);
    http_metrics(&transport->http, &out);
    rpc_metrics(transport->rpc, &out);
    for (size_t i = 0; i < transport->n_collectors; i++)
        transport->collectors[i].collect(&out, transport->collectors[i].data);
    if (out.failed)
        http_reply_text(exchange, 503, "there is no memory for the metrics");
    else
        http_reply(exchange, 200, METRICS_CONTENT_TYPE, out.data, out.len);
    buf_deinit(&out);
}

static int add_routes(struct transport *transport, struct pawl_err *err)
{
    transport->routes[0] = (struct http_route){
        .method = "GET", .path = "/health", .handle = handle_health, .data = transport};
    transport->routes[1] = (struct http_route){
        .method = "GET", .path = "/ready", .handle = handle_ready, .data = transport};
    transport->routes[2] = (struct http_route){
        .method = "GET", .path = "/metrics", .handle = handle_metrics, .data = transport};
    for (size_t i = 0; i < 3; i++) {
        int rc = http_add(&transport->http, &transport->routes[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int make_rpc(struct transport *transport, struct pawl_err *err)
{
    transport->rpc =
        rpc_new(transport->options.loop, &transport->options.limits, transport->options.log);
    if (transport->rpc == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory for the server");
    int rc = health_new(transport->rpc, &transport->health, err);
    if (rc == 0)
        rc = reflection_new(transport->rpc, &transport->reflection, err);
    return rc;
}

int transport_new(const struct transport_options *options,
                  struct transport **ret_transport,
                  struct pawl_err *err)
{
    struct transport *transport = calloc(1, sizeof(*transport));

    if (transport == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory for the server");
    transport->options = *options;
    transport->why = "the server stops";
    transport->http.limits = &transport->options.limits;
    transport->http.net = &transport->net;
    transport->http.queued.max = (size_t)transport->options.limits.output_bytes;
    const struct net_options net = {.loop = options->loop,
                                    .log = options->log,
                                    .limits = &transport->options.limits,
                                    .attach = attach,
                                    .data = transport};
    int rc = make_rpc(transport, err);
    transport->http.rpc = transport->rpc;
    if (rc == 0)
        rc = add_routes(transport, err);
    if (rc == 0)
        rc = net_init(&transport->net, &net, err);
    if (rc < 0) {
        transport_free(transport);
        return rc;
    }
    uv_timer_init(options->loop, &transport->grace);
    transport->grace.data = transport;
    *ret_transport = transport;
    return 0;
}

int transport_listen(struct transport *transport,
                     const char *address,
                     struct tls *tls,
                     bool open,
                     struct pawl_err *err)
{
    return net_listen(&transport->net, address, tls, open, err);
}

bool transport_address(const struct transport *transport, size_t i, char *out, size_t size)
{
    return net_address(&transport->net, i, out, size);
}

struct rpc *transport_rpc(struct transport *transport)
{
    return transport->rpc;
}

struct http *transport_http(struct transport *transport)
{
    return &transport->http;
}

struct health *transport_health(struct transport *transport)
{
    return transport->health;
}

struct reflection *transport_reflection(struct transport *transport)
{
    return transport->reflection;
}

int transport_add_metrics(struct transport *transport,
                          void (*collect)(struct buf *out, void *data),
                          void *data)
{
    if (transport->n_collectors == TRANSPORT_METRICS_MAX)
        return PAWL_ELIMIT;
    transport->collectors[transport->n_collectors++] = (struct collector){collect, data};
    return 0;
}

void transport_guard_metrics(struct transport *transport,
                             bool (*allows)(struct http_exchange *exchange, void *data),
                             void *data)
{
    transport->metrics_allows = allows;
    transport->metrics_data = data;
}

/* ── stopping ── */

static void part_closed(struct transport *transport)
{
    if (--transport->closing == 0)
        transport->stopped(transport->stopped_data);
}

static void grace_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void net_stopped(void *data)
{
    struct transport *transport = data;

    uv_close((uv_handle_t *)&transport->grace, grace_closed);
    part_closed(transport);
}

static void grace_cb(uv_timer_t *timer)
{
    struct transport *transport = timer->data;

    rpc_end_all(transport->rpc);
}

void transport_quiesce(struct transport *transport)
{
    transport->why = "the server stops";
    health_shutdown(transport->health); /* first, so that watchers hear the reason */
    net_quiesce(&transport->net);
}

void transport_stop(struct transport *transport,
                    int64_t grace_ms,
                    void (*stopped)(void *data),
                    void *data)
{
    if (transport->stopping) {
        rpc_end_all(transport->rpc);
        net_kill(&transport->net);
        return;
    }
    transport->stopping = true;
    transport->stopped = stopped;
    transport->stopped_data = data;
    transport->closing = 2;
    uv_timer_start(&transport->grace, grace_cb, (uint64_t)grace_ms, 0);
    health_shutdown(transport->health);
    net_stop(&transport->net, grace_ms + LAST_WORDS_MS, net_stopped, transport);
    rpc_drain(transport->rpc);
}

void transport_free(struct transport *transport)
{
    if (transport == NULL)
        return;
    rpc_free(transport->rpc);
    health_free(transport->health);
    reflection_free(transport->reflection);
    free(transport);
}
