/* A run as its handler sees it: what it is told, what it may say, and what becomes of that. */
#include <sched.h>

#include "lib_fixture.h"

/* Tests cannot fail on a handler's thread: what was wrong becomes the job's error, and the test looks for none. */
#define EXPECT_RUN(run, condition)                       \
    do {                                                 \
        if (!(condition))                                \
            return pawl_run_fail(run, "%s", #condition); \
    } while (0)

static void run_one(struct fixture *f, const char *kind, pawl_handler_fn fn)
{
    make_worker(f, kind, fn);
    OK(pawl_worker_run(f->worker, &f->err));
}

/* The only job's state, and its error if it has one. */
static void assert_ended(struct fixture *f, const char *state, const char *error)
{
    char *now = testdb_text(&f->db, "SELECT state FROM pawl.jobs");
    char *what = testdb_text(&f->db, "SELECT errors->-1->>'error' FROM pawl.jobs");

    if (now == NULL || strcmp(now, state) != 0 || (error == NULL) != (what == NULL) ||
        (error != NULL && strstr(what, error) == NULL))
        fail_msg("%s: %s, not %s: %s", now, what, state, error);
    free(now);
    free(what);
}

static enum pawl_outcome do_look(struct pawl_run *run, void *data)
{
    size_t len = 77;

    (void)data;
    EXPECT_RUN(run, pawl_run_id(run) == 4711);
    EXPECT_RUN(run, strcmp(pawl_run_kind(run), "look") == 0);
    EXPECT_RUN(run, strcmp(pawl_run_queue(run), "default") == 0);
    EXPECT_RUN(run, pawl_run_attempt(run) == 1);
    EXPECT_RUN(run, pawl_run_max_attempts(run) == 3);
    EXPECT_RUN(run, strcmp(pawl_run_payload(run, &len), "{\"a\": 1}") == 0 && len == 8);
    EXPECT_RUN(run, pawl_run_payload(run, NULL) != NULL);
    EXPECT_RUN(run, strlen(pawl_run_token(run)) == 36);
    EXPECT_RUN(run, pawl_run_trace(run) == NULL);
    EXPECT_RUN(run, pawl_run_left_ms(run) > 50000 && pawl_run_left_ms(run) <= 60000);
    EXPECT_RUN(run, !pawl_run_should_stop(run));
    EXPECT_RUN(run, pawl_run_stop_reason(run) == NULL);
    pawl_run_log(run, "looked at %d things", 11);
    return pawl_run_done(run, "a\0b", 3);
}

static void a_handler_sees_its_job_and_leaves_a_result(void **state)
{
    struct fixture *f = *state;

    testdb_exec(
        &f->db,
        "INSERT INTO pawl.job (id, queue, kind, payload, max_attempts, timeout_ms) OVERRIDING SYSTEM VALUE"
        " VALUES (4711, 'default', 'look', '{\"a\": 1}', 3, 60000)");
    run_one(f, "look", do_look);
    assert_ended(f, "done", NULL);
    assert_int_equal(
        testdb_int(&f->db, "SELECT count(*) FROM pawl.history WHERE result = '\\x610062'"), 1);
    assert_int_equal(count_logged(f, "looked at 11 things"), 1);
    assert_int_equal(count_logged(f, "\"job\":4711"), 1);
}

static enum pawl_outcome do_as_told(struct pawl_run *run, void *data)
{
    const char *payload = pawl_run_payload(run, NULL);

    (void)data;
    switch (payload[0]) {
    case '1':
        return pawl_run_done(run, NULL, 0);
    case '2':
        return pawl_run_retry(run, 3600000, "not %s", "now");
    case '3':
        return pawl_run_fail(run, "never %d", 7);
    case '4':
        return pawl_run_reject(run, "against the rules");
    case '5':
        return pawl_run_snooze(run, 3600000);
    case '6':
        return pawl_run_cancel(run);
    default:
        return pawl_run_done(run, "", 0);
    }
}

static void outcomes_become_states(void **state)
{
    struct fixture *f = *state;

    retry_late(f, "told");
    enqueue(f, "told", 7);
    run_one(f, "told", do_as_told);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND result IS NULL"), 1);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND result = ''"), 1);
    assert_int_equal(
        count_of(f, "pawl.jobs WHERE state = 'retrying' AND errors->0->>'error' = 'not now'"), 1);
    assert_int_equal(
        count_of(f, "pawl.jobs WHERE state = 'failed' AND errors->0->>'error' = 'never 7'"), 1);
    assert_int_equal(
        count_of(f,
                 "pawl.jobs WHERE state = 'failed' AND errors->0->>'error' = 'against the rules'"),
        1);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'scheduled' AND attempt = 0"), 1);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'cancelled'"), 1);
}

static enum pawl_outcome do_nonsense(struct pawl_run *run, void *data)
{
    const char *payload = pawl_run_payload(run, NULL);

    (void)data;
    if (payload[0] == '1')
        return (enum pawl_outcome)42;
    if (payload[0] == '2')
        return PAWL_OUTCOME_DONE; /* which nobody gave it */
    (void)pawl_run_retry(run, 0, "a first thought");
    return PAWL_OUTCOME_DONE;
}

static void a_number_that_is_no_outcome_of_the_run_fails_it(void **state)
{
    struct fixture *f = *state;

    enqueue(f, "nonsense", 3);
    run_one(f, "nonsense", do_nonsense);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'failed'"), 3);
    assert_int_equal(
        count_of(f, "pawl.jobs WHERE errors->0->>'error' LIKE '%returned 42 without%'"), 1);
    assert_int_equal(count_of(f, "pawl.jobs WHERE errors->0->>'error' LIKE '%returned 1 without%'"),
                     1);
    assert_int_equal(
        count_of(
            f,
            "pawl.jobs WHERE errors->0->>'error' LIKE '%returned 1, which is not the outcome 2%'"),
        1);
}

static enum pawl_outcome do_babble(struct pawl_run *run, void *data)
{
    char *text = malloc(100000);

    (void)data;
    if (text == NULL)
        return pawl_run_done(run, NULL, 0);
    memset(text, 'x', 99999);
    text[99999] = '\0';
    enum pawl_outcome outcome =
        pawl_run_payload(run, NULL) != NULL && ((const char *)pawl_run_payload(run, NULL))[0] == '1'
            ? pawl_run_fail(run, "%s", text)
            : pawl_run_fail(run, "bad \xff\xfe bytes \xc3\xa4");

    free(text);
    return outcome;
}

static void errors_are_cut_and_made_text(void **state)
{
    struct fixture *f = *state;

    enqueue(f, "babble", 2);
    run_one(f, "babble", do_babble);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'failed'"), 2);
    assert_int_equal(count_of(f, "pawl.jobs WHERE octet_length(errors->0->>'error') = 4000"), 1);
    assert_int_equal(count_of(f, "pawl.jobs WHERE errors->0->>'error' = 'bad ?? bytes \303\244'"),
                     1);
}

static enum pawl_outcome do_too_much(struct pawl_run *run, void *data)
{
    char *result = calloc(1, PAWL_RESULT_MAX + 1);

    (void)data;
    enum pawl_outcome outcome = pawl_run_done(run, result, PAWL_RESULT_MAX + 1);

    free(result);
    return outcome;
}

static void a_result_beyond_the_limit_fails_the_job_without_repeating_it(void **state)
{
    struct fixture *f = *state;

    enqueue(f, "much", 1);
    run_one(f, "much", do_too_much);
    assert_ended(f, "failed", "1048577 bytes");
}

static void await_stop(struct pawl_run *run)
{
    while (!pawl_run_should_stop(run))
        sched_yield();
}

static enum pawl_outcome do_overrun(struct pawl_run *run, void *data)
{
    struct pawl_err err;

    (void)data;
    await_stop(run);
    EXPECT_RUN(run, strcmp(pawl_run_stop_reason(run), "timeout") == 0);
    EXPECT_RUN(run, pawl_run_left_ms(run) < 0);
    EXPECT_RUN(run, pawl_run_extend(run, 1000, &err) == PAWL_ESTATE);
    return pawl_run_done(run, "late", 4);
}

static void enqueue_with_timeout(struct fixture *f, const char *kind, int timeout_ms)
{
    char sql[400];

    snprintf(sql,
             sizeof(sql),
             "WITH new AS (INSERT INTO pawl.job (queue, kind, payload, timeout_ms, has_options)"
             "             VALUES ('default', '%s', '', %d, true) RETURNING id)"
             " INSERT INTO pawl.job_option (job_id, retry_base_ms) SELECT id, 3600000 FROM new",
             kind,
             timeout_ms);
    testdb_exec(&f->db, sql);
}

static void what_a_handler_says_after_its_timeout_is_a_retry(void **state)
{
    struct fixture *f = *state;
    struct pawl_stats stats = PAWL_STATS_INIT;

    enqueue_with_timeout(f, "overrun", 30);
    run_one(f, "overrun", do_overrun);
    assert_ended(f, "retrying", "ran longer than its timeout of 30 ms");
    assert_int_equal(count_logged(f, "job_overrun"), 1);
    pawl_worker_stats(f->worker, &stats);
    assert_int_equal(stats.overruns, 1);
    assert_int_equal(stats.retried, 1);
}

/* It never looks, so only the worker can notice; and says so while it still runs. */
static enum pawl_outcome do_ignore(struct pawl_run *run, void *data)
{
    struct fixture *f = data;

    while (count_logged(f, "job_overrun") == 0)
        sched_yield();
    return pawl_run_fail(run, "its own words");
}

static void one_that_runs_past_its_timeout_is_complained_about_while_it_runs(void **state)
{
    struct fixture *f = *state;

    enqueue_with_timeout(f, "ignore", 20);
    run_one(f, "ignore", do_ignore);
    assert_ended(f, "retrying", "ran longer than its timeout of 20 ms; its own words");
    assert_int_equal(count_logged(f, "job_overrun"), 1);
    assert_int_equal(count_logged(f, "its slot is free when it returns"), 1);
}

static enum pawl_outcome do_extend(struct pawl_run *run, void *data)
{
    struct pawl_err err;

    (void)data;
    EXPECT_RUN(run, pawl_run_extend(run, -1, &err) == PAWL_EINVAL);
    EXPECT_RUN(run, pawl_run_extend(run, 3600000, &err) == 0);
    EXPECT_RUN(run, pawl_run_left_ms(run) > 3500000);
    EXPECT_RUN(run, pawl_run_extend(run, INT64_MAX, &err) == 0);
    EXPECT_RUN(run, pawl_run_left_ms(run) > 3600000);
    EXPECT_RUN(run, pawl_run_extend(run, 0, &err) == 0); /* what the job says, from now on */
    EXPECT_RUN(run, pawl_run_left_ms(run) <= 10000);
    return pawl_run_done(run, NULL, 0);
}

static void more_time_can_be_had_in_time(void **state)
{
    struct fixture *f = *state;

    enqueue_with_timeout(f, "extend", 10000);
    run_one(f, "extend", do_extend);
    assert_ended(f, "done", NULL);
    assert_int_equal(count_logged(f, "job_overrun"), 0);
}

static enum pawl_outcome do_progress(struct pawl_run *run, void *data)
{
    struct pawl_err err;
    char *text = malloc(PAWL_PROGRESS_MAX + 2);

    (void)data;
    if (text == NULL)
        return pawl_run_fail(run, "no memory");
    memset(text, 'x', PAWL_PROGRESS_MAX + 1);
    text[PAWL_PROGRESS_MAX + 1] = '\0';
    int too_long = pawl_run_progress(run, text, &err);

    free(text);
    EXPECT_RUN(run, too_long == PAWL_ELIMIT);
    EXPECT_RUN(run, pawl_run_progress(run, NULL, &err) == PAWL_EINVAL);
    EXPECT_RUN(run, pawl_run_progress(run, "\xff", &err) == PAWL_EINVAL);
    for (int i = 0; i < 1000; i++) {
        char number[16];

        snprintf(number, sizeof(number), "%d of 1000", i);
        EXPECT_RUN(run, pawl_run_progress(run, number, &err) == 0);
    }
    return pawl_run_done(run, NULL, 0);
}

static void progress_may_be_said_as_often_as_one_likes(void **state)
{
    struct fixture *f = *state;

    enqueue(f, "progress", 20);
    run_one(f, "progress", do_progress);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 20);
}

static enum pawl_outcome do_half(struct pawl_run *run, void *data)
{
    struct fixture *f = data;

    if (pawl_run_progress(run, "half", NULL) < 0)
        return pawl_run_fail(run, "could not say how far it is");
    gate_enter(&f->gate);
    return pawl_run_done(run, NULL, 0);
}

static void progress_is_seen_by_others_while_it_runs(void **state)
{
    struct fixture *f = *state;
    struct pawl_job_info *info = NULL;
    bool seen = false;

    enqueue(f, "half", 1);
    int64_t id = testdb_int(&f->db, "SELECT id FROM pawl.job");

    make_worker(f, "half", do_half);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 1);
    while (!seen) {
        OK(pawl_job_get(f->db.conn, id, &info, &f->err));
        assert_string_equal(info->state, "running");
        seen = info->progress != NULL && strcmp(info->progress, "half") == 0;
        pawl_job_info_free(info);
    }
    gate_open(&f->gate);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
}

static enum pawl_outcome do_until_told(struct pawl_run *run, void *data)
{
    struct fixture *f = data;

    gate_enter(&f->gate);
    await_stop(run);
    return pawl_run_retry(run, 0, "told to end: %s", pawl_run_stop_reason(run));
}

static void handlers_are_told_when_the_drain_is_over(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    f->options.drain_ms = 30;
    enqueue(f, "until", 1);
    make_worker(f, "until", do_until_told);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_open(&f->gate);
    gate_await(&f->gate, 1);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.jobs WHERE errors->0->>'error' = 'told to end: shutdown'"),
                     1);
}

static void a_running_job_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    bool ended = true;

    f->options.until_empty = true;
    enqueue(f, "until", 1);
    int64_t id = testdb_int(&f->db, "SELECT id FROM pawl.job");

    make_worker(f, "until", do_until_told);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_open(&f->gate);
    gate_await(&f->gate, 1);
    OK(pawl_job_cancel(f->db.conn, id, "the test", &ended, &f->err));
    assert_false(ended);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'cancelled'"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_handler_sees_its_job_and_leaves_a_result),
        TEST(outcomes_become_states),
        TEST(a_number_that_is_no_outcome_of_the_run_fails_it),
        TEST(errors_are_cut_and_made_text),
        TEST(a_result_beyond_the_limit_fails_the_job_without_repeating_it),
        TEST(what_a_handler_says_after_its_timeout_is_a_retry),
        TEST(one_that_runs_past_its_timeout_is_complained_about_while_it_runs),
        TEST(more_time_can_be_had_in_time),
        TEST(progress_may_be_said_as_often_as_one_likes),
        TEST(progress_is_seen_by_others_while_it_runs),
        TEST(handlers_are_told_when_the_drain_is_over),
        TEST(a_running_job_can_be_cancelled),
    };
    return cmocka_run_group_tests_name("lib run", tests, NULL, NULL);
}
