/*
 * Migrating: from nothing, again, by several at once, without the rights, and on schemas that this
 * binary does not understand. Each test has a database whose schema it may drop.
 */
#include "store/migrate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/migrations.h"
#include "support/cmocka.h"
#include "support/testdb.h"

#define RACERS 4

static int setup(void **state)
{
    static struct testdb db;

    *state = &db;
    return testdb_new(&db);
}

static int setup_empty(void **state)
{
    int rc = setup(state);

    if (rc == 0)
        testdb_exec(*state, "DROP SCHEMA pawl CASCADE");
    return rc;
}

static int teardown(void **state)
{
    testdb_free(*state);
    return 0;
}

/* What a migrate_fn was told. */
struct told {
    int n;
    int version;
    const char *sql;
};

static void on_told(void *data, int version, const char *name, const char *sql)
{
    struct told *told = data;

    (void)name;
    told->n++;
    told->version = version;
    told->sql = sql;
}

static int migrate(PGconn *conn, bool dry_run, struct told *told, int *ret, struct pawl_err *err)
{
    *told = (struct told){0};
    memset(err, 0, sizeof(*err));
    return schema_migrate(conn, dry_run, on_told, told, ret, err);
}

static void assert_migrated(struct testdb *db)
{
    struct schema_status status;
    struct pawl_err err;

    assert_int_equal(schema_status(db->conn, &status, &err), 0);
    assert_true(status.present);
    assert_int_equal(status.version, migrations_n);
    assert_int_equal(status.known, migrations_n);
    assert_int_equal(schema_check(db->conn, &err), 0);
    assert_int_equal(testdb_int(db, "SELECT count(*) FROM pawl.migration"), migrations_n);
}

static void assert_holds(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static int64_t schemas(struct testdb *db)
{
    return testdb_int(db, "SELECT count(*) FROM pg_namespace WHERE nspname = 'pawl'");
}

static void a_fresh_database_gets_everything(void **state)
{
    struct testdb *db = *state;
    struct schema_status status;
    struct told told;
    struct pawl_err err;
    int applied = -1;

    assert_int_equal(schema_status(db->conn, &status, &err), 0);
    assert_false(status.present);
    assert_int_equal(status.version, 0);
    assert_int_equal(status.known, migrations_n);
    assert_int_equal(migrate(db->conn, false, &told, &applied, &err), 0);
    assert_int_equal(applied, migrations_n);
    assert_int_equal(told.n, migrations_n);
    assert_migrated(db);
    char *checksum = testdb_text(db, "SELECT checksum FROM pawl.migration WHERE version = 1");

    assert_string_equal(checksum, migrations[0].checksum);
    free(checksum);
    assert_int_equal(
        testdb_int(db,
                   "SELECT count(*) FROM pg_class WHERE relnamespace = 'pawl'::regnamespace"
                   " AND pg_get_userbyid(relowner) <> 'pawl_owner'"),
        0);
}

static void a_second_time_changes_nothing(void **state)
{
    struct testdb *db = *state;
    struct told told;
    struct pawl_err err;
    int applied = -1;
    int64_t before = testdb_int(db, "SELECT max(oid)::bigint FROM pg_class");

    assert_int_equal(migrate(db->conn, false, &told, &applied, &err), 0);
    assert_int_equal(applied, 0);
    assert_int_equal(told.n, 0);
    assert_int_equal(testdb_int(db, "SELECT max(oid)::bigint FROM pg_class"), before);
    assert_migrated(db);
}

static void a_dry_run_tells_and_changes_nothing(void **state)
{
    struct testdb *db = *state;
    struct told told;
    struct pawl_err err;
    int applied = -1;

    assert_int_equal(migrate(db->conn, true, &told, &applied, &err), 0);
    assert_int_equal(applied, migrations_n);
    assert_int_equal(told.n, migrations_n);
    assert_int_equal(told.version, migrations_n);
    assert_string_equal(told.sql, migrations[migrations_n - 1].sql);
    assert_int_equal(schemas(db), 0);
}

/* One migrator in a thread of its own. */
struct racer {
    pthread_t thread;
    pthread_barrier_t *start;
    PGconn *conn;
    struct told told;
    struct pawl_err err;
    int applied;
    int rc;
};

static void *race(void *data)
{
    struct racer *racer = data;

    pthread_barrier_wait(racer->start);
    racer->rc = migrate(racer->conn, false, &racer->told, &racer->applied, &racer->err);
    return NULL;
}

static void of_several_at_once_one_applies_each(void **state)
{
    struct testdb *db = *state;
    struct racer racers[RACERS] = {0};
    pthread_barrier_t start;
    int applied = 0;

    pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++) {
        racers[i].start = &start;
        racers[i].conn = PQconnectdb(db->conninfo);
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        PQfinish(racers[i].conn);
        applied += racers[i].applied;
        assert_int_equal(racers[i].told.n, racers[i].applied);
    }
    pthread_barrier_destroy(&start);
    for (int i = 0; i < RACERS; i++) {
        if (racers[i].rc != 0)
            fail_msg("%s", racers[i].err.message);
    }
    assert_int_equal(applied, migrations_n);
    assert_migrated(db);
}

static void without_a_schema_nothing_works_and_it_says_how(void **state)
{
    struct testdb *db = *state;
    struct pawl_err err;

    assert_int_equal(schema_check(db->conn, &err), PAWL_ESCHEMA);
    assert_holds(err.hint, "pawl db migrate");
}

/* All three refuse, and the hint says what to do. */
static void assert_refused(struct testdb *db, const char *message, const char *hint)
{
    struct schema_status status = {.version = -1};
    struct told told;
    struct pawl_err err;
    int applied = -1;

    assert_int_equal(schema_status(db->conn, &status, &err), PAWL_ESCHEMA);
    assert_int_equal(status.version, -1); /* untouched */
    assert_int_equal(schema_check(db->conn, &err), PAWL_ESCHEMA);
    assert_int_equal(migrate(db->conn, true, &told, &applied, &err), PAWL_ESCHEMA);
    assert_int_equal(migrate(db->conn, false, &told, &applied, &err), PAWL_ESCHEMA);
    assert_int_equal(applied, -1);
    assert_int_equal(told.n, 0);
    assert_holds(err.message, message);
    assert_holds(err.hint, hint);
}

static void a_newer_schema_is_refused(void **state)
{
    struct testdb *db = *state;

    testdb_exec(db,
                "INSERT INTO pawl.migration (version, name, checksum, applied_by)"
                " VALUES (999, 'wings', 'x', '9.9')");
    assert_refused(db, "the schema is at version 999", "Install a newer pawl");
}

static void another_baseline_is_refused(void **state)
{
    struct testdb *db = *state;

    testdb_exec(db, "UPDATE pawl.migration SET checksum = repeat('0', 64) WHERE version = 1");
    assert_refused(db,
                   "the schema of this database was made by a pre-release of pawl",
                   "then run: pawl db migrate");
}

static void an_older_schema_asks_to_be_migrated(void **state)
{
    struct testdb *db = *state;
    struct pawl_err err;

    testdb_exec(db, "TRUNCATE pawl.migration");
    assert_int_equal(schema_check(db->conn, &err), PAWL_ESCHEMA);
    assert_holds(err.message, "the schema is at version 0, and this pawl needs version");
    assert_holds(err.hint, "pawl db migrate");
}

static void a_migration_that_fails_leaves_nothing(void **state)
{
    struct testdb *db = *state;
    struct told told;
    struct pawl_err err;
    int applied = -1;

    testdb_exec(db, "CREATE SCHEMA pawl AUTHORIZATION pawl_owner; CREATE TABLE pawl.history ()");
    assert_true(migrate(db->conn, false, &told, &applied, &err) < 0);
    assert_string_equal(err.sqlstate, "42P07");
    assert_int_equal(applied, -1);
    assert_int_equal(
        testdb_int(db, "SELECT count(*) FROM pg_class WHERE relnamespace = 'pawl'::regnamespace"),
        1);
    /* And the connection is good for another try. */
    testdb_exec(db, "DROP TABLE pawl.history");
    assert_int_equal(migrate(db->conn, false, &told, &applied, &err), 0);
    assert_migrated(db);
}

/* Migrates as a new role with these attributes, after `grants` (in which % stands for its name). */
static int migrate_as(struct testdb *db,
                      const char *attributes,
                      const char *grants,
                      int *ret_applied,
                      struct pawl_err *err)
{
    char sql[400];
    char conninfo[700];
    struct told told;

    snprintf(sql, sizeof(sql), "CREATE ROLE %s LOGIN PASSWORD 'p' %s", db->name, attributes);
    testdb_exec(db, sql);
    snprintf(sql,
             sizeof(sql),
             "DO $$ BEGIN EXECUTE replace($q$%s$q$, '%%', '%s'); END $$",
             grants,
             db->name);
    testdb_exec(db, sql);
    PGconn *conn = PQconnectdb(testdb_conninfo_as(db, db->name, "p", conninfo, sizeof(conninfo)));
    int rc = PQstatus(conn) == CONNECTION_OK ? migrate(conn, false, &told, ret_applied, err)
                                             : PAWL_ECONN;

    PQfinish(conn);
    /* Roles outlive the database. */
    snprintf(sql,
             sizeof(sql),
             "ALTER DATABASE %s OWNER TO CURRENT_USER; DROP OWNED BY %s; DROP ROLE %s",
             db->name,
             db->name,
             db->name);
    testdb_exec(db, sql);
    return rc;
}

#define ROLES_HAVE_ADMINS 160000

/* The roles were made by another. Before PostgreSQL 16 whoever may create roles may take them. */
static const char *let_act(const struct testdb *db)
{
    return PQserverVersion(db->conn) >= ROLES_HAVE_ADMINS ? "GRANT pawl_owner TO %" : "SELECT 1";
}

static void without_the_rights_it_says_what_is_missing(void **state)
{
    struct testdb *db = *state;
    struct pawl_err err;
    int applied = -1;

    assert_int_equal(migrate_as(db, "", "SELECT 1", &applied, &err), PAWL_EDENIED);
    assert_holds(err.message, "may not act as the role pawl_owner");
    assert_holds(err.hint, "a superuser run: GRANT pawl_owner TO test_");
    /* Roles alone are not enough. */
    assert_int_equal(migrate_as(db, "CREATEROLE", let_act(db), &applied, &err), PAWL_EDENIED);
    assert_holds(err.hint, "may create roles and schemas");
    assert_int_equal(applied, -1);
    assert_int_equal(schemas(db), 0);
}

static void a_database_owner_who_may_create_roles_can_migrate(void **state)
{
    struct testdb *db = *state;
    char grants[200];
    struct pawl_err err = {0};
    int applied = -1;

    snprintf(grants, sizeof(grants), "ALTER DATABASE %s OWNER TO %%; %s", db->name, let_act(db));
    int rc = migrate_as(db, "CREATEROLE", grants, &applied, &err);

    if (rc != 0)
        fail_msg("%s", err.message);
    assert_int_equal(applied, migrations_n);
    assert_migrated(db);
}

static void nothing_to_do_needs_no_rights(void **state)
{
    struct testdb *db = *state;
    struct pawl_err err = {0};
    int applied = -1;
    int rc = migrate_as(db, "IN ROLE pawl_reader", "SELECT 1", &applied, &err);

    if (rc != 0)
        fail_msg("%s", err.message);
    assert_int_equal(applied, 0);
}

#define HOLD_LOCK       "SELECT pg_advisory_lock(x'7061776C'::integer, 1)"
#define LOCK_TIMEOUT_MS 25

static void a_lock_that_is_never_free_is_given_up(void **state)
{
    struct testdb *db = *state;
    struct told told;
    struct pawl_err err;
    int applied = -1;
    PGconn *conn = PQconnectdb(db->conninfo);

    testdb_exec(db, HOLD_LOCK);
    PQclear(PQexec(conn, "SET lock_timeout = 25"));
    int64_t began_us = clock_mono_us(&clock_system);
    int rc = migrate(conn, false, &told, &applied, &err);
    int64_t took_us = clock_mono_us(&clock_system) - began_us;

    PQfinish(conn);
    assert_int_equal(rc, PAWL_ERETRY);
    assert_string_equal(err.sqlstate, "55P03");
    assert_holds(err.hint, "Another migration is under way");
    assert_int_equal(told.n, 0);
    assert_true(took_us >= 10 * LOCK_TIMEOUT_MS * US_PER_MS); /* not at the first try */
    assert_int_equal(schemas(db), 0);
}

static void a_lock_that_becomes_free_is_waited_for(void **state)
{
    struct testdb *db = *state;
    pthread_barrier_t start;
    struct racer racer = {.start = &start, .conn = PQconnectdb(db->conninfo)};

    testdb_exec(db, HOLD_LOCK);
    pthread_barrier_init(&start, NULL, 1);
    assert_int_equal(pthread_create(&racer.thread, NULL, race, &racer), 0);
    while (testdb_int(db,
                      "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                      " AND database = (SELECT oid FROM pg_database"
                      " WHERE datname = current_database())") == 0)
        continue;
    testdb_exec(db, "SELECT pg_advisory_unlock_all()");
    pthread_join(racer.thread, NULL);
    pthread_barrier_destroy(&start);
    PQfinish(racer.conn);
    if (racer.rc != 0)
        fail_msg("%s", racer.err.message);
    assert_migrated(db);
}

#define empty_test(name) cmocka_unit_test_setup_teardown(name, setup_empty, teardown)
#define full_test(name)  cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        empty_test(a_fresh_database_gets_everything),
        full_test(a_second_time_changes_nothing),
        empty_test(a_dry_run_tells_and_changes_nothing),
        empty_test(of_several_at_once_one_applies_each),
        empty_test(without_a_schema_nothing_works_and_it_says_how),
        full_test(a_newer_schema_is_refused),
        full_test(another_baseline_is_refused),
        full_test(an_older_schema_asks_to_be_migrated),
        empty_test(a_migration_that_fails_leaves_nothing),
        empty_test(without_the_rights_it_says_what_is_missing),
        empty_test(a_database_owner_who_may_create_roles_can_migrate),
        full_test(nothing_to_do_needs_no_rights),
        empty_test(a_lock_that_is_never_free_is_given_up),
        empty_test(a_lock_that_becomes_free_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
