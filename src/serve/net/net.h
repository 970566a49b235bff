/*
 * net: the listeners and connections of one server on one loop, and the turn in which connections
 * are flushed and freed. Loop's thread.
 */
#ifndef SERVE_NET_NET_H
#define SERVE_NET_NET_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/list.h"
#include "base/log.h"
#include "serve/limits.h"
#include "wire/io.h"

struct peer;
struct net;

struct net_options {
    uv_loop_t *loop;
    struct log *log;
    const struct serve_limits *limits; /* borrowed */
    /* Sets peer->protocol and peer->state. Negative: the connection is closed. */
    int (*attach)(struct peer *peer, bool http2, void *data);
    void *data;
};

/* X(name, what is counted) */
#define NET_COUNTERS(X)                                                             \
    X(accepted, "Connections accepted.")                                            \
    X(refused_full, "Connections closed at once: as many as allowed were open.")    \
    X(refused_descriptors, "Connections closed at once: no descriptors were left.") \
    X(tls_failed, "Connections that ended in the TLS handshake.")                   \
    X(timed_out, "Connections closed because they were silent or too slow.")        \
    X(flooded, "Connections closed because they sent too much of what costs.")      \
    X(bytes_received, "Bytes read.")                                                \
    X(bytes_sent, "Bytes written.")

#define NET_COUNTER_FIELD(name, help) uint64_t name;

struct net_counters {
    NET_COUNTERS(NET_COUNTER_FIELD)
};

#undef NET_COUNTER_FIELD

struct net {
    struct net_options options;
    struct list listeners; /* listener.link */
    struct list peers;     /* peer.link */
    size_t n_peers;        /* that are not dead */
    struct list dirty;     /* peer.dirty_link */
    struct list dead;      /* peer.link */
    uv_prepare_t prepare;
    uv_idle_t idle; /* keeps the loop from sleeping while peers are dirty */
    uv_timer_t tick;
    int64_t now_us; /* as of this turn */
    struct io_buffers buffers;
    int spare_fd; /* given up to accept and close a client when no descriptor is free */
    struct net_counters counters;
    bool quiet; /* net_quiesce was called */
    bool stopping;
    void (*stopped)(void *data);
    void *stopped_data;
    int handles; /* that are not closed yet */
};

#define NET_TICK_MS 100

int net_init(struct net *net, const struct net_options *options, struct pawl_err *err) MUST_CHECK;

/* "127.0.0.1:8080", "[::1]:0", "localhost:8080", "unix:/path". tls: borrowed, NULL for none.
 * Without TLS an address that other machines can reach is refused, unless `open` is set. */
int net_listen(struct net *net,
               const char *address,
               struct tls *tls,
               bool open,
               struct pawl_err *err) MUST_CHECK;
/* Whether only this machine can reach an address. */
int net_is_local(const char *address, bool *ret_local, struct pawl_err *err) MUST_CHECK;
/* The address of the i-th listener with its real port; false: there are fewer. */
bool net_address(const struct net *net, size_t i, char *out, size_t size);
/* No new connections; each existing one is asked to close as soon as no call needs it. */
void net_quiesce(struct net *net);

/* No new connections; existing ones are asked to finish, and closed after grace_ms. Then
 * `stopped` is called, once. */
void net_stop(struct net *net, int64_t grace_ms, void (*stopped)(void *data), void *data);
/* Closes everything at once. */
void net_kill(struct net *net);

#endif
