/* ask: a held call and its batch; whichever ends first forgets the other. */
#include "serve/api/ask.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define AFTER_CALL_MS \
    20 /* the transport says that a deadline has passed; then the statement is cancelled */
#define ASK_ARENA_MAX \
    ((size_t)64 * 1024 * 1024) /* a page of jobs, or one with the largest payload */

static void ask_free(struct ask *ask)
{
    batch_free(ask->batch);
    arena_deinit(&ask->arena);
    free(ask);
}

static void ask_gone(struct rpc_call *call, void *data)
{
    struct ask *ask = data;

    (void)call;
    ask->call = NULL; /* the batch's end frees it */
}

static const struct rpc_call_ops ask_ops = {.gone = ask_gone};

struct ask *ask_begin(struct rpc_call *call, struct conn *conn, void *data)
{
    struct ask *ask = calloc(1, sizeof(*ask));

    if (ask != NULL) {
        arena_init(&ask->arena, ASK_ARENA_MAX);
        ask->call = call;
        ask->conn = conn;
        ask->data = data;
        ask->batch = batch_new(conn);
    }
    if (ask == NULL || ask->batch == NULL) {
        if (ask != NULL)
            ask_free(ask);
        rpc_end(call,
                RPC_RESOURCE_EXHAUSTED,
                "too many calls wait for the database; nothing was done, try again later");
        return NULL;
    }
    return ask;
}

void ask_refuse(struct ask *ask, enum rpc_status status, const char *fmt, ...)
{
    char message[RPC_MESSAGE_MAX];
    struct rpc_call *call = ask->call;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    ask_free(ask);
    rpc_end(call, status, "%s", message);
}

bool ask_again(struct ask *ask, void (*again)(struct ask *ask, const struct batch_end *end))
{
    assert(ask->call != NULL && ask->batch == NULL);
    ask->batch = batch_new(ask->conn);
    ask->answer = again;
    return ask->batch != NULL;
}

static void say_why_not(struct ask *ask, const struct batch_end *end)
{
    struct rpc_call *call = ask->call;
    const struct pawl_err *err = end->err;

    switch (end->verdict) {
    case PG_VERDICT_CONNECTION:
        rpc_end(call, RPC_UNAVAILABLE, "%s; nothing was done, try again later", err->message);
        break;
    case PG_VERDICT_UNKNOWN:
        if (!ask->changes)
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
        /* What the server's database user may not do, or what its schema lacks, is no fault of the client's. */
        if (err->code == PAWL_EDENIED || err->code == PAWL_ESCHEMA)
            rpc_end(call, RPC_UNAVAILABLE, "the server's database: %s", err->message);
        else
            rpc_end_err(call, err);
    }
}

static void on_end(void *data, const struct batch_end *end)
{
    struct ask *ask = data;

    if (ask->call != NULL && end->verdict != PG_VERDICT_OK)
        say_why_not(ask, end);
    else if (ask->call != NULL)
        ask->answer(ask, end);
    if (ask->batch != NULL && ask->call != NULL)
        ask_send(ask, ask->answer); /* it asks again */
    else
        ask_free(ask);
}

void ask_send(struct ask *ask, void (*answer)(struct ask *ask, const struct batch_end *end))
{
    struct batch *batch = ask->batch;
    int64_t deadline_us = rpc_call_deadline_us(ask->call);
    int64_t deadline_ms = ASK_DEADLINE_MS;

    if (deadline_us != INT64_MAX) {
        int64_t left_ms = (deadline_us - (int64_t)(uv_hrtime() / 1000)) / US_PER_MS;

        if (left_ms < deadline_ms)
            deadline_ms = left_ms > 0 ? left_ms + AFTER_CALL_MS : AFTER_CALL_MS;
    }
    ask->batch = NULL;
    ask->answer = answer;
    rpc_hold(ask->call, &ask_ops, ask);
    batch_submit(batch, deadline_ms, on_end, ask);
}
