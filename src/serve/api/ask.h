/*
 * ask: one transaction on behalf of a call: begin, bind, send, and the answer when its commit is known. A call whose client
 * is gone is forgotten, its transaction is not waited for by anybody. What goes wrong is said to the client here.
 * Loop's thread only.
 */
#ifndef SERVE_API_ASK_H
#define SERVE_API_ASK_H

#include "base/arena.h"
#include "pg/conn.h"
#include "serve/rpc/rpc.h"

#define ASK_DEADLINE_MS  10000   /* unless the call's own is sooner */
#define ASK_LOCK_TIMEOUT "250ms" /* what a change waits for somebody else's lock */
#define ASK_WAITING_MAX  1024    /* transactions on one connection; more calls are refused */

struct ask {
    struct rpc_call *call; /* NULL: gone */
    struct conn *conn;     /* borrowed */
    struct batch *batch;   /* between ask_begin and ask_send */
    struct arena arena;    /* for the answer */
    /* Ends the call, with the results there. */
    void (*answer)(struct ask *ask, const struct batch_end *end);
    void *data;   /* of whoever asks; borrowed */
    bool changes; /* a repetition may have a second effect */
    int64_t
        number; /* whoever asks may keep something here, and the request, which lives as long as the call */
    const ProtobufCMessage *request;
};

/* NULL: the call was refused. Then batch_add(ask->batch, …), and ask_send or ask_refuse. */
struct ask *ask_begin(struct rpc_call *call, struct conn *conn, void *data) MUST_CHECK;
void ask_send(struct ask *ask, void (*answer)(struct ask *ask, const struct batch_end *end));
/* Instead of ask_send: ends the call. */
void ask_refuse(struct ask *ask, enum rpc_status status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* From inside `answer`: another transaction for the same call, instead of ending it; it is sent when `answer` returns, and
 * then answered by `again`. False: no room; the call has to be ended. */
bool ask_again(struct ask *ask,
               void (*again)(struct ask *ask, const struct batch_end *end)) MUST_CHECK;

#endif
