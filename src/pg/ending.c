/*
 * ending: how a batch ended, from what the server said and what it did not say any more. The only
 * file that decides between rolled back, committed and unknown.
 *
 *  - The sync came: committed, or failed with the first error before it.
 *  - The sync came, but the commit had given up waiting for a synchronous standby: only the primary
 * has it, and a fail-over may lose it. Unknown.
 *  - An ERROR came and then the connection went: rolled back.
 *  - A FATAL came while statements were still to be answered: rolled back. After the last answer it
 * may have come from behind the commit: unknown.
 *  - A pooler said something and closed: it does not know what its server did. Unknown.
 *  - The sync had not left this process: cannot have been committed, is sent again on the next
 * connection.
 *  - Anything else that was sent: unknown.
 * Loop thread only.
 */
#include <string.h>

#include "pg/conn_internal.h"

static bool sqlstate_is(const struct pawl_err *err, const char *sqlstate)
{
    return strcmp(err->sqlstate, sqlstate) == 0;
}

/* What a rolled back transaction may be called; the connection's fate is told apart. */
static enum pg_verdict verdict_of_error(const char *sqlstate)
{
    enum pg_verdict verdict = sqlstate_verdict(sqlstate);
    if (verdict == PG_VERDICT_PERMANENT || verdict == PG_VERDICT_REPREPARE)
        return verdict;
    return PG_VERDICT_RETRY;
}

/* Every command has had its answer: whatever comes now may come from behind the commit. */
static bool all_answered(const struct batch *batch)
{
    return batch->results[batch->n_calls - 1] != NULL;
}

static void forget_prepared(const struct batch *batch)
{
    struct conn *conn = batch->conn;
    /* 26000 is seldom about one statement: somebody said DEALLOCATE ALL, or it is another session.
     */
    if (sqlstate_is(&batch->err, "26000")) {
        prepared_forget_all(conn);
        pooler_forgot(conn);
    } else if (batch->next_command < batch->n_commands) {
        prepared_forget(conn, batch->calls[batch->commands[batch->next_command].call].stmt);
    }
}

void ending_error(struct batch *batch, const PGresult *r)
{
    struct conn *conn = batch->conn;
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY);
    const char *plain = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (plain != NULL)
        severity = plain;
    struct pawl_err err;
    err_clear(&err);
    pg_err_from_result(conn->pg, r, false, &err);
    if (sqlstate == NULL || severity == NULL) {
        /* Not from the server: libpq says that it is gone. */
        conn_break(conn, &err);
        return;
    }
    bool panic = strcmp(severity, "PANIC") == 0;
    bool fatal = panic || strcmp(severity, "FATAL") == 0;
    if (fatal)
        conn_break(conn, &err);
    if (batch->failed)
        return;
    batch->failed = true;
    batch->verdict = fatal ? PG_VERDICT_RETRY : verdict_of_error(sqlstate);
    batch->err = err;
    /* Only PostgreSQL itself names the function in its source that raised an error. */
    batch->rolled_back = PQresultErrorField(r, PG_DIAG_SOURCE_FUNCTION) != NULL && !panic &&
                         !(fatal && all_answered(batch));
    if (batch->verdict == PG_VERDICT_REPREPARE)
        forget_prepared(batch);
}

/* Which batch it is about: libpq reads notices in the order in which the server sent them, and between
 * the sync of one batch and the commit of the next stand answers that are taken only after that
 * sync. So a notice about a commit finds its own batch as the oldest in flight. */
void ending_notice(struct conn *conn, const PGresult *notice)
{
    if (list_empty(&conn->inflight) || !pg_is_warning(notice))
        return;
    struct batch *batch = LIST_ENTRY(conn->inflight.next, struct batch, link);
    batch->warned = true;
    batch->unconfirmed |= pg_is_unconfirmed(notice);
}

/* It was rolled back through no fault of its own: once more from the start, before the caller hears
 * of it. */
static bool send_again(struct batch *batch)
{
    struct conn *conn = batch->conn;
    if (batch->internal || batch->expired || conn->state == CONN_CLOSING)
        return false;
    if (batch->verdict == PG_VERDICT_REPREPARE && !batch->sent_anew)
        batch->sent_anew = true;
    else if (batch->stray && sqlstate_is(&batch->err, "57014") && !batch->sent_anew_stray)
        batch->sent_anew_stray = true;
    else
        return false;
    log_debug(conn->options.log,
              "conn_again",
              LOG_STR("conn", conn->options.name),
              LOG_STR("statement", batch->calls[0].stmt->name),
              LOG_STR("sqlstate", batch->err.sqlstate));
    batch_wait(batch);
    return true;
}

static void end_failed(struct batch *batch)
{
    if (send_again(batch))
        return;
    if (batch->expired && sqlstate_is(&batch->err, "57014")) {
        err_set(&batch->err, PAWL_ETIMEOUT, "the database did not answer in time");
        memcpy(batch->err.sqlstate, "57014", sizeof("57014"));
        err_detail(&batch->err,
                   "%s was past its deadline and was cancelled.",
                   batch->calls[batch->n_calls - 1].stmt->name);
    }
    /* Prepared anew and refused again: then it is what it says. */
    enum pg_verdict verdict = batch->verdict;
    batch_done(
        batch, verdict == PG_VERDICT_REPREPARE ? PG_VERDICT_PERMANENT : verdict, &batch->err);
}

void ending_sync(struct batch *batch)
{
    struct conn *conn = batch->conn;
    bool cancelled = conn->cancelled == batch;
    deadline_batch_ended(conn, batch);
    if (batch->failed) {
        end_failed(batch);
        return;
    }
    for (size_t i = 0; i < batch->n_calls; i++) {
        if (batch->results[i] != NULL)
            continue;
        struct pawl_err err;
        err_set(&err,
                PAWL_EFAILED,
                "cannot go on with the connection to %s",
                conn->options.target->shown);
        err_detail(&err, "The server ended a transaction before it had answered all of it.");
        conn_break(conn, &err);
        return;
    }
    /* A server that does not name functions: a warning after our own cancel can hardly mean
     * anything else. */
    batch->unconfirmed |= cancelled && batch->warned;
    if (batch->unconfirmed) {
        struct pawl_err err;
        err_clear(&err);
        pg_err_unconfirmed(&err);
        batch_done(batch, PG_VERDICT_UNKNOWN, &err);
        return;
    }
    batch_done(batch, PG_VERDICT_OK, NULL);
}

static void end_unknown(struct batch *batch)
{
    const struct conn *conn = batch->conn;
    struct pawl_err err;
    bool closing = conn->state == CONN_CLOSING;
    /* The end of a backend that was terminated while its commit waited for a standby. */
    if (batch->unconfirmed) {
        batch->unconfirmed = false; /* without its sync: nobody may count on the results */
        err_clear(&err);
        pg_err_unconfirmed(&err);
        batch_done(batch, PG_VERDICT_UNKNOWN, &err);
        return;
    }
    err_set(&err,
            PAWL_EUNKNOWN,
            closing ? "connection to %s closed while a transaction was under way"
                    : "connection to %s lost while a transaction was under way",
            conn->options.target->shown);
    if (!closing && conn->err.message[0] != '\0')
        err_detail(&err,
                   conn->err.detail[0] != '\0' ? "%s: %s" : "%s%s",
                   conn->err.message,
                   conn->err.detail);
    err_hint(&err, "It may or may not have been committed; repeat it with the same id or token.");
    batch_done(batch, PG_VERDICT_UNKNOWN, &err);
}

/* It was not sent: it had no effect. */
static void wait_or_end(struct batch *batch)
{
    struct pawl_err err;
    if (!batch->here_only) {
        batch_wait(batch);
        return;
    }
    err_set(&err,
            PAWL_ECONN,
            "connection to %s lost before the transaction was sent",
            batch->conn->options.target->shown);
    batch_done(batch, PG_VERDICT_CONNECTION, &err);
}

void ending_lost(struct conn *conn)
{
    LIST_FOREACH_SAFE(link, after, &conn->inflight) {
        struct batch *batch = LIST_ENTRY(link, struct batch, link);
        deadline_batch_ended(conn, batch);
        if (batch->internal) {
            list_remove(link);
            conn->n_inflight--;
            batch_destroy(batch);
        } else if (batch->failed && batch->rolled_back) {
            end_failed(batch);
        } else if (!batch->flushed) {
            wait_or_end(batch);
        } else {
            end_unknown(batch);
        }
    }
    /* A LISTEN that was never sent belongs to this connection too. */
    LIST_FOREACH_SAFE(waiting, next, &conn->waiting) {
        struct batch *batch = LIST_ENTRY(waiting, struct batch, link);
        if (batch->internal) {
            list_remove(waiting);
            batch_destroy(batch);
        } else if (batch->here_only) {
            wait_or_end(batch);
        }
    }
}
