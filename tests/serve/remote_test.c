/* The remote worker against a server that says what the test wants: what it holds, reports, renews, gives up and repeats. */
#include "remote/remote.h"

#include "remote_fixture.h"

static void credits_are_what_runs_and_what_waits(void **state)
{
    (void)state;
    work(2, 3);
    UNTIL(here->stream != NULL);
    assert_int_equal(5, here->credits);
    for (int64_t id = 1; id <= 4; id++)
        assign(id);
    UNTIL(remote_buffered(here->remote) == 2);
    assert_int_equal(2, here->n_runs);
    finish(OUTCOME_DONE);
    UNTIL(here->settled == 1);
    assert_string_equal("done", here->state);
    UNTIL(remote_buffered(here->remote) == 1 && here->n_runs == 2);
}

static void outcomes_that_end_meanwhile_go_together(void **state)
{
    (void)state;
    work(20, 0);
    UNTIL(here->stream != NULL);
    for (int64_t id = 1; id <= 20; id++)
        assign(id);
    UNTIL(here->n_runs == 20);
    finish(OUTCOME_DONE);
    uv_run(&here->loop, UV_RUN_NOWAIT); /* the first is on its way */
    while (here->n_runs > 0)
        finish(OUTCOME_DONE);
    UNTIL(here->settled == 20);
    assert_true(here->reports <= 3);
    assert_int_equal(20, here->n_reported);
}

static void a_report_that_failed_is_sent_again(void **state)
{
    (void)state;
    work(1, 0);
    UNTIL(here->stream != NULL);
    here->report_status = RPC_UNAVAILABLE;
    assign(7);
    UNTIL(here->n_runs == 1);
    finish(OUTCOME_DONE);
    UNTIL(here->settled == 1);
    assert_int_equal(2, here->reports);
    assert_int_equal(7, here->first_id);
    here->answer = PAWL__V1__ITEM_STATUS__ITEM_STATUS_RETRY;
    here->answers = 2;
    assign(8);
    UNTIL(here->n_runs == 1);
    finish(OUTCOME_DONE);
    UNTIL(here->settled == 2);
    assert_int_equal(5, here->reports);
}

static void a_stale_outcome_counts_for_nothing(void **state)
{
    (void)state;
    work(1, 0);
    UNTIL(here->stream != NULL);
    here->answer = PAWL__V1__ITEM_STATUS__ITEM_STATUS_STALE;
    here->answers = -1;
    assign(1);
    UNTIL(here->n_runs == 1);
    finish(OUTCOME_DONE);
    UNTIL(here->settled == 1);
    assert_int_equal(1, here->stale);
    assert_int_equal(1, here->reports);
}

static void an_outcome_that_is_refused_becomes_a_failure_with_the_servers_words(void **state)
{
    (void)state;
    work(1, 0);
    UNTIL(here->stream != NULL);
    here->answer = PAWL__V1__ITEM_STATUS__ITEM_STATUS_INVALID;
    here->answers = 1;
    assign(1);
    UNTIL(here->n_runs == 1);
    finish(OUTCOME_DONE);
    UNTIL(here->settled == 1);
    assert_int_equal(PAWL__V1__REPORT__OUTCOME_FAIL, here->last);
    assert_string_equal("the result is too large", here->last_error);
    assert_int_equal(0, here->stale);
    /* And whoever refuses everything is not asked for ever. */
    here->answers = -1;
    here->reports = 0;
    assign(2);
    UNTIL(here->n_runs == 1);
    finish(OUTCOME_DONE);
    UNTIL(here->settled == 2);
    assert_int_equal(1, here->stale);
    assert_int_equal(3, here->reports);
}

static void heartbeats_tell_what_is_lost_and_cancelled_and_carry_progress(void **state)
{
    (void)state;
    here->lease_ms = 3000;
    work(2, 1);
    UNTIL(here->stream != NULL);
    for (int64_t id = 1; id <= 3; id++)
        assign(id);
    UNTIL(here->n_runs == 2 && remote_buffered(here->remote) == 1);
    remote_note(here->remote, here->runs[0], "half");
    UNTIL(here->progress[0] != '\0');
    assert_string_equal("half", here->progress);
    here->lost_by_beat = 1;
    here->cancelled_by_beat = 2;
    UNTIL(here->stops[STOP_LOST] == 1 && here->stops[STOP_CANCELLED] >= 1);
    here->lost_by_beat = 3;
    here->cancelled_by_beat = 0;
    UNTIL(remote_buffered(here->remote) == 0); /* it was never started */
    assert_int_equal(2, here->n_runs);
}

static void a_worker_that_holds_nothing_is_silent(void **state)
{
    uv_timer_t wait;

    (void)state;
    here->lease_ms = 60;
    work(1, 0);
    UNTIL(here->stream != NULL);
    uv_timer_init(&here->loop, &wait);
    wait.data = here;
    uv_timer_start(&wait, on_late, 200, 0);
    while (!here->late)
        uv_run(&here->loop, UV_RUN_ONCE);
    here->late = false;
    uv_close((uv_handle_t *)&wait, NULL);
    uv_run(&here->loop, UV_RUN_NOWAIT);
    assert_int_equal(0, here->beats);
    assert_int_equal(0, here->reports);
}

static void what_is_stopped_by_the_server_hears_why(void **state)
{
    (void)state;
    work(3, 0);
    UNTIL(here->stream != NULL);
    for (int64_t id = 1; id <= 3; id++)
        assign(id);
    UNTIL(here->n_runs == 3);
    cancel(1, PAWL__V1__STOP_REASON__STOP_REASON_UNSPECIFIED);
    cancel(2, PAWL__V1__STOP_REASON__STOP_REASON_TIMEOUT);
    cancel(3, PAWL__V1__STOP_REASON__STOP_REASON_LOST);
    cancel(4, PAWL__V1__STOP_REASON__STOP_REASON_CANCELLED); /* not here */
    UNTIL(here->stops[STOP_LOST] == 1);
    assert_int_equal(1, here->stops[STOP_CANCELLED]);
    assert_int_equal(1, here->stops[STOP_TIMEOUT]);
}

static void a_new_stream_names_what_is_held_and_hears_what_is_lost(void **state)
{
    char listen[512];

    (void)state;
    snprintf(listen, sizeof(listen), "%s", here->address.text);
    work(2, 1);
    UNTIL(here->stream != NULL);
    for (int64_t id = 1; id <= 3; id++)
        assign(id);
    UNTIL(here->n_runs == 2 && remote_buffered(here->remote) == 1);
    stop_server();
    finish(OUTCOME_DONE); /* waits for a server */
    here->lost_at_open = 2;
    serve(listen);
    UNTIL(here->streams == 2 && here->settled == 1);
    assert_int_equal(3, here->n_named);
    UNTIL(here->stops[STOP_LOST] == 1);
    UNTIL(here->n_runs == 2); /* what was buffered runs now */
}

static void what_cannot_be_renewed_for_a_lease_is_given_up(void **state)
{
    (void)state;
    here->lease_ms = 3000;
    work(1, 1);
    UNTIL(here->stream != NULL);
    assign(1);
    assign(2);
    UNTIL(here->n_runs == 1 && remote_buffered(here->remote) == 1);
    stop_server();
    UNTIL(here->stops[STOP_LOST] == 1);
    UNTIL(remote_buffered(here->remote) == 0);
    assert_int_equal(1, here->n_runs); /* the other was not started */
}

static void a_drain_that_is_for_good_ends_the_worker(void **state)
{
    (void)state;
    work(1, 1);
    UNTIL(here->stream != NULL);
    assign(1);
    assign(2);
    UNTIL(here->n_runs == 1 && remote_buffered(here->remote) == 1);
    drain(false);
    UNTIL(here->reports == 1); /* what was not started goes back */
    assert_int_equal(PAWL__V1__REPORT__OUTCOME_RELEASE, here->last);
    assert_int_equal(2, here->first_id);
    assert_false(here->stopped);
    UNTIL(here->said_left == 1);
    finish(OUTCOME_DONE);
    UNTIL(here->stopped);
    assert_int_equal(0, here->left);
    assert_int_equal(0, here->err.code);
}

static void a_drain_before_a_restart_does_not(void **state)
{
    (void)state;
    work(1, 1);
    UNTIL(here->stream != NULL);
    assign(1);
    assign(2);
    UNTIL(here->n_runs == 1 && remote_buffered(here->remote) == 1);
    drain(true);
    UNTIL(here->reports == 1);
    assert_int_equal(PAWL__V1__REPORT__OUTCOME_RELEASE, here->last);
    rpc_end_ok(here->stream);
    here->stream = NULL;
    UNTIL(here->stream != NULL); /* comes again */
    assert_int_equal(1, here->n_named);
    assert_false(here->stopped);
}

static void a_worker_that_holds_nothing_still_says_that_it_leaves(void **state)
{
    (void)state;
    work(1, 0);
    UNTIL(here->stream != NULL);
    remote_stop(here->remote);
    UNTIL(here->stopped);
    assert_int_equal(1, here->said_left);
    assert_null(here->stream);
}

static void a_second_stop_leaves_what_runs_to_its_lease(void **state)
{
    (void)state;
    work(1, 0);
    UNTIL(here->stream != NULL);
    assign(1);
    UNTIL(here->n_runs == 1);
    remote_stop(here->remote);
    remote_stop(here->remote);
    UNTIL(here->stopped);
    assert_int_equal(1, here->left);
    assert_int_equal(2, here->stops[STOP_SHUTDOWN]);
    finish(OUTCOME_DONE); /* too late */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(credits_are_what_runs_and_what_waits),
        TEST(outcomes_that_end_meanwhile_go_together),
        TEST(a_report_that_failed_is_sent_again),
        TEST(a_stale_outcome_counts_for_nothing),
        TEST(an_outcome_that_is_refused_becomes_a_failure_with_the_servers_words),
        TEST(heartbeats_tell_what_is_lost_and_cancelled_and_carry_progress),
        TEST(a_worker_that_holds_nothing_is_silent),
        TEST(what_is_stopped_by_the_server_hears_why),
        TEST(a_new_stream_names_what_is_held_and_hears_what_is_lost),
        TEST(what_cannot_be_renewed_for_a_lease_is_given_up),
        TEST(a_drain_that_is_for_good_ends_the_worker),
        TEST(a_drain_before_a_restart_does_not),
        TEST(a_worker_that_holds_nothing_still_says_that_it_leaves),
        TEST(a_second_stop_leaves_what_runs_to_its_lease),
    };

    return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
