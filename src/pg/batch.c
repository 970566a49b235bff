/*
 * batch: the life of one transaction on this side: filled in by its owner, waiting, in flight,
 * done, called back, freed. A batch is on the list that its state names, and moves only through the
 * functions here and in pipeline.c. Loop thread only.
 */
#include <assert.h>
#include <stdlib.h>

#include "pg/conn_internal.h"

#define DEADLINE_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)

struct batch *batch_make(struct conn *conn)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    batch->conn = conn;
    batch->state = BATCH_OPEN;
    list_init(&batch->link);
    arena_init(&batch->arena, BATCH_ARENA_MAX);
    return batch;
}

void batch_destroy(struct batch *batch)
{
    batch_reset(batch);
    arena_deinit(&batch->arena);
    free(batch);
}

struct batch *batch_new(struct conn *conn)
{
    if (conn->state == CONN_CLOSING || conn->n_live >= conn->options.queue_max)
        return NULL;
    struct batch *batch = batch_make(conn);
    if (batch != NULL)
        conn->n_live++;
    return batch;
}

void batch_free(struct batch *batch)
{
    if (batch == NULL)
        return;
    assert(batch->state == BATCH_OPEN);
    batch->conn->n_live--;
    batch_destroy(batch);
}

struct params *batch_add(struct batch *batch, const struct stmt *stmt)
{
    assert(batch->state == BATCH_OPEN && stmt->id < STMT_MAX);
    if (batch->n_calls == BATCH_CALLS_MAX)
        return NULL;
    struct batch_call *call = &batch->calls[batch->n_calls++];
    call->stmt = stmt;
    params_init(&call->params, &batch->arena);
    return &call->params;
}

void batch_wait(struct batch *batch)
{
    struct conn *conn = batch->conn;
    struct list *after = conn->waiting.prev;
    while (after != &conn->waiting && LIST_ENTRY(after, struct batch, link)->seq > batch->seq)
        after = after->prev;
    if (batch->state == BATCH_SENT)
        conn->n_inflight--;
    list_remove(&batch->link);
    list_unshift(after, &batch->link);
    batch->state = BATCH_WAITING;
    batch->expired = false; /* the timer finds it again, as one that waits */
    deadline_note(conn, batch->deadline_us);
    conn_turn_soon(conn);
}

void batch_reset(struct batch *batch)
{
    for (size_t i = 0; i < BATCH_CALLS_MAX; i++) {
        PQclear(batch->results[i]);
        batch->results[i] = NULL;
    }
    batch->n_commands = 0;
    batch->next_command = 0;
    batch->answered = false;
    batch->flushed = false;
    batch->stray = false;
    batch->warned = false;
    batch->unconfirmed = false;
    batch->failed = false;
    batch->rolled_back = false;
    err_clear(&batch->err);
}

void batch_done(struct batch *batch, enum pg_verdict verdict, const struct pawl_err *err)
{
    struct conn *conn = batch->conn;
    assert(batch->state != BATCH_DONE && verdict != PG_VERDICT_REPREPARE);
    if (batch->state == BATCH_SENT) {
        conn->n_inflight--;
        conn->heard_us = conn_now_us(conn);
        batch->took_us = conn->heard_us - batch->sent_us;
    }
    if (err != NULL && err != &batch->err)
        batch->err = *err;
    batch->verdict = verdict;
    batch->state = BATCH_DONE;
    list_remove(&batch->link);
    list_push(&conn->done, &batch->link);
    conn_turn_soon(conn);
}

void batch_here_only(struct batch *batch)
{
    assert(batch->state == BATCH_OPEN);
    batch->here_only = true;
}

/* Refused here, so that what is sent can only fail at the server. */
static const struct pawl_err *batch_flaw(const struct batch *batch, struct pawl_err *err)
{
    if (batch->n_calls == 0) {
        err_set(err, PAWL_EINVAL, "cannot send a transaction without a statement");
        return err;
    }
    for (size_t i = 0; i < batch->n_calls; i++) {
        if (!batch->calls[i].params.failed)
            continue;
        if (batch->calls[i].params.arena->starved) {
            err_set(err, PAWL_ENOMEM, "out of memory");
            err_detail(err, "The parameters of %s were not sent.", batch->calls[i].stmt->name);
            return err;
        }
        err_set(err, PAWL_ELIMIT, "cannot send that much in one transaction");
        err_detail(err,
                   "The parameters of a statement are more than %d, or larger than %lu MiB.",
                   PARAMS_MAX,
                   BATCH_ARENA_MAX / (1024 * 1024));
        return err;
    }
    return NULL;
}

void batch_submit(struct batch *batch, int64_t deadline_ms, batch_fn fn, void *data)
{
    struct conn *conn = batch->conn;
    assert(batch->state == BATCH_OPEN && !conn->torn_down);
    if (deadline_ms < 0)
        deadline_ms = 0;
    if (deadline_ms > DEADLINE_MAX_MS)
        deadline_ms = DEADLINE_MAX_MS;
    batch->fn = fn;
    batch->data = data;
    batch->seq = ++conn->last_seq;
    batch->deadline_us = conn_now_us(conn) + deadline_ms * US_PER_MS;
    conn->n_submitted++;

    struct pawl_err err;
    if (batch_flaw(batch, &err) != NULL) {
        /* Memory may be found next time; what is too large stays so. */
        batch_done(batch, err.code == PAWL_ENOMEM ? PG_VERDICT_RETRY : PG_VERDICT_PERMANENT, &err);
        return;
    }
    batch_wait(batch);
}

/* What a pooler in transaction mode listens to is anybody's. */
static bool listens(const struct conn *conn)
{
    return conn->listen != NULL &&
           (conn->options.primary == NULL || !primary_pooled(conn->options.primary));
}

/* It goes in front of everything: its seq is below all others. A fresh one for every connection. */
int batch_session(struct conn *conn)
{
    bool settings = conn->options.session != NULL && !conn->options.unprepared;
    if (!listens(conn) && !settings)
        return 0;
    struct batch *batch = batch_make(conn);
    if (batch == NULL)
        return PAWL_ENOMEM;
    struct params *p = settings ? batch_add(batch, conn->options.session) : NULL;
    if (p != NULL)
        params_bool(p, false);
    if (listens(conn))
        p = batch_add(batch, conn->listen);
    if (p == NULL || batch->calls[0].params.failed) {
        batch_destroy(batch);
        return PAWL_ENOMEM;
    }
    batch->internal = true;
    batch->deadline_us = conn_now_us(conn) + conn->options.connect_timeout_ms * US_PER_MS;
    batch_wait(batch);
    return 0;
}

void batch_probe(struct conn *conn)
{
    struct batch *batch = batch_make(conn);
    if (batch == NULL || batch_add(batch, conn->options.primary->identity) == NULL) {
        if (batch != NULL)
            batch_destroy(batch);
        return;
    }
    batch->internal = true;
    batch->probe = true;
    batch->deadline_us = conn_now_us(conn) + conn->options.connect_timeout_ms * US_PER_MS;
    batch_wait(batch);
}

static void session_ended(struct conn *conn, const struct batch *batch)
{
    if (conn->state != CONN_READY)
        return;
    if (batch->probe) {
        identity_probed(conn, batch);
        return;
    }
    if (batch->verdict != PG_VERDICT_OK)
        conn_break(conn, &batch->err);
    else if (listens(conn) && conn->options.on_notify != NULL)
        conn->options.on_notify(conn->options.data, NULL, NULL);
}

PGresult *batch_take_result(const struct batch_end *end, size_t i)
{
    /* The array is the batch's own; only the callback's view of it is read-only. */
    PGresult **results = (PGresult **)(uintptr_t)end->results;
    PGresult *taken = results[i];
    results[i] = NULL;
    return taken;
}

void batch_deliver(struct conn *conn)
{
    /* Those that end while we call back wait for the next turn, or a caller that resubmits at once
     * would keep the loop. */
    struct list now;
    list_init(&now);
    list_splice(&now, &conn->done);
    struct list *link;
    while ((link = list_shift(&now)) != NULL) {
        struct batch *batch = LIST_ENTRY(link, struct batch, link);
        if (batch->internal) {
            session_ended(conn, batch);
            batch_destroy(batch);
            continue;
        }
        /* Its place is free before the callback: it may want to submit the next. */
        conn->n_live--;
        conn->n_submitted--;
        bool ok = batch->verdict == PG_VERDICT_OK;
        bool unconfirmed = batch->verdict == PG_VERDICT_UNKNOWN && batch->unconfirmed;
        struct batch_end end = {
            .verdict = batch->verdict,
            .unconfirmed = unconfirmed,
            .err = ok ? NULL : &batch->err,
            .results = ok || unconfirmed ? batch->results : NULL,
            .n_results = ok || unconfirmed ? batch->n_calls : 0,
            .took_us = batch->took_us,
        };
        if (batch->fn != NULL)
            batch->fn(batch->data, &end);
        batch_destroy(batch);
    }
}
