/*
 * conn with a synchronous standby that stalls (support/standby.py): a commit that was not confirmed is
 * never called a success, and what comes after it is not mixed up with it.
 */
#include "conn_fixture.h"
#include "support/standby.h"

static int standby_setup(void **state)
{
    int rc = fixture_setup(state);

    if (rc == 0)
        testdb_exec(&((struct fixture *)*state)->db, "CREATE TABLE t (id int8)");
    return rc;
}

static int standby_teardown(void **state)
{
    standby_go_on();
    return fixture_teardown(state);
}

static void run_until_commits_wait(struct fixture *f, int64_t n)
{
    uv_timer_start(&f->guard, fixture_guard_cb, GUARD_MS, 0);
    while (testdb_int(&f->db, STANDBY_AWAITED) != n) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        if (f->guard_fired)
            fail_msg("%lld commits never waited for the standby", (long long)n);
    }
    uv_timer_stop(&f->guard);
}

static void a_commit_that_is_confirmed_is_ok(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    fixture_ready(f);
    submit(f, &stmt_insert, 1, &ended);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_OK);
}

static void a_commit_that_our_deadline_cancels_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    int64_t id = 1;
    fixture_ready(f);
    standby_stall();
    submit_ms(f, &stmt_insert, &id, 300, &ended);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_true(ended.unconfirmed);
    assert_int_equal(ended.err.code, PAWL_EUNKNOWN);
    assert_string_equal(ended.err.sqlstate, "01000");
    assert_string_equal(ended.err.message, "no synchronous standby has confirmed the commit");
    assert_non_null(strstr(ended.err.hint, "synchronous_standby_names"));
    /* The primary has it, and the connection is as good as before. */
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t"), 1);
    assert_int_equal(f->down, 0);
    standby_go_on();
    struct ended next = {0};
    submit(f, &stmt_insert, 2, &next);
    run_until(f, next.calls == 1);
    assert_ended(next, PG_VERDICT_OK);
}

static void a_commit_that_somebody_else_cancels_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    fixture_ready(f);
    standby_stall();
    submit(f, &stmt_insert, 1, &ended);
    run_until_commits_wait(f, 1);
    assert_int_equal(testdb_int(&f->db, STANDBY_CANCEL), 1);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_true(ended.unconfirmed);
}

static void a_commit_whose_session_is_terminated_is_unknown(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    fixture_ready(f);
    standby_stall();
    submit(f, &stmt_insert, 1, &ended);
    run_until_commits_wait(f, 1);
    assert_int_equal(testdb_int(&f->db, STANDBY_TERMINATE), 1);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_false(ended.unconfirmed); /* without the sync nobody has the results */
    assert_string_equal(ended.err.message, "no synchronous standby has confirmed the commit");
}

/* Of several in flight only the one whose wait was cancelled is unknown. */
static void the_warning_finds_its_own_batch(void **state)
{
    struct fixture *f = *state;
    struct ended first = {0};
    struct ended second = {0};
    struct ended third = {0};
    fixture_ready(f);
    assert_int_equal(query(f, &stmt_pid) > 0, 1);
    submit(f, &stmt_insert, 0, &first); /* prepared: the next ones go out together */
    run_until(f, first.calls == 1);
    memset(&first, 0, sizeof(first));
    standby_stall();
    submit(f, &stmt_insert, 1, &first);
    submit(f, &stmt_insert, 2, &second);
    submit(f, &stmt_insert, 3, &third);
    run_until_commits_wait(f, 1);
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t"), 1);
    assert_int_equal(testdb_int(&f->db, STANDBY_CANCEL), 1);
    run_until(f, first.calls == 1);
    run_until_commits_wait(f, 1); /* the second */
    standby_go_on();
    run_until(f, second.calls == 1 && third.calls == 1);
    assert_ended(first, PG_VERDICT_UNKNOWN);
    assert_ended(second, PG_VERDICT_OK);
    assert_ended(third, PG_VERDICT_OK);
    assert_true(first.order < second.order && second.order < third.order);
    assert_int_equal(f->down, 0);
}

/* The cancels of many that are past their deadline follow one another; whatever each hits, none of the
 * batches is called committed, and the connection stays. */
static void many_past_their_deadline_are_all_told(void **state)
{
    struct fixture *f = *state;
    struct ended ended[12] = {0};
    int64_t ids[12];
    int done = 0;
    fixture_ready(f);
    struct ended warm = {0};
    submit(f, &stmt_insert, 100, &warm);
    run_until(f, warm.calls == 1);
    standby_stall();
    for (int i = 0; i < 12; i++) {
        ids[i] = i;
        submit_ms(f, &stmt_insert, &ids[i], 300, &ended[i]);
    }
    while (done < 12) {
        run_until(f, ended[done].calls == 1);
        done++;
    }
    for (int i = 0; i < 12; i++) {
        char sql[64];
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM t WHERE id = %d", i);
        bool there = testdb_int(&f->db, sql) == 1;
        assert_true(ended[i].verdict != PG_VERDICT_OK);
        /* Rolled back, or never sent: then it is not there. */
        if (ended[i].verdict != PG_VERDICT_UNKNOWN)
            assert_false(there);
        else
            assert_true(there && ended[i].unconfirmed);
    }
    assert_int_equal(f->down, 0);
}

static void a_read_waits_for_nobody(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    standby_stall();
    assert_true(query(f, &stmt_pid) > 0);
}

#define STANDBY_TEST(name) cmocka_unit_test_setup_teardown(name, standby_setup, standby_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STANDBY_TEST(a_commit_that_is_confirmed_is_ok),
        STANDBY_TEST(a_commit_that_our_deadline_cancels_is_unknown),
        STANDBY_TEST(a_commit_that_somebody_else_cancels_is_unknown),
        STANDBY_TEST(a_commit_whose_session_is_terminated_is_unknown),
        STANDBY_TEST(the_warning_finds_its_own_batch),
        STANDBY_TEST(many_past_their_deadline_are_all_told),
        STANDBY_TEST(a_read_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
