/* rpc_internal: what rpc.c (registry, numbers) and call.c (one call's life) share. */
#ifndef SERVE_RPC_RPC_INTERNAL_H
#define SERVE_RPC_RPC_INTERNAL_H

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "serve/metrics.h"
#include "serve/rpc/call.h"
#include "serve/rpc/rpc.h"
#include "wire/frame.h"

/* A method with its metrics. */
struct rpc_entry {
    const struct rpc_service *service; /* borrowed; NULL for the entry of unknown methods */
    const struct rpc_method *method;   /* borrowed; NULL as above */
    char *path;                        /* owned; "/service/method" */
    uint64_t started;
    uint64_t ended[RPC_STATUS_COUNT];
    uint64_t messages_in;
    uint64_t messages_out;
    int64_t active;
    struct histogram latency; /* of unary calls only */
};

struct rpc {
    uv_loop_t *loop;
    const struct serve_limits *limits;
    struct log *log;
    const struct rpc_service *services[RPC_SERVICES_MAX];
    size_t n_services;
    struct map by_path; /* rpc_entry, owned */
    struct rpc_entry unknown;
    struct list active; /* rpc_call.link */
    size_t n_active;
    struct list idle; /* calls to be used again, with their memory */
    size_t n_idle;
    rpc_guard *guard; /* NULL: every call is let in */
    void *guard_data;
    size_t memory_used; /* of limits->memory_bytes */
    uint64_t memory_refused;
};

#define RPC_IDLE_MAX 512 /* idle calls; each keeps some KB of memory */

struct rpc_call {
    struct list link;
    struct rpc *rpc;
    struct rpc_entry *entry;
    const struct rpc_sink *sink;
    void *stream; /* NULL once finished */
    struct rpc_peer peer;
    char *authorization; /* in the arena */
    struct arena head;   /* lives as long as the call */
    struct arena body;   /* the request; cleared between messages of a client's stream */
    struct frame_reader reader;
    ProtobufCMessage *request; /* in body; NULL until complete */
    bool forced;               /* ended by rpc_call_end_by_force */
    bool handled;              /* the handler has begun */
    bool unknown;              /* whether the call was done */
    void *client;              /* the guard's; NULL until it has identified the client */
    const struct rpc_call_ops *ops;
    void *data;
    uv_timer_t timer; /* initialised as long as the call exists */
    int64_t started_us;
    int64_t deadline_us;
    size_t charged; /* part of rpc->memory_used */
    int busy;       /* functions on the stack that use the call */
    bool ended;
    bool input_ended;
    bool starved;
    bool guarded; /* the guard was called */
};

/* Ends a call that a handler may hold. */
void rpc_call_end_by_force(struct rpc_call *call, enum rpc_status status, const char *message);
/* Frees an idle call when its timer has closed. */
void rpc_call_free(struct rpc_call *call);

#endif
