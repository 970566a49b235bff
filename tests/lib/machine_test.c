/* Machines through pawl.h: steps, their state, waiting for signals, and sending them. */
#include "machine_fixture.h"

static enum pawl_outcome do_carry(struct pawl_run *run, void *data)
{
    size_t len = 77;
    const char *state = pawl_run_state(run, &len);

    count_in(data);
    EXPECT_RUN(run, pawl_run_signals(run) == NULL && pawl_run_children(run) == NULL);
    EXPECT_RUN(run, !pawl_run_timed_out(run) && pawl_run_children_left(run) == 0);
    EXPECT_RUN(run, pawl_run_attempt(run) == 1);
    if (at_step(run, "")) {
        EXPECT_RUN(run, pawl_run_step(run) == NULL && state == NULL && len == 0);
        return pawl_run_next(run, "keep", "x\0\xff", 3, 0);
    }
    if (at_step(run, "keep")) {
        EXPECT_RUN(run, len == 3 && memcmp(state, "x\0\xff", 4) == 0);
        return pawl_run_next(run, "empty", NULL, 0, -1);
    }
    if (at_step(run, "empty")) {
        EXPECT_RUN(run, len == 3 && memcmp(state, "x\0\xff", 4) == 0);
        return pawl_run_next(run, "last", "", 0, 0);
    }
    EXPECT_RUN(run, at_step(run, "last") && state != NULL && len == 0);
    EXPECT_RUN(run, pawl_run_state(run, NULL) == state);
    return pawl_run_done(run, "all of it", 9);
}

static void steps_carry_their_state(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");

    work(f, "m", do_carry);
    assert_is(f, id, "done: all of it");
    assert_int_equal(atomic_load(&f->n_runs), 4);
}

static void steps_are_counted(void **state)
{
    struct fixture *f = *state;
    struct pawl_stats stats = PAWL_STATS_INIT;

    new_job(f, "m");
    make_worker(f, "m", do_carry);
    OK(pawl_worker_run(f->worker, &f->err));
    pawl_worker_stats(f->worker, &stats);
    assert_int_equal(stats.steps, 3);
    assert_int_equal(stats.done, 1);
}

static enum pawl_outcome do_sleep(struct pawl_run *run, void *data)
{
    (void)data;
    if (at_step(run, ""))
        return pawl_run_next(run, "awake", "night", 5, HOUR_MS);
    EXPECT_RUN(run, at_step(run, "awake") && strcmp(pawl_run_state(run, NULL), "night") == 0);
    return pawl_run_done(run, NULL, 0);
}

static void a_delay_is_waited_for_in_the_database(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");

    work(f, "m", do_sleep);
    assert_is(f, id, "scheduled");
    assert_int_equal(
        count_of(f, "pawl.job WHERE due_at BETWEEN now() + '59 min' AND now() + '1 h'"), 1);
    hurry(f);
    work(f, "m", do_sleep);
    assert_is(f, id, "done");
}

static char large[PAWL_STATE_MAX + 1];

static enum pawl_outcome do_large(struct pawl_run *run, void *data)
{
    size_t len;
    const char *state = pawl_run_state(run, &len);

    (void)data;
    if (at_step(run, ""))
        return pawl_run_next(run, "more", large, PAWL_STATE_MAX, 0);
    EXPECT_RUN(run, len == PAWL_STATE_MAX && memcmp(state, large, len) == 0);
    return pawl_run_next(run, "too-much", large, PAWL_STATE_MAX + 1, 0);
}

static void a_state_has_a_limit(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");

    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = (char)(i * 7 % 251);
    retry_late(f, "m");
    work(f, "m", do_large);
    assert_is(f, id, "retrying: the state has 1048577 bytes, and the limit is 1048576");
    assert_int_equal(count_of(f, MACHINES " WHERE step = 'more' AND attempt = 1"), 1);
}

static enum pawl_outcome do_known(struct pawl_run *run, void *data)
{
    (void)data;
    if (at_step(run, ""))
        return go_on(run, "known", NULL);
    if (at_step(run, "known"))
        return pawl_run_done(run, NULL, 0);
    return pawl_run_fail(run, "there is no step %s", pawl_run_step(run));
}

static void an_unknown_step_fails_that_job_alone(void **state)
{
    struct fixture *f = *state;
    int64_t lost = new_job(f, "m");
    int64_t other = new_job(f, "m");
    char sql[100];

    snprintf(sql, sizeof(sql), "SELECT pawl.machine_restart(%lld, 'nowhere')", (long long)lost);
    testdb_exec(&f->db, sql);
    work(f, "m", do_known);
    assert_is(f, lost, "failed: there is no step nowhere");
    assert_is(f, other, "done");
}

static void a_worker_gets_the_versions_it_knows(void **state)
{
    struct fixture *f = *state;
    int64_t first = new_job(f, "order@1");
    int64_t second = new_job(f, "order@2");
    int64_t none = new_job(f, "order");

    work(f, "order@1", do_known);
    assert_is(f, first, "done");
    assert_is(f, second, "ready");
    assert_is(f, none, "ready");
    work(f, "order@2", do_known);
    assert_is(f, second, "done");
    EXPECT(PAWL_OK, pawl_worker_new(&f->options, &f->worker, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_handle(f->worker, "order@", do_known, f, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_handle(f->worker, "order@x", do_known, f, &f->err));
}

static enum pawl_outcome do_await(struct pawl_run *run, void *data)
{
    const char *signals = pawl_run_signals(run);

    count_in(data);
    if (at_step(run, ""))
        return pawl_run_await(run, "paid,refused", "heard", "s", 1, HOUR_MS);
    if (at_step(run, "heard") && pawl_run_timed_out(run)) {
        EXPECT_RUN(run, signals == NULL);
        return pawl_run_done(run, "nobody called", 13);
    }
    if (at_step(run, "heard")) {
        EXPECT_RUN(run, signals != NULL && strstr(signals, "\"name\": \"paid\"") != NULL);
        EXPECT_RUN(run, strstr(signals, "\"payload\": {\"amount\": 25}") != NULL);
        EXPECT_RUN(run, strstr(signals, "\"id\": ") != NULL && strstr(signals, "other") == NULL);
        EXPECT_RUN(run, strcmp(pawl_run_state(run, NULL), "s") == 0);
        if (pawl_run_attempt(run) == 1)
            return pawl_run_retry(run, 0, "look again");
        return go_on(run, "after", NULL);
    }
    EXPECT_RUN(run, at_step(run, "after") && signals == NULL);
    return pawl_run_done(run, "paid", 4);
}

static void a_signal_is_shown_until_the_machine_goes_on(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");
    bool sent = false;

    work(f, "m", do_await);
    assert_is(f, id, "waiting");
    OK(pawl_job_signal(f->db.conn, id, "other", NULL, NULL, &sent, &f->err));
    assert_true(sent);
    work(f, "m", do_await);
    assert_is(f, id, "waiting");
    assert_int_equal(atomic_load(&f->n_runs), 1);
    OK(pawl_job_signal(f->db.conn, id, "paid", "{\"amount\": 25}", NULL, &sent, &f->err));
    work(f, "m", do_await);
    assert_is(f, id, "done: paid: look again");
    assert_int_equal(atomic_load(&f->n_runs), 4);
    assert_int_equal(count_of(f, "pawl.signal"), 0);
}

static void a_wait_that_takes_too_long_is_no_failure(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");

    work(f, "m", do_await);
    assert_is(f, id, "waiting");
    assert_int_equal(
        count_of(f, MACHINES " WHERE wait_until BETWEEN now() + '59 min' AND now() + '1 h'"), 1);
    hurry(f);
    work(f, "m", do_await);
    assert_is(f, id, "done: nobody called");
}

static enum pawl_outcome do_put_off(struct pawl_run *run, void *data)
{
    struct fixture *f = data;

    count_in(f);
    if (at_step(run, ""))
        return pawl_run_await(run, "paid", "heard", NULL, 0, HOUR_MS);
    if (at_step(run, "heard") && atomic_load(&f->n_runs) == 2)
        return pawl_run_snooze(run, 0);
    if (at_step(run, "heard"))
        return go_on(run, "after", NULL);
    EXPECT_RUN(run, at_step(run, "after") && !pawl_run_timed_out(run));
    if (pawl_run_attempt(run) == 1)
        return pawl_run_retry(run, 0, "from the database");
    return pawl_run_done(run, NULL, 0);
}

/* Also of a wait that was over before its step was put off. */
static void a_step_knows_nothing_of_an_earlier_wait(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");

    work(f, "m", do_put_off);
    hurry(f);
    work(f, "m", do_put_off);
    assert_is(f, id, "done: from the database");
    assert_int_equal(atomic_load(&f->n_runs), 5);
}

static enum pawl_outcome do_await_for_ever(struct pawl_run *run, void *data)
{
    (void)data;
    return pawl_run_await(run, "never", "over", NULL, 0, -1);
}

static void a_wait_without_a_timeout_lasts_until_it_is_cancelled(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");
    bool ended = false;

    work(f, "m", do_await_for_ever);
    assert_int_equal(count_of(f, MACHINES " WHERE wait_until IS NULL AND due_at = 'infinity'"), 1);
    OK(pawl_job_cancel(f->db.conn, id, NULL, &ended, &f->err));
    assert_true(ended);
    assert_is(f, id, "cancelled");
}

/* ── sending ── */

static void a_key_makes_a_signal_count_once(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");
    bool sent = false;

    OK(pawl_job_signal(f->db.conn, id, "paid", "1", "k", &sent, &f->err));
    assert_true(sent);
    OK(pawl_job_signal(f->db.conn, id, "paid", "2", "k", &sent, &f->err));
    assert_false(sent);
    OK(pawl_job_signal(f->db.conn, id, "paid", "3", "l", &sent, &f->err));
    assert_true(sent);
    OK(pawl_job_signal(f->db.conn, id, "paid", NULL, NULL, NULL, NULL));
    assert_int_equal(count_of(f, "pawl.signal WHERE payload IN ('1', '3', '{}')"), 3);
    assert_int_equal(count_of(f, "pawl.signal"), 3);
}

static void a_signal_arrives_with_its_transaction(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");

    work(f, "m", do_await);
    testdb_exec(&f->db, "BEGIN");
    OK(pawl_job_signal(f->db.conn, id, "paid", "{\"amount\": 25}", "k", NULL, &f->err));
    testdb_exec(&f->db, "ROLLBACK");
    work(f, "m", do_await);
    assert_is(f, id, "waiting");
    assert_int_equal(count_of(f, "pawl.signal"), 0);
    testdb_exec(&f->db, "BEGIN");
    OK(pawl_job_signal(f->db.conn, id, "paid", "{\"amount\": 25}", "k", NULL, &f->err));
    testdb_exec(&f->db, "COMMIT");
    work(f, "m", do_await);
    assert_is(f, id, "done: paid: look again");
}

static void a_signal_finds_its_job_or_says_why_not(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "noop");
    bool sent = true;

    work(f, NULL, NULL);
    assert_is(f, id, "done");
    EXPECT(PAWL_ESTATE, pawl_job_signal(f->db.conn, id, "paid", NULL, NULL, &sent, &f->err));
    assert_non_null(strstr(f->err.message, "finished"));
    EXPECT(PAWL_ENOTFOUND, pawl_job_signal(f->db.conn, 4711, "paid", NULL, NULL, &sent, &f->err));
    EXPECT(PAWL_ENOTFOUND, pawl_job_signal(f->db.conn, -1, "paid", NULL, NULL, &sent, NULL));
    assert_true(sent);
}

static void a_signal_to_a_full_inbox_is_refused(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");
    bool sent = true;

    /* Eight of 1 MiB, to the byte. */
    testdb_exec(&f->db,
                "SELECT pawl.signal(id, 'paid', to_jsonb(repeat('x', 1048516)),"
                "                   CASE n WHEN 1 THEN 'k' END)"
                " FROM pawl.job, generate_series(1, 8) AS n");
    EXPECT(PAWL_EFULL, pawl_job_signal(f->db.conn, id, "paid", NULL, NULL, &sent, &f->err));
    assert_non_null(strstr(f->err.message, "the inbox of job 1 is full"));
    assert_non_null(strstr(f->err.detail, "8388608 bytes"));
    assert_non_null(strstr(f->err.hint, "Send again when"));
    assert_true(sent);
    OK(pawl_job_signal(f->db.conn, id, "paid", NULL, "k", &sent, &f->err));
    assert_false(sent);
}

static void a_signal_goes_to_all_that_are_about_the_same(void **state)
{
    struct fixture *f = *state;
    struct pawl_job_new jobs[] = {PAWL_JOB_NEW_INIT, PAWL_JOB_NEW_INIT, PAWL_JOB_NEW_INIT};
    int64_t n = 77;

    jobs[0].kind = jobs[1].kind = jobs[2].kind = "m";
    jobs[0].correlation = jobs[1].correlation = "order 7";
    jobs[2].correlation = "order 8";
    OK(pawl_enqueue_many(f->db.conn, jobs, LEN(jobs), NULL, NULL, &f->err));
    OK(pawl_signal_all(f->db.conn, "order 7", "paid", "1", "k", &n, &f->err));
    assert_int_equal(n, 2);
    OK(pawl_signal_all(f->db.conn, "order 7", "paid", "1", "k", &n, &f->err));
    assert_int_equal(n, 0);
    OK(pawl_signal_all(f->db.conn, "order 9", "paid", NULL, NULL, &n, NULL));
    assert_int_equal(n, 0);
    assert_int_equal(count_of(f, "pawl.signal"), 2);
    n = 77;
    EXPECT(PAWL_EINVAL, pawl_signal_all(f->db.conn, NULL, "paid", NULL, NULL, &n, &f->err));
    EXPECT(PAWL_EINVAL, pawl_signal_all(f->db.conn, "\xff", "paid", NULL, NULL, &n, &f->err));
    EXPECT(PAWL_EINVAL, pawl_signal_all(f->db.conn, "order 7", NULL, NULL, NULL, &n, &f->err));
    EXPECT(PAWL_EINVAL, pawl_signal_all(f->db.conn, "order 7", "paid", "{", NULL, &n, &f->err));
    assert_int_equal(n, 77);
}

static void a_machine_goes_on_from_a_step_that_is_chosen(void **state)
{
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");
    int64_t next = 77;

    EXPECT(PAWL_EINVAL, pawl_job_restart(f->db.conn, id, NULL, NULL, &next, &f->err));
    EXPECT(PAWL_EINVAL, pawl_job_restart(f->db.conn, id, "a b", NULL, &next, &f->err));
    EXPECT(PAWL_EINVAL, pawl_job_restart(f->db.conn, id, "s", "{", &next, &f->err));
    EXPECT(PAWL_ENOTFOUND, pawl_job_restart(f->db.conn, 4711, "s", NULL, &next, &f->err));
    assert_int_equal(next, 77);
    OK(pawl_job_restart(f->db.conn, id, "chosen", "{\"n\":1}", &next, &f->err));
    assert_int_equal(next, id);
    assert_int_equal(count_of(f, MACHINES " WHERE step = 'chosen'"), 1);
    OK(pawl_job_cancel(f->db.conn, id, NULL, NULL, &f->err));
    OK(pawl_job_restart(f->db.conn, id, "chosen", NULL, &next, NULL));
    assert_true(next > id);
}

static void a_signal_that_cannot_be_is_refused_before_it_is_sent(void **state)
{
    static char payload[PAWL_STATE_MAX + 3];
    struct fixture *f = *state;
    int64_t id = new_job(f, "m");
    char key[1026];
    bool sent = true;

    memset(payload, 'x', sizeof(payload));
    payload[0] = payload[sizeof(payload) - 2] = '"';
    payload[sizeof(payload) - 1] = '\0';
    memset(key, 'k', sizeof(key));
    key[sizeof(key) - 1] = '\0';
    testdb_exec(&f->db, "BEGIN");
#define REFUSED(code, name, payload, key) \
    EXPECT(code, pawl_job_signal(f->db.conn, id, name, payload, key, &sent, &f->err))
    REFUSED(PAWL_EINVAL, NULL, NULL, NULL);
    REFUSED(PAWL_EINVAL, "", NULL, NULL);
    REFUSED(PAWL_EINVAL, "a,b", NULL, NULL);
    REFUSED(PAWL_EINVAL, "n", "", NULL);
    REFUSED(PAWL_EINVAL, "n", "{", NULL);
    REFUSED(PAWL_EINVAL, "n", "\"\xff\"", NULL);
    REFUSED(PAWL_EINVAL, "n", NULL, "");
    REFUSED(PAWL_EINVAL, "n", NULL, "\xff");
    REFUSED(PAWL_ELIMIT, "n", NULL, key);
    REFUSED(PAWL_ELIMIT, "n", payload, NULL);
#undef REFUSED
    assert_true(sent);
    /* None of these has cost the transaction. */
    OK(pawl_job_signal(f->db.conn, id, "n", "[]", "ü", NULL, &f->err));
    testdb_exec(&f->db, "COMMIT");
    assert_int_equal(count_of(f, "pawl.signal"), 1);
    EXPECT(PAWL_EINVAL, pawl_job_signal(NULL, id, "n", NULL, NULL, NULL, &f->err));
    EXPECT(PAWL_EINVAL, pawl_job_signal(NULL, id, "n", NULL, NULL, NULL, NULL));
    PQclear(PQexec(f->db.conn, "BEGIN; SELECT 1 / 0"));
    EXPECT(PAWL_ESTATE, pawl_job_signal(f->db.conn, id, "n", NULL, NULL, NULL, &f->err));
    testdb_exec(&f->db, "ROLLBACK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_carry_their_state),
        TEST(steps_are_counted),
        TEST(a_delay_is_waited_for_in_the_database),
        TEST(a_state_has_a_limit),
        TEST(an_unknown_step_fails_that_job_alone),
        TEST(a_worker_gets_the_versions_it_knows),
        TEST(a_signal_is_shown_until_the_machine_goes_on),
        TEST(a_wait_that_takes_too_long_is_no_failure),
        TEST(a_step_knows_nothing_of_an_earlier_wait),
        TEST(a_wait_without_a_timeout_lasts_until_it_is_cancelled),
        TEST(a_key_makes_a_signal_count_once),
        TEST(a_signal_arrives_with_its_transaction),
        TEST(a_signal_finds_its_job_or_says_why_not),
        TEST(a_signal_to_a_full_inbox_is_refused),
        TEST(a_signal_goes_to_all_that_are_about_the_same),
        TEST(a_machine_goes_on_from_a_step_that_is_chosen),
        TEST(a_signal_that_cannot_be_is_refused_before_it_is_sent),
    };
    return cmocka_run_group_tests_name("lib machines", tests, NULL, NULL);
}
