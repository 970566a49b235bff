/*
 * pooler: notices a connection pooler, and in which mode it is. A pooler gives a key of its own, so
 * the process id that libpq was told is not that of the session. In session mode a session belongs
 * to one connection for as long as that lives. So it is transaction mode for certain when a
 * connection is in another session than before, when two connections are in one, or when a
 * statement that was prepared is not there.
 *
 * To find out, a second connection (a scout) is let in between two questions of the first: in
 * transaction mode a pooler gives it the session that was used last. Loop thread only.
 */
#include "pg/conn_internal.h"

static bool is_shared(const struct conn *conn, int32_t backend)
{
    LIST_FOREACH(link, &conn->options.primary->conns) {
        const struct conn *other = LIST_ENTRY(link, struct conn, kin);
        if (other != conn && other->pg != NULL && !other->broken && other->host == conn->host &&
            other->backend == backend)
            return true;
    }
    return false;
}

static void transaction_mode(struct conn *conn)
{
    struct primary *primary = conn->options.primary;
    if (primary->pooler == POOLER_TRANSACTION)
        return;
    primary->pooler = POOLER_TRANSACTION;
    if (!conn->options.unprepared)
        log_warn(
            primary->log,
            "pooler",
            LOG_STR("mode", "transaction"),
            LOG_STR("server", conn->options.target->shown),
            LOG_STR("then", "no statement is prepared, LISTEN is not used, queues are polled"),
            LOG_STR("hint",
                    "to be woken at once, connect past the pooler or to a pool in session mode; "
                    "--unprepared (libpawl: pooled) keeps it as it is, pawl work --poll sets "
                    "how soon it looks"));
    LIST_FOREACH(link, &primary->conns)
        LIST_ENTRY(link, struct conn, kin)->options.unprepared = true;
}

void pooler_seen_again(struct conn *conn, int32_t backend)
{
    bool moved = conn->backend != 0 && conn->backend != backend;
    if (backend != PQbackendPID(conn->pg) && (moved || is_shared(conn, backend)))
        transaction_mode(conn);
    conn->backend = backend;
}

bool pooler_seen(struct conn *conn, int32_t backend)
{
    struct primary *primary = conn->options.primary;
    bool first = conn->backend == 0;
    pooler_seen_again(conn, backend);
    if (primary->pooler == POOLER_TRANSACTION)
        conn->options.unprepared = true;
    if (backend == PQbackendPID(conn->pg) || conn->options.unprepared || conn->parent != NULL ||
        primary->pooler != POOLER_NONE)
        return true;
    if (!first) {
        primary->pooler = POOLER_SESSION;
        log_info(primary->log,
                 "pooler",
                 LOG_STR("mode", "session"),
                 LOG_STR("server", conn->options.target->shown));
        return true;
    }
    if (primary->scout == NULL)
        scout_start(conn, conn->host);
    conn->awaits_mode = primary->scout != NULL;
    return !conn->awaits_mode;
}

void pooler_scouted(struct primary *primary)
{
    LIST_FOREACH(link, &primary->conns) {
        struct conn *conn = LIST_ENTRY(link, struct conn, kin);
        if (conn->awaits_mode && conn->state == CONN_CONNECTING && !conn->broken)
            identity_ask(conn);
    }
}

void pooler_forgot(struct conn *conn)
{
    if (conn->options.primary != NULL && conn->backend != 0 &&
        conn->backend != PQbackendPID(conn->pg))
        transaction_mode(conn);
}
