/*
 * limits: the limits of a server, in one table. docs/internals/serve.md shows names, defaults and
 * meanings; a test compares. 0 disables a limit where the text says so.
 */
#ifndef SERVE_LIMITS_H
#define SERVE_LIMITS_H

#include <stdint.h>

/* X(name, default, what it bounds). Units last in the names; all are at least 0. */
#define SERVE_LIMITS(X)                                                                         \
    X(connections_max, 4096, "connections at once; more are closed when they arrive")           \
    X(streams_max, 256, "calls at once on one connection")                                      \
    X(header_bytes, 16384, "headers of one request")                                            \
    X(message_bytes, 17825792, "one message of a call, also after it is inflated")              \
    X(body_bytes, 1048576, "the body of a plain HTTP request")                                  \
    X(queue_bytes, 1048576, "what waits to be sent on one stream")                              \
    X(memory_bytes, 268435456, "requests of all connections together, as bytes and as objects") \
    X(output_bytes, 268435456, "what waits to be sent on all streams together")                 \
    X(continuations_max, 8, "CONTINUATION frames of one header block")                          \
    X(resets_burst, 1000, "streams a client may reset at once")                                 \
    X(resets_per_s, 100, "streams a client may reset in a second, steadily")                    \
    X(control_burst, 2000, "PING, SETTINGS, PRIORITY and empty frames without a call between")  \
    X(handshake_ms, 10000, "from connecting to the first request, and for the head of one")     \
    X(request_ms, 30000, "from the head of a request to its end, over HTTP/2")                  \
    X(idle_ms, 600000, "a connection without a call; 0: for ever")                              \
    X(age_ms, 0, "a connection before it is asked to come again; 0: for ever")                  \
    X(grace_ms, 30000, "what a connection that was asked to go may still take")                 \
    X(keepalive_ms, 20000, "silence before a client is asked whether it is there; 0: never")    \
    X(keepalive_timeout_ms, 10000, "time to answer that")

#define SERVE_LIMIT_FIELD(name, value, text) int64_t name;

struct serve_limits {
    SERVE_LIMITS(SERVE_LIMIT_FIELD)
};

#undef SERVE_LIMIT_FIELD

struct serve_limits serve_limits_default(void);

/* The field of that name, NULL when there is none. */
int64_t *serve_limits_find(struct serve_limits *limits, const char *name);

#endif
