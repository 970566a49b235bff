/*
 * pipeline: batches over the wire. Several are in flight; each is its commands and one sync, and
 * only the sync ends it.
 *
 * libpq may read from the socket in any call that writes, and then the socket stays silent about
 * what is already here: so after every write we look for results and notifications as if it had
 * become readable. Loop thread only.
 */
#include <string.h>

#include "pg/conn_internal.h"

/* An encrypted record holds up to 16 KiB and libpq reads at least 8 KiB at a time; what OpenSSL has
 * decrypted and libpq not taken does not make the socket readable again. */
#define READ_ROUNDS_TLS 4
/* The socket is in error: what it holds is read to the end, but not for ever. */
#define READ_ROUNDS_LAST 1024

void pipeline_reset(struct conn *conn)
{
    conn->flush_pending = false;
    prepared_reset(conn);
}

static void lost(struct conn *conn)
{
    struct pawl_err err;
    err_clear(&err);
    pg_err_from_result(conn->pg, NULL, false, &err);
    conn_break(conn, &err);
}

static void out_of_step(struct conn *conn, const char *what)
{
    struct pawl_err err;
    err_set(
        &err, PAWL_EFAILED, "cannot go on with the connection to %s", conn->options.target->shown);
    err_detail(&err, "The server sent %s.", what);
    conn_break(conn, &err);
}

static struct batch *oldest(const struct conn *conn)
{
    return list_empty(&conn->inflight) ? NULL : LIST_ENTRY(conn->inflight.next, struct batch, link);
}

static bool send_call(struct batch *batch, size_t i)
{
    struct conn *conn = batch->conn;
    const struct batch_call *call = &batch->calls[i];
    const struct params *p = &call->params;
    if (conn->options.unprepared || batch->internal) {
        batch->commands[batch->n_commands++] = (struct batch_command){.call = i};
        return PQsendQueryParams(conn->pg,
                                 call->stmt->sql,
                                 p->n,
                                 p->types,
                                 p->values,
                                 p->lengths,
                                 p->formats,
                                 1) == 1;
    }
    struct prepared *prepared = &conn->prepared[call->stmt->id];
    char name[PREPARED_NAME_MAX];
    prepared_name(conn, call->stmt, name);
    if (prepared->state == PREPARED_NONE) {
        if (PQsendPrepare(conn->pg, name, call->stmt->sql, p->n, p->types) != 1)
            return false;
        prepared->state = PREPARED_SENT;
        batch->commands[batch->n_commands++] =
            (struct batch_command){.kind = COMMAND_PREPARE, .call = i};
    }
    batch->commands[batch->n_commands++] = (struct batch_command){.call = i};
    return PQsendQueryPrepared(conn->pg, name, p->n, p->values, p->lengths, p->formats, 1) == 1;
}

/* For this transaction only: the session is not ours. */
static bool send_settings(struct batch *batch)
{
    static const char *const here[] = {"true"};
    const struct conn *conn = batch->conn;
    if (conn->options.session == NULL || !conn->options.unprepared)
        return true;
    batch->commands[batch->n_commands++] = (struct batch_command){.kind = COMMAND_SETTINGS};
    return PQsendQueryParams(conn->pg, conn->options.session->sql, 1, NULL, here, NULL, NULL, 1) ==
           1;
}

/* Without its sync a batch cannot be committed, so one that could not be sent whole has had no
 * effect. */
static void send_failed(struct batch *batch)
{
    struct conn *conn = batch->conn;
    struct pawl_err err;
    err_clear(&err);
    if (PQstatus(conn->pg) == CONNECTION_BAD) {
        lost(conn);
        return;
    }
    /* The connection is well, so it is about this batch: it must not come back with the next
     * connection. */
    char why[256];
    pg_one_line(why, sizeof(why), PQerrorMessage(conn->pg));
    err_set(&err, PAWL_ENOMEM, "could not send the transaction to the database");
    err_detail(&err, "%s: %s", batch->calls[0].stmt->name, why);
    batch_done(batch, PG_VERDICT_CONNECTION, &err);
    conn_break(conn, &err);
}

static bool send_batch(struct batch *batch)
{
    struct conn *conn = batch->conn;
    batch_reset(batch);
    bool sent = send_settings(batch);
    for (size_t i = 0; sent && i < batch->n_calls; i++)
        sent = send_call(batch, i);
    if (!sent || PQpipelineSync(conn->pg) != 1) {
        send_failed(batch);
        return false;
    }
    list_remove(&batch->link);
    list_push(&conn->inflight, &batch->link);
    batch->state = BATCH_SENT;
    batch->sent_us = conn_now_us(conn);
    batch->stray = conn->cancel != NULL;
    conn->n_inflight++;
    if (conn->options.n_statements != NULL)
        *conn->options.n_statements += batch->n_calls;
    return true;
}

static void take_notifications(struct conn *conn)
{
    PGnotify *notify;
    while (conn->state == CONN_READY && (notify = PQnotifies(conn->pg)) != NULL) {
        if (conn->options.on_notify != NULL)
            conn->options.on_notify(conn->options.data, notify->relname, notify->extra);
        PQfreemem(notify);
    }
}

static void command_ended(struct batch *batch)
{
    batch->answered = false;
    if (batch->next_command < batch->n_commands)
        batch->next_command++;
}

/* One result that is not a sync. Takes it. */
static void take_answer(struct batch *batch, PGresult *r)
{
    struct conn *conn = batch->conn;
    ExecStatusType status = PQresultStatus(r);
    const struct batch_command *command =
        batch->next_command < batch->n_commands ? &batch->commands[batch->next_command] : NULL;
    struct prepared *prepared = NULL;
    if (command != NULL && command->kind == COMMAND_PREPARE)
        prepared = &conn->prepared[batch->calls[command->call].stmt->id];
    batch->answered = true;

    switch (status) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
        if (command == NULL) {
            out_of_step(conn, "more results than there were statements");
        } else if (prepared != NULL) {
            prepared->state = PREPARED_READY;
        } else if (command->kind == COMMAND_CALL) {
            PQclear(batch->results[command->call]);
            batch->results[command->call] = r;
            return;
        }
        break;
    case PGRES_FATAL_ERROR:
        if (prepared != NULL)
            prepared->state = PREPARED_NONE;
        ending_error(batch, r);
        break;
    case PGRES_PIPELINE_ABORTED:
        if (prepared != NULL)
            prepared->state = PREPARED_NONE;
        break;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
        out_of_step(conn, "the beginning of a COPY, which is not possible here");
        break;
    default:
        out_of_step(conn, PQresStatus(status));
        break;
    }
    PQclear(r);
}

static void take_results(struct conn *conn)
{
    struct batch *batch;
    while (!conn->broken && (batch = oldest(conn)) != NULL && !PQisBusy(conn->pg)) {
        PGresult *r = PQgetResult(conn->pg);
        if (r == NULL) {
            if (batch->answered)
                command_ended(batch);
            else if (PQstatus(conn->pg) == CONNECTION_BAD)
                lost(conn);
            else
                out_of_step(conn, "nothing where a result was due");
        } else if (PQresultStatus(r) == PGRES_PIPELINE_SYNC) {
            PQclear(r);
            ending_sync(batch);
        } else {
            take_answer(batch, r);
        }
    }
}

/* Looks at what libpq has read, whoever made it read. */
static void take_input(struct conn *conn)
{
    take_results(conn);
    /* Also when it broke: they were sent by others and are committed. */
    take_notifications(conn);
}

static void flush(struct conn *conn)
{
    int status = PQflush(conn->pg);
    /* libpq reads while it writes, and when it finds the end it closes the socket and says that all was sent. The last batch
     * was not: it has to stay one that cannot have been committed. */
    if (status < 0 || PQsocket(conn->pg) < 0) {
        take_input(conn);
        lost(conn);
        return;
    }
    conn->flush_pending = status == 1;
    if (!conn->flush_pending && !list_empty(&conn->inflight))
        LIST_ENTRY(conn->inflight.prev, struct batch, link)->flushed = true;
    connect_watch(conn, UV_READABLE | (conn->flush_pending ? UV_WRITABLE : 0), pipeline_io_cb);
}

static void read_input(struct conn *conn, int rounds)
{
    for (int i = 0; i < rounds && !conn->broken && conn->state == CONN_READY; i++) {
        bool ok = PQconsumeInput(conn->pg) == 1;
        take_input(conn);
        if (!ok)
            lost(conn);
    }
}

void pipeline_send(struct conn *conn)
{
    while (!conn->broken && !conn->flush_pending && conn->n_inflight < CONN_WINDOW &&
           !list_empty(&conn->waiting)) {
        struct batch *first = oldest(conn);
        struct batch *batch = LIST_ENTRY(conn->waiting.next, struct batch, link);
        /* While the oldest is being cancelled the connection may have to go: nothing more is risked
         * on it. */
        if ((first != NULL && first->expired) || !prepared_can_send(conn, batch))
            break;
        if (!send_batch(batch))
            break;
        flush(conn);
    }
    if (!conn->broken)
        take_input(conn);
}

void pipeline_io_cb(uv_poll_t *handle, int status, int events)
{
    struct conn *conn = ((struct poller *)handle->data)->conn;
    if (conn->state != CONN_READY || conn->broken)
        return;
    if (status < 0) {
        /* libuv has stopped watching. What the server said last is still to be read; libpq then
         * finds the error. */
        read_input(conn, READ_ROUNDS_LAST);
        if (!conn->broken)
            out_of_step(conn, "nothing any more: its socket is in error");
        return;
    }
    if (events & UV_READABLE)
        read_input(conn, PQsslInUse(conn->pg) ? READ_ROUNDS_TLS : 1);
    if (!conn->broken && conn->state == CONN_READY && conn->flush_pending) {
        flush(conn);
        if (!conn->broken)
            take_input(conn);
        conn_turn_soon(conn);
    }
}
