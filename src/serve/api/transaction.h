/*
 * transaction: one database transaction on behalf of a call: begin, bind, send, and the answer when
 * the commit is known. When the client goes away, the call is forgotten and the transaction runs to
 * its end. Errors are answered here. Loop's thread only.
 */
#ifndef SERVE_API_TRANSACTION_H
#define SERVE_API_TRANSACTION_H

#include "base/arena.h"
#include "pg/conn.h"
#include "serve/rpc/rpc.h"

#define TRANSACTION_DEADLINE_MS  10000   /* unless the call has an earlier deadline */
#define TRANSACTION_LOCK_TIMEOUT "250ms" /* how long a change waits for a lock of somebody else */
#define TRANSACTION_WAITING_MAX  1024 /* transactions on one connection; more calls are refused */

struct transaction {
    struct rpc_call *call; /* NULL: the client is gone */
    struct conn *conn;     /* borrowed */
    struct batch *batch;   /* between transaction_begin and transaction_send */
    struct arena arena;    /* for the answer */
    /* Reads the results and ends the call. */
    void (*answer)(struct transaction *tx, const struct batch_end *end);
    void *data;     /* the caller's; borrowed */
    bool changes;   /* a repetition may have a second effect */
    int64_t number; /* the caller's, like request, which lives as long as the call */
    const ProtobufCMessage *request;
};

/* NULL: the call was refused. Otherwise batch_add(tx->batch, …), then transaction_send or
 * transaction_no_memory. */
struct transaction *
transaction_begin(struct rpc_call *call, struct conn *conn, void *data) MUST_CHECK;
void transaction_send(struct transaction *tx,
                      void (*answer)(struct transaction *tx, const struct batch_end *end));
/* Instead of transaction_send: ends the call. */
void transaction_no_memory(struct transaction *tx);

/* From inside `answer`: begins another transaction for the same call, instead of ending it. The
 * batch is sent when `answer` returns and answered by `again`. False: no room; the call has to
 * be ended. */
bool transaction_again(struct transaction *tx,
                       void (*again)(struct transaction *tx,
                                     const struct batch_end *end)) MUST_CHECK;

#endif
