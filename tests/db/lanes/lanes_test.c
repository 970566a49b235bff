/*
 * Lanes with coordinators: at most so many at a time, never closed for good, and in nobody's way.
 */
#include "lanes_fixture.h"

/* ── so many at a time ── */

static void crews_work(struct fixture *f, size_t jobs)
{
    static struct crew crews[CREWS];

    for (size_t i = 0; i < CREWS; i++) {
        lane_crew(&crews[i], f);
        crews[i].run_ms = 1;
        crews[i].options.poll_ms = 20;
        crew_start(&crews[i]);
    }
    run_until(f, done_by(crews, CREWS) == jobs);
    for (size_t i = 0; i < CREWS; i++) {
        assert_int_equal(crew_stats(&crews[i])->claim_errors, 0);
        assert_int_equal(crew_stats(&crews[i])->settle_errors, 0);
        crew_stop(&crews[i]);
    }
    assert_all_done(f, (int64_t)jobs);
}

static void one_at_a_time_in_each_lane_with_eight_coordinators(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l' || n % 5) FROM "
                "generate_series(1, 300) AS n");
    crews_work(f, 300);
    for (int i = 0; i < 5; i++)
        assert_int_equal(seen.peak[i], 1);
    assert_int_equal(count_of(f, "pawl.lane WHERE holders <> '{}'"), 0);
    /* Nobody was called in vain, or tried twice. */
    assert_int_equal(count_of(f, "pawl.history WHERE attempt <> 1"), 0);
}

static void as_many_at_a_time_as_the_rule_says(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db,
                "SELECT pawl.lane_set('q', 'l*', 3);"
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l' || n % 2) FROM "
                "generate_series(1, 200) AS n");
    crews_work(f, 200);
    /* Never more; how close they come depends on the machine. */
    assert_in_range(seen.peak[0], 2, 3);
    assert_in_range(seen.peak[1], 2, 3);
}

/* ── the next one ── */

static void the_next_starts_at_once_when_the_former_settles(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.run_ms = HELD;
    crew.options.poll_ms = crew.options.poll_max_ms = 3600000; /* only a call finds it in time */
    enqueue_in(f, "l1", 20, 4);
    crew_start(&crew);
    for (size_t i = 1; i <= 20; i++) {
        run_until(f, crew.runs == i);
        assert_int_equal(crew.now, 1);
        crew_let_go_one(&crew);
    }
    run_until(f, crew.settled == 20);
    crew_stop(&crew);
    assert_all_done(f, 20);
}

/* … also in another process, which sleeps. */
static void a_sleeper_is_called_when_a_lane_is_left(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    lane_crew(&a, f);
    lane_crew(&b, f);
    a.run_ms = b.run_ms = HELD;
    a.kinds[0] = "k";
    b.kinds[0] = "other";
    a.options.poll_ms = b.options.poll_ms = a.options.poll_max_ms = b.options.poll_max_ms = 3600000;
    enqueue_in(f, "l1", 1, 4);
    crew_start(&a);
    run_until(f, a.runs == 1);
    testdb_exec(&f->db, "SELECT pawl.enqueue('other', queue => 'q', lane => 'l1')");
    crew_start(&b);
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'lane'") == 1);
    run_until(f, count_of(f, "pawl.sleeper WHERE asleep") == 2);
    crew_let_go(&a);
    run_until(f, b.runs == 1);
    crew_let_go(&b);
    crew_stop(&a);
    crew_stop(&b);
    assert_all_done(f, 2);
}

/* ── every end frees the lane ── */

static struct outcome every_end(struct crew *crew, const struct job *job)
{
    static const enum outcome_kind kinds[] = {OUTCOME_DONE,
                                              OUTCOME_FAIL,
                                              OUTCOME_CANCEL,
                                              OUTCOME_REJECT,
                                              OUTCOME_RETRY,
                                              OUTCOME_SNOOZE,
                                              OUTCOME_RELEASE};

    /* Those that come back are done then. */
    if (job->id > 7 || crew->seen[job->id] > 1)
        return leave_as(job, OUTCOME_DONE, -1);
    return leave_as(job, kinds[job->id - 1], 1);
}

static void every_outcome_frees_the_lane(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.outcome = every_end;
    enqueue_in(f, "l1", 8, 4);
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history") == 8);
    crew_stop(&crew);
    assert_int_equal(seen.peak[1], 1);
    assert_text(f,
                "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM pawl.history",
                "1 done, 2 failed, 3 cancelled, 4 failed, 5 done, 6 done, 7 done, 8 done");
    assert_int_equal(count_of(f, "pawl.lane WHERE holders <> '{}'"), 0);
}

/* A worker that dies frees its lanes with its lease; its job has no attempt left, the next goes on. */
static void a_crashed_worker_frees_its_lanes_with_its_lease(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    enqueue_in(f, "l1", 2, 4);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET max_attempts = 1, attempt = 1,"
                " token = 'a0000000-0000-4000-8000-000000000001' WHERE id = 1;"
                "UPDATE pawl.job SET waits_for = 'lane', due_at = 'infinity', lane_due_at = now()"
                " WHERE id = 2;"
                "INSERT INTO pawl.lane (queue, name, holders) VALUES ('q', 'l1', '{1}');"
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) VALUES"
                " ('a0000000-0000-4000-8000-000000000001', gen_random_uuid(),"
                "  now() + interval '300 ms', '{1}')");
    lane_crew(&crew, f);
    crew.options.lease_ms = 4000;
    crew_start(&crew);
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    assert_text(f,
                "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM pawl.history",
                "1 failed, 2 done");
}

static void a_worker_that_stops_gives_its_places_back(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.run_ms = HELD;
    crew.options.concurrency = 1;
    crew.options.prefetch = 4; /* claimed and never started */
    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l' || n) FROM "
                "generate_series(1, 4) AS n");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.lane WHERE holders <> '{}'") == 4);
    run_until(f, crew.runs == 1);
    coordinator_stop(crew.c);
    crew_let_go(&crew);
    crew_end(&crew);
    assert_int_equal(count_of(f, "pawl.lane WHERE holders <> '{}'"), 0);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NULL AND due_at <= now()"), 3);
}

static void a_waiting_sibling_that_is_cancelled_is_not_missed(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.run_ms = HELD;
    enqueue_in(f, "l1", 3, 4);
    crew_start(&crew);
    run_until(f, crew.runs == 1 && count_of(f, "pawl.job WHERE waits_for = 'lane'") == 2);
    testdb_exec(&f->db, "SELECT pawl.cancel(2)");
    crew_let_go(&crew);
    run_until(f, crew.runs == 2);
    assert_int_equal(crew.order[1], 3);
    crew_let_go(&crew);
    crew_stop(&crew);
}

/* ── new limits for a lane that is in use ── */

static void a_lane_that_gets_more_room_lets_more_in_at_once(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.run_ms = HELD;
    crew.options.concurrency = 10;
    enqueue_in(f, "l1", 6, 4);
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'lane'") == 5);
    testdb_exec(&f->db, "SELECT pawl.lane_set('q', 'l*', 3)");
    run_until(f, crew.now == 3);
    testdb_exec(&f->db, "SELECT pawl.lane_set('q', 'l*', NULL)"); /* one at a time again */
    run_until(f, count_of(f, "pawl.lane WHERE max_running = 1") == 1);
    crew_let_go_one(&crew);
    crew_let_go_one(&crew);
    run_until(f, crew.settled == 2);
    assert_int_equal(crew.runs, 3);
    crew_let_go_one(&crew);
    run_until(f, crew.runs == 4);
    assert_int_equal(crew.now, 1);
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until(f, crew.settled == 6);
    crew_stop(&crew);
}

static void nothing_of_a_paused_queue_starts_though_its_lane_is_left(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.run_ms = HELD;
    crew.options.poll_ms = crew.options.poll_max_ms = 10;
    enqueue_in(f, "l1", 2, 4);
    crew_start(&crew);
    run_until(f, crew.runs == 1 && count_of(f, "pawl.job WHERE waits_for = 'lane'") == 1);
    testdb_exec(&f->db, "INSERT INTO pawl.queue (name, paused_at) VALUES ('q', now())");
    crew_let_go(&crew);
    run_until(f, crew.settled == 1);
    idle_for(&crew, 60);
    assert_int_equal(crew.runs, 1);
    testdb_exec(&f->db, "UPDATE pawl.queue SET paused_at = NULL");
    run_until(f, crew.runs == 2);
    crew_let_go(&crew);
    crew_stop(&crew);
}

/* ── machines in lanes ── */

static struct going_on on_next = {.step = "two"};
static struct going_on on_await = {.step = "three", .awaits = "go"};

static struct outcome machine_of_three(struct crew *crew, const struct job *job)
{
    const char *step = job->machine != NULL ? job->machine->step : NULL;

    (void)crew;
    if (job->id != 1)
        return leave_as(job, OUTCOME_DONE, -1);
    struct outcome outcome = leave_as(job, OUTCOME_DONE, -1);

    if (step == NULL)
        outcome = (struct outcome){.kind = OUTCOME_NEXT, .on = &on_next};
    else if (strcmp(step, "two") == 0)
        outcome = (struct outcome){.kind = OUTCOME_AWAIT, .delay_ms = -1, .on = &on_await};
    return outcome;
}

static void a_machine_keeps_its_lane_from_step_to_step_and_frees_it_while_it_waits(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.outcome = machine_of_three;
    crew.run_ms = HELD;
    enqueue_in(f, "l1", 2, 4);
    crew_start(&crew);
    run_until(f, crew.runs == 1);
    crew_let_go_one(&crew);
    run_until(f, crew.runs == 2); /* step two of the first */
    assert_int_equal(crew.order[1], 1);
    crew_let_go_one(&crew);
    run_until(f, crew.runs == 3); /* the second has the lane */
    assert_int_equal(crew.order[2], 2);
    testdb_exec(&f->db, "SELECT pawl.signal(1, 'go')");
    run_until(f, count_of(f, "pawl.job WHERE id = 1 AND waits_for = 'lane'") == 1); /* behind */
    crew_let_go_one(&crew);
    run_until(f, crew.runs == 4);
    crew_let_go_one(&crew);
    run_until(f, count_of(f, "pawl.history WHERE state = 'done'") == 2);
    assert_order("1,1,2,1");
    crew_stop(&crew);
}

/* A signal that it does not wait for does not start a step, lane or no lane. */
static void a_machine_that_was_moved_behind_still_knows_what_it_waits_for(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.outcome = machine_of_three;
    crew.run_ms = HELD;
    enqueue_in(f, "l1", 2, 4);
    crew_start(&crew);
    run_until(f, crew.runs == 1);
    crew_let_go_one(&crew);
    run_until(f, crew.runs == 2);
    testdb_exec(&f->db, "SELECT pawl.signal(1, 'else')"); /* comes while step two runs */
    crew_let_go_one(&crew);                               /* awaits go; due for a look */
    run_until(f, crew.runs == 3);
    assert_int_equal(crew.order[2], 2);
    crew_let_go_one(&crew);
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'signal' AND due_at = 'infinity'") == 1);
    assert_int_equal(crew.runs, 3);
    crew_stop(&crew);
}

/* ── beside plain jobs ── */

static void priorities_count_between_plain_jobs_and_jobs_in_lanes(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.options.concurrency = 1;
    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k', queue => 'q', priority => 4);"
                "SELECT pawl.enqueue('k', queue => 'q', priority => 4, lane => 'l1');"
                "SELECT pawl.enqueue('k', queue => 'q', priority => 9);"
                "SELECT pawl.enqueue('k', queue => 'q', priority => 9, lane => 'l2');"
                "SELECT pawl.enqueue('k', queue => 'q', priority => 0, lane => 'l3');"
                "SELECT pawl.enqueue('k', queue => 'q', priority => 1)");
    crew_start(&crew);
    run_until(f, crew.settled == 6);
    assert_order("4,3,2,1,6,5");
    crew_stop(&crew);
    assert_text(
        f, "SELECT string_agg(priority::text, ',' ORDER BY id) FROM pawl.history", "4,4,9,9,0,1");
}

static void siblings_of_a_running_lane_are_in_nobodys_way(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.run_ms = HELD;
    crew.options.concurrency = 2;
    enqueue_in(f, "l1", 1500, 9);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    enqueue(f, 1); /* 1501 */
    run_until(f, crew.now == 2);
    assert_int_equal(crew.order[1], 1501);
    /* Not one claim for each of them. */
    assert_in_range(crew_stats(&crew)->claims, 1, 60);
    crew_let_go(&crew);
    crew_stop(&crew);
}

static void ten_thousand_lanes_have_one_holder_each(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    lane_crew(&crew, f);
    crew.options.concurrency = 500;
    /* Beyond what the hands count: ids are their own. */
    testdb_exec(&f->db,
                "INSERT INTO pawl.lane (queue, name, holders)"
                " SELECT 'q', 'l' || n, '{}' FROM generate_series(1, 10000) AS n;"
                "INSERT INTO pawl.job (queue, kind, payload, priority, lane)"
                " SELECT 'q', 'k', '', 4, 'l' || n % 15 + 1 FROM generate_series(1, 900) AS n;"
                "ANALYZE pawl.lane");
    crew.run_ms = 0;
    crew_start(&crew);
    run_until(f, crew.settled == 900);
    crew_stop(&crew);
    for (int i = 1; i < LANES_MAX; i++)
        assert_int_equal(seen.peak[i], 1);
    assert_int_equal(count_of(f, "pawl.lane"), 10000);
    assert_int_equal(count_of(f, "pawl.lane WHERE holders <> '{}'"), 0);
}

/* ── care ── */

static void lanes_that_are_stuck_by_accident_are_mended_and_old_ones_forgotten(void **state)
{
    struct fixture *f = *state;

    enqueue_in(f, "l1", 1, 4);
    enqueue_in(f, "l2", 1, 4);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET waits_for = 'lane', due_at = 'infinity', lane_due_at = now();"
                "INSERT INTO pawl.lane (queue, name, holders, filled_at) VALUES"
                " ('q', 'l1', '{}', now()), ('q', 'l2', '{999}', now()),"
                " ('q', 'old', '{}', now() - interval '2 h')");
    assert_int_equal(testdb_int(&f->db, "SELECT pawl.lanes_maintain()"), 2);
    assert_int_equal(testdb_int(&f->db, "SELECT pawl.lanes_mend(10)"), 2);
    assert_text(f,
                "SELECT string_agg(name || holders::text, ' ' ORDER BY name) FROM pawl.lane",
                "l1{} l2{}");
    assert_int_equal(
        count_of(f, "pawl.job WHERE waits_for IS NULL AND due_at <= clock_timestamp()"), 2);
}

static void the_longest_pattern_counts_and_that_of_the_queue_first(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db,
                "SELECT pawl.lane_set('*', '*', 2), pawl.lane_set('*', 'a:*', 3),"
                " pawl.lane_set('q', '*', 4), pawl.lane_set('q', 'a:b*', 5),"
                " pawl.lane_set('q', 'a_c', 6)");
    assert_text(f,
                "SELECT string_agg((pawl.lane_limits(q, l)).max_running::text, ',') FROM (VALUES"
                " ('other', 'x'), ('other', 'a:b'), ('q', 'x'), ('q', 'a:b'), ('q', 'a_c'),"
                " ('q', 'abc')) AS v(q, l)",
                "2,3,4,5,6,4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lanes_test(one_at_a_time_in_each_lane_with_eight_coordinators),
        lanes_test(as_many_at_a_time_as_the_rule_says),
        lanes_test(the_next_starts_at_once_when_the_former_settles),
        lanes_test(a_sleeper_is_called_when_a_lane_is_left),
        lanes_test(every_outcome_frees_the_lane),
        lanes_test(a_crashed_worker_frees_its_lanes_with_its_lease),
        lanes_test(a_worker_that_stops_gives_its_places_back),
        lanes_test(a_waiting_sibling_that_is_cancelled_is_not_missed),
        lanes_test(a_lane_that_gets_more_room_lets_more_in_at_once),
        lanes_test(nothing_of_a_paused_queue_starts_though_its_lane_is_left),
        lanes_test(a_machine_keeps_its_lane_from_step_to_step_and_frees_it_while_it_waits),
        lanes_test(a_machine_that_was_moved_behind_still_knows_what_it_waits_for),
        lanes_test(priorities_count_between_plain_jobs_and_jobs_in_lanes),
        lanes_test(siblings_of_a_running_lane_are_in_nobodys_way),
        lanes_test(ten_thousand_lanes_have_one_holder_each),
        lanes_test(lanes_that_are_stuck_by_accident_are_mended_and_old_ones_forgotten),
        lanes_test(the_longest_pattern_counts_and_that_of_the_queue_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
