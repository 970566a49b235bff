/*
 * How PostgreSQL reaches rows while a job is enqueued, in every way there is, and in what a worker asks besides
 * claiming: when the next job is due, and where notes go. On 200 000 jobs, with functions looked into.
 */
#include "plans_fixture.h"
#include "store/job_enqueue.h"

#define KEYS 5000

static int group_setup(void **state)
{
    if (plans_setup(state) != 0)
        return -1;
    testdb_exec(
        &store.db,
        "INSERT INTO pawl.job (queue, kind, payload, priority, due_at, lane, has_options)"
        " SELECT 'q' || n % 50, 'k', '{}', n % 10, now() + (n % 3 - 1) * interval '1 h',"
        "  CASE WHEN n % 2 = 1 THEN 'l' || n % 10000 END, CASE WHEN n <= 20000 THEN true END"
        "  FROM generate_series(1, 200000) AS n;"
        "INSERT INTO pawl.job_option (job_id, progress)"
        " SELECT id, 'half' FROM pawl.job WHERE has_options;"
        "UPDATE pawl.job SET token = gen_random_uuid() WHERE id <= 100;"
        "INSERT INTO pawl.machine (job_id, step) SELECT id, 's' FROM pawl.job WHERE id > 190000;"
        "INSERT INTO pawl.lane (queue, name, holders)"
        " SELECT 'q' || n % 50, 'l' || n, '{}' FROM generate_series(0, 9999) AS n;"
        "INSERT INTO pawl.guard (hash, job_id, keep_ms)"
        " SELECT gen_random_uuid(), n, 0 FROM generate_series(1, 20000) AS n;"
        "INSERT INTO pawl.sleeper (queue, worker, asleep)"
        " SELECT 'q' || n % 50, gen_random_uuid(), true FROM generate_series(1, 5000) AS n;"
        "INSERT INTO pawl.enqueue_key (hash, request, expires_at)"
        " SELECT gen_random_uuid(), gen_random_uuid(), now() + interval '1 day'"
        "  FROM generate_series(1, 20000);"
        "ANALYZE");
    plans_listen();
    return 0;
}

static struct pawl_job_new plain(void)
{
    return (struct pawl_job_new){.queue = "q1",
                                 .kind = "k",
                                 .payload = "{}",
                                 .payload_len = 2,
                                 .priority = 4,
                                 .max_attempts = 3};
}

/* Everything that makes an enqueue look at other rows. */
static struct pawl_job_new rich(void)
{
    struct pawl_job_new job = plain();

    job.unique_key = "key";
    job.unique_key_len = 3;
    job.unique_scope = PAWL_SCOPE_KIND;
    job.unique_states = 1;
    job.lane = "l1";
    job.parent_id = 195000;
    job.deadline_ms = 60000;
    return job;
}

/* A plain job is one INSERT, which reads no table but the sleepers of its queue. */
static void assert_one_insert(const char *name)
{
    const char *text = buf_str(&plans);
    const char *at = text;
    int inserts = 0;

    while ((at = strstr(at, "Insert on job")) != NULL) {
        inserts++;
        at++;
    }
    if (inserts != 1 || strstr(text, "sleeper_pkey") == NULL ||
        strstr(text, "Scan on job") != NULL || strstr(text, " on job_option") != NULL ||
        strstr(text, " on guard") != NULL || strstr(text, " on lane") != NULL)
        fail_msg("%s:\n%s", name, text);
    assert_no_walk(&(struct stmt){.name = name});
}

static void a_single_plain_job_is_one_insert(void **state)
{
    struct pawl_job_new job = plain();

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        job_enqueue_one_bind(begin(&store), &job);
        plan_of(STMT(job_enqueue_one), modes[m]);
        assert_one_insert("job_enqueue_one");
    }
}

/* The same in a transaction of the caller's, with each plan. */
static void plans_of_sql(const char *sql, const char *mode)
{
    char set[100];

    snprintf(set, sizeof(set), "BEGIN; SET LOCAL plan_cache_mode = %s", mode);
    testdb_exec(&store.db, set);
    buf_clear(&plans);
    testdb_exec(&store.db, sql);
    testdb_exec(&store.db, "ROLLBACK");
}

static void the_function_for_everybody_is_one_insert(void **state)
{
    static const char *const calls[] = {
        "SELECT pawl.enqueue('k', '{}', 'q1')",
        "SELECT pawl.enqueue('k', '{}', queue => 'q1', priority => 9, delay => '1 s', timeout => '1 s')",
        "SELECT pawl.enqueue_many('k', '{\"1\",\"2\"}'::jsonb[], queue => 'q1')",
    };

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
            plans_of_sql(calls[i], modes[m]);
            assert_one_insert(calls[i]);
        }
    }
}

static void an_option_walks_no_table(void **state)
{
    static const struct {
        const char *sql;
        const char *node;
    } calls[] = {
        {"SELECT pawl.enqueue('k', '{}', 'q1', unique_key => 'a')", "guard_pkey"},
        {"SELECT pawl.enqueue('k', '{}', 'q1', lane => 'l1')", "Insert on job"},
        {"SELECT pawl.enqueue('k', '{}', 'q1', parent => 195000)", "Insert on job"},
        {"SELECT pawl.enqueue_many('[{\"kind\": \"k\", \"queue\": \"q1\", \"lane\": \"l1\"}]')",
         "Insert on job"},
    };

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
            plans_of_sql(calls[i].sql, modes[m]);
            if (strstr(buf_str(&plans), calls[i].node) == NULL)
                fail_msg("%s has no %s:\n%s", calls[i].sql, calls[i].node, buf_str(&plans));
            assert_no_walk(&(struct stmt){.name = calls[i].sql});
        }
    }
}

static void rich_jobs_reach_keys_and_sleepers_by_indexes(void **state)
{
    struct pawl_job_new jobs[2] = {rich(), rich()};

    (void)state;
    jobs[1].unique_key = "other";
    job_enqueue_options_bind(begin(&store), jobs, 2);
    assert_plans(STMT(job_enqueue_options), NODES("Insert on job", "guard_pkey", "sleeper_pkey"));
}

/* As a server has it: the keys of the calls, then their jobs, plain and rich. */
static void jobs_of_calls_with_a_key_are_reached_by_the_key(void **state)
{
    static struct uuid keys[KEYS];
    static struct uuid requests[KEYS];
    struct pawl_job_new jobs[2] = {plain(), rich()};
    const struct uuid *const once[2] = {&keys[0], &keys[1]};
    const char *const steps[2] = {NULL, "first"};
    const bool plains[2] = {true, false};

    (void)state;
    for (int i = 0; i < KEYS; i++) {
        keys[i] = uuid_random();
        requests[i] = uuid_random();
    }
    for (size_t n = 1; n <= 100; n *= 10) {
        enqueue_key_take_bind(begin(&store), keys, requests, n);
        assert_plans(
            STMT(enqueue_key_take),
            NODES("Insert on enqueue_key k", "Conflict Arbiter Indexes: enqueue_key_pkey"));
    }
    /* Taken in the same transaction, as they must be. */
    enqueue_key_take_bind(begin(&store), keys, requests, 2);
    PQclear(run(&store, STMT(enqueue_key_take)));
    session_of_a_worker(STMT(session_settle));
    job_enqueue_once_bind(begin(&store), jobs, once, steps, plains, 2);
    assert_plans(STMT(job_enqueue_once),
                 NODES("Insert on job", "enqueue_key_pkey", "sleeper_pkey", "guard_pkey"));
    session_of_anybody();
}

static void the_next_due_job_is_the_first_of_each_range(void **state)
{
    static const char *const queues[] = {"q1", "q2", "none"};

    (void)state;
    session_of_a_worker(STMT(session));
    for (size_t n = 1; n <= 3; n++) {
        queue_next_due_bind(begin(&store), queues, n);
        assert_plans(
            STMT(queue_next_due),
            NODES("Index Scan using job_pick on job c", "Index Scan using job_pick_lane on job c"));
        if (strstr(buf_str(&plans), "Sort") != NULL || strstr(buf_str(&plans), "Bitmap") != NULL)
            fail_msg("%s", buf_str(&plans));
    }
    session_of_anybody();
}

static void notes_reach_their_jobs_by_ids(void **state)
{
    static struct job_note notes[100];
    PGresult *r = PQexecParams(store.db.conn,
                               "SELECT id, token FROM pawl.job WHERE id <= 100 ORDER BY id",
                               0,
                               NULL,
                               NULL,
                               NULL,
                               NULL,
                               1);

    (void)state;
    assert_int_equal(PQntuples(r), 100);
    for (int i = 0; i < 100; i++)
        notes[i] = (struct job_note){
            .id = result_i64(r, i, 0), .token = result_uuid(r, i, 1), .progress = "half"};
    PQclear(r);
    session_of_a_worker(STMT(session_settle));
    for (size_t n = 1; n <= 100; n *= 10) {
        job_note_bind(begin(&store), notes, n);
        assert_plans(STMT(job_note),
                     NODES("Index Scan using job_pkey on job j",
                           "Insert on job_option o",
                           "Conflict Arbiter Indexes: job_option_pkey"));
    }
    session_of_anybody();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_plain_job_is_one_insert),
        cmocka_unit_test(the_function_for_everybody_is_one_insert),
        cmocka_unit_test(an_option_walks_no_table),
        cmocka_unit_test(rich_jobs_reach_keys_and_sleepers_by_indexes),
        cmocka_unit_test(jobs_of_calls_with_a_key_are_reached_by_the_key),
        cmocka_unit_test(the_next_due_job_is_the_first_of_each_range),
        cmocka_unit_test(notes_reach_their_jobs_by_ids),
    };
    return cmocka_run_group_tests(tests, group_setup, plans_teardown);
}
