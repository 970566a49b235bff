/*
 * conn: the connection object and its loop turn. Whatever ends or frees something happens in the
 * turn, which an idle handle runs before the loop sleeps again; so the caller's callbacks may
 * submit, free or close as they like. Loop thread only.
 */
#include "pg/conn.h"

#include <assert.h>
#include <stdlib.h>

#include "pg/conn_internal.h"

static void options_default(struct conn_options *options)
{
    if (options->queue_max == 0)
        options->queue_max = CONN_QUEUE_DEFAULT;
    if (options->connect_timeout_ms <= 0)
        options->connect_timeout_ms = CONN_CONNECT_DEFAULT_MS;
    if (options->backoff_min_ms <= 0)
        options->backoff_min_ms = CONN_BACKOFF_MIN_MS;
    if (options->backoff_max_ms <= 0)
        options->backoff_max_ms = CONN_BACKOFF_MAX_MS;
    if (options->backoff_max_ms < options->backoff_min_ms)
        options->backoff_max_ms = options->backoff_min_ms;
}

struct conn *conn_new(uv_loop_t *loop, const struct conn_options *options)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->loop = loop;
    conn->options = *options;
    options_default(&conn->options);
    conn->state = CONN_IDLE;
    conn->timer_due_us = INT64_MAX;
    list_init(&conn->waiting);
    list_init(&conn->inflight);
    list_init(&conn->done);
    primary_join(conn);

    /* None of these can fail; they allocate nothing. */
    uv_idle_init(loop, &conn->turn);
    uv_timer_init(loop, &conn->life_timer);
    uv_timer_init(loop, &conn->deadline_timer);
    conn->turn.data = conn;
    conn->life_timer.data = conn;
    conn->deadline_timer.data = conn;
    conn->n_held = 3;
    return conn;
}

int64_t conn_now_us(const struct conn *conn)
{
    return conn->options.clock->mono_us(conn->options.clock);
}

enum conn_state conn_state(const struct conn *conn)
{
    return conn->state;
}

size_t conn_pending(const struct conn *conn)
{
    return conn->n_submitted;
}

void conn_listen(struct conn *conn, const struct stmt *listen)
{
    assert(conn->state == CONN_IDLE);
    conn->listen = listen;
}

void conn_start(struct conn *conn)
{
    if (conn->state == CONN_IDLE)
        connect_round(conn);
}

void conn_break(struct conn *conn, const struct pawl_err *err)
{
    if (conn->broken)
        return;
    conn->broken = true;
    /* What the server said before it went away explains more than "closed unexpectedly". */
    conn->err = conn->notice.code != 0 ? conn->notice : *err;
    conn_turn_soon(conn);
}

static void free_closed(struct conn *conn)
{
    list_remove(&conn->kin);
    void (*closed)(void *data) = conn->closed;
    void *data = conn->closed_data;
    free(conn);
    if (closed != NULL)
        closed(data);
}

void conn_release(struct conn *conn)
{
    assert(conn->n_held > 0);
    conn->n_held--;
    if (conn->torn_down && conn->n_held == 0)
        free_closed(conn);
}

static void handle_closed(uv_handle_t *handle)
{
    conn_release(handle->data);
}

/* The last turn: every batch learns how it ended while the connection still exists, then the
 * handles go. */
static void tear_down(struct conn *conn)
{
    connect_drop(conn);
    struct pawl_err err;
    err_set(&err, PAWL_ECONN, "connection closed before the transaction was sent");
    LIST_FOREACH_SAFE(link, after, &conn->waiting)
        batch_done(LIST_ENTRY(link, struct batch, link), PG_VERDICT_CONNECTION, &err);
    batch_deliver(conn);
    /* A callback may have submitted a batch that it had made before. */
    if (!list_empty(&conn->waiting) || !list_empty(&conn->done)) {
        conn_turn_soon(conn);
        return;
    }
    conn->torn_down = true;
    if (conn->scout != NULL)
        scout_end(conn->scout);
    deadline_close(conn);
    uv_close((uv_handle_t *)&conn->turn, handle_closed);
    uv_close((uv_handle_t *)&conn->life_timer, handle_closed);
    uv_close((uv_handle_t *)&conn->deadline_timer, handle_closed);
}

static void turn_cb(uv_idle_t *idle)
{
    struct conn *conn = idle->data;
    uv_idle_stop(idle);
    if (conn->state == CONN_CLOSING) {
        tear_down(conn);
        return;
    }
    if (conn->broken) {
        connect_drop(conn);
        connect_again(conn);
    }
    batch_deliver(conn);
    /* A callback may have closed the connection: then the next turn has been asked for and does it.
     */
    if (conn->state != CONN_READY || conn->broken)
        return;
    deadline_cancel(conn);
    pipeline_send(conn);
}

void conn_turn_soon(struct conn *conn)
{
    if (!conn->torn_down && !uv_is_active((uv_handle_t *)&conn->turn))
        uv_idle_start(&conn->turn, turn_cb);
}

void conn_close(struct conn *conn, void (*closed)(void *data), void *data)
{
    assert(conn->state != CONN_CLOSING);
    conn->state = CONN_CLOSING;
    conn->closed = closed;
    conn->closed_data = data;
    conn_turn_soon(conn);
}
