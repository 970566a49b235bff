/*
 * Which jobs a coordinator finds, and when: rows behind its watermark, priorities, queues in turn,
 * jobs claimed ahead of need, and small demands.
 */
#include "engine_fixture.h"

/* A crew that is busy for seconds: one slot, a few milliseconds a job, always more ahead. */
static void start_busy(struct crew *crew, struct fixture *f)
{
    crew_init(crew, f);
    crew->options.concurrency = 1;
    crew->options.poll_ms = crew->options.poll_max_ms = 3600000;
    crew->run_ms = 4;
    enqueue(f, 1500);
    crew_start(crew);
    run_until(f, crew->runs > 20);
}

/* Job id runs soon: while work is still ahead of it, which is there for many seconds. */
static void assert_runs_soon(struct crew *crew, int64_t id)
{
    run_until(crew->f, crew->seen[id] == 1);
    assert_true(count_of(crew->f, "pawl.job WHERE due_at <= now() AND token IS NULL") > 0);
}

/* Does not wait for what is still queued. */
static void stop_busy(struct crew *crew)
{
    testdb_exec(&crew->f->db, "DELETE FROM pawl.job WHERE token IS NULL");
    crew_stop(crew);
    assert_int_equal(count_of(crew->f, "pawl.history WHERE attempt = 1"), crew->runs);
}

/* T1 inserts and stays open, T2 inserts later, commits and is claimed, T1 commits. */
static void a_late_committer_behind_the_watermark_is_picked_up(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    PGconn *t1 = session(f,
                         "BEGIN; INSERT INTO pawl.job (queue, kind, payload) VALUES ('q', 'k', '')"
                         " RETURNING id");

    start_busy(&crew, f);
    assert_int_equal(crew.seen[1], 0);
    PQclear(PQexec(t1, "COMMIT"));
    assert_runs_soon(&crew, 1);
    stop_busy(&crew);
    PQfinish(t1);
}

/* The same when it went to sleep in between: then the looks and the poll find it. */
static void a_late_committer_is_found_by_a_sleeper_too(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    PGconn *t1 = session(f,
                         "BEGIN; INSERT INTO pawl.job (queue, kind, payload) VALUES ('q', 'k', '')"
                         " RETURNING id");

    crew_init(&crew, f);
    enqueue(f, 20);
    crew_start(&crew);
    run_until(f, crew.settled == 20 && crew_stats(&crew)->empty_claims > 2);
    PQclear(PQexec(t1, "COMMIT"));
    run_until(f, crew.settled == 21);
    assert_int_equal(crew.seen[1], 1);
    crew_stop(&crew);
    assert_all_done(f, 21);
    PQfinish(t1);
}

static void released_jobs_behind_the_watermark_are_picked_up(void **state)
{
    struct fixture *f = *state;
    struct crew a;
    struct crew b;

    crew_init(&a, f);
    a.options.concurrency = 1;
    a.options.prefetch = 3;
    a.run_ms = HELD;
    enqueue(f, 4);
    crew_start(&a);
    run_until(f, a.now == 1);
    assert_int_equal(crew_stats(&a)->claimed, 4);
    start_busy(&b, f);
    coordinator_stop(a.c);
    run_until(f, crew_stats(&a)->released == 3);
    for (int64_t id = 2; id <= 4; id++)
        assert_runs_soon(&b, id);
    crew_let_go(&a);
    crew_end(&a);
    testdb_exec(&f->db, "DELETE FROM pawl.history WHERE id = 1"); /* a's */
    stop_busy(&b);
}

static void resumed_jobs_behind_the_watermark_are_picked_up(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload, due_at, waits_for)"
                " VALUES ('q', 'k', '', 'infinity', 'operator')");
    start_busy(&crew, f);
    testdb_exec(
        &f->db,
        "UPDATE pawl.job SET waits_for = NULL, due_at = created_at WHERE waits_for = 'operator'");
    assert_runs_soon(&crew, 1);
    stop_busy(&crew);
}

static void an_urgent_job_is_the_next_to_run(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 1;
    crew.run_ms = HELD;
    enqueue(f, 20);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload, priority)"
                " VALUES ('q', 'k', '', 9), ('q', 'k', '', 3), ('q', 'k', '', 5)");
    for (size_t n = 2; n <= 23; n++) {
        crew_let_go_one(&crew);
        run_until(f, crew.runs == n);
    }
    assert_int_equal(crew.order[1], 21);
    assert_int_equal(crew.order[2], 23);
    assert_int_equal(crew.order[3], 2);
    assert_int_equal(crew.order[22], 22); /* less urgent than all others */
    crew_let_go(&crew);
    crew_stop(&crew);
}

static void the_jobs_of_one_claim_start_in_the_same_order(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 6;
    crew.options.until_empty = true;
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload, priority, due_at) VALUES"
                " ('q', 'k', '', 4, now() - interval '1 s'), ('q', 'k', '', 0, now()),"
                " ('q', 'k', '', 9, now()), ('q', 'k', '', 4, now() - interval '2 s'),"
                " ('q', 'k', '', 4, now() - interval '1 s'), ('q', 'k', '', 4, now())");
    crew_start(&crew);
    run_until(f, crew.stopped);
    assert_int_equal(crew_stats(&crew)->claims - crew_stats(&crew)->empty_claims, 1);
    crew_end(&crew);
    const int64_t expected[] = {3, 4, 1, 5, 6, 2};

    assert_memory_equal(crew.order, expected, sizeof(expected));
}

static void queues_take_turns(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.queues[1] = "r";
    crew.options.n_queues = 2;
    crew.options.concurrency = 1;
    crew.options.until_empty = true;
    enqueue(f, 50);
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'r', 'k', '' FROM generate_series(1, 5)");
    crew_start(&crew);
    crew_end(&crew);
    assert_int_equal(crew.runs, 55);
    /* A long queue does not starve a short one. */
    for (int64_t id = 51; id <= 55; id++) {
        size_t at = 0;

        while (crew.order[at] != id)
            at++;
        assert_true(at < 12);
    }
}

static void full_scans_are_bounded_under_load(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 8;
    crew.options.poll_ms = crew.options.poll_max_ms = 3600000;
    enqueue(f, 1900);
    crew_start(&crew);
    uint64_t from_ms = uv_now(&f->loop);

    run_until(f, crew.runs >= 1800);
    uint64_t seconds = (uv_now(&f->loop) - from_ms) / 1000;

    assert_true(crew_stats(&crew)->claims >= 200);
    assert_in_range(crew_stats(&crew)->full_scans, 1, 2 + seconds);
    run_until(f, crew.settled == 1900);
    crew_stop(&crew);
    assert_all_done(f, 1900);
}

/* ── ahead of need ── */

static void prefetched_jobs_are_leased_and_renewed(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 2;
    crew.options.prefetch = 4;
    crew.options.lease_ms = 4000;
    crew.run_ms = HELD;
    enqueue(f, 10);
    crew_start(&crew);
    run_until(f, crew.now == 2);
    assert_int_equal(crew_stats(&crew)->claimed, 6);
    assert_int_equal(coordinator_running(crew.c), 2);
    crew_let_go_one(&crew); /* one from the buffer takes its place, and one more is claimed */
    run_until(f, crew.now == 2 && crew_stats(&crew)->claimed == 7);
    testdb_exec(&f->db, "CREATE TABLE before AS SELECT token, lease_until FROM pawl.claim");
    /* Past the end of every lease as it was. */
    run_until(f,
              count_of(f, "before WHERE clock_timestamp() < lease_until + interval '200 ms'") == 0);
    assert_int_equal(count_of(f,
                              "pawl.job AS j JOIN pawl.claim AS c USING (token)"
                              " WHERE c.lease_until > clock_timestamp()"),
                     6);
    assert_true(crew_stats(&crew)->renewals >= 2);
    assert_int_equal(crew.stops[STOP_LOST], 0);
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until(f, crew.settled == 10);
    crew_stop(&crew);
    assert_each_once(&crew, NULL, 10);
    assert_all_done(f, 10);
}

static void prefetched_jobs_are_released_by_a_stop_with_their_attempt(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 1;
    crew.options.prefetch = 4;
    crew.run_ms = HELD;
    enqueue(f, 5);
    testdb_exec(&f->db, "CREATE TABLE before AS SELECT id, due_at FROM pawl.job");
    crew_start(&crew);
    run_until(f, crew.now == 1);
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 1 AND token IS NOT NULL"), 5);
    coordinator_stop(crew.c);
    run_until(f, crew_stats(&crew)->released == 4);
    assert_false(crew.stopped); /* the one that runs goes on */
    assert_int_equal(count_of(f,
                              "pawl.job JOIN before USING (id, due_at)"
                              " WHERE attempt = 0 AND token IS NULL AND errors IS NULL"),
                     4);
    crew_let_go(&crew);
    crew_end(&crew);
    assert_int_equal(crew.left, 0);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
}

/* Another worker has them: what was not started is not started any more. */
static void prefetched_jobs_of_a_lost_claim_are_not_started(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 1;
    crew.options.prefetch = 4;
    crew.options.lease_ms = 3000;
    crew.run_ms = HELD;
    enqueue(f, 5);
    crew_start(&crew);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET token = gen_random_uuid(), attempt = 2;"
                "DELETE FROM pawl.claim");
    run_until(f, crew.stops[STOP_LOST] == 1);
    assert_int_equal(crew_stats(&crew)->lost_claims, 1);
    crew_let_go(&crew);
    run_until(f, crew_stats(&crew)->stale == 5);
    crew_stop(&crew);
    assert_int_equal(crew.runs, 1);
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 2 AND token IS NOT NULL"), 5);
}

static void with_min_demand_it_waits_for_room_for_so_many(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 4;
    crew.options.min_demand = 3;
    crew.run_ms = HELD;
    enqueue(f, 10);
    crew_start(&crew);
    run_until(f, crew.now == 4);
    assert_int_equal(crew_stats(&crew)->claims, 1);
    crew_let_go_one(&crew);
    crew_let_go_one(&crew);
    run_until(f, crew.settled == 2);
    coordinator_wake(crew.c); /* not even then */
    idle_for(&crew, 50);
    assert_int_equal(crew_stats(&crew)->claims, 1);
    crew_let_go_one(&crew);
    run_until(f, crew.now == 4);
    assert_int_equal(crew_stats(&crew)->claims, 2);
    assert_int_equal(crew_stats(&crew)->claimed, 7);
    /* With nothing running any demand will do: the last are not left lying. */
    crew.run_ms = 0;
    crew_let_go(&crew);
    run_until(f, crew.settled == 10);
    crew_stop(&crew);
    assert_all_done(f, 10);
}

static void a_large_claim_waits_for_that_of_another(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    PGconn *other = other_turn(f);

    testdb_exec(&f->db, "ALTER FUNCTION pawl.claim_turn(text) SET lock_timeout = '60s'");
    crew_init(&crew, f);
    crew.options.prefetch = IDS_MAX;
    enqueue(f, 1800);
    crew_start(&crew);
    run_until(f, count_of(f, WAITING("claim_turn")) == 1);
    PQfinish(other);
    run_until(f, crew.settled == 1800);
    assert_int_equal(crew_stats(&crew)->claim_errors, 0);
    assert_int_equal(crew_stats(&crew)->missed_turns, 0);
    crew_stop(&crew);
    assert_all_done(f, 1800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_late_committer_behind_the_watermark_is_picked_up),
        engine_test(a_late_committer_is_found_by_a_sleeper_too),
        engine_test(released_jobs_behind_the_watermark_are_picked_up),
        engine_test(resumed_jobs_behind_the_watermark_are_picked_up),
        engine_test(an_urgent_job_is_the_next_to_run),
        engine_test(the_jobs_of_one_claim_start_in_the_same_order),
        engine_test(queues_take_turns),
        engine_test(full_scans_are_bounded_under_load),
        engine_test(a_large_claim_waits_for_that_of_another),
        engine_test(prefetched_jobs_are_leased_and_renewed),
        engine_test(prefetched_jobs_are_released_by_a_stop_with_their_attempt),
        engine_test(prefetched_jobs_of_a_lost_claim_are_not_started),
        engine_test(with_min_demand_it_waits_for_room_for_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
