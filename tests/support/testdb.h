/*
 * testdb: a fresh database for a test, cloned from the migrated template of the throw-away
 * PostgreSQL that tools/run-tests starts. Cheap (tens of milliseconds), private to the test, gone
 * afterwards; tests run in parallel.
 *
 *     static int setup(void **state)
 *     {
 *         static struct testdb db;
 *         *state = &db;
 *         return testdb_new(&db);
 *     }
 *
 *     static int teardown(void **state)
 *     {
 *         testdb_free(*state);
 *         return 0;
 *     }
 *
 * as cmocka_unit_test_setup_teardown(test, setup, teardown). The queries below fail the running
 * cmocka test when they fail, so they are for the test's main thread; other threads open
 * connections of their own to `conninfo`.
 */
#ifndef TESTS_TESTDB_H
#define TESTS_TESTDB_H

#include <stdint.h>

#include <libpq-fe.h>

struct testdb {
    char name[64];
    char conninfo[512]; /* superuser; a keyword string, good for PQconnectdb, --db and
                           PAWL_DATABASE_URL */
    PGconn *conn;       /* owned; for the queries below and whatever else the test likes */
};

/* 0, or -1 with the reason on stderr. */
int testdb_new(struct testdb *db);
/* Drops the database, whoever is still connected. NULL and a failed testdb_new are accepted. */
void testdb_free(struct testdb *db);

/* One or more statements, rows ignored. */
void testdb_exec(struct testdb *db, const char *sql);
/* The first column of the only row. */
int64_t testdb_int(struct testdb *db, const char *sql);
/* The same as text: to be freed by the caller; NULL for a null or no row. */
char *testdb_text(struct testdb *db, const char *sql);

/* The conninfo of the database with another role, which lets in by password, in buf. Returns buf.
 */
const char *testdb_conninfo_as(
    const struct testdb *db, const char *role, const char *password, char *buf, size_t size);

#endif
