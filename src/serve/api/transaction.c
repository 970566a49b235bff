/* transaction: a held call and its batch; whichever ends first forgets the other. */
#include "serve/api/transaction.h"

#include <assert.h>
#include <stdlib.h>

#define AFTER_CALL_MS 20 /* after the call's own deadline, which the transport reports first */
#define TRANSACTION_ARENA_MAX \
    ((size_t)64 * 1024 * 1024) /* enough for a page of jobs, or one job with the largest payload */

static void transaction_free(struct transaction *tx)
{
    batch_free(tx->batch);
    arena_deinit(&tx->arena);
    free(tx);
}

static void transaction_gone(struct rpc_call *call, void *data)
{
    struct transaction *tx = data;

    (void)call;
    tx->call = NULL; /* the end of the batch frees the transaction */
}

static const struct rpc_call_ops transaction_ops = {.gone = transaction_gone};

struct transaction *transaction_begin(struct rpc_call *call, struct conn *conn, void *data)
{
    struct transaction *tx = calloc(1, sizeof(*tx));

    if (tx != NULL) {
        arena_init(&tx->arena, TRANSACTION_ARENA_MAX);
        tx->call = call;
        tx->conn = conn;
        tx->data = data;
        tx->batch = batch_new(conn);
    }
    if (tx == NULL || tx->batch == NULL) {
        if (tx != NULL)
            transaction_free(tx);
        rpc_end(call,
                RPC_RESOURCE_EXHAUSTED,
                "too many calls wait for the database; nothing was done, try again later");
        return NULL;
    }
    return tx;
}

void transaction_no_memory(struct transaction *tx)
{
    struct rpc_call *call = tx->call;

    transaction_free(tx);
    rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory for the call");
}

bool transaction_again(struct transaction *tx,
                       void (*again)(struct transaction *tx, const struct batch_end *end))
{
    assert(tx->call != NULL && tx->batch == NULL);
    tx->batch = batch_new(tx->conn);
    tx->answer = again;
    return tx->batch != NULL;
}

static void say_why_not(struct transaction *tx, const struct batch_end *end)
{
    struct rpc_call *call = tx->call;
    const struct pawl_err *err = end->err;

    switch (end->verdict) {
    case PG_VERDICT_CONNECTION:
        rpc_end(call, RPC_UNAVAILABLE, "%s; nothing was done, try again later", err->message);
        break;
    case PG_VERDICT_UNKNOWN:
        if (!tx->changes)
            rpc_end(call, RPC_UNAVAILABLE, "the connection to the database was lost; try again");
        else
            rpc_end_unknown(
                call,
                RPC_UNAVAILABLE,
                "%s",
                end->unconfirmed
                    ? "no synchronous standby of the database has confirmed the commit: it is "
                      "done, but a fail-over may undo it"
                    : "the connection to the database was lost during the commit: it may have "
                      "been done or not");
        break;
    case PG_VERDICT_RETRY:
        rpc_end(call,
                err->code == PAWL_ERETRY     ? RPC_ABORTED
                : err->code == PAWL_EFULL    ? RPC_RESOURCE_EXHAUSTED
                : err->code == PAWL_ETIMEOUT ? RPC_DEADLINE_EXCEEDED
                                             : RPC_UNAVAILABLE,
                "%s; nothing was done, try again",
                err->message);
        break;
    default:
        /* Missing rights or a missing schema are the server's fault, not the client's. */
        if (err->code == PAWL_EDENIED || err->code == PAWL_ESCHEMA)
            rpc_end(call, RPC_UNAVAILABLE, "the server's database: %s", err->message);
        else
            rpc_end_err(call, err);
    }
}

static void on_end(void *data, const struct batch_end *end)
{
    struct transaction *tx = data;

    if (tx->call != NULL && end->verdict != PG_VERDICT_OK)
        say_why_not(tx, end);
    else if (tx->call != NULL)
        tx->answer(tx, end);
    if (tx->batch != NULL && tx->call != NULL)
        transaction_send(tx, tx->answer); /* transaction_again was called */
    else
        transaction_free(tx);
}

void transaction_send(struct transaction *tx,
                      void (*answer)(struct transaction *tx, const struct batch_end *end))
{
    struct batch *batch = tx->batch;
    int64_t deadline_us = rpc_call_deadline_us(tx->call);
    int64_t deadline_ms = TRANSACTION_DEADLINE_MS;

    if (deadline_us != INT64_MAX) {
        int64_t left_ms = (deadline_us - (int64_t)(uv_hrtime() / 1000)) / US_PER_MS;

        if (left_ms < deadline_ms)
            deadline_ms = left_ms > 0 ? left_ms + AFTER_CALL_MS : AFTER_CALL_MS;
    }
    tx->batch = NULL;
    tx->answer = answer;
    rpc_hold(tx->call, &transaction_ops, tx);
    batch_submit(batch, deadline_ms, on_end, tx);
}
