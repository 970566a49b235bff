/*
 * testdb: clones and drops databases of the throw-away PostgreSQL. All the state it needs comes
 * from PAWL_TEST_DB; names are random, so that any number of test programs can do it at the same
 * time.
 */
#include "support/testdb.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "support/cmocka.h"

#define TEMPLATE "pawl_template"

/* object_in_use: another session is just cloning the template, or an autovacuum worker looks at it.
 * Passes soon. */
#define SQLSTATE_IN_USE "55006"
#define CLONE_TRIES     2400
#define CLONE_PAUSE_MS  25

static PGconn *connect_to(const char *conninfo)
{
    PGconn *conn = PQconnectdb(conninfo);
    if (PQstatus(conn) != CONNECTION_OK) {
        fprintf(stderr, "testdb: could not connect: %s", PQerrorMessage(conn));
        PQfinish(conn);
        return NULL;
    }
    return conn;
}

static const char *server_conninfo(void)
{
    const char *conninfo = getenv("PAWL_TEST_DB");
    if (!conninfo)
        fprintf(stderr, "testdb: PAWL_TEST_DB is not set; run the tests through ./dev test\n");
    return conninfo;
}

static int clone_template(PGconn *conn, const char *name)
{
    char sql[160];
    snprintf(sql, sizeof(sql), "CREATE DATABASE %s TEMPLATE " TEMPLATE, name);
    for (int i = 0; i < CLONE_TRIES; i++) {
        PGresult *result = PQexec(conn, sql);
        bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        bool busy = state && strcmp(state, SQLSTATE_IN_USE) == 0;
        PQclear(result);
        if (done)
            return 0;
        if (!busy)
            break;
        struct timespec pause = {.tv_nsec = CLONE_PAUSE_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
    fprintf(stderr, "testdb: could not clone " TEMPLATE ": %s", PQerrorMessage(conn));
    return -1;
}

static void drop_database(const char *name)
{
    const char *server = server_conninfo();
    PGconn *conn = server ? connect_to(server) : NULL;
    if (!conn)
        return;
    char sql[160];
    snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS %s WITH (FORCE)", name);
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fprintf(stderr, "testdb: could not drop %s: %s", name, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

int testdb_new(struct testdb *db)
{
    memset(db, 0, sizeof(*db));
    const char *server = server_conninfo();
    uint64_t bits = 0;
    if (!server || getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return -1;
    PGconn *conn = connect_to(server);
    if (!conn)
        return -1;
    char name[sizeof(db->name)];
    snprintf(name, sizeof(name), "test_%016llx", (unsigned long long)bits);
    int r = clone_template(conn, name);
    PQfinish(conn);
    if (r < 0)
        return -1;

    /* The last dbname in a conninfo wins. */
    snprintf(db->name, sizeof(db->name), "%s", name);
    snprintf(db->conninfo, sizeof(db->conninfo), "%s dbname=%s", server, name);
    db->conn = connect_to(db->conninfo);
    if (!db->conn) {
        testdb_free(db);
        return -1;
    }
    PQsetNoticeReceiver(db->conn, ignore_notice, NULL);
    return 0;
}

void testdb_free(struct testdb *db)
{
    if (!db)
        return;
    PQfinish(db->conn);
    if (db->name[0])
        drop_database(db->name);
    memset(db, 0, sizeof(*db));
}

static PGresult *query(struct testdb *db, const char *sql)
{
    PGresult *result = PQexec(db->conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        PQclear(result);
        fail_msg("%s: %s", sql, PQerrorMessage(db->conn));
    }
    return result;
}

void testdb_exec(struct testdb *db, const char *sql)
{
    PQclear(query(db, sql));
}

char *testdb_text(struct testdb *db, const char *sql)
{
    PGresult *result = query(db, sql);
    int rows = PQntuples(result);
    char *text = NULL;
    if (rows == 1 && !PQgetisnull(result, 0, 0))
        text = strdup(PQgetvalue(result, 0, 0));
    PQclear(result);
    if (rows > 1)
        fail_msg("%s: %d rows instead of one", sql, rows);
    return text;
}

int64_t testdb_int(struct testdb *db, const char *sql)
{
    char *text = testdb_text(db, sql);
    if (!text)
        fail_msg("%s: no value", sql);
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool whole = end != text && *end == '\0' && errno == 0;
    free(text);
    if (!whole)
        fail_msg("%s: not an integer", sql);
    return (int64_t)value;
}

const char *testdb_conninfo_as(
    const struct testdb *db, const char *role, const char *password, char *buf, size_t size)
{
    snprintf(buf, size, "%s user=%s password=%s", db->conninfo, role, password);
    return buf;
}
