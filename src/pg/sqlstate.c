/*
 * sqlstate: one table from SQLSTATE to what we do about it (verdict), what we call it (code) and
 * what a person can do (hint). After the appendix "PostgreSQL Error Codes"; a row with two
 * characters stands for its whole class.
 */
#include "pg/sqlstate.h"

#include <stdio.h>
#include <string.h>

#define HINT_SCHEMA "Run: pawl db migrate"
#define HINT_SPACE                                                                                \
    "Free space on the database server's disk. What was stored before is safe, and work goes on " \
    "by itself afterwards."
#define HINT_MEMORY "The database server is short of memory or of another resource; see its log."
#define HINT_CONNECTIONS \
    "Close other connections, raise max_connections on the server, or put a pooler in front of it."
#define HINT_CONFIGURED "A limit in the database server's configuration was reached; see its log."
#define HINT_PASSWORD \
    "Check the user and the password: in the connection string, in PGPASSWORD or in ~/.pgpass."
#define HINT_HBA \
    "Connect as another user, or have pg_hba.conf on the database server let this one in."
#define HINT_GRANT \
    "Connect as another user, or ask the database's owner for the rights that are missing."
#define HINT_PRIMARY                                                             \
    "This is a standby, or a database set to read-only. Connect to the primary " \
    "(target_session_attrs=read-write finds it among several hosts), or wait until it takes writes."
#define HINT_BEGIN_AGAIN \
    "An earlier statement of this transaction failed; roll it back and begin again."
#define HINT_RESTART \
    "The server is going down or coming up. Try again in a moment; if it stays so, see its log."
#define HINT_POOLER                                                                       \
    "A connection pooler in transaction mode mixes up prepared statements; use a direct " \
    "connection, or one where statements are not prepared."
#define HINT_LOCKED                                                                                \
    "Another transaction holds a lock that this needs; pg_stat_activity and pg_locks show whose. " \
    "It changed nothing."
#define HINT_FILES "The database server had trouble with a file; see its log."
#define HINT_DAMAGED \
    "The server found damaged data. Stop writing to it, copy its data directory, and see its log."

struct meaning {
    const char *sqlstate; /* five characters, or two for a class */
    enum pg_verdict verdict;
    int code;
    const char *hint; /* NULL: the server's own, if it sent one */
};

/* clang-format off */
static const struct meaning meanings[] = {
    {"08",    PG_VERDICT_CONNECTION, PAWL_ECONN,     NULL}, /* from poolers: the server behind is gone */
    {"08007", PG_VERDICT_UNKNOWN,    PAWL_EUNKNOWN,  NULL}, /* transaction resolution unknown */
    {"0A000", PG_VERDICT_REPREPARE,  PAWL_EFAILED,   NULL}, /* "cached plan must not change result type" */
    {"22",    PG_VERDICT_PERMANENT,  PAWL_EINVAL,    NULL}, /* bad UTF-8, out of range, malformed JSON */
    {"23",    PG_VERDICT_PERMANENT,  PAWL_EINVAL,    NULL}, /* not null, check */
    {"23001", PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* restrict */
    {"23503", PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* foreign key */
    {"23505", PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* unique */
    {"23P01", PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* exclusion */
    {"24",    PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* cursor state */
    {"25",    PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* transaction state */
    {"25006", PG_VERDICT_RETRY,      PAWL_EREADONLY, HINT_PRIMARY},
    {"25P02", PG_VERDICT_PERMANENT,  PAWL_ESTATE,    HINT_BEGIN_AGAIN},
    {"25P03", PG_VERDICT_RETRY,      PAWL_ETIMEOUT,  NULL}, /* idle_in_transaction_session_timeout */
    {"25P04", PG_VERDICT_RETRY,      PAWL_ETIMEOUT,  NULL}, /* transaction_timeout */
    {"26000", PG_VERDICT_REPREPARE,  PAWL_EFAILED,   HINT_POOLER},
    {"28",    PG_VERDICT_PERMANENT,  PAWL_EAUTH,     HINT_HBA},
    {"28P01", PG_VERDICT_PERMANENT,  PAWL_EAUTH,     HINT_PASSWORD},
    {"2D",    PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* transaction termination */
    {"3B",    PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* savepoint */
    {"3D000", PG_VERDICT_PERMANENT,  PAWL_ENOTFOUND, NULL}, /* no such database */
    {"3F000", PG_VERDICT_PERMANENT,  PAWL_ESCHEMA,   HINT_SCHEMA},
    {"40",    PG_VERDICT_RETRY,      PAWL_ERETRY,    NULL}, /* 40001 serialization, 40P01 deadlock */
    {"40002", PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL}, /* a constraint rolled it back */
    {"40003", PG_VERDICT_UNKNOWN,    PAWL_EUNKNOWN,  NULL}, /* statement completion unknown */
    {"42",    PG_VERDICT_PERMANENT,  PAWL_EFAILED,   NULL},
    {"42501", PG_VERDICT_PERMANENT,  PAWL_EDENIED,   HINT_GRANT},
    {"42703", PG_VERDICT_PERMANENT,  PAWL_ESCHEMA,   HINT_SCHEMA}, /* no such column */
    {"42704", PG_VERDICT_PERMANENT,  PAWL_ESCHEMA,   HINT_SCHEMA}, /* no such type */
    {"42883", PG_VERDICT_PERMANENT,  PAWL_ESCHEMA,   HINT_SCHEMA}, /* no such function */
    {"42P01", PG_VERDICT_PERMANENT,  PAWL_ESCHEMA,   HINT_SCHEMA}, /* no such table */
    {"42P05", PG_VERDICT_PERMANENT,  PAWL_EFAILED,   HINT_POOLER}, /* prepared by somebody else */
    {"53",    PG_VERDICT_RETRY,      PAWL_EFULL,     HINT_MEMORY},
    {"53100", PG_VERDICT_RETRY,      PAWL_EFULL,     HINT_SPACE},
    {"53300", PG_VERDICT_RETRY,      PAWL_EFULL,     HINT_CONNECTIONS},
    {"53400", PG_VERDICT_PERMANENT,  PAWL_EFULL,     HINT_CONFIGURED},
    {"54",    PG_VERDICT_PERMANENT,  PAWL_ELIMIT,    NULL}, /* an index row or a statement too large */
    {"55",    PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL},
    {"55006", PG_VERDICT_RETRY,      PAWL_ERETRY,    NULL}, /* object in use */
    {"55P03", PG_VERDICT_RETRY,      PAWL_ERETRY,    HINT_LOCKED}, /* NOWAIT or lock_timeout */
    {"57",    PG_VERDICT_RETRY,      PAWL_EFAILED,   NULL},
    {"57014", PG_VERDICT_RETRY,      PAWL_ETIMEOUT,  NULL}, /* statement_timeout, or cancelled */
    {"57P01", PG_VERDICT_RETRY,      PAWL_ECONN,     HINT_RESTART}, /* shutdown, pg_terminate_backend */
    {"57P02", PG_VERDICT_RETRY,      PAWL_ECONN,     HINT_RESTART}, /* another process crashed */
    {"57P03", PG_VERDICT_RETRY,      PAWL_ECONN,     HINT_RESTART}, /* starting up or shutting down */
    {"57P04", PG_VERDICT_PERMANENT,  PAWL_ENOTFOUND, NULL}, /* the database was dropped */
    {"57P05", PG_VERDICT_RETRY,      PAWL_ECONN,     NULL}, /* idle_session_timeout */
    {"58",    PG_VERDICT_RETRY,      PAWL_EFAILED,   HINT_FILES},
    {"72000", PG_VERDICT_RETRY,      PAWL_ERETRY,    NULL}, /* snapshot too old */
    {"PW001", PG_VERDICT_PERMANENT,  PAWL_ENOTFOUND, NULL}, /* ours: sql/baseline/enqueue.sql */
    {"PW002", PG_VERDICT_PERMANENT,  PAWL_ESTATE,    NULL},
    {"PW003", PG_VERDICT_PERMANENT,  PAWL_ESTALE,    NULL},
    {"PW004", PG_VERDICT_PERMANENT,  PAWL_EEXIST,    NULL},
    {"PW005", PG_VERDICT_PERMANENT,  PAWL_EFULL,     NULL}, /* an inbox: sql/baseline/machine.sql */
    {"PW006", PG_VERDICT_PERMANENT,  PAWL_EDENIED,   NULL}, /* sql/bootstrap.sql: its hint has the GRANT */
    {"XX001", PG_VERDICT_PERMANENT,  PAWL_EFAILED,   HINT_DAMAGED},
    {"XX002", PG_VERDICT_PERMANENT,  PAWL_EFAILED,   HINT_DAMAGED},
};
/* clang-format on */

static const struct meaning meaning_other = {"", PG_VERDICT_PERMANENT, PAWL_EFAILED, NULL};
static const struct meaning meaning_none = {"", PG_VERDICT_CONNECTION, PAWL_ECONN, NULL};

/* The row of its own before the row of the class. Linear: errors are rare and the table is short.
 */
static const struct meaning *meaning_of(const char *sqlstate)
{
    const struct meaning *class = &meaning_other;

    if (!sqlstate || !sqlstate[0])
        return &meaning_none;
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        const struct meaning *m = &meanings[i];
        if (!strcmp(m->sqlstate, sqlstate))
            return m;
        if (!m->sqlstate[2] && !strncmp(m->sqlstate, sqlstate, 2))
            class = m;
    }
    return class;
}

enum pg_verdict sqlstate_verdict(const char *sqlstate)
{
    return meaning_of(sqlstate)->verdict;
}

int sqlstate_code(const char *sqlstate)
{
    return meaning_of(sqlstate)->code;
}

const char *sqlstate_hint(const char *sqlstate)
{
    return meaning_of(sqlstate)->hint;
}

void pg_one_line(char *out, size_t size, const char *text)
{
    size_t len = 0;
    bool gap = false;

    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c <= ' ' || c == 0x7f) {
            gap = len > 0;
            continue;
        }
        if (len + 1 + gap >= size) {
            /* Full: step back over the bytes of a character that would be cut in two. */
            if ((c & 0xc0) == 0x80) {
                while (len > 0 && ((unsigned char)out[len - 1] & 0xc0) == 0x80)
                    len--;
                len -= len > 0;
            }
            break;
        }
        if (gap)
            out[len++] = ' ';
        gap = false;
        out[len++] = (char)c;
    }
    out[len] = '\0';
}

/* What the user stored may be quoted in the detail of these classes ("Failing row contains (...)"),
 * and errors are logged where payloads must not be. */
static bool detail_has_data(const char *sqlstate)
{
    return !strncmp(sqlstate, "22", 2) || !strncmp(sqlstate, "23", 2);
}

static void add_detail(const PGresult *r, const char *sqlstate, struct pawl_err *err)
{
    char line[2 * sizeof(err->detail)];
    const char *detail = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
    const char *constraint = PQresultErrorField(r, PG_DIAG_CONSTRAINT_NAME);
    const char *table = PQresultErrorField(r, PG_DIAG_TABLE_NAME);
    const char *type = PQresultErrorField(r, PG_DIAG_DATATYPE_NAME);

    if (detail_has_data(sqlstate)) {
        if (constraint && type)
            err_detail(err, "Constraint %s of type %s.", constraint, type);
        else if (constraint)
            err_detail(err, "Constraint %s of table %s.", constraint, table ? table : "?");
    } else if (detail) {
        pg_one_line(line, sizeof(line), detail);
        err_detail(err, "%s", line);
    }
}

static void add_hint(const PGresult *r, const char *ours, struct pawl_err *err)
{
    char line[2 * sizeof(err->hint)];
    const char *theirs = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);

    if (ours) {
        err_hint(err, "%s", ours);
    } else if (theirs) {
        pg_one_line(line, sizeof(line), theirs);
        err_hint(err, "%s", line);
    }
}

/* The server said what is wrong. */
static enum pg_verdict
from_server(const PGresult *r, const char *sqlstate, bool sent, struct pawl_err *err)
{
    const struct meaning *m = meaning_of(sqlstate);
    enum pg_verdict verdict = m->verdict;
    int code = m->code;
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *primary = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    char line[2 * sizeof(err->message)]; /* err_set cuts it, and shows that it did */

    /* A PANIC (say, no space for the log) can strike when the commit record is half way to the
     * disk. */
    if (sent && (verdict == PG_VERDICT_CONNECTION || (severity && !strcmp(severity, "PANIC"))))
        verdict = PG_VERDICT_UNKNOWN;
    if (verdict == PG_VERDICT_UNKNOWN)
        code = PAWL_EUNKNOWN;
    pg_one_line(line, sizeof(line), primary ? primary : "the database reported an error");
    err_set(err, code, "%s", line);
    if (err) {
        snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", sqlstate);
        add_detail(r, sqlstate, err);
        add_hint(r, m->hint, err);
    }
    return verdict;
}

enum pg_verdict
pg_err_from_result(const PGconn *conn, const PGresult *r, bool sent, struct pawl_err *err)
{
    const char *sqlstate = r ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
    const char *text = r ? PQresultErrorMessage(r) : "";
    char line[2 * sizeof(err->detail)];
    enum pg_verdict verdict;

    /* A SQLSTATE is the server's own word on this statement and counts even when the connection is
     * gone since. */
    if (sqlstate && sqlstate[0])
        return from_server(r, sqlstate, sent, err);
    if (!text[0])
        text = PQerrorMessage(conn);
    pg_one_line(line, sizeof(line), text);
    if (PQstatus(conn) != CONNECTION_OK) {
        verdict = sent ? PG_VERDICT_UNKNOWN : PG_VERDICT_CONNECTION;
        err_set(err,
                sent ? PAWL_EUNKNOWN : PAWL_ECONN,
                sent ? "the connection to the database broke before the answer came"
                     : "the connection to the database is lost");
    } else {
        /* libpq itself gave up, for want of memory or because it did not understand the server. */
        verdict = sent ? PG_VERDICT_UNKNOWN : PG_VERDICT_PERMANENT;
        err_set(err,
                sent ? PAWL_EUNKNOWN : PAWL_EFAILED,
                sent ? "the database's answer could not be read"
                     : "the statement could not be sent to the database");
    }
    if (line[0])
        err_detail(err, "%s", line);
    if (verdict == PG_VERDICT_UNKNOWN)
        err_hint(err, "It may or may not have happened: look before doing it again.");
    return verdict;
}

bool pg_is_warning(const PGresult *notice)
{
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);

    return severity != NULL && !strcmp(severity, "WARNING");
}

bool pg_is_unconfirmed(const PGresult *notice)
{
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

    return pg_is_warning(notice) && function != NULL && !strcmp(function, "SyncRepWaitForLSN");
}

void pg_err_unconfirmed(struct pawl_err *err)
{
    err_set(err, PAWL_EUNKNOWN, "no synchronous standby has confirmed the commit");
    if (err != NULL)
        memcpy(err->sqlstate, "01000", sizeof("01000"));
    err_detail(err,
               "The primary has committed it. If the primary fails before a standby has it, it is "
               "lost.");
    err_hint(err,
             "Repeat it with the same key, id or token, or look for it later; nothing is known "
             "before a later commit was confirmed. See pg_stat_replication and "
             "synchronous_standby_names on the database server.");
}
