/*
 * Workers vacuum the hot tables themselves, if their role may: as the owner, or with the right
 * MAINTAIN, which there is from PostgreSQL 17 on. A worker that may not says so once and leaves it to
 * autovacuum, whose settings are here.
 */
#include "engine_fixture.h"
#include "store/statements.h"
#include "store/vacuum.h"

#define DEAD 3000

/* A worker as a role of its own, and what its log says about vacuuming. */
struct role {
    char name[64];
    char conninfo[700];
    struct target target;
    struct log log;
    int said; /* that the role may not */
};

static void count_line(void *data, const char *line)
{
    struct role *role = data;

    role->said += strstr(line, "may not vacuum") != NULL;
}

static void role_new(struct fixture *f, struct role *role)
{
    struct pawl_err err;
    char sql[300];

    *role = (struct role){.log = {.level = LOG_INFO, .format = LOG_JSON, .clock = &clock_system}};
    role->log.sink = count_line;
    role->log.sink_data = role;
    snprintf(role->name, sizeof(role->name), "%s", f->db.name);
    snprintf(sql, sizeof(sql), "CREATE ROLE %s IN ROLE pawl_worker", role->name);
    testdb_exec(&f->db, sql);
    snprintf(role->conninfo,
             sizeof(role->conninfo),
             "%s options='-c role=%s'",
             f->db.conninfo,
             role->name);
    assert_int_equal(target_set(&role->target, &f->arena, TARGET_OPTION, role->conninfo, &err), 0);
}

static void role_drop(struct fixture *f, struct role *role)
{
    char sql[300];

    snprintf(sql, sizeof(sql), "DROP OWNED BY %s; DROP ROLE %s", role->name, role->name);
    testdb_exec(&f->db, sql);
}

/* In two parts of what is vacuumed, and everybody sees it at once. */
static void leave_dead_rows(struct fixture *f)
{
    char sql[500];

    snprintf(
        sql,
        sizeof(sql),
        "INSERT INTO pawl.job (queue, kind, payload) SELECT 'x', 'x', '' FROM"
        " generate_series(1, %d); DELETE FROM pawl.job;"
        "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
        " SELECT gen_random_uuid(), gen_random_uuid(), now(), '{}' FROM generate_series(1, %d);"
        "DELETE FROM pawl.claim; ALTER TABLE pawl.job ALTER id RESTART WITH 1;"
        "SELECT pg_stat_force_next_flush()",
        DEAD,
        DEAD);
    testdb_exec(&f->db, sql);
    testdb_exec(&f->db, "SELECT 1");
}

/* What the role would find due: how many parts, and whether it may vacuum them all, or none. */
static int due_for(const struct role *role, bool may)
{
    PGconn *conn = PQconnectdb(role->conninfo);
    PGresult *r = PQexecParams(conn, STMT(vacuum_due)->sql, 0, NULL, NULL, NULL, NULL, 1);

    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(conn));
    int n = PQntuples(r);

    for (int row = 0; row < n; row++)
        assert_int_equal(vacuum_due_row(r, row).may, may);
    PQclear(r);
    PQfinish(conn);
    return n;
}

static void run_one(struct crew *crew, struct role *role)
{
    crew_init(crew, crew->f);
    crew->options.target = &role->target;
    crew->options.log = &role->log;
    crew_start(crew);
    enqueue(crew->f, 1); /* a worker without jobs looks once a minute only */
    run_until(crew->f, crew->settled == 1);
}

static void a_role_that_may_not_says_so_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew = {.f = f};
    struct role role;

    role_new(f, &role);
    if (PQserverVersion(f->db.conn) >= 170000)
        testdb_exec(&f->db, "REVOKE MAINTAIN ON ALL TABLES IN SCHEMA pawl FROM pawl_worker");
    leave_dead_rows(f);
    assert_true(due_for(&role, false) >= 2); /* each is a reason to say it */
    run_one(&crew, &role);
    run_until(f, role.said > 0);
    assert_int_equal(role.said, 1);
    assert_int_equal(crew_stats(&crew)->vacuums, 0);
    crew_stop(&crew);
    assert_int_equal(role.said, 1);
    assert_int_equal(count_of(f,
                              "pg_stat_user_tables WHERE schemaname = 'pawl'"
                              " AND last_vacuum IS NOT NULL"),
                     0);
    role_drop(f, &role);
}

/* pawl_worker has the right on the hot tables. */
static void a_role_with_the_right_to_maintain_vacuums(void **state)
{
    struct fixture *f = *state;
    struct crew crew = {.f = f};
    struct role role;

    if (PQserverVersion(f->db.conn) < 170000)
        skip(); /* there is no such right */
    role_new(f, &role);
    leave_dead_rows(f);
    assert_true(due_for(&role, true) >= 2);
    run_one(&crew, &role);
    run_until(f, crew_stats(&crew)->vacuums >= 2);
    crew_stop(&crew);
    assert_int_equal(role.said, 0);
    assert_int_equal(count_of(f,
                              "pg_stat_user_tables WHERE schemaname = 'pawl'"
                              " AND relname IN ('job', 'claim') AND last_vacuum IS NOT NULL"),
                     2);
    role_drop(f, &role);
}

/* Autovacuum comes after 500 dead rows of tables that are small and change all the time; where there is a row
 * for each job, after 1000 and a hundredth. */
static void autovacuum_is_told_to_come_early(void **state)
{
    assert_text(
        *state,
        "SELECT string_agg(relname || ' ' || (SELECT string_agg(split_part(o, '=', 2), ' '"
        "  ORDER BY o) FROM unnest(reloptions) AS o"
        "  WHERE o ~ '^autovacuum_vacuum_(scale_factor|threshold)='), ', ' ORDER BY relname)"
        " FROM pg_class WHERE relnamespace = 'pawl'::regnamespace AND relname IN"
        " ('job', 'claim', 'sleeper', 'worker', 'machine', 'job_option')",
        "claim 0 500, job 0.01 1000, job_option 0.01 1000, machine 0.01 1000,"
        " sleeper 0 500, worker 0 500");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_role_that_may_not_says_so_once),
        engine_test(a_role_with_the_right_to_maintain_vacuums),
        engine_test(autovacuum_is_told_to_come_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
