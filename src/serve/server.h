/*
 * server: one port for calls (gRPC over HTTP/2) and plain HTTP (1.1 and 2), put together: connections (net/), protocols
 * (http/), calls (rpc/), with health, reflection and metrics on them. What the server is for is registered from
 * outside: services with rpc_register(server_rpc(s)), routes with http_add(server_http(s)).
 *
 * Everything on the loop's thread; nothing blocks.
 */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

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

struct server;

struct server_options {
    uv_loop_t *loop;
    struct log *log;            /* NULL: silent */
    struct serve_limits limits; /* serve_limits_default() */
};

int server_new(const struct server_options *options,
               struct server **ret_server,
               struct pawl_err *err) MUST_CHECK;

/* As net_listen: "127.0.0.1:8080", "[::1]:0", "unix:/path"; tls is borrowed. */
int server_listen(struct server *server,
                  const char *address,
                  struct tls *tls,
                  bool open,
                  struct pawl_err *err) MUST_CHECK;
/* The i-th address it listens on, with the real port. */
bool server_address(const struct server *server, size_t i, char *out, size_t size);

struct rpc *server_rpc(struct server *server);
struct http *server_http(struct server *server);
struct health *server_health(struct server *server);
struct reflection *server_reflection(struct server *server);

/* Adds to what /metrics shows. */
#define SERVER_METRICS_MAX 8
int server_add_metrics(struct server *server,
                       void (*collect)(struct buf *out, void *data),
                       void *data) MUST_CHECK;

/* Asked before /metrics is answered; false: it has answered itself. NULL: everybody may see it. */
void server_guard_metrics(struct server *server,
                          bool (*allows)(struct http_exchange *exchange, void *data),
                          void *data);

/* What /ready and the health service say of the server as a whole. why: in a few words, static; NULL: it is ready. */
int server_set_ready(struct server *server, const char *why) MUST_CHECK;

/* No new connections, and health says so. Connections that no call keeps are asked to go (GOAWAY): what is on them is
 * finished, new calls go elsewhere. The others go on as if nothing had happened. */
void server_quiesce(struct server *server);

/*
 * Stops: no new connections, health says so, streams are told to end, connections say goodbye (GOAWAY) and finish
 * what they have within grace_ms; what is left then is ended with UNAVAILABLE. stopped is called when nothing is left;
 * after it server_free. A second call makes it end now.
 */
void server_stop(struct server *server, int64_t grace_ms, void (*stopped)(void *data), void *data);
void server_free(struct server *server);

#endif
