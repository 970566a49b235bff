/*
 * ask: one transaction on behalf of a call: begin, bind, send, and the answer when its commit is known. A call whose client
 * is gone is forgotten, its transaction is not waited for by anybody. What goes wrong is said to the client here.
 * Loop's thread only.
 */
#ifndef SERVE_API_TRANSACTION_H
#define SERVE_API_TRANSACTION_H

#include "base/arena.h"
#include "pg/conn.h"
#include "serve/rpc/rpc.h"

#define TRANSACTION_DEADLINE_MS  10000   /* unless the call's own is sooner */
#define TRANSACTION_LOCK_TIMEOUT "250ms" /* what a change waits for somebody else's lock */
#define TRANSACTION_WAITING_MAX  1024 /* transactions on one connection; more calls are refused */

struct transaction {
    struct rpc_call *call; /* NULL: gone */
    struct conn *conn;     /* borrowed */
    struct batch *batch;   /* between transaction_begin and transaction_send */
    struct arena arena;    /* for the answer */
    /* Ends the call, with the results there. */
    void (*answer)(struct transaction *tx, const struct batch_end *end);
    void *data;   /* of whoever asks; borrowed */
    bool changes; /* a repetition may have a second effect */
    int64_t
        number; /* whoever asks may keep something here, and the request, which lives as long as the call */
    const ProtobufCMessage *request;
};

/* NULL: the call was refused. Then batch_add(tx->batch, …), and transaction_send or transaction_refuse. */
struct transaction *
transaction_begin(struct rpc_call *call, struct conn *conn, void *data) MUST_CHECK;
void transaction_send(struct transaction *tx,
                      void (*answer)(struct transaction *tx, const struct batch_end *end));
/* Instead of transaction_send: ends the call. */
void transaction_refuse(struct transaction *tx, enum rpc_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* From inside `answer`: another transaction for the same call, instead of ending it; it is sent when `answer` returns, and
 * then answered by `again`. False: no room; the call has to be ended. */
bool transaction_again(struct transaction *tx,
                       void (*again)(struct transaction *tx,
                                     const struct batch_end *end)) MUST_CHECK;

#endif
