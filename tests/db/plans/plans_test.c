/*
 * How PostgreSQL reaches the rows of the statements that must stay cheap, on a table large enough
 * for it to matter (a million jobs): with the values known (custom plans, the first executions) and without (generic
 * plans, all later ones). Nodes only, no costs. Statements that are a function: plans_machines_test.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

static struct store store;

static int group_setup(void **state)
{
    if (store_setup(state) != 0)
        return -1;
    struct store *s = *state;

    store = *s;
    testdb_exec(
        &store.db,
        "INSERT INTO pawl.job (queue, kind, payload, priority, due_at, has_options, is_machine)"
        " SELECT 'q' || n % 5, 'k' || n % 7, '{}', n % 10,"
        "  now() + (n % 3 - 1) * interval '1 h', CASE WHEN n <= 20000 THEN true END,"
        "  CASE WHEN n <= 20000 THEN true END FROM generate_series(1, 1000000) AS n;"
        "INSERT INTO pawl.job_option (job_id, progress) SELECT id, 'half' FROM pawl.job"
        " WHERE has_options;"
        "INSERT INTO pawl.machine (job_id, step) SELECT id, 's' FROM pawl.job"
        " WHERE is_machine;"
        "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
        " SELECT gen_random_uuid(), gen_random_uuid(), now() - interval '1 s',"
        "  ARRAY[n, n + 1, n + 2] FROM generate_series(1, 300, 3) AS n;"
        "UPDATE pawl.job AS j SET token = c.token, attempt = 1"
        " FROM pawl.claim AS c WHERE j.id = ANY (c.job_ids);"
        "INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at,"
        "  expires_on, state, attempt, max_attempts, priority, queue, kind, payload)"
        " SELECT n, now(), now(), now(), now(), current_date + 7 + (n % 4)::int, 'done',"
        "  1, 1, 4, 'q1', 'k', '' FROM generate_series(2000000, 2020000) AS n;"
        "ANALYZE");
    return 0;
}

static int group_teardown(void **state)
{
    void *s = &store;

    (void)state;
    return store_teardown(&s);
}

/* The plan of a statement with these arguments, as one text; to be freed. */
static char *plan_of(const struct stmt *stmt, const char *arguments, bool generic)
{
    size_t size = strlen(stmt->sql) + strlen(arguments) + 200;
    char *sql = malloc(size);
    size_t len = 0;

    assert_non_null(sql);
    testdb_exec(&store.db,
                generic ? "SET plan_cache_mode = force_generic_plan"
                        : "SET plan_cache_mode = force_custom_plan");
    snprintf(sql, size, "PREPARE p AS %s", stmt->sql);
    testdb_exec(&store.db, sql);
    snprintf(sql, size, "EXPLAIN (COSTS OFF) EXECUTE p%s", arguments);
    PGresult *r = PQexec(store.db.conn, sql);

    free(sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", stmt->name, PQerrorMessage(store.db.conn));
    for (int row = 0; row < PQntuples(r); row++)
        len += strlen(PQgetvalue(r, row, 0)) + 1;
    char *plan = calloc(1, len + 1);

    assert_non_null(plan);
    for (int row = 0, at = 0; row < PQntuples(r); row++)
        at += snprintf(plan + at, len + 1 - (size_t)at, "%s\n", PQgetvalue(r, row, 0));
    PQclear(r);
    testdb_exec(&store.db, "DEALLOCATE p");
    return plan;
}

/* Both plans have all the wanted nodes and none of the others. Lists end with NULL. */
static void assert_plans(const struct stmt *stmt,
                         const char *arguments,
                         const char *const *wanted,
                         const char *const *unwanted)
{
    for (int generic = 0; generic <= 1; generic++) {
        char *plan = plan_of(stmt, arguments, generic != 0);

        for (size_t i = 0; wanted[i] != NULL; i++) {
            if (strstr(plan, wanted[i]) == NULL)
                fail_msg("%s has no \"%s\":\n%s", stmt->name, wanted[i], plan);
        }
        for (size_t i = 0; unwanted[i] != NULL; i++) {
            if (strstr(plan, unwanted[i]) != NULL)
                fail_msg("%s has a \"%s\":\n%s", stmt->name, unwanted[i], plan);
        }
        free(plan);
    }
}

#define NODES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_SCAN                      \
    NODES("Seq Scan on job",         \
          "Seq Scan on machine",     \
          "Bitmap Heap Scan on job", \
          "Seq Scan on history_2")
#define UUID "'a0000000-0000-4000-8000-000000000001'"

static void a_claim_probes_the_index_and_updates_by_place(void **state)
{
    (void)state;
    assert_plans(
        STMT(job_claim),
        "('q1', '{k1,k2}', 10, " UUID ", " UUID ", 30000,"
        " array_fill(now() - interval '1 hour', '{10}'), array_fill(5::int8, '{10}'), 'k1',"
        " 'k2')",
        NODES("Index Scan using job_pick on job c", "Tid Scan on job j", "LockRows"),
        NODES("Seq Scan on job", "Bitmap", "Sort", "Hash Join", "Merge Join"));
}

static void a_job_that_cannot_be_claimed_is_found_as_by_the_claim(void **state)
{
    (void)state;
    assert_plans(
        STMT(job_suspect),
        "('q1', '{k1,k2}', array_fill(now() - interval '1 hour', '{20}'),"
        " array_fill(5::int8, '{20}'),"
        " '{9,9,8,8,7,7,6,6,5,5,4,4,3,3,2,2,1,1,0,0}', '{t,f,t,f,t,f,t,f,t,f,t,f,t,f,t,f,t,f,t,f}',"
        " 0, 'why', 'w')",
        NODES("Index Scan using job_pick on job c",
              "Index Scan using job_pick_lane on job c",
              "LockRows"),
        NODES("Seq Scan on job", "Bitmap", "Sort", "Hash Join", "Merge Join"));
    assert_plans(STMT(job_park),
                 "(5, " UUID ", 'why', 'w', 1, ARRAY[" UUID "]::uuid[])",
                 NODES("Index Scan using job_pkey on job j"),
                 NO_SCAN);
}

/* The arguments of a settle of n jobs: an array of ids as a literal (EXECUTE takes no subqueries),
 * and the rest with %d for n. */
static void settle_arguments(char *text, size_t size, int n, const char *rest)
{
    size_t len = (size_t)snprintf(text, size, "('{1");

    for (int id = 2; id <= n; id++)
        len += (size_t)snprintf(text + len, size - len, ",%d", id);
    len += (size_t)snprintf(text + len, size - len, "}', ");
    for (const char *c = rest; *c != '\0'; c++)
        len +=
            (size_t)snprintf(text + len, size - len, *c == '#' ? "%d" : "%c", *c == '#' ? n : *c);
    assert_true(len < size);
}

/* One outcome, and as many as a busy process gathers. */
static const int settle_sizes[] = {1, 10, 100, 2000};

static void a_settle_of_what_is_done_reaches_its_jobs_where_they_are(void **state)
{
    static char arguments[20000];

    (void)state;
    for (size_t i = 0; i < sizeof(settle_sizes) / sizeof(*settle_sizes); i++) {
        settle_arguments(arguments,
                         sizeof(arguments),
                         settle_sizes[i],
                         "array_fill(" UUID "::uuid, '{#}'), array_fill(1::int8, '{#}'),"
                         " 'x', array_fill(1::int4, '{#}'), array_fill(1::int4, '{#}'), 'host:1',"
                         " ARRAY[" UUID "]::uuid[], array_fill('(1,1)'::tid, '{#}'), '{q}')");
        assert_plans(
            STMT(job_settle_done), arguments, NODES("Tid Scan on job j", "on claim c"), NO_SCAN);
    }
}

/* With the settings of the engine's sessions, whatever the statistics say. */
static void looks_and_the_ledger_are_read_by_ranges_of_their_indexes(void **state)
{
    (void)state;
    testdb_exec(&store.db, "SET enable_seqscan = off");
    /* Generic only, as in the engine. */
    char *plan = plan_of(
        STMT(job_look),
        "('q1', '{k1,k2}', '{9,4,3}', '{f,f,t}', array_fill(now() - interval '1 hour', '{3}'),"
        " '{1,1,1}', array_fill(now(), '{3}'), '{1,1,1}', 2000, 'k1', 'k2')",
        true);

    if (strstr(plan, "Index Scan using job_pick on job c") == NULL ||
        strstr(plan, "Index Scan using job_pick_lane on job c") == NULL ||
        strstr(plan, "Sort") != NULL || strstr(plan, "Bitmap") != NULL)
        fail_msg("%s", plan);
    free(plan);
    assert_plans(STMT(claim_low), "(5, 100)", NODES("claim_seq"), NODES("Seq Scan on claim"));
    assert_plans(STMT(claim_sweep_first), "(50)", NODES("claim_seq"), NODES("Seq Scan on claim"));
    testdb_exec(&store.db, "RESET enable_seqscan");
}

/* One worker with a few jobs, and many that come over together. */
static void what_workers_hold_is_reached_by_the_ids_of_its_jobs(void **state)
{
    static char arguments[20000];
    const char *const job_pkey = "Index Scan using job_pkey on job x";

    (void)state;
    for (size_t i = 0; i < sizeof(settle_sizes) / sizeof(*settle_sizes); i++) {
        settle_arguments(arguments,
                         sizeof(arguments),
                         settle_sizes[i],
                         "array_fill('\\x00'::bytea, '{#}'), array_fill('w'::text, '{#}'), 30000,"
                         " array_fill(NULL::text, '{#}'))");
        assert_plans(STMT(held_take), arguments, NODES(job_pkey), NO_SCAN);
        settle_arguments(arguments,
                         sizeof(arguments),
                         settle_sizes[i],
                         "array_fill(" UUID "::uuid, '{#}'), array_fill('w'::text, '{#}'),"
                         " array_fill(1::int8, '{#}'))");
        assert_plans(STMT(held_put), arguments, NODES(job_pkey), NO_SCAN);
        settle_arguments(
            arguments, sizeof(arguments), settle_sizes[i], "array_fill('\\x00'::bytea, '{#}'))");
        assert_plans(STMT(job_held), arguments, NODES(job_pkey), NO_SCAN);
    }
    assert_plans(STMT(job_reported), "('{1,2,3}', '{}')", NODES(job_pkey), NO_SCAN);
}

static void a_renewal_reaches_its_claims_by_their_tokens(void **state)
{
    (void)state;
    testdb_exec(&store.db,
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) SELECT"
                " gen_random_uuid(), gen_random_uuid(), now() + interval '1 h', '{}'"
                " FROM generate_series(1, 5000); ANALYZE pawl.claim");
    assert_plans(STMT(claim_renew),
                 "(" UUID ", '{"
                 "a0000000-0000-4000-8000-000000000001"
                 "}', 30000, 3, 0, 4, 0)",
                 NODES("claim_pkey"),
                 NODES("Seq Scan on claim"));
    testdb_exec(&store.db, "DELETE FROM pawl.claim WHERE job_ids = '{}'; ANALYZE pawl.claim");
}

/* So many sleepers that reading them all would be a mistake. */
static void with_sleepers(void)
{
    testdb_exec(&store.db,
                "INSERT INTO pawl.sleeper (queue, worker, asleep)"
                " SELECT 'q' || n % 50, gen_random_uuid(), true FROM generate_series(1, 5000) AS n"
                " ON CONFLICT DO NOTHING; ANALYZE pawl.sleeper");
}

static void an_enqueue_inserts_and_probes_for_sleepers(void **state)
{
    (void)state;
    with_sleepers();
    assert_plans(STMT(job_enqueue),
                 "('{q}', '{k}', '{\"\\\\x00\"}', '{4}', '{0}', '{0}', '{1}', '{0}')",
                 NODES("Insert on job", "sleeper_pkey", "InitPlan"),
                 NODES("Scan on job", "Seq Scan on sleeper", "CTE"));
    /* Once for all of them: it depends on no row. */
    assert_plans(STMT(job_enqueue_same),
                 "('q', 'k', '{\"\\\\x00\",\"\\\\x01\"}', 4, 0, 0, 1, 0)",
                 NODES("Insert on job", "sleeper_pkey", "InitPlan", "ProjectSet"),
                 NODES("Scan on job", "Seq Scan on sleeper", "CTE"));
    testdb_exec(&store.db, "TRUNCATE pawl.sleeper; ANALYZE pawl.sleeper");
}

static void a_mark_touches_its_own_rows_only(void **state)
{
    (void)state;
    with_sleepers();
    assert_plans(STMT(sleeper_set),
                 "(" UUID ", '{q,r}', true)",
                 NODES("Insert on sleeper", "Conflict Arbiter Indexes: sleeper_pkey"),
                 NODES("Scan on sleeper", "Scan on job"));
    testdb_exec(&store.db, "TRUNCATE pawl.sleeper; ANALYZE pawl.sleeper");
}

static void one_job_is_found_by_its_id(void **state)
{
    (void)state;
    assert_plans(STMT(job_show), "(77)", NODES("Index Scan using job_pkey on job j"), NO_SCAN);
}

/* With an equality or none at all the newest come off the ends of the indexes. */
static void the_newest_jobs_come_off_the_indexes(void **state)
{
    (void)state;
    assert_plans(STMT(job_list),
                 "(NULL, NULL, '{}', 9223372036854775807, 20)",
                 NODES("Index Scan Backward using job_pkey on job j", "Merge Append"),
                 NO_SCAN);
}

static void queues_are_found_by_hopping(void **state)
{
    (void)state;
    assert_plans(STMT(queue_list),
                 "(1000)",
                 NODES("Recursive Union", "using job_pick on job"),
                 NODES("Sort Key: job", "HashAggregate\n  Group Key: job"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_probes_the_index_and_updates_by_place),
        cmocka_unit_test(a_job_that_cannot_be_claimed_is_found_as_by_the_claim),
        cmocka_unit_test(a_settle_of_what_is_done_reaches_its_jobs_where_they_are),
        cmocka_unit_test(looks_and_the_ledger_are_read_by_ranges_of_their_indexes),
        cmocka_unit_test(what_workers_hold_is_reached_by_the_ids_of_its_jobs),
        cmocka_unit_test(a_renewal_reaches_its_claims_by_their_tokens),
        cmocka_unit_test(an_enqueue_inserts_and_probes_for_sleepers),
        cmocka_unit_test(a_mark_touches_its_own_rows_only),
        cmocka_unit_test(one_job_is_found_by_its_id),
        cmocka_unit_test(the_newest_jobs_come_off_the_indexes),
        cmocka_unit_test(queues_are_found_by_hopping),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
