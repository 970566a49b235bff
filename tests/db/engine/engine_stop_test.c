/*
 * Stopping a coordinator: gently, in a hurry, twice, too early, and with the database gone. It says
 * `stopped` exactly once, and nothing that was accepted is lost.
 */
#include "engine_fixture.h"

static void running_jobs_end_first(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 3;
    crew.run_ms = HELD;
    enqueue(f, 10);
    crew_start(&crew);
    run_until(f, crew.now == 3);
    coordinator_stop(crew.c);
    crew_let_go_one(&crew);
    run_until(f, crew.settled == 1);
    assert_false(crew.stopped);
    crew_let_go(&crew);
    crew_end(&crew);
    assert_int_equal(crew.left, 0);
    assert_int_equal(crew.runs, 3);
    assert_int_equal(crew.stops[STOP_SHUTDOWN], 0);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 3);
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 0 AND token IS NULL"), 7);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    assert_int_equal(count_of(f, "pawl.worker"), 0);
}

static void a_second_stop_does_not_wait(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 2;
    crew.run_ms = HELD;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 2);
    coordinator_stop(crew.c);
    coordinator_stop(crew.c);
    coordinator_stop(crew.c); /* more change nothing */
    run_until(f, crew.stopped);
    assert_true(crew.stops[STOP_SHUTDOWN] >= 2);
    assert_int_equal(crew.now, 2); /* they report afterwards, in crew_end */
    crew_end(&crew);
    assert_int_equal(crew.left, 2);
    /* Left to their lease. */
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'running' AND attempt = 1"), 2);
    assert_int_equal(count_of(f, "pawl.claim"), 1);
}

static void what_a_hasty_stop_left_comes_back(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    crew_init(&a, f);
    a.options.lease_ms = 2000;
    a.run_ms = HELD;
    retry_late(f);
    enqueue(f, 1);
    crew_start(&a);
    run_until(f, a.now == 1);
    coordinator_stop(a.c);
    coordinator_stop(a.c);
    crew_end(&a);
    crew_init(&b, f);
    b.options.lease_ms = 6000; /* which it must not lose */
    crew_start(&b);
    run_until(f, count_of(f, "pawl.jobs WHERE state = 'retrying'") == 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now()");
    run_until(f, b.settled == 1);
    crew_stop(&b);
    assert_int_equal(count_of(f,
                              "pawl.history WHERE state = 'done' AND attempt = 2 AND "
                              "errors -> 0 ->> 'error' LIKE 'the worker died%'"),
                     1);
}

static void a_second_stop_does_not_wait_for_a_claim(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    enqueue(f, 3);
    hold_claims(f);
    crew_start(&crew);
    run_until(f, claim_waits(f));
    coordinator_stop(crew.c);
    coordinator_stop(crew.c);
    crew_end(&crew);
    assert_int_equal(crew.runs, 0);
    release_claims(f);
}

static void one_that_never_started_can_be_stopped(void **state)
{
    struct crew crew;
    struct pawl_err err;

    crew_init(&crew, *state);
    crew.c = coordinator_new(&crew.f->loop, &crew.options, &err);
    assert_non_null(crew.c);
    coordinator_wake(crew.c);
    crew_stop(&crew);
    assert_int_equal(crew.left, 0);
}

/* How quickly something ends is measured in the quickest of so many: a process may stand still in any of them, but not in
 * all. */
#define TRIES 8

static void one_that_never_connected_can_be_stopped(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    struct pawl_err err;

    assert_int_equal(target_set(&f->target, &f->arena, TARGET_OPTION, "host=/nonexistent", &err),
                     0);
    uint64_t took_ms = UINT64_MAX;

    for (int tries = 0; tries < TRIES && took_ms >= 2000; tries++) {
        crew_init(&crew, f);
        crew_start(&crew);
        run_until(f, uv_now(&f->loop) - f->began_ms > 20);
        coordinator_stop(crew.c);
        crew_end(&crew);
        took_ms = uv_now(&f->loop) - f->began_ms;
        assert_int_equal(crew.left, 0);
    }
    assert_true(took_ms < 2000);
}

/* One connection is up, the other is not let in, and a claim waits for it. */
static void one_that_cannot_claim_can_be_stopped(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    bool well = false;

    for (int tries = 0; tries < TRIES && !well; tries++) {
        testdb_exec(&f->db, "DELETE FROM pawl.worker");
        crew_init(&crew, f);
        crew_start(&crew);
        run_until(f, count_of(f, "pawl.worker") == 1 && crew_stats(&crew)->empty_claims > 0);
        testdb_exec(
            &f->db,
            "UPDATE pg_database SET datallowconn = false WHERE datname = current_database();"
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND query !~ 'pawl.(worker_start|claim_renew|job_settle)'");
        run_until(f, count_of(f, "pg_stat_activity WHERE datname = current_database()") == 2);
        coordinator_wake(crew.c);
        run_until(f, uv_now(&f->loop) - f->began_ms > 100);
        coordinator_stop(crew.c);
        crew_end(&crew);
        well = uv_now(&f->loop) - f->began_ms < 3000 &&
               count_of(f, "pawl.worker") == 0; /* it even said good-bye */
        testdb_exec(
            &f->db,
            "UPDATE pg_database SET datallowconn = true WHERE datname = current_database()");
    }
    assert_true(well);
}

static void jobs_that_outlast_the_drain_are_asked_to_end(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.drain_ms = 30;
    crew.run_ms = HELD;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 2);
    coordinator_stop(crew.c);
    run_until(f, crew.stops[STOP_SHUTDOWN] == 2);
    assert_false(crew.stopped);
    while (!list_empty(&crew.held)) {
        held_finish(
            LIST_ENTRY(crew.held.next, struct held, link),
            &(struct outcome){.kind = OUTCOME_RETRY, .error = "asked to end", .delay_ms = 0});
    }
    crew_end(&crew);
    assert_int_equal(crew.left, 0);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NULL AND attempt = 1"), 2);
}

static void stop_in_settled(void *data, const struct settled *settled)
{
    struct crew *crew = data;

    (void)settled;
    crew->settled++;
    coordinator_stop(crew->c);
}

static void a_callback_may_stop_it(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.settled = stop_in_settled;
    crew.run_ms = HELD;
    enqueue(f, 4);
    crew_start(&crew);
    run_until(f, crew.now == 4);
    crew_let_go(&crew); /* the first stops, the next insists */
    crew_end(&crew);
    assert_true(crew.settled >= 1);
    assert_int_equal(count_of(f, "pawl.job") + count_of(f, "pawl.history"), 4);
}

static void stop_in_run(struct crew *crew, const struct job *job)
{
    (void)job;
    coordinator_stop(crew->c);
    crew->on_run = NULL;
}

static void a_stop_between_two_jobs_of_a_claim_gives_the_second_back(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.on_run = stop_in_run;
    enqueue(f, 4);
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.runs, 1);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 0 AND token IS NULL"), 3);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

static void a_settle_that_hangs_is_left_behind_by_a_second_stop(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 2);
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job FOR UPDATE");

    crew_let_go(&crew);
    run_until(f, count_of(f, WAITING("job_settle")) == 1);
    coordinator_stop(crew.c);
    coordinator_stop(crew.c);
    crew_end(&crew);
    assert_int_equal(crew.left, 2);
    assert_int_equal(crew.settled, 0);
    PQfinish(other);
}

static void wakes_after_the_stop_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    coordinator_stop(crew.c);
    enqueue(f, 1);
    coordinator_wake(crew.c);
    crew_let_go(&crew);
    run_until(f, crew.stopped);
    coordinator_wake(crew.c);
    coordinator_stop(crew.c);
    crew_end(&crew);
    assert_int_equal(crew.runs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(running_jobs_end_first),
        engine_test(a_second_stop_does_not_wait),
        engine_test(what_a_hasty_stop_left_comes_back),
        engine_test(a_second_stop_does_not_wait_for_a_claim),
        engine_test(one_that_never_started_can_be_stopped),
        engine_test(one_that_never_connected_can_be_stopped),
        engine_test(one_that_cannot_claim_can_be_stopped),
        engine_test(jobs_that_outlast_the_drain_are_asked_to_end),
        engine_test(a_callback_may_stop_it),
        engine_test(a_stop_between_two_jobs_of_a_claim_gives_the_second_back),
        engine_test(a_settle_that_hangs_is_left_behind_by_a_second_stop),
        engine_test(wakes_after_the_stop_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
