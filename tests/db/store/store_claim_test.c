/*
 * Accepting and claiming jobs, statement by statement: what is stored, what is refused, what a
 * claim takes and in which order, and that it never takes more than it was asked to.
 */
#include "store_fixture.h"

static void ids_come_in_the_order_of_the_input(void **state)
{
    struct store *s = *state;
    struct pawl_job_new jobs[JOBS_MAX];
    int64_t ids[JOBS_MAX];

    for (size_t i = 0; i < JOBS_MAX; i++) {
        jobs[i] = job_plain();
        jobs[i].priority = (int16_t)(i % 10);
    }
    enqueue(s, jobs, JOBS_MAX, ids);
    for (size_t i = 0; i < JOBS_MAX; i++) {
        char sql[100];

        if (i > 0)
            assert_true(ids[i] > ids[i - 1]);
        snprintf(
            sql, sizeof(sql), "SELECT priority FROM pawl.job WHERE id = %lld", (long long)ids[i]);
        assert_int_equal(testdb_int(&s->db, sql), i % 10);
    }
}

static void a_job_is_stored_as_given(void **state)
{
    struct store *s = *state;
    struct pawl_job_new job = job_plain();
    int64_t id;

    job.queue = "a/b:c.d-e";
    job.kind = "käse";
    job.payload = "a\0b\xff";
    job.payload_len = 4;
    job.priority = 9;
    job.max_attempts = 1000;
    job.timeout_ms = 1500;
    enqueue(s, &job, 1, &id);
    assert_int_equal(count_of(s,
                              "pawl.job WHERE queue = 'a/b:c.d-e' AND kind = 'käse'"
                              " AND payload = '\\x610062ff' AND priority = 9 AND attempt = 0"
                              " AND max_attempts = 1000 AND timeout_ms = 1500 AND token IS NULL"
                              " AND waits_for IS NULL AND errors IS NULL"
                              " AND due_at BETWEEN created_at AND clock_timestamp()"
                              " AND created_at > now() - interval '1 min'"),
                     1);
    job.payload = "";
    job.payload_len = 0;
    job.timeout_ms = 0;
    enqueue(s, &job, 1, &id);
    assert_int_equal(count_of(s, "pawl.job WHERE payload = '' AND timeout_ms IS NULL"), 1);
}

static void due_times_are_the_databases(void **state)
{
    struct store *s = *state;
    struct pawl_job_new jobs[2] = {job_plain(), job_plain()};
    int64_t ids[2];

    jobs[0].delay_ms = 90000;
    jobs[1].at_us = INT64_C(1893456000123456); /* 2030-01-01 */
    jobs[1].delay_ms = 5;                      /* does not count */
    enqueue(s, jobs, 2, ids);
    assert_int_equal(
        count_of(s,
                 "pawl.job WHERE id = 1 AND due_at BETWEEN"
                 " created_at + interval '90 s' AND clock_timestamp() + interval '90 s'"),
        1);
    assert_int_equal(count_of(s, "pawl.job WHERE due_at = '2030-01-01 00:00:00.123456Z'"), 1);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    struct store *s = *state;
    char name[130];
    struct pawl_job_new good = job_plain();
    struct pawl_job_new bad[8];

    memset(name, 'x', 129);
    name[129] = '\0';
    for (size_t i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].priority = 10;
    bad[1].priority = -1;
    bad[2].max_attempts = 0;
    bad[3].max_attempts = 1001;
    bad[4].timeout_ms = -1;
    bad[5].queue = "";
    bad[6].kind = name;
    bad[7].queue = name;
    for (size_t i = 0; i < 8; i++) {
        struct pawl_job_new two[2] = {good, bad[i]};

        job_enqueue_bind(begin(s), two, 2);
        assert_refused(s, STMT(job_enqueue), "23514");
    }
    bad[0] = good;
    bad[0].payload = NULL;
    job_enqueue_bind(begin(s), bad, 1);
    assert_refused(s, STMT(job_enqueue), "23502");
    assert_int_equal(count_of(s, "pawl.job"), 0); /* all or nothing */
}

static void a_payload_over_the_limit_is_refused(void **state)
{
    struct store *s = *state;
    char *payload = calloc(1, PAWL_PAYLOAD_MAX + 1);
    struct pawl_job_new job = job_plain();
    int64_t id;

    assert_non_null(payload);
    job.payload = payload;
    job.payload_len = PAWL_PAYLOAD_MAX;
    enqueue(s, &job, 1, &id);
    job.payload_len++;
    job_enqueue_bind(begin(s), &job, 1);
    assert_refused(s, STMT(job_enqueue), "23514");
    free(payload);
    assert_int_equal(testdb_int(&s->db, "SELECT octet_length(payload) FROM pawl.job"),
                     PAWL_PAYLOAD_MAX);
}

static void a_claim_is_recorded_and_counted(void **state)
{
    struct store *s = *state;
    int64_t id = enqueue_plain(s, 3);

    testdb_exec(&s->db, "CREATE TABLE public.before AS SELECT id, due_at FROM pawl.job");
    struct claimed c = claim(s, 10);

    assert_int_equal(c.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(c.jobs[i].id, id + (int64_t)i);
        assert_int_equal(c.jobs[i].attempt, 1);
        assert_int_equal(c.jobs[i].max_attempts, 3);
        assert_int_equal(c.jobs[i].priority, 4);
        assert_int_equal(c.jobs[i].timeout_ms, 0);
        assert_int_equal(c.jobs[i].payload_len, 2);
        assert_string_equal(c.jobs[i].queue, "q");
    }
    char sql[600];
    char token[UUID_TEXT_LEN + 1];
    char worker[UUID_TEXT_LEN + 1];

    uuid_format(&c.token, token);
    uuid_format(&s->worker, worker);
    snprintf(sql,
             sizeof(sql),
             "pawl.claim WHERE token = '%s' AND worker = '%s' AND job_ids @> '{1,2,3}'"
             " AND cardinality(job_ids) = 3 AND lease_until - claimed_at BETWEEN interval '59 s'"
             " AND interval '60 s' AND claimed_at > now() - interval '1 min'",
             token,
             worker);
    assert_int_equal(count_of(s, sql), 1);
    snprintf(sql, sizeof(sql), "pawl.job WHERE token = '%s' AND attempt = 1", token);
    assert_int_equal(count_of(s, sql), 3);
    assert_int_equal(count_of(s, "pawl.job JOIN public.before USING (id, due_at)"), 3);
}

static void an_empty_claim_leaves_no_trace(void **state)
{
    struct store *s = *state;

    assert_int_equal(claim(s, 10).n, 0);
    assert_int_equal(count_of(s, "pawl.claim"), 0);
}

static void what_is_claimed_is_not_claimed_again(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 5);
    assert_int_equal(claim(s, 3).n, 3);
    assert_int_equal(claim(s, 3).n, 2);
    assert_int_equal(claim(s, 3).n, 0);
    assert_int_equal(count_of(s, "pawl.claim"), 2);
    assert_int_equal(count_of(s, "pawl.job WHERE attempt = 1"), 5);
}

static void the_urgent_and_the_old_come_first(void **state)
{
    struct store *s = *state;

    /* In the order in which they should be taken. */
    static const struct {
        int priority;
        int age_s;
    } order[] = {{9, 0}, {7, 5}, {7, 1}, {4, 9}, {4, 2}, {0, 100}};

    char sql[200];

    for (size_t i = 0; i < 6; i++) {
        size_t at = (i * 5 + 2) % 6; /* not the order of insertion */

        snprintf(sql,
                 sizeof(sql),
                 "INSERT INTO pawl.job (id, queue, kind, payload, priority, due_at)"
                 " VALUES (%zu, 'q', 'k', '', %d, now() - interval '%d s')",
                 at + 1,
                 order[at].priority,
                 order[at].age_s);
        testdb_exec(&s->db, sql);
    }
    for (int64_t id = 1; id <= 6; id++) {
        struct claimed c = claim(s, 1);

        assert_int_equal(c.n, 1);
        assert_int_equal(c.jobs[0].id, id);
    }
}

static void equal_jobs_come_in_the_order_of_their_ids(void **state)
{
    struct store *s = *state;
    int64_t id = enqueue_plain(s, 20);

    for (int64_t i = 0; i < 20; i++)
        assert_int_equal(claim(s, 1).jobs[0].id, id + i);
}

static void only_what_is_due_fits_and_waits_for_nothing_is_taken(void **state)
{
    struct store *s = *state;

    testdb_exec(&s->db,
                "INSERT INTO pawl.job (id, queue, kind, payload, due_at) VALUES"
                " (1, 'q', 'k', '', now() + interval '1 h'), (2, 'q', 'k', '', 'infinity'),"
                " (3, 'q', 'other', '', now()), (4, 'other', 'k', '', now()),"
                " (5, 'q', 'k', '', now())");
    struct claimed c = claim(s, 10);

    assert_int_equal(c.n, 1);
    assert_int_equal(c.jobs[0].id, 5);
}

static void several_kinds_or_none(void **state)
{
    struct store *s = *state;
    static const char *const kinds[] = {"a", "b"};
    struct job_claim asked = {.queue = "q",
                              .kinds = kinds,
                              .limit = 10,
                              .token = uuid_random(),
                              .worker = s->worker,
                              .lease_ms = 1000};

    testdb_exec(&s->db,
                "INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'q', k, '' FROM unnest('{a,b,c}'::text[]) AS k");
    assert_int_equal(claim_on(s, s->db.conn, &asked).n, 0);
    asked.n_kinds = 2;
    assert_int_equal(claim_on(s, s->db.conn, &asked).n, 2);
    assert_int_equal(count_of(s, "pawl.job WHERE token IS NULL AND kind = 'c'"), 1);
}

static void nothing_is_taken_from_a_paused_queue(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 2);
    queue_pause_bind(begin(s), "q", "me");
    PQclear(run(s, STMT(queue_pause)));
    assert_int_equal(claim(s, 10).n, 0);
    queue_resume_bind(begin(s), "q");
    PQclear(run(s, STMT(queue_resume)));
    assert_int_equal(claim(s, 10).n, 2);
}

static void what_others_hold_is_skipped(void **state)
{
    struct store *s = *state;
    int64_t id = enqueue_plain(s, 6);
    PGconn *other = PQconnectdb(s->db.conninfo);

    PQclear(PQexec(other, "BEGIN"));
    struct claimed theirs = claim_on(s,
                                     other,
                                     &(struct job_claim){.queue = "q",
                                                         .kinds = kind_k,
                                                         .n_kinds = 1,
                                                         .limit = 2,
                                                         .token = uuid_random(),
                                                         .worker = uuid_random(),
                                                         .lease_ms = 1000});
    PQclear(PQexec(other, "SELECT FROM pawl.job WHERE id = 4 FOR KEY SHARE"));
    struct claimed ours = claim(s, 10); /* does not wait for either */

    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    assert_int_equal(theirs.n, 2);
    assert_int_equal(ours.n, 3);
    assert_int_equal(ours.jobs[0].id, id + 2);
    assert_int_equal(claim(s, 10).n, 3); /* what was given up is there again */
}

/* A claim writes no index: without that a held-back vacuum would cost dearly. */
static void a_claim_is_a_heap_only_update(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, JOBS_MAX);
    testdb_exec(&s->db, "BEGIN");
    assert_int_equal(claim(s, JOBS_MAX).n, JOBS_MAX);
    assert_int_equal(
        testdb_int(&s->db, "SELECT pg_stat_get_xact_tuples_updated('pawl.job'::regclass)"),
        JOBS_MAX);
    assert_int_equal(
        testdb_int(&s->db, "SELECT pg_stat_get_xact_tuples_hot_updated('pawl.job'::regclass)"),
        JOBS_MAX);
    testdb_exec(&s->db, "COMMIT");
}

/* Every plan the planner may come to, by every combination of its switches. */
static void no_plan_takes_more_than_the_limit(void **state)
{
    struct store *s = *state;
    static const char *const switches[] = {"indexscan",
                                           "bitmapscan",
                                           "seqscan",
                                           "tidscan",
                                           "nestloop",
                                           "hashjoin",
                                           "mergejoin",
                                           "material",
                                           "sort"};
    char sql[100];

    testdb_exec(&s->db,
                "SET jit = off;" /* a plan that is switched off costs so much that it sets in */
                "INSERT INTO pawl.job (queue, kind, payload, priority)"
                " SELECT 'q', 'k', '', n % 3 FROM generate_series(1, 300) AS n;"
                "ANALYZE pawl.job");
    for (unsigned bits = 0; bits < 1U << 9; bits++) {
        testdb_exec(&s->db, "BEGIN");
        for (unsigned i = 0; i < 9; i++) {
            snprintf(sql,
                     sizeof(sql),
                     "SET LOCAL enable_%s = %s",
                     switches[i],
                     bits & 1U << i ? "off" : "on");
            testdb_exec(&s->db, sql);
        }
        struct claimed c = claim(s, 2);

        if (c.n != 2 || count_of(s, "pawl.job WHERE token IS NOT NULL") != 2)
            fail_msg("switches %x: %zu jobs", bits, c.n);
        testdb_exec(&s->db, "ROLLBACK");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(ids_come_in_the_order_of_the_input),
        store_test(a_job_is_stored_as_given),
        store_test(due_times_are_the_databases),
        store_test(what_is_out_of_bounds_is_refused),
        store_test(a_payload_over_the_limit_is_refused),
        store_test(a_claim_is_recorded_and_counted),
        store_test(an_empty_claim_leaves_no_trace),
        store_test(what_is_claimed_is_not_claimed_again),
        store_test(the_urgent_and_the_old_come_first),
        store_test(equal_jobs_come_in_the_order_of_their_ids),
        store_test(only_what_is_due_fits_and_waits_for_nothing_is_taken),
        store_test(several_kinds_or_none),
        store_test(nothing_is_taken_from_a_paused_queue),
        store_test(what_others_hold_is_skipped),
        store_test(a_claim_is_a_heap_only_update),
        store_test(no_plan_takes_more_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
