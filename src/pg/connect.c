/*
 * connect: the way to a server and back from it. PQconnectPoll decides what to wait for; the socket
 * may be another one after each call (next host, next address, no encryption), so it is looked up
 * and watched anew every time. What the loop watches is a duplicate of the socket that only this file
 * closes: libpq closes its own in any call that reads or writes, and libuv ends the program when a
 * descriptor that it watches is gone. Looking up a host name still blocks, inside libpq. Loop thread only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "pg/conn_internal.h"

#define BACKOFF_SHIFT_MAX 16
#define HOST_ARENA_MAX    65536
#define STANDBY_MAX_MS    250 /* ceiling of the pause while only a standby is there */

static void poller_closed(uv_handle_t *handle)
{
    struct poller *poller = handle->data;
    struct conn *conn = poller->conn;
    free(poller);
    conn_release(conn);
}

void connect_unwatch(struct conn *conn)
{
    if (conn->poller == NULL)
        return;
    /* Takes the descriptor out of the loop at once; only the memory waits. As long as the duplicate is
     * open so is the connection, whatever libpq does. */
    uv_close((uv_handle_t *)&conn->poller->handle, poller_closed);
    close(conn->poller->fd);
    conn->poller = NULL;
}

static void watch_failed(struct conn *conn, int status)
{
    struct pawl_err err;
    err_set(&err, PAWL_ECONN, "could not watch the connection to %s", conn->options.target->shown);
    err_detail(&err, "%s.", uv_strerror(status));
    conn_break(conn, &err);
}

void connect_watch(struct conn *conn, int events, uv_poll_cb cb)
{
    int status = 0;
    if (conn->poller == NULL) {
        struct poller *poller = calloc(1, sizeof(*poller));
        if (poller == NULL) {
            watch_failed(conn, UV_ENOMEM);
            return;
        }
        poller->fd = fcntl(PQsocket(conn->pg), F_DUPFD_CLOEXEC, 0);
        status = poller->fd < 0 ? uv_translate_sys_error(errno)
                                : uv_poll_init(conn->loop, &poller->handle, poller->fd);
        if (status != 0) {
            if (poller->fd >= 0)
                close(poller->fd);
            free(poller);
            watch_failed(conn, status);
            return;
        }
        poller->conn = conn;
        poller->handle.data = poller;
        conn->poller = poller;
        conn->n_held++;
    }
    if (conn->poller->events == events)
        return;
    status = uv_poll_start(&conn->poller->handle, events, cb);
    if (status != 0) {
        watch_failed(conn, status);
        return;
    }
    conn->poller->events = events;
}

/* libpq's own way is to print. While nothing is in flight this is also where the server's last
 * words arrive. */
static void notice_cb(void *data, const PGresult *r)
{
    struct conn *conn = data;
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (severity != NULL && sqlstate != NULL && conn->notice.code == 0 &&
        (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0)) {
        pg_err_from_result(conn->pg, r, false, &conn->notice);
        return;
    }
    ending_notice(conn, r);
    log_debug(conn->options.log,
              "conn_notice",
              LOG_STR("conn", conn->options.name),
              LOG_STR("severity", severity),
              LOG_STR("sqlstate", sqlstate),
              LOG_STR("text", text));
}

static void connect_failed(struct conn *conn)
{
    struct pawl_err err;
    err_clear(&err);
    pg_err_from_connect(conn->pg, &err);
    conn_break(conn, &err);
}

void connect_ready(struct conn *conn)
{
    struct pawl_err err;
    err_clear(&err);
    if (PQsetnonblocking(conn->pg, 1) != 0 || PQenterPipelineMode(conn->pg) != 1) {
        connect_failed(conn);
        return;
    }
    PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
    uv_timer_stop(&conn->life_timer);
    pipeline_reset(conn);
    conn->state = CONN_READY;
    conn->ready_us = conn->heard_us = conn_now_us(conn);
    err_clear(&conn->err);
    connect_watch(conn, UV_READABLE, pipeline_io_cb);
    if (batch_session(conn) != 0) {
        err_set(&err, PAWL_ENOMEM, "out of memory");
        conn_break(conn, &err);
        return;
    }
    log_info(conn->options.log,
             "conn_ready",
             LOG_STR("conn", conn->options.name),
             LOG_STR("server", conn->options.target->shown),
             LOG_INT("backend", PQbackendPID(conn->pg)));
    conn_turn_soon(conn);
    if (!conn->broken && conn->options.on_state != NULL)
        conn->options.on_state(conn->options.data, CONN_READY, NULL);
}

static void connect_io_cb(uv_poll_t *handle, int status, int events);

static void connect_wait(struct conn *conn, int events)
{
    connect_unwatch(conn);
    connect_watch(conn, events, connect_io_cb);
}

static void connect_step(struct conn *conn)
{
    /* Before the call: it may go on with another socket. */
    connect_unwatch(conn);
    switch (PQconnectPoll(conn->pg)) {
    case PGRES_POLLING_READING:
        connect_wait(conn, UV_READABLE);
        return;
    case PGRES_POLLING_WRITING:
        connect_wait(conn, UV_WRITABLE);
        return;
    case PGRES_POLLING_OK:
        identity_begin(conn);
        return;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE:
    default:
        connect_failed(conn);
        return;
    }
}

/* An error on the socket (status) is for libpq to find and to name: it may have another address to
 * try. */
static void connect_io_cb(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    struct conn *conn = ((struct poller *)handle->data)->conn;
    if (conn->state == CONN_CONNECTING && !conn->broken)
        connect_step(conn);
}

static void connect_deadline_cb(uv_timer_t *timer)
{
    struct conn *conn = timer->data;
    if (conn->state != CONN_CONNECTING)
        return;
    struct pawl_err err;
    err_set(&err, PAWL_ECONN, "could not connect to %s", conn->options.target->shown);
    err_detail(
        &err, "There was no answer within %lld ms.", (long long)conn->options.connect_timeout_ms);
    err_hint(&err, "Check the address, the port and what lies between.");
    conn_break(conn, &err);
}

/* libpq would wait for a silent host for ever before it tries the next: so each has an attempt of
 * its own. */
static PGconn *start_host(const struct conn *conn, struct pawl_err *err)
{
    struct arena arena;
    struct target host;
    PGconn *pg = NULL;
    arena_init(&arena, HOST_ARENA_MAX);
    if (target_host(conn->options.target, conn->host, &arena, &host, err) == 0) {
        pg = PQconnectStartParams(host.keywords, host.values, 0);
        if (pg == NULL)
            err_set(err, PAWL_ENOMEM, "out of memory");
    }
    arena_deinit(&arena);
    return pg;
}

void connect_begin(struct conn *conn)
{
    struct pawl_err err;
    err_clear(&err);
    conn->state = CONN_CONNECTING;
    conn->began_us = conn_now_us(conn);
    conn->timeline = 0;
    conn->backend = 0;
    conn->awaits_mode = false;
    err_clear(&conn->notice);
    conn->pg = start_host(conn, &err);
    if (conn->pg == NULL) {
        conn_break(conn, &err);
        return;
    }
    PQsetNoticeReceiver(conn->pg, notice_cb, conn);
    PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE); /* for pg_err_from_connect */
    if (PQstatus(conn->pg) == CONNECTION_BAD) {
        connect_failed(conn);
        return;
    }
    /* The look-up of the name may have taken a while. */
    uv_update_time(conn->loop);
    uv_timer_start(
        &conn->life_timer, connect_deadline_cb, (uint64_t)conn->options.connect_timeout_ms, 0);
    connect_wait(conn, UV_WRITABLE);
}

void connect_drop(struct conn *conn)
{
    uv_timer_stop(&conn->life_timer);
    connect_unwatch(conn);
    if (conn->pg != NULL)
        ending_lost(conn);
    PQclear(conn->answer);
    conn->answer = NULL;
    PQfinish(conn->pg);
    conn->pg = NULL;
    conn->broken = false;
    conn->flush_pending = false;
}

static void backoff_cb(uv_timer_t *timer)
{
    struct conn *conn = timer->data;
    if (conn->state == CONN_WAITING)
        connect_round(conn);
}

void connect_round(struct conn *conn)
{
    conn->host = primary_first_host(conn);
    conn->n_tried = 0;
    conn->round_errs = (struct host_errors){0};
    connect_begin(conn);
}

void connect_hurry(struct conn *conn, const struct pawl_err *err)
{
    if (conn->state == CONN_WAITING) {
        uv_timer_start(&conn->life_timer, backoff_cb, 0, 0);
    } else if (conn->state == CONN_CONNECTING || conn->state == CONN_READY) {
        conn->hurried = true;
        conn_break(conn, err);
    }
}

/* Full jitter: anywhere below a ceiling that doubles, so that a thousand processes do not come back
 * as one. */
static uint64_t backoff_ms(const struct conn *conn)
{
    unsigned shift = conn->failures < BACKOFF_SHIFT_MAX ? conn->failures : BACKOFF_SHIFT_MAX;
    int64_t max = conn->options.backoff_max_ms;
    int64_t ceiling = conn->options.backoff_min_ms;
    ceiling = ceiling > (max >> shift) ? max : ceiling << shift;
    /* It may be promoted at any moment. One that asks often is enough: it takes the others along. */
    if (ceiling > STANDBY_MAX_MS && conn->err.code == PAWL_EREADONLY && primary_is_pilot(conn))
        ceiling = STANDBY_MAX_MS;
    return 1 + rand_below((uint64_t)ceiling);
}

/* The rest of a round of hosts needs no pause. */
static bool connect_next_host(struct conn *conn)
{
    size_t n_hosts = target_hosts(conn->options.target);
    char label[HOST_LABEL_MAX];
    if (conn->state != CONN_CONNECTING || conn->hurried)
        return false;
    host_label(conn->options.target, conn->host, label);
    host_errors_add(&conn->round_errs, label, &conn->err);
    host_errors_tell(&conn->round_errs, n_hosts, &conn->err);
    if (++conn->n_tried >= n_hosts)
        return false;
    conn->host = (conn->host + 1) % n_hosts;
    connect_begin(conn);
    return true;
}

void connect_again(struct conn *conn)
{
    if (conn->parent != NULL) {
        scout_end(conn);
        return;
    }
    if (connect_next_host(conn))
        return;
    /* To have connected proves nothing: a server that accepts and drops must not be hammered.
     * Healthy is what lasted longer than the longest wait. */
    if (conn->state == CONN_READY &&
        conn_now_us(conn) - conn->ready_us >= conn->options.backoff_max_ms * US_PER_MS)
        conn->failures = 0;
    uint64_t delay_ms = conn->hurried ? 1 : backoff_ms(conn);
    conn->hurried = false;
    if (conn->failures < BACKOFF_SHIFT_MAX)
        conn->failures++;
    conn->state = CONN_WAITING;
    log_warn_err(conn->options.log,
                 "conn_lost",
                 &conn->err,
                 LOG_STR("conn", conn->options.name),
                 LOG_STR("server", conn->options.target->shown),
                 LOG_INT("retry_ms", delay_ms));
    uv_update_time(conn->loop);
    uv_timer_start(&conn->life_timer, backoff_cb, delay_ms, 0);
    if (conn->options.on_state != NULL)
        conn->options.on_state(conn->options.data, CONN_WAITING, &conn->err);
}
