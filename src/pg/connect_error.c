/*
 * connect_error: why a connection attempt failed, in words for somebody who never ran a database.
 * libpq 15 has no call for the SQLSTATE of a failed attempt, but prints it when it is told to be
 * verbose.
 */
#include <stdio.h>
#include <string.h>

#include <ctype.h>

#include "pg/hosts.h"
#include "pg/sqlstate.h"

/* "localhost:5432", or the socket's directory; empty when the attempt never got as far as a host.
 */
static void where(const PGconn *conn, char *out, size_t size)
{
    const char *host = PQhost(conn);
    const char *port = PQport(conn);

    if (!host || !host[0])
        out[0] = '\0';
    else if (host[0] == '/' || host[0] == '@')
        snprintf(out, size, " at %s/.s.PGSQL.%s", host, port);
    else
        snprintf(out, size, " at %s:%s", host, port);
}

static bool is_sqlstate(const char *s)
{
    for (int i = 0; i < 5; i++) {
        if (!isdigit((unsigned char)s[i]) && !(s[i] >= 'A' && s[i] <= 'Z'))
            return false;
    }
    return s[5] == ':' && s[6] == ' ';
}

/* Finds the last "FATAL:  28P01: text"; the severity is translated, the shape is not. With several
 * hosts the last one is the one libpq gave up at. */
static bool find_sqlstate(const char *text, char sqlstate[6], const char **ret_primary)
{
    bool found = false;

    for (const char *at = text; (at = strstr(at, ":  ")); at++) {
        if (!is_sqlstate(at + 3))
            continue;
        memcpy(sqlstate, at + 3, 5);
        sqlstate[5] = '\0';
        *ret_primary = at + 3 + 7;
        found = true;
    }
    return found;
}

/* "LOCATION:  auth_failed, auth.c:326" is for PostgreSQL's authors. Its label is translated, its
 * end is not. */
static bool is_location(const char *line, size_t len)
{
    while (len > 0 && isdigit((unsigned char)line[len - 1]))
        len--;
    return len > 3 && !memcmp(line + len - 3, ".c:", 3);
}

/* As a sentence. */
static void put_detail(struct pawl_err *err, const char *prefix, const char *line)
{
    size_t len = strlen(line);
    bool ended = len > 0 && strchr(".?!", line[len - 1]);

    if (len > 0)
        err_detail(err, "%s%s%s", prefix, line, ended ? "" : ".");
}

/* Everything libpq said, on one line, but for what it says to its authors and for its own hint
 * ("\tIs the server running ..."), because ours says more. */
static void all_lines(const char *text, char *out, size_t size)
{
    char joined[2048];
    size_t used = 0;

    while (*text) {
        size_t len = strcspn(text, "\n");
        if (text[0] != '\t' && !is_location(text, len) && used + len + 2 < sizeof(joined)) {
            memcpy(joined + used, text, len);
            used += len;
            joined[used++] = '\n';
        }
        text += len + (text[len] == '\n');
    }
    joined[used] = '\0';
    pg_one_line(out, size, joined);
}

/* The server answered, and the answer was no. */
static int
refused(const PGconn *conn, const char *sqlstate, const char *primary, struct pawl_err *err)
{
    char line[sizeof(err->detail)];
    char first[sizeof(err->detail)];
    char at[300];
    int code = sqlstate_code(sqlstate);
    const char *hint = sqlstate_hint(sqlstate);

    where(conn, at, sizeof(at));
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(primary, "\n"), primary);
    pg_one_line(line, sizeof(line), first);
    if (!strcmp(sqlstate, "3D000"))
        err_set(err, code, "there is no database \"%s\" on the server%s", PQdb(conn), at);
    else if (!strcmp(sqlstate, "57P03"))
        err_set(err, code, "the database server%s is not ready for connections", at);
    else if (code == PAWL_EAUTH)
        err_set(err, code, "the database server%s refused user \"%s\"", at, PQuser(conn));
    else if (code == PAWL_EDENIED)
        err_set(err, code, "user \"%s\" may not use database \"%s\"", PQuser(conn), PQdb(conn));
    else if (!strcmp(sqlstate, "53300"))
        err_set(err, code, "the database server%s takes no more connections", at);
    else
        err_set(err, code, "the database server%s refused the connection", at);
    if (!err)
        return code;
    put_detail(err, "The server says: ", line);
    if (!strcmp(sqlstate, "3D000"))
        err_hint(
            err,
            "Create it (createdb \"%s\", with the same host, port and user) or name another one in the "
            "connection string.",
            PQdb(conn));
    else if (hint)
        err_hint(err, "%s", hint);
    snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", sqlstate);
    return code;
}

int pg_err_from_connect(const PGconn *conn, struct pawl_err *err)
{
    char line[sizeof(err->detail)];
    char at[300];
    char sqlstate[6];
    const char *primary;
    int code;

    if (!conn)
        return err_set(err, PAWL_ENOMEM, "out of memory for a database connection");
    if (find_sqlstate(PQerrorMessage(conn), sqlstate, &primary))
        return refused(conn, sqlstate, primary, err);
    where(conn, at, sizeof(at));
    all_lines(PQerrorMessage(conn), line, sizeof(line));
    if (!at[0]) {
        /* libpq did not get as far as a host: the options themselves are wrong. */
        code = err_set(err, PAWL_EINVAL, "cannot connect to the database with these options");
        put_detail(err, "", line);
        err_hint(err, "Check the connection string: --db, PAWL_DATABASE_URL or the PG* variables.");
        return code;
    }
    if (PQconnectionNeedsPassword(conn)) {
        err_set(err,
                PAWL_EAUTH,
                "the database server%s wants a password for user \"%s\"",
                at,
                PQuser(conn));
        err_hint(err,
                 "Give it in PGPASSWORD, in ~/.pgpass, or in the connection string "
                 "(postgresql://user:password@host/database).");
        return PAWL_EAUTH;
    }
    /* target_session_attrs asks for a primary: it was reached, and is none. */
    if (host_check_writable(conn, err) < 0)
        return PAWL_EREADONLY;
    err_set(err, PAWL_ECONN, "could not reach the database server%s", at);
    put_detail(err, "", line);
    err_hint(
        err,
        "Is PostgreSQL running there, and are host and port right? They come from --db, PAWL_DATABASE_URL or "
        "the PG* variables; without any of these pawl runs a database of its own.");
    return PAWL_ECONN;
}
