/* sync_fixture: a fresh database, a blocking connection to it and an arena, for the tests of
 * src/pg's blocking half. */
#ifndef TESTS_SYNC_FIXTURE_H
#define TESTS_SYNC_FIXTURE_H

#include <string.h>

#include "pg/result.h"
#include "pg/sync.h"
#include "support/cmocka.h"
#include "support/testdb.h"

struct fixture {
    struct testdb db;
    struct arena arena;
    struct target target;
    struct params params;
    struct pawl_err err;
    PGconn *conn;
};

static inline int fixture_setup(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    *state = &f;
    if (testdb_new(&f.db) < 0)
        return -1;
    arena_init(&f.arena, 64 << 20);
    params_init(&f.params, &f.arena);
    if (target_set(&f.target, &f.arena, TARGET_OPTION, f.db.conninfo, &f.err) < 0 ||
        sync_connect(&f.target, &f.conn, &f.err) < 0) {
        print_error("%s: %s\n", f.err.message, f.err.detail);
        return -1;
    }
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;

    sync_close(&f->conn);
    arena_deinit(&f->arena);
    testdb_free(&f->db);
    return 0;
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

static inline void fixture_fail(const struct pawl_err *err)
{
    fail_msg("%s %s: %s / %s", err_code_name(err->code), err->sqlstate, err->message, err->detail);
}

/* Runs the SQL with the parameters bound so far, which are forgotten afterwards. */
static inline int fixture_try(struct fixture *f, const char *sql, PGresult **ret_result)
{
    const struct stmt stmt = {.name = "test", .sql = sql};
    int rc;

    err_clear(&f->err);
    rc = sync_exec(f->conn, &stmt, &f->params, ret_result, &f->err);
    assert_int_equal(rc, f->err.code);
    params_init(&f->params, &f->arena);
    return rc;
}

/* The same where nothing may go wrong. PQclear the result. */
static inline PGresult *fixture_query(struct fixture *f, const char *sql)
{
    PGresult *r = NULL;

    if (fixture_try(f, sql, &r) < 0)
        fixture_fail(&f->err);
    assert_non_null(r);
    return r;
}

static inline bool fixture_bool(struct fixture *f, const char *sql)
{
    PGresult *r = fixture_query(f, sql);
    bool value = result_bool(r, 0, 0);

    PQclear(r);
    return value;
}

#endif
