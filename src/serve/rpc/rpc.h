/*
 * rpc: the seam between the transport and the services. Services register their methods; a handler
 * gets a decoded request and answers at once, later, or as a stream. It never sees a socket, a
 * header or a frame.
 *
 * handler(call, request) ─┬─ rpc_reply(call, message)                   one answer, status OK: the
 * end
 *                         ├─ rpc_end(call, status, "what, and a hint")  the end
 *                         ├─ rpc_send(call, message) … rpc_end(…)       a stream
 *                         └─ rpc_hold(call, ops, data)                  later, any of these
 *
 * A call belongs to the transport. A handler may use it until it ends the call, or until `gone` is
 * called (the client cancelled, the deadline passed, the connection was lost, the server stops),
 * and never after that. The request lives as long as the call. A handler that neither ends nor
 * holds a call is a mistake, answered with INTERNAL.
 *
 * Everything runs on the loop's thread. Nothing is sent or freed while a handler runs, so handlers
 * may end, send on, or hold any call they know.
 */
#ifndef SERVE_RPC_RPC_H
#define SERVE_RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "serve/limits.h"
#include "wire/status.h"

struct rpc;
struct rpc_call;

/*
 * request: never NULL, except for a method with client_streams: its handler is called for each
 * message, and with NULL when the client has no more. Such a request lives until the handler
 * returns.
 */
typedef void rpc_handler(struct rpc_call *call, const ProtobufCMessage *request, void *data);

struct rpc_method {
    const char *name; /* "Enqueue" */
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    bool client_streams;
    bool server_streams;
    rpc_handler *handle;
};

struct rpc_service {
    const char *name; /* "pawl.v1.JobService" */
    const struct rpc_method *methods;
    size_t n_methods;
    void *data; /* borrowed; for the handlers */
};

#define RPC_SERVICES_MAX 32
#define RPC_METHODS_MAX  256

/* limits and log are borrowed. */
struct rpc *rpc_new(uv_loop_t *loop, const struct serve_limits *limits, struct log *log) MUST_CHECK;
/* No call may be open. The loop must run once more for timers to close. */
void rpc_free(struct rpc *rpc);

/* The service is borrowed. PAWL_EINVAL when a name is taken, PAWL_ELIMIT, PAWL_ENOMEM. */
int rpc_register(struct rpc *rpc,
                 const struct rpc_service *service,
                 struct pawl_err *err) MUST_CHECK;
/* The i-th service that was registered, NULL at the end. */
const struct rpc_service *rpc_service_at(const struct rpc *rpc, size_t i);

/* Whether there is a method at this path ("/service/method"). */
bool rpc_has(const struct rpc *rpc, const char *path);

/* ── answering ── */

/* Sends one message and status OK. The call is over. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message);

/* Ends a stream with status OK. The call is over. */
void rpc_end_ok(struct rpc_call *call);

/* Sends a status and what is wrong, in words that help. The call is over, and was not done. */
void rpc_end(struct rpc_call *call, enum rpc_status status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same for a call of which nobody knows whether it was done. Clients are told which
 * (RPC_DONE_TRAILER). */
void rpc_end_unknown(struct rpc_call *call, enum rpc_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* rpc_end with message, detail and hint of the error. */
void rpc_end_err(struct rpc_call *call, const struct pawl_err *err);

/*
 * Copies one message into the queue of the stream. PAWL_EFULL: the client does not read fast
 * enough; nothing was queued, and `writable` is called once there is room. PAWL_ENOMEM: nothing was
 * queued, because there is no memory or too much waits on all streams together: end the call. A
 * single message may be larger than the queue if the queue is empty. Sent is not received: the
 * client acknowledges what must not be lost.
 */
int rpc_send(struct rpc_call *call, const ProtobufCMessage *message) MUST_CHECK;
/* Bytes that wait in the stream's queue. */
size_t rpc_queued(const struct rpc_call *call);

struct rpc_call_ops {
    /* The call ended without the handler, which must forget it. Required. */
    void (*gone)(struct rpc_call *call, void *data);
    /* rpc_send refused a message and has room now. */
    void (*writable)(struct rpc_call *call, void *data);
    /* The server stops: end the call soon. Calls without this hook are ended when the grace is
     * over. */
    void (*drain)(struct rpc_call *call, void *data);
    /* Other calls of the client depend on this one, as a worker's reports on its stream: while
     * it lasts, a server that stops does not ask the connection to close. */
    bool keeps_connection;
};

/* The handler answers later. ops: static. May be called again to change ops or data. */
void rpc_hold(struct rpc_call *call, const struct rpc_call_ops *ops, void *data);

/* ── what is known about a call ── */

/* The client of a call. Lives as long as the call. */
struct rpc_peer {
    const char *address; /* "127.0.0.1:4711", "unix" */
    const char *subject; /* of the client's certificate, checked against the authority; or NULL */
    bool tls;
};

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call);
/* The header `authorization`, or NULL. */
const char *rpc_call_authorization(const struct rpc_call *call);
/* "/pawl.v1.JobService/Enqueue" */
const char *rpc_call_path(const struct rpc_call *call);
/* By the loop's steady clock (uv_hrtime / 1000); INT64_MAX: the client set no deadline. */
int64_t rpc_call_deadline_us(const struct rpc_call *call);

/* ── who calls ── */

/*
 * Called before the handler of each call, when the request is whole; not for methods whose clients
 * stream. True: the handler runs. False: the guard has ended the call, or holds it (rpc_hold) and
 * continues it later with rpc_proceed.
 */
typedef bool rpc_guard(struct rpc_call *call, void *data);
void rpc_set_guard(struct rpc *rpc, rpc_guard *guard, void *data);
void rpc_proceed(struct rpc_call *call);

/* What the guard knows about the client; borrowed. rpc_end_client ends its calls before it is
 * freed. */
void rpc_call_set_client(struct rpc_call *call, void *client);
void *rpc_call_client(const struct rpc_call *call);
/* In `gone`: the server ends the call, by its deadline or by force; the queue is sent all the
 * same. */
bool rpc_call_is_forced(const struct rpc_call *call);
/* Ends every call of a client. */
void rpc_end_client(struct rpc *rpc,
                    const void *client,
                    enum rpc_status status,
                    const char *message);

/* ── all calls ── */

/* Tells every held call that the server stops. New calls are still taken: connections refuse
 * them. */
void rpc_drain(struct rpc *rpc);
/* Ends every call, because the server stops: as unknown if the handler has begun, unless the
 * call is a stream. */
void rpc_end_all(struct rpc *rpc);
size_t rpc_active(const struct rpc *rpc);

struct buf;
/* Counts and latencies by method. */
void rpc_metrics(const struct rpc *rpc, struct buf *out);

#endif
