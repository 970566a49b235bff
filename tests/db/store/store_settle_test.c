/*
 * Settling, statement by statement: what each outcome comes to, the guard of the
 * token, and who gets a job when two want it.
 */
#include "store_fixture.h"

#define OUTCOME(k) ((struct outcome){.kind = (k), .delay_ms = -1, .run_us = 2000000})

static struct outcome with_error(enum outcome_kind kind, const char *error, int64_t delay_ms)
{
    return (struct outcome){.kind = kind, .error = error, .delay_ms = delay_ms, .run_us = 2000000};
}

static struct claimed claim_new(struct store *s)
{
    enqueue_plain(s, 1);
    struct claimed c = claim(s, 1);

    assert_int_equal(c.n, 1);
    return c;
}

static void done_moves_to_history_with_its_result(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    assert_string_equal(settle_one(s,
                                   &c,
                                   (struct outcome){.kind = OUTCOME_DONE,
                                                    .result = "a\0\xff",
                                                    .result_len = 3,
                                                    .delay_ms = -1,
                                                    .run_us = 2000000}),
                        "done");
    assert_int_equal(count_of(s, "pawl.job"), 0);
    assert_int_equal(count_of(s, "pawl.claim"), 0); /* it was the last of it */
    assert_int_equal(count_of(s,
                              "pawl.history WHERE state = 'done' AND attempt = 1"
                              " AND max_attempts = 3 AND priority = 4 AND queue = 'q'"
                              " AND kind = 'k' AND worker = 'host:1' AND payload = '{}'"
                              " AND result = '\\x6100ff' AND errors IS NULL"
                              " AND finished_at - started_at = interval '2 s'"
                              " AND expires_on = (finished_at AT TIME ZONE 'UTC')::date + 7"),
                     1);
}

static void no_result_is_not_an_empty_one(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    assert_string_equal(settle_one(s, &c, OUTCOME(OUTCOME_DONE)), "done");
    c = claim_new(s);
    struct outcome empty = OUTCOME(OUTCOME_DONE);

    empty.result = "";
    assert_string_equal(settle_one(s, &c, empty), "done");
    assert_text(s,
                "SELECT string_agg(coalesce(octet_length(result)::text, 'none'), ' ' ORDER BY id)"
                " FROM pawl.history",
                "none 0");
}

static void retry_comes_back_later_with_its_error(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    assert_string_equal(settle_one(s, &c, with_error(OUTCOME_RETRY, "bad\nluck", 5000)),
                        "retrying");
    assert_int_equal(
        count_of(
            s,
            "pawl.job WHERE token IS NULL AND attempt = 1"
            " AND due_at - (errors -> 0 ->> 'at')::timestamptz BETWEEN interval '3 s' AND '5 s'"
            " AND jsonb_array_length(errors) = 1"
            " AND errors -> 0 @> jsonb_build_object('attempt', 1, 'error',"
            " E'bad\\nluck', 'worker', 'host:1', 'run_us', 2000000)"
            " AND (errors -> 0 ->> 'at')::timestamptz > created_at"),
        1);
    testdb_exec(&s->db, "UPDATE pawl.job SET due_at = now()");
    c = claim(s, 1);
    assert_int_equal(c.jobs[0].attempt, 2);
    assert_string_equal(settle_one(s, &c, with_error(OUTCOME_RETRY, "worse", -1)), "retrying");
    assert_int_equal(count_of(s,
                              "pawl.job WHERE due_at - (errors -> 1 ->> 'at')::timestamptz"
                              " BETWEEN interval '1 s' AND '2.5 s'"
                              " AND errors -> 1 ->> 'error' = 'worse'"),
                     1);
}

static void retry_without_attempts_left_fails(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    testdb_exec(&s->db, "UPDATE pawl.job SET attempt = max_attempts");
    assert_string_equal(settle_one(s, &c, with_error(OUTCOME_RETRY, "the last", 0)), "failed");
    assert_int_equal(count_of(s,
                              "pawl.history WHERE state = 'failed' AND attempt = 3"
                              " AND errors -> 0 ->> 'error' = 'the last' AND result IS NULL"),
                     1);
    assert_int_equal(count_of(s, "pawl.job"), 0);
}

static void fail_ends_it_at_once(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    assert_string_equal(settle_one(s, &c, with_error(OUTCOME_FAIL, "no use", -1)), "failed");
    assert_int_equal(count_of(s,
                              "pawl.history WHERE state = 'failed' AND attempt = 1"
                              " AND errors -> 0 ->> 'error' = 'no use'"),
                     1);
}

static void cancel_ends_it_without_an_error(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    assert_string_equal(settle_one(s, &c, OUTCOME(OUTCOME_CANCEL)), "cancelled");
    assert_int_equal(count_of(s, "pawl.history WHERE state = 'cancelled' AND errors IS NULL"), 1);
}

static void snooze_and_release_give_the_attempt_back(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    testdb_exec(&s->db, "CREATE TABLE before AS SELECT due_at FROM pawl.job");
    assert_string_equal(settle_one(s, &c, OUTCOME(OUTCOME_RELEASE)), "ready");
    assert_int_equal(count_of(s,
                              "pawl.job JOIN before USING (due_at)"
                              " WHERE token IS NULL AND attempt = 0 AND errors IS NULL"),
                     1);
    c = claim(s, 1);
    assert_int_equal(c.jobs[0].attempt, 1);
    assert_string_equal(settle_one(s, &c, with_error(OUTCOME_SNOOZE, NULL, 60000)), "scheduled");
    assert_int_equal(
        count_of(s,
                 "pawl.job WHERE token IS NULL AND attempt = 0 AND errors IS NULL"
                 " AND due_at - clock_timestamp() BETWEEN interval '30 s' AND '1 min'"),
        1);
}

static void many_outcomes_go_in_one_statement(void **state)
{
    struct store *s = *state;
    struct job_settle items[6];

    enqueue_plain(s, 6);
    struct claimed c = claim(s, 6);

    for (size_t i = 0; i < 6; i++)
        items[i] = item(&c, i, with_error((enum outcome_kind)(i + 1), "e", 1000));
    struct states states = settle(s, items, 6, &c.token);

    assert_string_equal(states.of[0], "done");
    assert_string_equal(states.of[1], "retrying");
    assert_string_equal(states.of[2], "failed");
    assert_string_equal(states.of[3], "scheduled");
    assert_string_equal(states.of[4], "cancelled");
    assert_string_equal(states.of[5], "ready");
    assert_int_equal(count_of(s, "pawl.history"), 3);
    assert_int_equal(count_of(s, "pawl.job WHERE token IS NULL"), 3);
    assert_int_equal(count_of(s, "pawl.claim"), 0);
}

static void a_stale_token_changes_nothing_and_is_missing_from_the_answer(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 2);
    struct claimed c = claim(s, 2);

    for (int kind = OUTCOME_DONE; kind <= OUTCOME_RELEASE; kind++) {
        struct job_settle items[3] = {item(&c, 0, with_error((enum outcome_kind)kind, "e", 0)),
                                      item(&c, 1, OUTCOME(OUTCOME_RELEASE)),
                                      item(&c, 1, OUTCOME(OUTCOME_DONE))};

        struct job stale = c.jobs[0];
        struct job unknown = c.jobs[1];

        stale.token = uuid_random();
        unknown.id = 999; /* no such job */
        items[0].job = &stale;
        items[2].job = &unknown;
        struct states states = settle(s, items, 3, NULL);

        assert_string_equal(states.of[0], "");
        assert_string_equal(states.of[1], "ready");
        assert_string_equal(states.of[2], "");
        c = (struct claimed){.token = c.token, .n = 2, .jobs = {c.jobs[0], c.jobs[1]}};
        testdb_exec(&s->db,
                    "UPDATE pawl.job SET attempt = 1, token ="
                    " (SELECT token FROM pawl.claim) WHERE token IS NULL");
    }
    assert_int_equal(count_of(s, "pawl.job WHERE attempt = 1 AND token IS NOT NULL"), 2);
    assert_int_equal(count_of(s, "pawl.history"), 0);
}

static void settling_twice_has_one_effect(void **state)
{
    struct store *s = *state;

    for (int kind = OUTCOME_DONE; kind <= OUTCOME_RELEASE; kind++) {
        struct claimed c = claim_new(s);
        struct outcome outcome = with_error((enum outcome_kind)kind, "e", 3600000);

        assert_string_not_equal(settle_one(s, &c, outcome), "");
        testdb_exec(&s->db,
                    "CREATE TABLE before AS SELECT id, state, attempt, due_at, errors, finished_at"
                    " FROM pawl.jobs");
        assert_string_equal(settle_one(s, &c, outcome), "");
        assert_int_equal(
            count_of(s,
                     "(TABLE before EXCEPT SELECT id, state, attempt, due_at, errors, finished_at"
                     " FROM pawl.jobs) AS changed"),
            0);
        assert_int_equal(count_of(s, "pawl.jobs"), count_of(s, "before"));
        testdb_exec(&s->db, "DROP TABLE before; TRUNCATE pawl.job, pawl.history, pawl.claim");
    }
}

static void a_claim_goes_with_the_last_of_its_jobs(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 2);
    struct claimed c = claim(s, 2);
    struct job_settle first = item(&c, 0, OUTCOME(OUTCOME_DONE));
    struct job_settle last = item(&c, 1, OUTCOME(OUTCOME_DONE));

    settle(s, &first, 1, NULL);
    assert_int_equal(count_of(s, "pawl.claim"), 1);
    settle(s, &last, 1, &c.token);
    assert_int_equal(count_of(s, "pawl.claim"), 0);
}

static void errors_are_bounded(void **state)
{
    struct store *s = *state;
    char *text = malloc(3 * 5000 + 1);

    assert_non_null(text);
    for (int i = 0; i < 5000; i++)
        memcpy(text + 3L * i, "\xe2\x82\xac", 4); /* € */
    enqueue_plain(s, 1);
    testdb_exec(&s->db, "UPDATE pawl.job SET max_attempts = 100");
    for (int i = 1; i <= 25; i++) {
        struct claimed c = claim(s, 1);

        assert_int_equal(c.n, 1);
        assert_string_equal(settle_one(s, &c, with_error(OUTCOME_RETRY, text, 0)), "retrying");
    }
    free(text);
    assert_int_equal(count_of(s,
                              "pawl.job WHERE jsonb_array_length(errors) = 20"
                              " AND errors -> 0 ->> 'attempt' = '6'"
                              " AND errors -> 19 ->> 'attempt' = '25'"
                              " AND length(errors -> 19 ->> 'error') = 4000"),
                     1);
}

static void keep_days_say_what_stays(void **state)
{
    struct store *s = *state;
    struct claimed c = claim_new(s);

    testdb_exec(&s->db, "INSERT INTO pawl.queue (name, keep_days) VALUES ('q', 0)");
    assert_string_equal(settle_one(s, &c, OUTCOME(OUTCOME_DONE)), "done");
    assert_int_equal(count_of(s, "pawl.jobs"), 0);
    testdb_exec(&s->db, "UPDATE pawl.queue SET keep_days = 30");
    c = claim_new(s);
    assert_string_equal(settle_one(s, &c, OUTCOME(OUTCOME_DONE)), "done");
    assert_int_equal(
        testdb_int(&s->db,
                   "SELECT expires_on - (finished_at AT TIME ZONE 'UTC')::date FROM pawl.history"),
        30);
}

static void what_cannot_be_stored_is_refused_whole(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 2);
    struct claimed c = claim(s, 2);
    struct job_settle items[2] = {item(&c, 0, OUTCOME(OUTCOME_DONE)),
                                  item(&c, 1, with_error(OUTCOME_FAIL, "\xff", -1))};
    const struct job_settle *pointers[2] = {&items[0], &items[1]};

    job_settle_bind(begin(s), pointers, 2, "host:1", &c.token, 1);
    assert_refused(s, STMT(job_settle), "22021");
    assert_int_equal(count_of(s, "pawl.job WHERE token IS NOT NULL"), 2);
    assert_int_equal(count_of(s, "pawl.claim"), 1);
}

static void the_delay_of_a_retry_doubles_within_bounds(void **state)
{
    struct store *s = *state;

    assert_int_equal(count_of(s,
                              "generate_series(1, 1000) AS a(n), generate_series(1, 3),"
                              " LATERAL (SELECT pawl.retry_delay_ms('k', a.n) AS ms,"
                              "   least(3600000, 1000 * 2 ^ least(a.n - 1, 30)) AS middle) AS d"
                              " WHERE d.ms NOT BETWEEN 0.8 * middle - 1 AND 1.2 * middle + 1"),
                     0);
    /* By chance, so that what failed together does not come back together. */
    assert_true(testdb_int(&s->db,
                           "SELECT count(DISTINCT pawl.retry_delay_ms('k', 5))"
                           " FROM generate_series(1, 100)") > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(done_moves_to_history_with_its_result),
        store_test(no_result_is_not_an_empty_one),
        store_test(retry_comes_back_later_with_its_error),
        store_test(retry_without_attempts_left_fails),
        store_test(fail_ends_it_at_once),
        store_test(cancel_ends_it_without_an_error),
        store_test(snooze_and_release_give_the_attempt_back),
        store_test(many_outcomes_go_in_one_statement),
        store_test(a_stale_token_changes_nothing_and_is_missing_from_the_answer),
        store_test(settling_twice_has_one_effect),
        store_test(a_claim_goes_with_the_last_of_its_jobs),
        store_test(errors_are_bounded),
        store_test(keep_days_say_what_stays),
        store_test(what_cannot_be_stored_is_refused_whole),
        store_test(the_delay_of_a_retry_doubles_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
