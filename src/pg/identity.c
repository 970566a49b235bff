/*
 * identity: the question to a server who it is, before anything of a caller is sent to it. It is
 * asked while the connection still counts as CONN_CONNECTING, so the time to connect bounds it and
 * a server that is refused is one attempt that failed. Idle connections ask it again (batch_probe).
 * Loop thread only.
 */
#include <string.h>

#include "pg/conn_internal.h"
#include "pg/result.h"
#include "pg/sync.h"

enum column { COLUMN_STANDBY, COLUMN_SYSTEM, COLUMN_TIMELINE, COLUMN_BACKEND, N_COLUMNS };

static bool read_identity(const PGresult *r, struct identity *ret_id)
{
    if (PQntuples(r) != 1 || PQnfields(r) != N_COLUMNS)
        return false;
    *ret_id = (struct identity){
        .standby = result_bool(r, 0, COLUMN_STANDBY),
        .system = result_i64(r, 0, COLUMN_SYSTEM),
        .timeline = result_is_null(r, 0, COLUMN_TIMELINE) ? 0 : result_i64(r, 0, COLUMN_TIMELINE),
        .backend = result_i32(r, 0, COLUMN_BACKEND),
    };
    return true;
}

/* Not allowed, not there, not supported: managed services keep such functions to themselves. */
static bool is_refusal(const PGresult *r)
{
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    return sqlstate != NULL && (strcmp(sqlstate, "42501") == 0 || strcmp(sqlstate, "42883") == 0 ||
                                strcmp(sqlstate, "0A000") == 0);
}

static void be_mute(struct conn *conn, const PGresult *r)
{
    struct primary *primary = conn->options.primary;
    struct pawl_err err;
    err_clear(&err);
    pg_err_from_result(conn->pg, r, false, &err);
    if (!primary->mute)
        log_warn_err(primary->log,
                     "server_identity",
                     &err,
                     LOG_STR("then", "timelines are not compared; only standbys are refused"));
    primary->mute = true;
}

static void identity_lost(struct conn *conn)
{
    struct pawl_err err;
    err_clear(&err);
    pg_err_from_result(conn->pg, NULL, false, &err);
    conn_break(conn, &err);
}

static void identity_accept(struct conn *conn)
{
    if (conn->parent != NULL)
        scout_end(conn);
    else
        connect_ready(conn);
}

static void identity_answer(struct conn *conn, const PGresult *r)
{
    struct identity id;
    struct pawl_err err;
    err_clear(&err);
    if (PQresultStatus(r) == PGRES_FATAL_ERROR && is_refusal(r)) {
        be_mute(conn, r);
        identity_accept(conn);
        return;
    }
    if (PQresultStatus(r) != PGRES_TUPLES_OK || !read_identity(r, &id)) {
        pg_err_from_result(conn->pg, r, false, &err);
        conn_break(conn, &err);
        return;
    }
    if (primary_judge(conn, &id, &err) != 0) {
        conn_break(conn, &err);
        return;
    }
    if (pooler_seen(conn, id.backend))
        identity_accept(conn);
}

static void identity_io_cb(uv_poll_t *handle, int status, int events);

static void identity_step(struct conn *conn)
{
    PGresult *first = NULL;
    /* Before the calls: they may close the socket. */
    connect_unwatch(conn);
    int unsent = PQflush(conn->pg);
    if (unsent < 0 || PQconsumeInput(conn->pg) != 1) {
        identity_lost(conn);
        return;
    }
    while (unsent == 0 && !PQisBusy(conn->pg)) {
        PGresult *r = PQgetResult(conn->pg);
        if (r == NULL && conn->answer != NULL) {
            first = conn->answer;
            conn->answer = NULL;
            identity_answer(conn, first);
            PQclear(first);
            return;
        }
        if (r == NULL) {
            identity_lost(conn);
            return;
        }
        if (conn->answer == NULL)
            conn->answer = r;
        else
            PQclear(r);
    }
    connect_watch(conn, UV_READABLE | (unsent > 0 ? UV_WRITABLE : 0), identity_io_cb);
}

/* An error on the socket (status) is for libpq to find and to name. */
static void identity_io_cb(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    struct conn *conn = ((struct poller *)handle->data)->conn;
    if (conn->state == CONN_CONNECTING && !conn->broken)
        identity_step(conn);
}

void identity_ask(struct conn *conn)
{
    conn->awaits_mode = false;
    if (conn->options.n_statements != NULL)
        *conn->options.n_statements += 1;
    if (PQsetnonblocking(conn->pg, 1) != 0 ||
        PQsendQueryParams(
            conn->pg, conn->options.primary->identity->sql, 0, NULL, NULL, NULL, NULL, 1) != 1)
        identity_lost(conn);
    else
        identity_step(conn);
}

void identity_begin(struct conn *conn)
{
    struct pawl_err err;
    err_clear(&err);
    if (server_version_check(PQserverVersion(conn->pg), &err) != 0 ||
        host_check_writable(conn->pg, &err) != 0)
        conn_break(conn, &err);
    else if (conn->options.primary == NULL || conn->options.primary->mute)
        identity_accept(conn);
    else
        identity_ask(conn);
}

void identity_probed(struct conn *conn, const struct batch *batch)
{
    struct identity id;
    struct pawl_err err;
    err_clear(&err);
    if (batch->verdict == PG_VERDICT_OK && read_identity(batch->results[0], &id)) {
        if (primary_judge(conn, &id, &err) != 0)
            conn_break(conn, &err);
        else
            pooler_seen_again(conn, id.backend);
        return;
    }
    if (batch->verdict != PG_VERDICT_OK)
        conn_break(conn, &batch->err);
}
