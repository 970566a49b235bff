/*
 * The tests' own databases: fresh, apart from each other, let in nobody without a password, and
 * gone afterwards.
 */
#include "support/testdb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka.h"

static int setup(void **state)
{
    static struct testdb db;
    *state = &db;
    return testdb_new(&db);
}

static int teardown(void **state)
{
    testdb_free(*state);
    return 0;
}

static void queries_give_values(void **state)
{
    struct testdb *db = *state;
    testdb_exec(db, "CREATE TABLE t (a bigint); INSERT INTO t VALUES (-9007199254740993)");
    assert_int_equal(testdb_int(db, "SELECT a FROM t"), -9007199254740993);
    char *text = testdb_text(db, "SELECT 'x''y'");
    assert_string_equal(text, "x'y");
    free(text);
    assert_null(testdb_text(db, "SELECT NULL"));
    assert_null(testdb_text(db, "SELECT 1 WHERE false"));
}

static void two_databases_do_not_see_each_other(void **state)
{
    struct testdb *db = *state;
    struct testdb other;
    assert_int_equal(testdb_new(&other), 0);
    testdb_exec(db, "CREATE TABLE mine ()");
    int64_t seen = testdb_int(&other, "SELECT count(*) FROM pg_class WHERE relname = 'mine'");
    testdb_free(&other);
    assert_int_equal(seen, 0);
}

static void a_database_is_dropped_even_while_in_use(void **state)
{
    struct testdb *db = *state;
    struct testdb other;
    assert_int_equal(testdb_new(&other), 0);
    char sql[160];
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM pg_database WHERE datname = '%s'", other.name);
    PGconn *conn = PQconnectdb(other.conninfo);
    assert_int_equal(testdb_int(db, sql), 1);
    testdb_free(&other);
    PQfinish(conn);
    assert_int_equal(testdb_int(db, sql), 0);
}

static ConnStatusType status_as(struct testdb *db, const char *role, const char *password)
{
    char conninfo[700];
    PGconn *conn = PQconnectdb(testdb_conninfo_as(db, role, password, conninfo, sizeof(conninfo)));
    ConnStatusType status = PQstatus(conn);
    PQfinish(conn);
    return status;
}

static void other_roles_need_their_password(void **state)
{
    struct testdb *db = *state;
    /* Roles belong to the whole server: named after the database, so that parallel tests do not
     * meet. */
    char sql[200];
    snprintf(sql, sizeof(sql), "CREATE ROLE %s LOGIN PASSWORD 'right'", db->name);
    testdb_exec(db, sql);
    ConnStatusType right = status_as(db, db->name, "right");
    ConnStatusType wrong = status_as(db, db->name, "wrong");
    snprintf(sql, sizeof(sql), "DROP ROLE %s", db->name);
    testdb_exec(db, sql);
    assert_int_equal(right, CONNECTION_OK);
    assert_int_equal(wrong, CONNECTION_BAD);
}

static void without_a_server_it_says_so(void **state)
{
    (void)state;
    struct testdb db;
    char *saved = strdup(getenv("PAWL_TEST_DB"));
    setenv("PAWL_TEST_DB", "host=/nonexistent user=nobody dbname=none", 1);
    int r = testdb_new(&db);
    testdb_free(&db);
    setenv("PAWL_TEST_DB", saved, 1);
    free(saved);
    assert_int_equal(r, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(queries_give_values, setup, teardown),
        cmocka_unit_test_setup_teardown(two_databases_do_not_see_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(a_database_is_dropped_even_while_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(other_roles_need_their_password, setup, teardown),
        cmocka_unit_test(without_a_server_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
