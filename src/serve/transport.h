/*
 * transport: one port for calls (gRPC over HTTP/2) and plain HTTP (1.1 and 2): connections (net/),
 * protocols (http/), calls (rpc/), with health, reflection and metrics on them. The owner registers
 * what the server is for: services with rpc_register(transport_rpc(t)), routes with
 * http_add(transport_http(t)).
 *
 * Everything runs on the loop's thread; nothing blocks.
 */
#ifndef SERVE_TRANSPORT_H
#define SERVE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/log.h"
#include "serve/http/http.h"
#include "serve/limits.h"
#include "serve/rpc/health.h"
#include "serve/rpc/reflection.h"
#include "serve/rpc/rpc.h"
#include "wire/tls.h"

struct transport;

struct transport_options {
    uv_loop_t *loop;
    struct log *log;            /* NULL: silent */
    struct serve_limits limits; /* serve_limits_default() */
};

int transport_new(const struct transport_options *options,
                  struct transport **ret_transport,
                  struct pawl_err *err) MUST_CHECK;

/* As net_listen: "127.0.0.1:8080", "[::1]:0", "unix:/path"; tls is borrowed. */
int transport_listen(struct transport *transport,
                     const char *address,
                     struct tls *tls,
                     bool open,
                     struct pawl_err *err) MUST_CHECK;
/* The i-th address that it listens on, with the real port. */
bool transport_address(const struct transport *transport, size_t i, char *out, size_t size);

struct rpc *transport_rpc(struct transport *transport);
struct http *transport_http(struct transport *transport);
struct health *transport_health(struct transport *transport);
struct reflection *transport_reflection(struct transport *transport);

/* Adds a function that writes metrics to /metrics. */
#define TRANSPORT_METRICS_MAX 8
int transport_add_metrics(struct transport *transport,
                          void (*collect)(struct buf *out, void *data),
                          void *data) MUST_CHECK;

/* Called before /metrics is answered; false: `allows` has answered. NULL: every client may see
 * it. */
void transport_guard_metrics(struct transport *transport,
                             bool (*allows)(struct http_exchange *exchange, void *data),
                             void *data);

/* What /ready and the health service say of the whole server. why: a few words, static; NULL:
 * ready. */
int transport_set_ready(struct transport *transport, const char *why) MUST_CHECK;

/* No new connections, and health says so. Connections that no call keeps get GOAWAY: calls on
 * them are finished, new calls go elsewhere. The other connections go on. */
void transport_quiesce(struct transport *transport);

/*
 * Stops: no new connections, health says so, streams are told to end, connections get GOAWAY and
 * finish their calls within grace_ms; calls that are left then are ended with UNAVAILABLE.
 * `stopped` is called when nothing is left; after it transport_free. A second call ends everything
 * now.
 */
void transport_stop(struct transport *transport,
                    int64_t grace_ms,
                    void (*stopped)(void *data),
                    void *data);
void transport_free(struct transport *transport);

#endif
