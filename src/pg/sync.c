/*
 * sync: one statement at a time on a blocking-looking connection. Underneath the socket is never
 * waited for without a deadline, and what is sent and what arrives move in turns, or both sides
 * could wait for each other for good.
 */
#include "pg/sync.h"

#include <stdbool.h>
#include <string.h>

#include <ctype.h>

#include "base/clock.h"
#include "base/text.h"
#include "pg/result.h"
#include "pg/sqlstate.h"
#include "pg/sync_wait.h"

#define CANCEL_GRACE_MS 2000 /* for the server to answer to a cancel */

/* One statement or script under way. */
struct run {
    PGconn *conn;
    const char *sql;
    const char *name;
    int64_t deadline_ms;
    int64_t until_us;
    bool cancelled;
    bool copy_wanted;        /* COPY FROM STDIN is what is asked for … */
    bool copying;            /* … and the server waits for rows */
    bool unconfirmed;        /* the commit gave up waiting for a synchronous standby */
    bool *ret_unconfirmed;   /* borrowed; NULL: such a commit is an error */
    PQnoticeReceiver former; /* whose place ours takes meanwhile; NULL: ours is not in place */
    int n_results;
    PGresult *last; /* owned; the last good result */
    int rc;         /* the first failure; err tells */
    struct pawl_err err;
};

/* The first word of the SQL, past blanks and comments. */
static const char *first_word(const char *sql)
{
    for (;;) {
        sql += strspn(sql, " \t\r\n;");
        if (!strncmp(sql, "--", 2)) {
            sql += strcspn(sql, "\n");
        } else if (!strncmp(sql, "/*", 2)) {
            const char *end = strstr(sql + 2, "*/");
            if (!end)
                return sql;
            sql = end + 2;
        } else {
            return sql;
        }
    }
}

static bool is_word(const char *at, const char *word)
{
    size_t len = strlen(word);

    return !strncasecmp(at, word, len) && !isalnum((unsigned char)at[len]) && at[len] != '_';
}

/* COMMIT of a transaction that had failed "succeeds" with the tag ROLLBACK. Only the first
 * statement sent can be such a COMMIT: after an error in a script the server skips the rest of it.
 */
static bool commit_was_rollback(const struct run *run, PGresult *r)
{
    const char *word = first_word(run->sql);

    return run->n_results == 0 && !strcmp(PQcmdStatus(r), "ROLLBACK") &&
           !is_word(word, "ROLLBACK") && !is_word(word, "ABORT");
}

static void fail(struct run *run, const struct pawl_err *err)
{
    if (run->rc == 0) {
        run->rc = err->code;
        run->err = *err;
    }
}

static void failed_result(struct run *run, const PGresult *r)
{
    struct pawl_err err;
    char took[TEXT_DURATION_LEN];

    err_clear(&err);
    pg_err_from_result(run->conn, r, true, &err);
    if (run->cancelled && err.code == PAWL_ETIMEOUT) {
        text_format_duration(run->deadline_ms * US_PER_MS, took);
        err_set(&err, PAWL_ETIMEOUT, "the database did not answer within %s", took);
        memcpy(err.sqlstate, "57014", sizeof("57014"));
        err_detail(&err, "%s was cancelled.", run->name);
        err_hint(
            &err,
            "The database may be busy, or another session may hold a lock; it changed nothing.");
    }
    fail(run, &err);
}

/* COPY turns the protocol around; where it is not expected it is ended as soon as it begins. */
static void end_copy(struct run *run, const PGresult *r)
{
    struct pawl_err err;
    char *row = NULL;
    int got;

    err_set(&err, PAWL_EINVAL, "%s uses COPY, which is not supported here", run->name);
    fail(run, &err);
    if (PQresultStatus(r) != PGRES_COPY_OUT)
        PQputCopyEnd(run->conn, "not supported");
    if (PQresultStatus(r) == PGRES_COPY_IN)
        return;
    while ((got = PQgetCopyData(run->conn, &row, 1)) >= 0) {
        PQfreemem(row);
        if (got == 0 && sync_wait_input(run->conn, run->until_us) <= 0)
            return;
    }
}

static void take(struct run *run, PGresult *r)
{
    struct pawl_err err;

    switch (PQresultStatus(r)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
        if (commit_was_rollback(run, r)) {
            err_set(&err, PAWL_EFAILED, "the transaction was rolled back, not committed");
            err_detail(&err, "An earlier statement in it had failed.");
            fail(run, &err);
        }
        PQclear(run->last);
        run->last = r;
        break;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
        run->copying = run->copy_wanted && PQresultStatus(r) == PGRES_COPY_IN;
        if (!run->copying)
            end_copy(run, r);
        PQclear(r);
        break;
    default:
        failed_result(run, r);
        PQclear(r);
    }
    run->n_results++;
}

/* Takes results until there are no more, or the server waits for rows. 1: done; 0: time is up; -1: the connection is lost. */
static int drain(struct run *run)
{
    for (;;) {
        int ready = sync_flush(run->conn, run->until_us);
        while (ready > 0 && PQisBusy(run->conn))
            ready = sync_wait_input(run->conn, run->until_us);
        /* PQgetResult waits for ever on a connection that lives. On a lost one it gives what the
         * server said last. */
        if (ready <= 0 && PQstatus(run->conn) == CONNECTION_OK && PQisBusy(run->conn))
            return ready;
        PGresult *r = PQgetResult(run->conn);
        if (!r)
            return PQstatus(run->conn) == CONNECTION_OK ? 1 : -1;
        take(run, r);
        if (run->copying)
            return 1;
    }
}

/* Blocks for as long as a new connection to the server takes; the keepalive options of the old one
 * hold for it. */
static void cancel(struct run *run)
{
    char why[256];
    PGcancel *request = PQgetCancel(run->conn);

    run->cancelled = true;
    run->until_us = clock_mono_us(&clock_system) + CANCEL_GRACE_MS * US_PER_MS;
    if (request)
        (void)PQcancel(request, why, sizeof(why)); /* no answer then: drain will notice */
    PQfreeCancel(request);
}

static void no_answer(struct run *run)
{
    struct pawl_err err;
    char took[TEXT_DURATION_LEN];

    text_format_duration(run->deadline_ms * US_PER_MS, took);
    err_set(&err,
            PAWL_EUNKNOWN,
            "the database did not answer within %s, nor to the cancellation",
            took);
    err_detail(&err, "%s was under way.", run->name);
    err_hint(&err, "It may or may not have happened. This connection cannot be used any more.");
    fail(run, &err);
}

static void on_notice(void *data, const PGresult *notice)
{
    struct run *run = data;

    run->unconfirmed |= pg_is_unconfirmed(notice);
    run->former(NULL, notice);
}

/* The connection may be somebody else's, with a receiver of notices of its own. libpq tells that
 * receiver but not its argument, so only one that has none can be put back: libpq's own, which calls
 * the caller's notice processor, and ours. Any other stays, and hears of the warning itself. */
static int listen_begin(struct run *run, struct pawl_err *err)
{
    PQnoticeReceiver former = PQsetNoticeReceiver(run->conn, NULL, NULL);
    PQnoticeReceiver usual = sync_usual_receiver();

    if (usual == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (former != usual && former != sync_silent)
        return 0;
    run->former = former;
    PQsetNoticeReceiver(run->conn, on_notice, run);
    return 0;
}

static void listen_end(const struct run *run)
{
    if (run->former != NULL)
        PQsetNoticeReceiver(run->conn, run->former, NULL);
}

/* What the commit that came with the statement is worth; inside a transaction there was none. A
 * statement that was cancelled and yet succeeded may have been faster than the cancel, or its commit
 * gave up waiting, and client_min_messages keeps the warning away. */
static void weigh_commit(struct run *run, int done)
{
    struct pawl_err err;

    if (done > 0 && PQtransactionStatus(run->conn) != PQTRANS_IDLE)
        return;
    if (!run->unconfirmed && !(done > 0 && run->rc == 0 && run->cancelled))
        return;
    if (run->rc == 0 && run->ret_unconfirmed != NULL) {
        *run->ret_unconfirmed = true;
        return;
    }
    if (run->rc < 0 && run->rc != PAWL_EUNKNOWN)
        return;
    /* PAWL_EUNKNOWN: the backend was terminated while it waited. */
    err_clear(&err);
    pg_err_unconfirmed(&err);
    run->rc = 0;
    fail(run, &err);
}

/* After the statement was handed to libpq: everything until the connection is idle again. */
static int finish(struct run *run, PGresult **ret_result, struct pawl_err *err)
{
    int done = drain(run);

    if (done == 0) {
        cancel(run);
        done = drain(run);
    }
    if (done == 0)
        no_answer(run);
    else if (run->rc == 0 && (done < 0 || run->n_results == 0))
        failed_result(run, NULL);
    weigh_commit(run, done);
    if (run->rc < 0) {
        PQclear(run->last);
        if (err)
            *err = run->err;
        return run->rc;
    }
    if (ret_result)
        *ret_result = run->last;
    else
        PQclear(run->last);
    return 0;
}

/* Somebody else's connection may be in any state. */
static int check_idle(PGconn *conn, const char *name, struct pawl_err *err)
{
    if (PQstatus(conn) != CONNECTION_OK) {
        pg_err_from_result(conn, NULL, false, err);
        return PAWL_ECONN;
    }
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        return err_set(err, PAWL_ESTATE, "cannot run %s on a connection in pipeline mode", name);
    if (PQtransactionStatus(conn) == PQTRANS_ACTIVE)
        return err_set(
            err, PAWL_ESTATE, "cannot run %s: the connection is busy with another statement", name);
    return 0;
}

/* What went wrong in libpq itself. */
static int not_sent(PGconn *conn, struct pawl_err *err)
{
    struct pawl_err why;

    err_clear(&why);
    pg_err_from_result(conn, NULL, false, &why);
    if (err)
        *err = why;
    return why.code;
}

/* With an empty send buffer this cannot fail; with a dead connection nobody minds. */
static void restore_blocking(PGconn *conn, bool was_nonblocking)
{
    if (!was_nonblocking)
        (void)PQsetnonblocking(conn, 0);
}

static int run_it(PGconn *conn,
                  const struct stmt *stmt,
                  const struct params *params,
                  int64_t deadline_ms,
                  bool simple,
                  bool *ret_unconfirmed,
                  PGresult **ret_result,
                  struct pawl_err *err)
{
    struct run run = {.conn = conn,
                      .sql = stmt->sql,
                      .name = stmt->name,
                      .deadline_ms = deadline_ms,
                      .ret_unconfirmed = ret_unconfirmed};
    int rc = check_idle(conn, stmt->name, err);
    bool was_nonblocking = PQisnonblocking(conn);
    int sent;

    if (rc < 0)
        return rc;
    if (params && params->failed)
        return err_set(err, PAWL_ENOMEM, "the parameters of %s do not fit in memory", stmt->name);
    run.until_us = clock_mono_us(&clock_system) + deadline_ms * US_PER_MS;
    if (PQsetnonblocking(conn, 1) != 0) {
        pg_err_from_result(conn, NULL, false, err);
        return PAWL_ECONN;
    }
    rc = listen_begin(&run, err);
    if (rc < 0) {
        restore_blocking(conn, was_nonblocking);
        return rc;
    }
    if (simple)
        sent = PQsendQuery(conn, stmt->sql);
    else
        sent = PQsendQueryParams(conn,
                                 stmt->sql,
                                 params ? params->n : 0,
                                 params ? params->types : NULL,
                                 params ? params->values : NULL,
                                 params ? params->lengths : NULL,
                                 params ? params->formats : NULL,
                                 1);
    if (sent) {
        rc = finish(&run, ret_result, err);
    } else {
        rc = not_sent(conn, err);
    }
    listen_end(&run);
    restore_blocking(conn, was_nonblocking);
    return rc;
}

int sync_exec_within(PGconn *conn,
                     const struct stmt *stmt,
                     const struct params *params,
                     int64_t deadline_ms,
                     PGresult **ret_result,
                     struct pawl_err *err)
{
    return run_it(conn, stmt, params, deadline_ms, false, NULL, ret_result, err);
}

int sync_exec_unconfirmed(PGconn *conn,
                          const struct stmt *stmt,
                          const struct params *params,
                          int64_t deadline_ms,
                          PGresult **ret_result,
                          bool *ret_unconfirmed,
                          struct pawl_err *err)
{
    *ret_unconfirmed = false;
    return run_it(conn, stmt, params, deadline_ms, false, ret_unconfirmed, ret_result, err);
}

void sync_err_unconfirmed(struct pawl_err *err)
{
    pg_err_unconfirmed(err);
}

int sync_exec(PGconn *conn,
              const struct stmt *stmt,
              const struct params *params,
              PGresult **ret_result,
              struct pawl_err *err)
{
    return run_it(conn, stmt, params, SYNC_DEADLINE_MS, false, NULL, ret_result, err);
}

static int64_t copy_until_us(void)
{
    return clock_mono_us(&clock_system) + SYNC_DEADLINE_MS * US_PER_MS;
}

static struct run copy_run(const struct sync_copy *copy)
{
    return (struct run){.conn = copy->conn,
                        .sql = copy->stmt->sql,
                        .name = copy->stmt->name,
                        .deadline_ms = SYNC_DEADLINE_MS,
                        .until_us = copy_until_us()};
}

static void copy_over(const struct sync_copy *copy)
{
    restore_blocking(copy->conn, copy->was_nonblocking);
}

int sync_copy_begin(struct sync_copy *copy,
                    PGconn *conn,
                    const struct stmt *stmt,
                    struct pawl_err *err)
{
    int rc = check_idle(conn, stmt->name, err);

    if (rc < 0)
        return rc;
    *copy =
        (struct sync_copy){.conn = conn, .stmt = stmt, .was_nonblocking = PQisnonblocking(conn)};
    struct run run = copy_run(copy);

    run.copy_wanted = true;
    if (PQsetnonblocking(conn, 1) != 0)
        return not_sent(conn, err);
    rc = PQsendQuery(conn, stmt->sql) ? finish(&run, NULL, err) : not_sent(conn, err);
    if (rc == 0 && !run.copying)
        rc = err_set(err, PAWL_EFAILED, "%s takes no rows", stmt->name);
    if (rc < 0)
        copy_over(copy);
    return rc;
}

int sync_copy_put(struct sync_copy *copy, const void *data, size_t len, struct pawl_err *err)
{
    if (PQputCopyData(copy->conn, data, (int)len) != 1)
        return not_sent(copy->conn, err);
    /* All of it: what libpq keeps for later has no limit. */
    int sent = sync_flush(copy->conn, copy_until_us());

    if (sent > 0)
        return 0;
    if (sent < 0)
        return not_sent(copy->conn, err);
    err_set(err, PAWL_ETIMEOUT, "the database did not take the rows in time");
    err_detail(err, "%s was under way.", copy->stmt->name);
    return err_hint(err, "It may be busy, or another session may hold a lock; it changed nothing.");
}

int sync_copy_end(struct sync_copy *copy, const char *why, struct pawl_err *err)
{
    struct run run = copy_run(copy);
    struct pawl_err none;
    int rc = listen_begin(&run, &none);

    /* Rows of which nobody could say whether they last are not sent. */
    if (rc < 0 && why == NULL)
        why = none.message;
    rc = PQputCopyEnd(copy->conn, why) == 1 ? finish(&run, NULL, err) : not_sent(copy->conn, err);
    listen_end(&run);
    copy_over(copy);
    return rc;
}

int sync_script(PGconn *conn, const char *sql, int64_t deadline_ms, struct pawl_err *err)
{
    const struct stmt script = {.name = "the script", .sql = sql};

    return run_it(conn, &script, NULL, deadline_ms, true, NULL, NULL, err);
}

void sync_close(PGconn **conn)
{
    PQfinish(*conn); /* accepts NULL */
    *conn = NULL;
}
