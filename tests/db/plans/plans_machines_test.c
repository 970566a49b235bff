/*
 * How PostgreSQL reaches the rows of the statements about machines and lanes, on 200 000 jobs,
 * fifty thousand signals and ten thousand lanes: with the values known and without. Functions are
 * looked into as well (auto_explain). Nodes only, no costs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/machine.h"
#include "plans_fixture.h"

#define CLAIMED 6000 /* the first so many run */

static struct uuid tokens[CLAIMED + 1]; /* by id */

static int group_setup(void **state)
{
    if (plans_setup(state) != 0)
        return -1;
    testdb_exec(&store.db,
                "INSERT INTO pawl.job (queue, kind, payload, due_at, lane, parent_id, join_of,"
                "  has_options, is_machine)"
                " SELECT 'q', 'k', '{}', now() - interval '1 h',"
                "  CASE WHEN n % 2 = 1 THEN 'l' || n / 2 % 10000 END,"
                "  CASE WHEN n % 200 = 0 THEN 2 WHEN n IN (150002, 150004) THEN 6 END,"
                "  CASE WHEN n % 200 = 0 OR n IN (150002, 150004) THEN 1 END,"
                "  CASE WHEN n <= 20000 THEN true END,"
                "  CASE WHEN n <= 100000 AND n % 2 = 0 THEN true END"
                "  FROM generate_series(1, 200000) AS n;"
                "UPDATE pawl.job SET waits_for = 'lane', due_at = 'infinity', lane_due_at = now()"
                " WHERE lane = 'l7';"
                "INSERT INTO pawl.machine (job_id, inbox, awaits) SELECT id, 1, '{paid}'"
                " FROM pawl.job WHERE is_machine;"
                "UPDATE pawl.machine SET joins = 1, children_left = 5000, join_at = 0"
                " WHERE job_id BETWEEN 2 AND 6;"
                "UPDATE pawl.machine SET cancel_rest = true WHERE job_id = 6;"
                "INSERT INTO pawl.lane (queue, name, holders)"
                " SELECT 'q', 'l' || n, '{}' FROM generate_series(0, 9999) AS n;"
                "ALTER TABLE pawl.signal DISABLE TRIGGER USER;"
                "INSERT INTO pawl.signal (job_id, name, payload)"
                " SELECT n * 2, 'paid', '{}' FROM generate_series(1, 50000) AS n;"
                "ALTER TABLE pawl.signal ENABLE TRIGGER USER;"
                "INSERT INTO pawl.child (parent_id, child_id, kind, state)"
                " SELECT 2 + n % 5, n, 'k', 'done' FROM generate_series(1, 20000) AS n;"
                "INSERT INTO pawl.guard (hash, job_id, keep_ms)"
                " SELECT gen_random_uuid(), n, 0 FROM generate_series(1, 20000) AS n;"
                "INSERT INTO pawl.job_option (job_id, guard) SELECT job_id, hash FROM pawl.guard;"
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
                " SELECT gen_random_uuid(), gen_random_uuid(), now() - interval '1 s',"
                "  ARRAY(SELECT generate_series(n, n + 29)) FROM generate_series(1, 6000, 30) AS n;"
                "UPDATE pawl.job AS j SET token = c.token, attempt = 1"
                " FROM pawl.claim AS c WHERE j.id = ANY (c.job_ids);"
                "ANALYZE");
    PGresult *r = PQexecParams(store.db.conn,
                               "SELECT id, token FROM pawl.job WHERE token IS NOT NULL",
                               0,
                               NULL,
                               NULL,
                               NULL,
                               NULL,
                               1);

    assert_int_equal(PQntuples(r), CLAIMED);
    for (int row = 0; row < CLAIMED; row++)
        tokens[result_i64(r, row, 0)] = result_uuid(r, row, 1);
    PQclear(r);
    plans_listen();
    return 0;
}

static const struct stmt *claims(int32_t limit, int32_t together)
{
    struct job_claim asked = {
        .queue = "q",
        .kinds = kind_k,
        .n_kinds = 1,
        .limit = limit,
        .token = uuid_random(),
        .worker = store.worker,
        .lease_ms = 60000,
        .lanes = true,
        .together = together,
    };

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        asked.from[i].due_us = asked.lane_from[i].due_us = INT64_MIN;
    job_claim_bind(begin(&store), &asked);
    return STMT(job_claim_lanes);
}

static void a_claim_with_lanes_probes_indexes_and_updates_by_place(void **state)
{
    static const int32_t limits[] = {1, 10, 100, 2000};

    (void)state;
    session_of_a_worker(STMT(session));
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        assert_plans(claims(limits[i], limits[i] == 1 ? 1 : 8),
                     NODES("Index Scan using job_pick on job c",
                           "Index Scan using job_pick_lane on job c",
                           "Tid Scan on job j",
                           "lane_pkey on lane l",
                           /* Others that come along; nobody does where each is by itself. */
                           limits[i] == 1 ? NULL : "Index Scan using job_lane on job j"));
    session_of_anybody();
}

/* What a step is shown, its signals and the results of its children, is found by the machine's id. */
static void a_claim_of_machines_reaches_what_a_step_is_shown_by_ids(void **state)
{
    (void)state;
    session_of_a_worker(STMT(session));
    testdb_exec(&store.db,
                "INSERT INTO pawl.machine (job_id, inbox, awaits) SELECT id, 1, '{paid}'"
                " FROM pawl.job WHERE id BETWEEN 6001 AND 6200 AND lane IS NOT NULL;"
                "UPDATE pawl.job SET is_machine = true WHERE id BETWEEN 6001 AND 6200;"
                "UPDATE pawl.machine SET joins = 1, children_left = 0, join_at = 0"
                " WHERE job_id BETWEEN 6001 AND 6200; ANALYZE pawl.machine");
    for (int32_t limit = 1; limit <= 100; limit *= 10) {
        struct job_claim asked = {
            .queue = "q",
            .kinds = kind_k,
            .n_kinds = 1,
            .limit = limit + 1, /* jobs in no lane are machines, up to 100 000 */
            .token = uuid_random(),
            .worker = store.worker,
            .lease_ms = 60000,
        };

        for (size_t i = 0; i < JOB_PRIORITIES; i++)
            asked.from[i].due_us = INT64_MIN;
        job_claim_bind(begin(&store), &asked);
        assert_plans(STMT(job_claim),
                     NODES("Index Scan using job_pick on job c",
                           "Tid Scan on job j",
                           "using machine_pkey on machine x",
                           "using signal_pkey on signal i",
                           "using child_pkey on child o"));
    }
    assert_plans(claims(100, 1), NODES("using machine_pkey on machine x", "using signal_pkey"));
    session_of_anybody();
}

/* Each scan of lanes has the name among what its index is asked for. */
static void assert_lanes_by_name(const struct stmt *stmt)
{
    const char *at = buf_str(&plans);
    int scans = 0;

    while ((at = strstr(at, "Scan")) != NULL) {
        const char *end = strchrnul(at, '\n');
        const char *next = *end != '\0' ? strchrnul(end + 1, '\n') : end;
        const char *table = strstr(at, " on lane ");
        const char *name = strstr(at, "name = ");

        if (table != NULL && table < end && strncmp(at - 4, "Tid ", 4) != 0) {
            scans++;
            if (name == NULL || name > next)
                fail_msg("%s reads lanes by \"%.*s\"", stmt->name, (int)(next - at), at);
        }
        at = end;
    }
    assert_true(scans > 0);
}

/* A plan is made once, and lives as long as the session: perhaps when there was no lane yet. */
static void a_claim_that_was_planned_without_lanes_finds_each_by_its_name(void **state)
{
    (void)state;
    session_of_a_worker(STMT(session));
    testdb_exec(&store.db,
                "TRUNCATE pawl.lane;"
                "DELETE FROM pg_statistic WHERE starelid = 'pawl.lane'::regclass");
    for (size_t m = 0; m < 2; m++) {
        const struct stmt *stmt = claims(100, 8);

        plan_of(stmt, modes[m]);
        assert_lanes_by_name(stmt);
    }
    session_of_anybody();
}

/* Whatever the planner is made to believe, never more than were asked for. */
static void no_plan_takes_more_than_the_limit(void **state)
{
    static const char *const switches[] = {"enable_nestloop",
                                           "enable_hashjoin",
                                           "enable_mergejoin",
                                           "enable_indexscan",
                                           "enable_tidscan",
                                           "enable_material",
                                           "enable_sort",
                                           "enable_hashagg"};
    char sql[100];

    (void)state;
    testdb_exec(&store.db, "SET auto_explain.log_min_duration = -1; SET jit = off");
    for (size_t i = 0; i < sizeof(switches) / sizeof(*switches); i++) {
        snprintf(sql, sizeof(sql), "SET %s = off", switches[i]);
        testdb_exec(&store.db, sql);
        for (size_t m = 0; m < 2; m++)
            assert_int_equal(plan_of(claims(7, 1), modes[m]), 7);
        /* Seven lanes, and eight of each. */
        assert_in_range(plan_of(claims(7, 8), modes[0]), 7, 56);
        snprintf(sql, sizeof(sql), "RESET %s", switches[i]);
        testdb_exec(&store.db, sql);
    }
    testdb_exec(&store.db, "SET auto_explain.log_min_duration = 0; RESET jit");
}

static const struct job_settle *pointers[2000];

/* Outcomes of jobs 2, 4, 6, …, all of them ours. */
static const struct stmt *settles(enum outcome_kind kind, size_t n)
{
    static struct job jobs[2000];
    static struct job_settle items[2000];
    static const struct going_on on = {.step = "s", .awaits = "paid"};
    static const struct machine machine = {.shown = "1,2", .step = "r"};
    struct uuid ended = tokens[2];

    for (size_t i = 0; i < n; i++) {
        jobs[i] = (struct job){.id = (int64_t)(2 * i + 2),
                               .token = tokens[2 * i + 2],
                               .is_machine = true,
                               .machine = &machine};
        items[i] = (struct job_settle){
            .job = &jobs[i],
            .outcome = {.kind = kind, .delay_ms = -1, .on = kind >= OUTCOME_NEXT ? &on : NULL}};
        pointers[i] = &items[i];
    }
    job_settle_bind(begin(&store), pointers, n, "host:1", &ended, 1);
    return STMT(job_settle);
}

static const size_t settle_sizes[] = {1, 10, 100, 2000};

static void outcomes_reach_jobs_parents_keys_and_signals_by_their_ids(void **state)
{
    (void)state;
    session_of_a_worker(STMT(session_settle));
    for (size_t i = 0; i < sizeof(settle_sizes) / sizeof(*settle_sizes); i++) {
        assert_plans(settles(OUTCOME_RETRY, settle_sizes[i]),
                     NODES("Index Scan using job_pkey on job x", "job_option_pkey", "claim_pkey"));
        assert_plans(settles(OUTCOME_FAIL, settle_sizes[i]),
                     NODES("Index Scan using job_pkey on job x",
                           "Index Scan using job_pkey on job p",
                           "machine_pkey",
                           "job_option_pkey",
                           "guard_pkey",
                           "signal_pkey",
                           "child_pkey",
                           "job_parent"));
        assert_plans(
            settles(OUTCOME_AWAIT, settle_sizes[i]),
            NODES(
                "Index Scan using job_pkey on job x", "machine_pkey", "signal_pkey", "child_pkey"));
    }
    session_of_anybody();
}

static void the_next_step_reaches_its_machine_where_it_is(void **state)
{
    (void)state;
    session_of_a_worker(STMT(session_settle));
    for (size_t i = 0; i < sizeof(settle_sizes) / sizeof(*settle_sizes); i++) {
        settles(OUTCOME_NEXT, settle_sizes[i]);
        job_settle_next_bind(begin(&store), pointers, settle_sizes[i]);
        assert_plans(STMT(job_settle_next), NODES("Tid Scan on job x", "machine_pkey"));
    }
    session_of_anybody();
}

static void whoever_leaves_lanes_reaches_them_and_the_next_by_indexes(void **state)
{
    static const char *queues[1000];
    static const char *lanes[1000];
    static char names[1000][8];
    static int64_t ids[1000];

    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof(names[i]), "l%zu", i);
        queues[i] = "q";
        lanes[i] = names[i];
        ids[i] = (int64_t)i;
    }
    for (size_t n = 1; n <= 1000; n *= 10) {
        lane_leave_bind(begin(&store), queues, lanes, ids, n);
        assert_plans(STMT(lane_leave), NODES("lane_pkey", "using job_lane on job"));
    }
}

static void mending_reaches_lanes_and_jobs_by_indexes(void **state)
{
    (void)state;
    testdb_exec(&store.db,
                "INSERT INTO pawl.lane_stir (queue, name) SELECT 'q', 'l' || n FROM "
                "generate_series(1, 500) AS n; ANALYZE pawl.lane_stir");
    lanes_mend_bind(begin(&store), 100);
    assert_plans(STMT(lanes_mend), NODES("lane_pkey", "using job_lane on job"));
    testdb_exec(&store.db, "DELETE FROM pawl.lane_stir");
}

static void a_sweep_reaches_jobs_parents_and_keys_by_their_ids(void **state)
{
    (void)state;
    session_of_a_worker(STMT(session));
    claim_sweep_bind(begin(&store), 20, NULL, 0);
    assert_plans(
        STMT(claim_sweep),
        NODES("Index Scan using job_pkey on job j", "using job_pkey on job p", "job_option_pkey"));
    /* They are over. */
    testdb_exec(&store.db, "UPDATE pawl.job SET attempt = max_attempts WHERE token IS NOT NULL");
    claim_sweep_bind(begin(&store), 20, NULL, 0);
    assert_plans(STMT(claim_sweep),
                 NODES("Index Scan using job_pkey on job j",
                       "Index Scan using job_pkey on job p",
                       "machine_pkey",
                       "job_option_pkey",
                       "guard_pkey"));
    session_of_anybody();
}

static void signals_reach_their_machine_and_are_forgotten_by_its_id(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        char set[100];

        snprintf(set, sizeof(set), "BEGIN; SET LOCAL plan_cache_mode = %s", modes[m]);
        testdb_exec(&store.db, set);
        buf_clear(&plans);
        testdb_exec(&store.db,
                    "SELECT pawl.signal(4, 'paid', '{}', 'key'); SET CONSTRAINTS ALL IMMEDIATE");
        assert_non_null(strstr(buf_str(&plans), "Index Scan using job_pkey on job l"));
        assert_no_walk(&(struct stmt){.name = "signal"});
        buf_clear(&plans);
        testdb_exec(&store.db, "SELECT pawl.cancel(6002)");
        assert_non_null(strstr(buf_str(&plans), "using signal_pkey on signal s"));
        assert_no_walk(&(struct stmt){.name = "cancel"});
        testdb_exec(&store.db, "ROLLBACK");
    }
}

static void children_that_are_let_go_are_reached_by_indexes(void **state)
{
    int64_t parent = 6;
    const bool cancel = true;

    (void)state;
    session_of_a_worker(STMT(session_settle));
    children_let_go_bind(begin(&store), &parent, &tokens[6], &cancel, 1);
    assert_plans(STMT(children_let_go), NODES("job_parent", "child_pkey"));
    session_of_anybody();
}

static void children_whose_parent_has_ended_are_reached_by_indexes(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        char set[100];

        snprintf(set, sizeof(set), "BEGIN; SET LOCAL plan_cache_mode = %s", modes[m]);
        testdb_exec(&store.db, set);
        buf_clear(&plans);
        testdb_exec(&store.db,
                    "UPDATE pawl.job SET token = NULL WHERE id = 6; SELECT pawl.cancel(6)");
        assert_non_null(strstr(buf_str(&plans), "using job_parent on job k"));
        assert_non_null(strstr(buf_str(&plans), "child_pkey"));
        assert_no_walk(&(struct stmt){.name = "cancel"});
        assert_int_equal(count_of(&store, "pawl.orphan"), 2);
        buf_clear(&plans);
        assert_int_equal(testdb_int(&store.db, "SELECT pawl.orphans_end(10)"), 2);
        assert_non_null(strstr(buf_str(&plans), "using job_pkey on job j"));
        assert_no_walk(&(struct stmt){.name = "orphans_end"});
        testdb_exec(&store.db, "ROLLBACK");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_with_lanes_probes_indexes_and_updates_by_place),
        cmocka_unit_test(a_claim_of_machines_reaches_what_a_step_is_shown_by_ids),
        cmocka_unit_test(no_plan_takes_more_than_the_limit),
        cmocka_unit_test(outcomes_reach_jobs_parents_keys_and_signals_by_their_ids),
        cmocka_unit_test(the_next_step_reaches_its_machine_where_it_is),
        cmocka_unit_test(whoever_leaves_lanes_reaches_them_and_the_next_by_indexes),
        cmocka_unit_test(mending_reaches_lanes_and_jobs_by_indexes),
        cmocka_unit_test(a_sweep_reaches_jobs_parents_and_keys_by_their_ids),
        cmocka_unit_test(signals_reach_their_machine_and_are_forgotten_by_its_id),
        cmocka_unit_test(children_that_are_let_go_are_reached_by_indexes),
        cmocka_unit_test(children_whose_parent_has_ended_are_reached_by_indexes),
        cmocka_unit_test(
            a_claim_that_was_planned_without_lanes_finds_each_by_its_name), /* the last: it takes them away */
    };
    return cmocka_run_group_tests(tests, group_setup, plans_teardown);
}
