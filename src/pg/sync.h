/*
 * sync: a blocking connection and one statement at a time on it, each with a deadline. For the
 * command line, migrations and a caller's own connection. The engine uses conn.h, which never
 * blocks. A PGconn belongs to one thread at a time.
 */
#ifndef PG_SYNC_H
#define PG_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/err.h"
#include "pg/params.h"
#include "pg/stmt.h"
#include "pg/target.h"

#define SYNC_DEADLINE_MS 30000 /* for one statement, unless the caller says otherwise */

/* Connects, refuses a server older than we support, silences libpq's notices. Each host has
 * connect_timeout to answer; a server that is starting up is asked again until then. */
int sync_connect(const struct target *target, PGconn **ret_conn, struct pawl_err *err) MUST_CHECK;
void sync_close(PGconn **conn); /* for CLEANUP(); NULL accepted */

/* One statement, unprepared so that it works behind any pooler. params may be NULL. ret_result may
 * be NULL when no rows are wanted. On failure err->code tells; PAWL_EUNKNOWN means the connection
 * broke after sending, or no synchronous standby has confirmed the commit. Past its deadline the statement is cancelled: PAWL_ETIMEOUT, and the
 * connection can be used again. A COMMIT that the server answers with ROLLBACK is PAWL_EFAILED. */
int sync_exec(PGconn *conn,
              const struct stmt *stmt,
              const struct params *params,
              PGresult **ret_result,
              struct pawl_err *err) MUST_CHECK;

int sync_exec_within(PGconn *conn,
                     const struct stmt *stmt,
                     const struct params *params,
                     int64_t deadline_ms,
                     PGresult **ret_result,
                     struct pawl_err *err) MUST_CHECK;

/* The same, but a commit that no synchronous standby has confirmed is no error: *ret_unconfirmed is
 * true, the result is there, and the connection can be used. It is known once a later commit on this
 * connection that wrote something was confirmed: the standby takes them in order. */
int sync_exec_unconfirmed(PGconn *conn,
                          const struct stmt *stmt,
                          const struct params *params,
                          int64_t deadline_ms,
                          PGresult **ret_result,
                          bool *ret_unconfirmed,
                          struct pawl_err *err) MUST_CHECK;
/* The error of such a commit: PAWL_EUNKNOWN with the SQLSTATE of a warning, 01000. */
void sync_err_unconfirmed(struct pawl_err *err);

/* One COPY FROM STDIN: begin, then put as often as wanted, then end. Between a begin that succeeded and its end the connection takes
 * nothing else. Each call has SYNC_DEADLINE_MS. */
struct sync_copy {
    PGconn *conn; /* borrowed */
    const struct stmt *stmt;
    bool was_nonblocking;
};

int sync_copy_begin(struct sync_copy *copy,
                    PGconn *conn,
                    const struct stmt *stmt,
                    struct pawl_err *err) MUST_CHECK;
int sync_copy_put(struct sync_copy *copy, const void *data, size_t len, struct pawl_err *err)
    MUST_CHECK;
/* why NULL: the rows are taken. Otherwise they are not, it fails with why, and so does the transaction. */
int sync_copy_end(struct sync_copy *copy, const char *why, struct pawl_err *err) MUST_CHECK;

/* A script of several statements, in the simple protocol. For migrations. */
int sync_script(PGconn *conn, const char *sql, int64_t deadline_ms, struct pawl_err *err)
    MUST_CHECK;

/* Sleeps until a notification with this payload comes in on the channel, at most until until_us
 * (monotonic). What else comes in meanwhile, on any channel, is taken off the connection. */
int sync_notified(PGconn *conn,
                  const char *channel,
                  const char *payload,
                  int64_t until_us,
                  bool *ret_heard,
                  struct pawl_err *err) MUST_CHECK;

#define PG_SERVER_MIN 150000 /* PostgreSQL 15 */
/* As PQserverVersion gives it. Too old is PAWL_ESTATE: the schema (PAWL_ESCHEMA) is not what is
 * wrong, and no migration helps. */
int server_version_check(int version, struct pawl_err *err) MUST_CHECK;

#endif
