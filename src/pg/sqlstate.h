/*
 * sqlstate: what an error of the database means for us. The one place that knows SQLSTATEs.
 */
#ifndef PG_SQLSTATE_H
#define PG_SQLSTATE_H

#include <stdbool.h>

#include <libpq-fe.h>

#include "base/err.h"

enum pg_verdict {
    PG_VERDICT_OK,    /* committed */
    PG_VERDICT_RETRY, /* rolled back, and worth trying again as it is (conflict, timeout, restart,
                         no space) */
    PG_VERDICT_PERMANENT,  /* rolled back, and would fail again */
    PG_VERDICT_CONNECTION, /* the connection is gone and nothing had been sent: no effect */
    PG_VERDICT_UNKNOWN,    /* the commit may or may not have happened, or may not last: the
                              connection is gone, or no synchronous standby has confirmed it */
    PG_VERDICT_REPREPARE,  /* the server forgot a prepared statement or its plan is out of date:
                              prepare anew */
};

/* By SQLSTATE alone. NULL or empty: PG_VERDICT_CONNECTION. */
enum pg_verdict sqlstate_verdict(const char *sqlstate);

/* The pawl code that a caller should see for it: 53100 is PAWL_EFULL, 28P01 PAWL_EAUTH, 25006
 * PAWL_EREADONLY ... */
int sqlstate_code(const char *sqlstate);

/* What a person can do about it, or NULL. Static. */
const char *sqlstate_hint(const char *sqlstate);

/* Text from the server or libpq, made fit for a message: one line, no control bytes, cut between
 * characters. */
void pg_one_line(char *out, size_t size, const char *text);

/* A result that failed, or the connection's own error when r is NULL or has no SQLSTATE: then
 * PQstatus decides, because a lost connection has no SQLSTATE. `sent` says whether anything may
 * have reached the server. Fills in code, sqlstate, message, detail and a hint of our own where we
 * have one. What users stored (details of class 22 and 23) stays out of it, because errors are
 * logged. */
enum pg_verdict
pg_err_from_result(const PGconn *conn, const PGresult *r, bool sent, struct pawl_err *err);

/* Whether a notice says that a commit gave up waiting for its synchronous standby. The server then
 * answers the commit with success, but only the primary has it. Told by the function in the
 * server's source that raises the warning, because the text is translated. */
bool pg_is_unconfirmed(const PGresult *notice);
/* A WARNING of any kind. */
bool pg_is_warning(const PGresult *notice);
/* The error for such a commit: PAWL_EUNKNOWN with the SQLSTATE of a warning, 01000. */
void pg_err_unconfirmed(struct pawl_err *err);

/* A connection attempt that failed: tells unreachable from refused from no such database, by
 * SQLSTATE where the server sent one and by the state of things otherwise. Never shows a password.
 * libpq tells the SQLSTATE of a failed attempt only to those who called PQsetErrorVerbosity(conn,
 * PQERRORS_VERBOSE) right after PQconnectStartParams (and go back to PQERRORS_DEFAULT once
 * connected). conn NULL means out of memory. Returns the code. */
int pg_err_from_connect(const PGconn *conn, struct pawl_err *err);

#endif
