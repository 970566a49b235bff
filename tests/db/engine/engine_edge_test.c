/*
 * The ten cases at the edge of demand-driven claiming that every engine of this kind must get
 * right, each under its own name. What else can go wrong: engine_fault_test.c; the rest of
 * stopping: engine_stop_test.c.
 */
#include "engine_fixture.h"

static void claim_throws_and_the_loop_survives(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    enqueue(f, 5);
    testdb_exec(&f->db, "ALTER TABLE pawl.job RENAME TO job_away");
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->claim_errors >= 2);
    testdb_exec(&f->db, "ALTER TABLE pawl.job_away RENAME TO job");
    run_until(f, crew.settled == 5);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 5);
}

/* The errors so far, and when the last of them was seen. */
static uint64_t next_error_ms(struct fixture *f, const struct crew *crew)
{
    uint64_t before = crew_stats(crew)->claim_errors;

    run_until(f, crew_stats(crew)->claim_errors > before);
    assert_int_equal(crew_stats(crew)->claim_errors, before + 1);
    return uv_hrtime() / 1000000;
}

/* 100 ms, and twice as long after each further error: a database in trouble is asked less and less. A claim that
 * succeeds makes the delay short again; a machine that stands still for a second may hide that once or twice. */
static void claims_that_fail_wait_longer_each_time(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    bool short_again = false;

    crew_init(&crew, f);
    enqueue(f, 5);
    testdb_exec(&f->db, "ALTER TABLE pawl.job RENAME TO job_away");
    crew_start(&crew);
    for (uint64_t last_ms = next_error_ms(f, &crew), wait_ms = 100; wait_ms <= 1600; wait_ms *= 2) {
        uint64_t now_ms = next_error_ms(f, &crew);

        if (now_ms - last_ms + TICK_MS < wait_ms)
            fail_msg("%llu ms instead of %llu",
                     (unsigned long long)(now_ms - last_ms),
                     (unsigned long long)wait_ms);
        last_ms = now_ms;
    }
    for (size_t done = 5; !short_again && done <= 15; done += 5) {
        testdb_exec(&f->db, "ALTER TABLE pawl.job_away RENAME TO job");
        run_until(f, crew.settled == done);
        enqueue(f, 5);
        testdb_exec(&f->db, "ALTER TABLE pawl.job RENAME TO job_away");
        uint64_t last_ms = next_error_ms(f, &crew);

        short_again = next_error_ms(f, &crew) - last_ms < 1600;
    }
    assert_true(short_again);
    testdb_exec(&f->db, "ALTER TABLE pawl.job_away RENAME TO job");
    crew_stop(&crew);
}

/* Whatever A does to keep its claim; true when B runs the job. */
static bool taken_over(struct fixture *f, const struct crew *b)
{
    testdb_exec(&f->db,
                "UPDATE pawl.claim SET lease_until = '-infinity' WHERE worker ="
                " (SELECT id FROM pawl.worker ORDER BY started_at LIMIT 1);"
                "UPDATE pawl.job SET due_at = now() WHERE token IS NULL");
    return b->now == 1;
}

static void handler_fails_after_its_lease_was_lost_and_the_other_result_stands(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    crew_init(&a, f);
    a.options.lease_ms = 3000;
    a.options.concurrency = 1;
    a.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&a);
    run_until(f, a.now == 1 && count_of(f, "pawl.worker") == 1);
    crew_init(&b, f);
    b.options.lease_ms = 6000; /* which B must not lose */
    b.run_ms = HELD;
    crew_start(&b);
    run_until(f, taken_over(f, &b));
    run_until(f, a.stops[STOP_LOST] == 1);
    held_finish(LIST_ENTRY(a.held.next, struct held, link),
                &(struct outcome){.kind = OUTCOME_FAIL, .error = "too late", .delay_ms = -1});
    run_until(f, a.settled == 1);
    assert_int_equal(a.stale, 1);
    assert_int_equal(crew_stats(&a)->stale, 1);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'running' AND attempt = 2"), 1);
    crew_let_go(&b);
    run_until(f, b.settled == 1);
    assert_int_equal(b.stale, 0);
    crew_stop(&a);
    crew_stop(&b);
    assert_text(f, "SELECT state || ' ' || attempt FROM pawl.history", "done 2");
    assert_int_equal(a.stops[STOP_LOST], 1);
    assert_int_equal(b.stops[STOP_LOST], 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

/* While one runs, there is room for one: every claim but the first asks for a single job. */
static void concurrency_2_with_claims_of_1_peaks_at_exactly_2(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 2;
    crew.run_ms = HELD;
    enqueue(f, 20);
    crew_start(&crew);
    for (size_t ended = 0; ended < 19; ended++) {
        run_until(f, crew.now == 2);
        crew_let_go_one(&crew);
    }
    crew_let_go(&crew);
    run_until(f, crew.settled == 20);
    assert_int_equal(crew.peak, 2);
    assert_int_equal(crew.runs, 20);
    assert_int_equal(crew_stats(&crew)->claimed, 20);
    assert_true(crew_stats(&crew)->claims - crew_stats(&crew)->empty_claims >= 19);
    crew_stop(&crew);
    assert_each_once(&crew, NULL, 20);
    assert_all_done(f, 20);
}

static void stop_during_a_claim_in_flight(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    enqueue(f, 3);
    testdb_exec(&f->db, "CREATE TABLE before AS SELECT id, due_at FROM pawl.job");
    hold_claims(f);
    crew_start(&crew);
    run_until(f, claim_waits(f));
    coordinator_stop(crew.c);
    assert_false(crew.stopped);
    release_claims(f);
    run_until(f, crew.stopped);
    assert_int_equal(crew_stats(&crew)->released, 3);
    crew_end(&crew);
    assert_int_equal(crew.runs, 0);
    assert_int_equal(crew.settled, 0); /* nobody is told of a run that was none */
    assert_int_equal(crew.left, 0);
    assert_int_equal(count_of(f,
                              "pawl.job JOIN before USING (id, due_at)"
                              " WHERE attempt = 0 AND token IS NULL AND errors IS NULL"),
                     3);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

static void two_concurrent_stops_idle(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew_start(&crew);
    run_until(f, crew_stats(&crew)->empty_claims > 0);
    coordinator_stop(crew.c);
    coordinator_stop(crew.c);
    crew_end(&crew);
    assert_int_equal(crew.left, 0);
}

/* The first asks, the second insists; `stopped` comes once, and the outcome counts or does not. */
static void two_concurrent_stops(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    coordinator_stop(crew.c);
    coordinator_stop(crew.c);
    crew_let_go(&crew); /* a report between stop and stopped */
    crew_end(&crew);
    assert_int_equal(crew.left, 1);
    assert_int_equal(crew.settled, 0);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'running' AND attempt = 1"), 1);
}

static void heartbeat_error_reads_as_stop(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 3000;
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db, "BEGIN; LOCK TABLE pawl.claim IN SHARE MODE");
    run_until(f, crew.stops[STOP_LOST] == 1);
    testdb_exec(&f->db, "COMMIT");
    crew_let_go(&crew);
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    /* Whoever was first, the sweeper or the settle: one of them. */
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 1") + count_of(f, "pawl.history"), 1);
    assert_int_equal(crew.stops[STOP_LOST], 1);
}

static void thousand_wakes_give_no_duplicate_and_no_over_run(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.options.concurrency = 3;
    crew.options.poll_ms = crew.options.poll_max_ms = 3600000;
    crew.run_ms = 2;
    enqueue(*state, 60);
    crew_start(&crew);
    for (int i = 0; i < 1000; i++)
        coordinator_wake(crew.c);
    while (crew.settled < 60) {
        coordinator_wake(crew.c);
        uv_run(&crew.f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(crew.peak, 3);
    assert_each_once(&crew, NULL, 60);
    crew_stop(&crew);
    assert_all_done(*state, 60);
}

static struct outcome fail_always(struct crew *crew, const struct job *job)
{
    (void)crew;
    (void)job;
    return (struct outcome){.kind = OUTCOME_FAIL, .error = "never", .delay_ms = -1};
}

static void twenty_terminal_failures_give_twenty_terminal_events(void **state)
{
    struct crew crew;

    crew_init(&crew, *state);
    crew.outcome = fail_always;
    crew.options.until_empty = true;
    enqueue(*state, 20);
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.settled, 20);
    assert_int_equal(crew.failed, 20);
    assert_int_equal(count_of(*state, "pawl.history WHERE state = 'failed'"), 20);
}

static struct outcome first_is_done_second_is_not(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (job->id == 1)
        return outcome_done();
    return (struct outcome){.kind = OUTCOME_RETRY, .error = "no", .delay_ms = 3600000};
}

/* The row of one was written meanwhile, so that it is settled with the next flush only. A worker that dies between the two must
 * leave its claim to the sweeper. */
static void a_claim_ends_with_the_last_of_its_jobs_also_if_one_has_moved(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    testdb_exec(&f->db,
                "CREATE TABLE public.orphan (id bigint);"
                "CREATE FUNCTION public.note_orphans() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " INSERT INTO public.orphan SELECT id FROM pawl.job WHERE token = old.token;"
                " RETURN NULL; END $$;"
                "CREATE CONSTRAINT TRIGGER orphans AFTER DELETE ON pawl.claim DEFERRABLE INITIALLY"
                " DEFERRED FOR EACH ROW EXECUTE FUNCTION public.note_orphans()");
    crew_init(&crew, f);
    crew.outcome = first_is_done_second_is_not;
    crew.run_ms = HELD;
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 2);
    testdb_exec(&f->db, "UPDATE pawl.job SET meta = '{}' WHERE id = 1");
    crew_let_go(&crew);
    run_until(f, crew.settled == 2);
    crew_stop(&crew);
    assert_int_equal(crew.stale, 0);
    assert_int_equal(count_of(f, "public.orphan"), 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NULL AND attempt = 1"), 1);
}

/* Two workers hold the same ten jobs, one of them since before its lease was lost, and both report
 * at the same moment. */
static void lease_contention_gives_exactly_one_terminal_event(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    crew_init(&a, f);
    crew_init(&b, f);
    a.options.concurrency = b.options.concurrency = 10;
    a.run_ms = b.run_ms = HELD;
    retry_late(f);
    enqueue(f, 10);
    crew_start(&a);
    run_until(f, a.now == 10);
    testdb_exec(&f->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    b.options.lease_ms = 6000; /* its first sweep comes soon, whatever its lease */
    crew_start(&b);
    run_until(f, count_of(f, "pawl.job WHERE token IS NULL") == 10);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now()");
    run_until(f, b.now == 10);
    crew_let_go(&a);
    crew_let_go(&b);
    run_until(f, a.settled == 10 && b.settled == 10);
    assert_int_equal(a.stale, 10);
    assert_int_equal(b.stale, 0);
    assert_int_equal(crew_stats(&b)->done, 10);
    crew_stop(&a);
    crew_stop(&b);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND attempt = 2"), 10);
    assert_all_done(f, 10);
}

/* For all but the test's own session. */
static void database_goes(struct fixture *f)
{
    testdb_exec(&f->db,
                "UPDATE pg_database SET datallowconn = false WHERE datname = current_database();"
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()");
}

static void a_dead_coordinator_still_lets_stop_return(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.drain_ms = 100;
    crew.run_ms = HELD;
    enqueue(f, 3);
    crew_start(&crew);
    run_until(f, crew.now == 3);
    database_goes(f);
    run_until(f, count_of(f, "pg_stat_activity WHERE datname = current_database()") == 1);
    coordinator_stop(crew.c);
    crew_let_go(&crew); /* what they came to can be told to nobody */
    crew_end(&crew);
    assert_true(uv_now(&f->loop) - f->began_ms < 60000);
    assert_int_equal(crew.left, 3);
    assert_int_equal(crew.settled, 0);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'running'"), 3);
}

/* In the quickest of some tries: a process may stand still in any of them, but not in all. */
static void an_idle_dead_coordinator_stops_at_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    uint64_t took_ms = UINT64_MAX;

    for (int tries = 0; tries < 8 && took_ms >= 1000; tries++) {
        crew_init(&crew, f);
        crew_start(&crew);
        run_until(f, crew_stats(&crew)->empty_claims > 0);
        database_goes(f);
        run_until(f, crew_stats(&crew)->claim_errors > 0);
        coordinator_stop(crew.c);
        crew_end(&crew);
        took_ms = uv_now(&f->loop) - f->began_ms;
        assert_int_equal(crew.left, 0);
        testdb_exec(
            &f->db,
            "UPDATE pg_database SET datallowconn = true WHERE datname = current_database()");
    }
    assert_true(took_ms < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(claim_throws_and_the_loop_survives),
        engine_test(claims_that_fail_wait_longer_each_time),
        engine_test(handler_fails_after_its_lease_was_lost_and_the_other_result_stands),
        engine_test(concurrency_2_with_claims_of_1_peaks_at_exactly_2),
        engine_test(stop_during_a_claim_in_flight),
        engine_test(two_concurrent_stops),
        engine_test(two_concurrent_stops_idle),
        engine_test(heartbeat_error_reads_as_stop),
        engine_test(thousand_wakes_give_no_duplicate_and_no_over_run),
        engine_test(twenty_terminal_failures_give_twenty_terminal_events),
        engine_test(a_claim_ends_with_the_last_of_its_jobs_also_if_one_has_moved),
        engine_test(lease_contention_gives_exactly_one_terminal_event),
        engine_test(a_dead_coordinator_still_lets_stop_return),
        engine_test(an_idle_dead_coordinator_stops_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
