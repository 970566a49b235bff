/*
 * call: the other side of rpc.h, for the transport. The transport feeds bytes to a call and tells
 * it the end; the call answers through a sink. Loop's thread.
 */
#ifndef SERVE_RPC_CALL_H
#define SERVE_RPC_CALL_H

#include "serve/rpc/rpc.h"

struct rpc_sink {
    /* Room for len bytes at the end of the stream's queue, which the caller fills before
     * anything else. The first call sends the headers. NULL: no memory. */
    uint8_t *(*reserve)(void *stream, size_t len);
    size_t (*queued)(const void *stream);
    /* Sends the status after the queue. The stream must not use the call any more. done: for
     * RPC_DONE_TRAILER; NULL: no trailer. */
    void (*finish)(void *stream, enum rpc_status status, const char *message, const char *done);
};

/* The head of a request. Borrowed during rpc_call_begin, except for peer, which must outlive the
 * call. */
struct rpc_head {
    const char *path;
    const char *timeout;       /* grpc-timeout, or NULL */
    const char *encoding;      /* grpc-encoding, or NULL */
    const char *authorization; /* or NULL */
    const struct rpc_peer *peer;
};

/* NULL: refused, and finish was called. */
struct rpc_call *rpc_call_begin(struct rpc *rpc,
                                const struct rpc_head *head,
                                const struct rpc_sink *sink,
                                void *stream) MUST_CHECK;
/* Each of these may end the call: finish is called then. */
void rpc_call_input(struct rpc_call *call, const uint8_t *data, size_t len);
void rpc_call_input_end(struct rpc_call *call);
/* The request should be complete by now. A client's stream may be silent, but not in the middle
 * of a message. */
void rpc_call_too_slow(struct rpc_call *call);
/* The queue has room again after a refused rpc_send. */
void rpc_call_writable(struct rpc_call *call);
/* rpc_send was refused since the last rpc_call_writable. */
bool rpc_call_starved(const struct rpc_call *call);
bool rpc_call_keeps_connection(const struct rpc_call *call);
/* The client is gone: finish is not called. */
void rpc_call_abort(struct rpc_call *call);

#endif
