/*
 * deadline: one timer for the earliest deadline of a connection, and what happens when it comes.
 *
 * A batch that waits ends: it had no effect. One in flight is cancelled at the server, but only
 * when it is the oldest, because a cancel hits whatever the server is doing. It may still hit the
 * next one, when the two cross: that one is rolled back by it, so it is sent again, once, and its
 * caller does not notice. One that hits the server between two transactions is lost, so it is asked
 * again a few times. When the server does not answer even then, the connection is dropped.
 *
 * PQcancel blocks, so it runs in libuv's thread pool, on a PGcancel of its own: it touches nothing
 * of the connection.
 */
#include <stdlib.h>

#include "pg/conn_internal.h"

struct cancel {
    uv_work_t req;
    struct conn *conn; /* held until after_cancel */
    PGcancel *pg;      /* owned */
    bool ok;
    char text[256];
};

void deadline_note(struct conn *conn, int64_t due_us)
{
    if (conn->torn_down || due_us >= conn->timer_due_us)
        return;
    conn->timer_due_us = due_us;
    int64_t left_us = due_us - conn_now_us(conn);
    /* Rounded up, or it would fire before it is due and again at once. */
    uint64_t left_ms = left_us > 0 ? (uint64_t)(left_us + US_PER_MS - 1) / US_PER_MS : 0;
    uv_timer_start(&conn->deadline_timer, deadline_timer_cb, left_ms, 0);
}

static void expire_waiting(struct batch *batch)
{
    const struct conn *conn = batch->conn;
    struct pawl_err err;
    err_set(&err, PAWL_ETIMEOUT, "the database did not answer in time");
    if (conn->state == CONN_READY)
        err_detail(&err,
                   "%s was not sent: the connection to %s is busy.",
                   batch->calls[0].stmt->name,
                   conn->options.target->shown);
    else if (conn->err.code != 0)
        err_detail(&err,
                   conn->err.detail[0] != '\0' ? "%s: %s" : "%s%s",
                   conn->err.message,
                   conn->err.detail);
    else
        err_detail(&err, "There is no connection to %s yet.", conn->options.target->shown);
    batch_done(batch, PG_VERDICT_CONNECTION, &err);
}

static void expire_cancel(struct conn *conn)
{
    struct pawl_err err;
    err_set(&err, PAWL_ETIMEOUT, "%s does not answer", conn->options.target->shown);
    err_detail(&err, "A statement was past its deadline and could not be cancelled.");
    conn_break(conn, &err);
}

static void run_cancel(uv_work_t *req)
{
    struct cancel *cancel = req->data;
    cancel->ok = PQcancel(cancel->pg, cancel->text, sizeof(cancel->text)) == 1;
}

static void after_cancel(uv_work_t *req, int status)
{
    struct cancel *cancel = req->data;
    struct conn *conn = cancel->conn;
    if (status == 0 && !cancel->ok)
        log_warn(conn->options.log,
                 "conn_cancel",
                 LOG_STR("conn", conn->options.name),
                 LOG_STR("text", cancel->text));
    PQfreeCancel(cancel->pg);
    free(cancel);
    conn->cancel = NULL;
    conn_release(conn);
}

/* Without memory or with the last one still running nothing is asked: later, or the grace period ends
 * the connection. */
static void start_cancel(struct conn *conn)
{
    if (conn->cancel != NULL)
        return;
    struct cancel *cancel = calloc(1, sizeof(*cancel));
    if (cancel == NULL)
        return;
    cancel->conn = conn;
    cancel->req.data = cancel;
    cancel->pg = PQgetCancel(conn->pg);
    if (cancel->pg == NULL ||
        uv_queue_work(conn->loop, &cancel->req, run_cancel, after_cancel) != 0) {
        PQfreeCancel(cancel->pg);
        free(cancel);
        return;
    }
    conn->cancel = cancel;
    conn->n_held++;
}

/* Whatever is in flight may be hit by it. */
static void ask_cancel(struct conn *conn, int64_t now_us)
{
    conn->cancel_again_us = now_us + CONN_CANCEL_AGAIN_MS * US_PER_MS;
    if (conn->cancel_again_us > conn->cancel_due_us)
        conn->cancel_again_us = conn->cancel_due_us;
    LIST_FOREACH(link, &conn->inflight)
        LIST_ENTRY(link, struct batch, link)->stray = true;
    start_cancel(conn);
}

void deadline_timer_cb(uv_timer_t *timer)
{
    struct conn *conn = timer->data;
    int64_t now_us = conn_now_us(conn);
    int64_t next_us = INT64_MAX;
    conn->timer_due_us = INT64_MAX;
    LIST_FOREACH_SAFE(link, after, &conn->waiting) {
        struct batch *batch = LIST_ENTRY(link, struct batch, link);
        if (batch->deadline_us <= now_us)
            expire_waiting(batch);
        else if (batch->deadline_us < next_us)
            next_us = batch->deadline_us;
    }
    LIST_FOREACH(link, &conn->inflight) {
        struct batch *batch = LIST_ENTRY(link, struct batch, link);
        if (batch->expired)
            continue;
        if (batch->deadline_us <= now_us) {
            batch->expired = true;
            conn_turn_soon(conn);
        } else if (batch->deadline_us < next_us) {
            next_us = batch->deadline_us;
        }
    }
    if (conn->cancelled != NULL && conn->cancel_due_us <= now_us) {
        expire_cancel(conn);
    } else if (conn->cancelled != NULL) {
        if (conn->cancel_again_us <= now_us)
            ask_cancel(conn, now_us);
        if (conn->cancel_again_us < next_us)
            next_us = conn->cancel_again_us;
    }
    if (next_us != INT64_MAX)
        deadline_note(conn, next_us);
}

void deadline_cancel(struct conn *conn)
{
    if (list_empty(&conn->inflight) || conn->cancelled != NULL)
        return;
    const struct batch *oldest = LIST_ENTRY(conn->inflight.next, struct batch, link);
    if (!oldest->expired)
        return;
    conn->cancelled = oldest;
    int64_t now_us = conn_now_us(conn);
    conn->cancel_due_us = now_us + CONN_CANCEL_GRACE_MS * US_PER_MS;
    ask_cancel(conn, now_us);
    deadline_note(conn, conn->cancel_again_us);
}

void deadline_batch_ended(struct conn *conn, const struct batch *batch)
{
    if (conn->cancelled == batch)
        conn->cancelled = NULL;
}

void deadline_close(struct conn *conn)
{
    /* Fails when it runs already: then it is waited for, as long as keepalives and tcp_user_timeout
     * allow. */
    if (conn->cancel != NULL)
        uv_cancel((uv_req_t *)&conn->cancel->req);
}
