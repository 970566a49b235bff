/*
 * Looking at jobs and queues, and the days of history, statement by statement.
 */
#include "store_fixture.h"

/* One job in each state there is; its id is the number of the state. */
static void one_of_each(struct store *s)
{
    testdb_exec(
        &s->db,
        "INSERT INTO pawl.worker (id, name, version, queues, slots)"
        " VALUES ('b0000000-0000-4000-8000-000000000001', 'host:9', '1', '{q}', 1);"
        "INSERT INTO pawl.claim (token, worker, claimed_at, lease_until, job_ids)"
        " VALUES ('a0000000-0000-4000-8000-000000000001',"
        "  'b0000000-0000-4000-8000-000000000001', '2020-01-01Z', 'infinity', '{4}');"
        "INSERT INTO pawl.job (id, queue, kind, payload, due_at, attempt, token, waits_for, errors)"
        " VALUES (1, 'q', 'k', 'one', now(), 0, NULL, NULL, NULL),"
        " (2, 'q', 'k', '', now() + interval '1 h', 0, NULL, NULL, NULL),"
        " (3, 'q', 'l', '', now() + interval '1 h', 2, NULL, NULL,"
        "  '[{\"error\": \"old\"}, {\"error\": \"new\"}]'),"
        " (4, 'q', 'k', '', now() + interval '1 h', 1, 'a0000000-0000-4000-8000-000000000001',"
        "  NULL, NULL),"
        " (5, 'r', 'k', '', 'infinity', 1, NULL, 'operator', NULL);"
        "INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on,"
        "  state, attempt, max_attempts, priority, queue, kind, worker, payload, result)"
        " SELECT n, now(), now(), '2020-01-01Z', '2020-01-02Z', current_date + 7,"
        "  ('{done,failed,cancelled}'::pawl.state[])[n - 5], 1, 20, 4, 'q', 'k', 'host:8', 'p', 'r'"
        " FROM generate_series(6, 8) AS n");
}

/* The view's names, the enum's and those of core/job.h are the same. */
static void states_have_the_names_of_the_core(void **state)
{
    struct store *s = *state;
    char sql[100];

    one_of_each(s);
    for (int number = JOB_READY; number <= JOB_CANCELLED; number++) {
        snprintf(sql, sizeof(sql), "SELECT state FROM pawl.jobs WHERE id = %d", number);
        assert_text(s, sql, job_state_text(number));
        snprintf(sql, sizeof(sql), "SELECT '%s'::pawl.state", job_state_text(number));
        assert_text(s, sql, job_state_text(number));
    }
    testdb_exec(&s->db,
                "UPDATE pawl.job SET waits_for = 'signal', due_at = 'infinity' WHERE id = 1");
    assert_text(s, "SELECT state FROM pawl.jobs WHERE id = 1", job_state_text(JOB_WAITING));
    /* States that are over come last. */
    assert_text(s,
                "SELECT string_agg(e::text, ' ' ORDER BY e) FROM"
                " unnest(enum_range('done'::pawl.state, NULL)) AS e",
                "done failed cancelled");
    assert_int_equal(testdb_int(&s->db, "SELECT cardinality(enum_range(NULL::pawl.state))"),
                     JOB_WAITING);
}

static void a_live_job_is_shown_whole(void **state)
{
    struct store *s = *state;
    struct job_view job;

    one_of_each(s);
    testdb_exec(&s->db, "INSERT INTO pawl.queue (name, paused_at) VALUES ('q', now())");
    job_show_bind(begin(s), 4);
    PGresult *r = run(s, STMT(job_show));

    assert_int_equal(PQntuples(r), 1);
    job_show_row(r, 0, &job);
    assert_int_equal(job.id, 4);
    assert_string_equal(job.state, "running");
    assert_string_equal(job.queue, "q");
    assert_string_equal(job.worker, "host:9");
    assert_int_equal(job.started_at, INT64_C(1577836800000000));
    assert_int_equal(job.finished_at, 0);
    assert_int_equal(job.max_attempts, 20);
    assert_int_equal(job.priority, 4);
    assert_true(job.queue_paused);
    assert_null(job.errors);
    assert_null(job.result.data);
    assert_non_null(job.payload.data);
    assert_int_equal(job.payload.len, 0);
    assert_true(job.now >= job.created_at && job.now < job.due_at);
    PQclear(r);
}

static void a_parked_job_is_due_at_infinity(void **state)
{
    struct store *s = *state;
    struct job_view job;

    one_of_each(s);
    job_show_bind(begin(s), 5);
    PGresult *r = run(s, STMT(job_show));

    job_show_row(r, 0, &job);
    assert_string_equal(job.state, "parked");
    assert_int_equal(job.due_at, INT64_MAX);
    assert_false(job.queue_paused);
    PQclear(r);
}

static void a_finished_job_is_shown_whole(void **state)
{
    struct store *s = *state;
    struct job_view job;

    one_of_each(s);
    job_show_bind(begin(s), 6);
    PGresult *r = run(s, STMT(job_show));

    job_show_row(r, 0, &job);
    assert_string_equal(job.state, "done");
    assert_string_equal(job.worker, "host:8");
    assert_int_equal(job.finished_at, INT64_C(1577923200000000));
    assert_memory_equal(job.payload.data, "p", 1);
    assert_memory_equal(job.result.data, "r", 1);
    PQclear(r);
    job_show_bind(begin(s), 99);
    r = run(s, STMT(job_show));
    assert_int_equal(PQntuples(r), 0);
    PQclear(r);
}

static void assert_listed(struct store *s, const struct job_list *list, const char *ids)
{
    char found[200] = "";

    job_list_bind(begin(s), list);
    PGresult *r = run(s, STMT(job_list));

    for (int row = 0; row < PQntuples(r); row++) {
        struct job_view job;
        size_t len = strlen(found);

        job_list_row(r, row, &job);
        if (job.id == 3)
            assert_string_equal(job.error, "new");
        else
            assert_null(job.error);
        snprintf(found + len, sizeof(found) - len, "%s%lld", row > 0 ? " " : "", (long long)job.id);
    }
    PQclear(r);
    assert_string_equal(found, ids);
}

static void jobs_are_listed_by_what_they_are(void **state)
{
    struct store *s = *state;
    static const char *const states[] = {"failed", "ready", "retrying"};

    one_of_each(s);
    assert_listed(s, &(struct job_list){.before_id = INT64_MAX, .limit = 100}, "8 7 6 5 4 3 2 1");
    assert_listed(s, &(struct job_list){.before_id = INT64_MAX, .limit = 3}, "8 7 6");
    assert_listed(s, &(struct job_list){.before_id = 6, .limit = 3}, "5 4 3");
    assert_listed(s, &(struct job_list){.before_id = 3, .limit = 3}, "2 1");
    assert_listed(s, &(struct job_list){.queue = "r", .before_id = INT64_MAX, .limit = 9}, "5");
    assert_listed(s, &(struct job_list){.kind = "l", .before_id = INT64_MAX, .limit = 9}, "3");
    assert_listed(
        s,
        &(struct job_list){.states = states, .n_states = 3, .before_id = INT64_MAX, .limit = 9},
        "7 3 1");
    assert_listed(
        s,
        &(struct job_list){
            .queue = "q", .kind = "k", .states = states, .n_states = 3, .before_id = 7, .limit = 9},
        "1");
    assert_listed(s, &(struct job_list){.queue = "none", .before_id = INT64_MAX, .limit = 9}, "");
}

static PGresult *list_queues(struct store *s, int64_t most)
{
    queue_list_bind(begin(s), most);
    return run(s, STMT(queue_list));
}

static void queues_are_listed_with_their_counts(void **state)
{
    struct store *s = *state;
    struct queue_view queue;

    one_of_each(s);
    testdb_exec(&s->db,
                "INSERT INTO pawl.queue (name, paused_at, paused_by, keep_days)"
                " VALUES ('a', NULL, NULL, 3), ('r', '2020-01-01Z', 'me', 7)");
    PGresult *r = list_queues(s, 100);

    assert_int_equal(PQntuples(r), 3);
    queue_list_row(r, 0, &queue); /* settings and no jobs */
    assert_string_equal(queue.name, "a");
    assert_int_equal(queue.ready + queue.scheduled + queue.running + queue.parked, 0);
    assert_int_equal(queue.keep_days, 3);
    assert_int_equal(queue.oldest_due_at, 0);
    queue_list_row(r, 1, &queue); /* jobs and no settings */
    assert_string_equal(queue.name, "q");
    assert_int_equal(queue.ready, 1);
    assert_int_equal(queue.scheduled, 1);
    assert_int_equal(queue.retrying, 1);
    assert_int_equal(queue.running, 1);
    assert_int_equal(queue.parked, 0);
    assert_int_equal(queue.keep_days, 7);
    assert_int_equal(queue.paused_at, 0);
    assert_null(queue.paused_by);
    assert_true(queue.oldest_due_at > 0);
    assert_false(queue.capped);
    queue_list_row(r, 2, &queue);
    assert_string_equal(queue.name, "r");
    assert_int_equal(queue.parked, 1);
    assert_int_equal(queue.paused_at, INT64_C(1577836800000000));
    assert_string_equal(queue.paused_by, "me");
    PQclear(r);
}

/* A pause of its own is told before that of all. */
static void a_queue_that_is_held_with_all_others_is_listed_as_paused(void **state)
{
    struct store *s = *state;
    struct queue_view queue;

    enqueue_plain(s, 1);
    testdb_exec(&s->db,
                "INSERT INTO pawl.queue (name, paused_at, paused_by)"
                " VALUES ('*', '2020-01-01Z', 'all'), ('z', '2021-01-01Z', 'me')");
    PGresult *r = list_queues(s, 100);

    assert_int_equal(PQntuples(r), 3);
    for (int row = 0; row < 2; row++) { /* the row of all, and one without a row */
        queue_list_row(r, row, &queue);
        assert_int_equal(queue.paused_at, INT64_C(1577836800000000));
        assert_string_equal(queue.paused_by, "all");
    }
    queue_list_row(r, 2, &queue);
    assert_string_equal(queue.name, "z");
    assert_string_equal(queue.paused_by, "me");
    PQclear(r);
    testdb_exec(&s->db,
                "UPDATE pawl.queue SET paused_at = NULL, paused_by = NULL WHERE name = '*'");
    r = list_queues(s, 100);
    queue_list_row(r, 1, &queue);
    assert_int_equal(queue.paused_at, 0);
    assert_null(queue.paused_by);
    PQclear(r);
}

static void counting_stops_at_the_limit_and_says_so(void **state)
{
    struct store *s = *state;
    struct queue_view queue;

    enqueue_plain(s, 10);
    PGresult *r = list_queues(s, 11);

    queue_list_row(r, 0, &queue);
    assert_int_equal(queue.ready, 10);
    assert_false(queue.capped);
    PQclear(r);
    r = list_queues(s, 4);
    queue_list_row(r, 0, &queue);
    assert_int_equal(queue.ready, 4);
    assert_true(queue.capped);
    PQclear(r);
}

static void pausing_twice_keeps_who_was_first(void **state)
{
    struct store *s = *state;

    for (int i = 0; i < 2; i++) {
        queue_pause_bind(begin(s), "q", i == 0 ? "first" : "second");
        PGresult *r = run(s, STMT(queue_pause));

        assert_int_equal(PQntuples(r), 1);
        PQclear(r);
    }
    assert_text(s, "SELECT paused_by FROM pawl.queue WHERE paused_at IS NOT NULL", "first");
    for (int i = 0; i < 2; i++) {
        queue_resume_bind(begin(s), "q");
        PGresult *r = run(s, STMT(queue_resume));

        assert_int_equal(PQntuples(r), i == 0 ? 1 : 0);
        PQclear(r);
    }
    assert_int_equal(count_of(s, "pawl.queue WHERE paused_at IS NULL AND paused_by IS NULL"), 1);
}

static void assert_maintains(struct store *s, int made, int dropped)
{
    int32_t ret_made;
    int32_t ret_dropped;

    begin(s);
    PGresult *r = run(s, STMT(history_maintain));

    history_maintain_row(r, &ret_made, &ret_dropped);
    PQclear(r);
    assert_int_equal(ret_made, made);
    assert_int_equal(ret_dropped, dropped);
}

#define HISTORY_ROW(id, expires)                                                             \
    "INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on," \
    " state, attempt, max_attempts, priority, queue, kind, payload) VALUES (" id             \
    ", now(), now(), now(), now(), " expires ", 'done', 1, 1, 4, 'q', 'k', '');"

/* The template may have been migrated yesterday. */
static void bring_up_to_date(struct store *s)
{
    testdb_exec(&s->db, "SELECT pawl.history_maintain()");
}

static void the_days_ahead_have_their_partitions(void **state)
{
    struct store *s = *state;

    /* Migration made those of the default of seven days. */
    assert_int_equal(count_of(s, "pg_inherits WHERE inhparent = 'pawl.history'::regclass"), 5);
    bring_up_to_date(s);
    assert_maintains(s, 0, 0);
    testdb_exec(&s->db,
                "INSERT INTO pawl.queue (name, keep_days) VALUES ('a', 30), ('b', 8), ('c', 0)");
    assert_maintains(s, 5, 0); /* 30 to 33, and 11 */
    assert_maintains(s, 0, 0);
    testdb_exec(&s->db, HISTORY_ROW("1", "current_date + 31"));
    assert_text(s,
                "SELECT tableoid::regclass::text = 'pawl.history_'"
                " || to_char(current_date + 31, 'YYYYMMDD') FROM pawl.history",
                "t");
}

static void strays_move_to_their_day(void **state)
{
    struct store *s = *state;

    bring_up_to_date(s);
    testdb_exec(&s->db,
                HISTORY_ROW("1", "current_date + 20") HISTORY_ROW("2", "current_date + 90"));
    assert_int_equal(count_of(s, "pawl.history_default"), 2);
    testdb_exec(&s->db, "INSERT INTO pawl.queue (name, keep_days) VALUES ('a', 20)");
    assert_maintains(s, 4, 0);
    assert_int_equal(count_of(s, "pawl.history_default"), 1);
    assert_int_equal(count_of(s, "pawl.history"), 2);
}

static void days_that_passed_are_dropped(void **state)
{
    struct store *s = *state;

    bring_up_to_date(s);
    testdb_exec(&s->db,
                "DO $$ DECLARE d date := current_date - 2; BEGIN EXECUTE format("
                "'CREATE TABLE pawl.%I PARTITION OF pawl.history FOR VALUES FROM (%L) TO (%L)',"
                "'history_' || to_char(d, 'YYYYMMDD'), d, d + 1); END $$;"
                "CREATE TABLE pawl.history_note (); " /* of somebody else */
                HISTORY_ROW("1", "current_date - 2") HISTORY_ROW("2", "current_date - 1")
                    HISTORY_ROW("3", "current_date"));
    assert_maintains(s, 0, 1);
    assert_text(s, "SELECT string_agg(id::text, ' ') FROM pawl.history", "3");
    assert_int_equal(count_of(s, "pawl.history_note"), 0);
}

static void only_one_maintains_at_a_time(void **state)
{
    struct store *s = *state;
    PGconn *other = PQconnectdb(s->db.conninfo);

    bring_up_to_date(s);
    testdb_exec(&s->db, "INSERT INTO pawl.queue (name, keep_days) VALUES ('a', 30)");
    PQclear(PQexec(other, "BEGIN; SELECT pawl.history_maintain()"));
    assert_maintains(s, 0, 0); /* does not wait */
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    assert_maintains(s, 4, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(states_have_the_names_of_the_core),
        store_test(a_live_job_is_shown_whole),
        store_test(a_parked_job_is_due_at_infinity),
        store_test(a_finished_job_is_shown_whole),
        store_test(jobs_are_listed_by_what_they_are),
        store_test(queues_are_listed_with_their_counts),
        store_test(a_queue_that_is_held_with_all_others_is_listed_as_paused),
        store_test(counting_stops_at_the_limit_and_says_so),
        store_test(pausing_twice_keeps_who_was_first),
        store_test(the_days_ahead_have_their_partitions),
        store_test(strays_move_to_their_day),
        store_test(days_that_passed_are_dropped),
        store_test(only_one_maintains_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
