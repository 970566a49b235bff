/*
 * The knobs of a coordinator: min_demand, jitter_ms, poll_ms and poll_max_ms do what
 * engine/coordinator.h says. And a corner of settling that only a lost claim leads to: two outcomes
 * of one job at a time.
 */
#include "engine_wake_fixture.h"

/* ── min_demand ── */

static void a_busy_worker_claims_only_when_there_is_room_for_min_demand(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.min_demand = 3;
    crew.run_ms = HELD;
    enqueue(f, 8);
    crew_start(&crew);
    run_until(f, crew.now == 4);
    for (size_t i = 1; i <= 3; i++) {
        crew_let_go_one(&crew);
        run_until(f, crew.settled == i);
        coordinator_wake(crew.c); /* a call does not change it */
    }
    run_until(f, crew.now == 4);
    assert_int_equal(crew_stats(&crew)->claims, 2);
    assert_int_equal(crew_stats(&crew)->claimed, 7);
    assert_int_equal(crew_stats(&crew)->short_claims, 0);
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until(f, crew.settled == 8);
    crew_stop(&crew);
    assert_all_done(f, 8);
}

/* There will never be room for so many; with nothing to do it claims what it can. */
static void a_worker_with_nothing_to_do_does_not_wait_for_min_demand(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 2;
    crew.options.min_demand = 100;
    crew.options.until_empty = true;
    enqueue(f, 6);
    crew_start(&crew);
    run_until(f, crew.stopped);
    assert_int_equal(crew_stats(&crew)->claims - crew_stats(&crew)->empty_claims, 3);
    crew_end(&crew);
    assert_all_done(f, 6);
}

/* ── jitter_ms ── */

#define JITTER_MS     300
#define JITTER_ROUNDS 6
/* Six waits of up to 300 ms by chance come to less once in a million times; without any they come
 * to some milliseconds. */
#define JITTER_LEAST_MS 90

static void a_sleeper_waits_by_chance_after_a_notification(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    uint64_t waited_ms = 0;

    crew_init_sleeper(&crew, f);
    crew.options.jitter_ms = JITTER_MS;
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    for (size_t n = 1; n <= JITTER_ROUNDS; n++) {
        submit(f, "q", 1);
        run_until(f, crew_stats(&crew)->notify_wakeups == n);
        uint64_t heard_ms = uv_now(&f->loop);

        run_until(f, crew.runs == n);
        waited_ms += uv_now(&f->loop) - heard_ms;
        run_until(f, crew.settled == n);
    }
    assert_true(waited_ms >= JITTER_LEAST_MS);
    crew_stop(&crew);
    assert_all_done(f, JITTER_ROUNDS);
}

/* Who is told to stop meanwhile does, and leaves the job to others. */
static void a_sleeper_that_waits_by_chance_can_be_stopped(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_sleeper(&crew, f);
    crew.options.jitter_ms = (int64_t)24 * 60 * 60 * MS_PER_S;
    crew_start(&crew);
    run_until(f, all_asleep(f, 1));
    submit(f, "q", 1);
    run_until(f, crew_stats(&crew)->notify_wakeups == 1);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 0);
    assert_int_equal(crew.left, 0);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'ready' AND attempt = 0"), 1);
}

/* ── poll_ms, poll_max_ms ── */

#define LOOKS 4 /* that follow the mark, by a schedule of their own */

static void a_sleeper_looks_by_itself_every_poll_max(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.poll_ms = NEVER_MS; /* not its business while it listens */
    crew.options.poll_max_ms = 150;
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->poll_wakeups >= LOOKS + 1);
    uint64_t polls = crew_stats(&crew)->poll_wakeups;
    uint64_t began_ms = uv_now(&f->loop);

    run_until(f, crew_stats(&crew)->poll_wakeups >= polls + 6);
    assert_true(uv_now(&f->loop) - began_ms >= (uint64_t)6 * 150 - 10); /* and not more often */
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 0);
    enqueue(f, 1); /* nobody is told of it */
    run_until(f, crew.settled == 1);
    assert_int_equal(crew_stats(&crew)->notify_wakeups, 0);
    crew_stop(&crew);
    assert_all_done(f, 1);
}

/* Doubled without end, the twelfth pause alone would be longer than a test may take. */
static void a_deaf_worker_polls_at_growing_intervals_up_to_poll_max(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.deaf = true;
    crew.options.poll_ms = 20;
    crew.options.poll_max_ms = 80;
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->claims >= 1);
    uint64_t began_ms = uv_now(&f->loop);

    run_until(f, crew_stats(&crew)->poll_wakeups >= 12);
    assert_true(uv_now(&f->loop) - began_ms >= 20 + 40 + (uint64_t)10 * 80 - 20);
    assert_int_equal(count_of(f, "pawl.sleeper"), 0);
    crew_stop(&crew);
}

/* ── settling a job twice ── */

/* Its claim is gone, it is claimed again by the same worker, and both runs end in one turn of the
 * loop. A flush carries a job once, so the second outcome waits for the next; the token decides which
 * of them counts. */
static void two_outcomes_of_one_job_are_settled_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 3);
    crew_start(&crew);
    run_until(f, crew.now == 3);
    testdb_exec(&f->db,
                "DELETE FROM pawl.claim; UPDATE pawl.job SET token = NULL WHERE id = 2;"
                "SELECT pg_notify('pawl_wake', 'q')");
    run_until(f, crew.seen[2] == 2);
    crew_let_go(&crew);
    run_until(f, crew.settled == 4);
    assert_int_equal(crew_stats(&crew)->settles, 2);
    assert_int_equal(crew_stats(&crew)->settle_batch_max, 3);
    assert_int_equal(crew_stats(&crew)->settle_errors, 0);
    assert_int_equal(crew_stats(&crew)->done, 3);
    assert_int_equal(crew.stale, 1);
    crew_stop(&crew);
    assert_int_equal(crew.left, 0);
    assert_all_done(f, 3);
    assert_int_equal(count_of(f, "pawl.history WHERE id = 2 AND attempt = 2"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_busy_worker_claims_only_when_there_is_room_for_min_demand),
        engine_test(a_worker_with_nothing_to_do_does_not_wait_for_min_demand),
        engine_test(a_sleeper_waits_by_chance_after_a_notification),
        engine_test(a_sleeper_that_waits_by_chance_can_be_stopped),
        engine_test(a_sleeper_looks_by_itself_every_poll_max),
        engine_test(a_deaf_worker_polls_at_growing_intervals_up_to_poll_max),
        engine_test(two_outcomes_of_one_job_are_settled_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
