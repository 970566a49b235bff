/*
 * What goes wrong around a coordinator: leases that are lost, backends that are killed, outcomes
 * that the database refuses, workers that die. One effect for each job, and the loop lives on.
 */
#include "engine_fixture.h"

static bool kept_though_it_arrives_during_a_renewal(struct fixture *f, int64_t lease_ms)
{
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = lease_ms;
    crew.run_ms = HELD;
    enqueue(f, 1);
    hold_claims(f);
    crew_start(&crew);
    run_until(f, claim_waits(f) && count_of(f, "pawl.worker") == 1);
    /* A renewal waits for no lock: it sleeps while the table has a row. */
    testdb_exec(&f->db,
                "CREATE TABLE held AS SELECT 1;"
                "CREATE FUNCTION public.sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " WHILE EXISTS (SELECT FROM public.held) LOOP PERFORM pg_sleep(0.01); END LOOP;"
                " RETURN NULL; END $$;"
                "CREATE TRIGGER sleep BEFORE UPDATE ON pawl.worker FOR EACH STATEMENT"
                " EXECUTE FUNCTION public.sleep()");
    /* It knows nothing of the claim. */
    run_until(f,
              count_of(f,
                       "pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE"
                       " '%pawl.claim_renew%' AND datname = current_database()") == 1);
    release_claims(f);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db, "DELETE FROM held");
    /* The next renewal is sent when this one was answered and judged. */
    run_until(f, count_of(f, "pawl.worker WHERE beat_at > started_at + interval '50 ms'") == 1);
    testdb_exec(&f->db, "CREATE TABLE first AS SELECT beat_at FROM pawl.worker");
    run_until(f, count_of(f, "pawl.worker AS w, first WHERE w.beat_at > first.beat_at") == 1);
    crew_let_go(&crew);
    run_until(f, crew.settled >= 1);
    crew_stop(&crew);
    testdb_exec(&f->db,
                "DROP TRIGGER sleep ON pawl.worker; DROP FUNCTION public.sleep; DROP TABLE held;"
                "DROP TRIGGER hold ON pawl.job; DROP FUNCTION public.hold; DROP TABLE first;"
                "DELETE FROM pawl.job; DELETE FROM pawl.claim");
    return crew.stops[STOP_LOST] == 0;
}

/* It is held up until a renewal is sent. Where that takes a whole lease it is lost, and rightly; not with a longer one. */
static void a_claim_that_arrives_during_a_renewal_is_kept(void **state)
{
    assert_true(kept_though_it_arrives_during_a_renewal(*state, 1500) ||
                kept_though_it_arrives_during_a_renewal(*state, 6000) ||
                kept_though_it_arrives_during_a_renewal(*state, 24000));
}

/* Two jobs that run for three leases. */
static bool kept(struct fixture *f, int64_t lease_ms)
{
    struct crew a;
    struct crew b;

    testdb_exec(&f->db, "DELETE FROM pawl.history");
    crew_init(&a, f);
    crew_init(&b, f);
    a.options.lease_ms = b.options.lease_ms = lease_ms;
    a.run_ms = b.run_ms = 3 * lease_ms;
    enqueue(f, 2);
    crew_start(&a);
    crew_start(&b);
    run_until(f, count_of(f, "pawl.job") == 0);
    bool lost = a.runs + b.runs != 2 || a.stops[STOP_LOST] + b.stops[STOP_LOST] != 0;

    crew_stop(&a);
    crew_stop(&b);
    return !lost && count_of(f, "pawl.history WHERE state = 'done' AND attempt = 1") == 2;
}

/* Who stands still for a moment loses a short lease; nobody does for a long one. */
static void a_long_job_is_kept_by_its_heartbeat(void **state)
{
    assert_true(kept(*state, 300) || kept(*state, 3000) || kept(*state, 9000));
}

static void a_settle_survives_its_backend(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 20;
    crew.run_ms = HELD;
    enqueue(f, 20);
    crew_start(&crew);
    run_until(f, crew.now == 20);
    PGconn *other = session(f, "BEGIN; SELECT FROM pawl.job FOR UPDATE");

    crew_let_go(&crew);
    run_until(f, count_of(f, WAITING("job_settle")) == 1);
    testdb_exec(&f->db,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE '%pawl.job_settle%' AND datname = current_database()"
                " AND pid <> pg_backend_pid()");
    PQfinish(other);
    run_until(f, crew.settled == 20);
    assert_int_equal(crew_stats(&crew)->done, 20);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND attempt = 1"), 20);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

static void backends_killed_under_load_cost_nothing(void **state)
{
    struct fixture *f = *state;
    struct crew crew;
    size_t next = 20;

    crew_init(&crew, f);
    crew.options.lease_ms = 500; /* a claim whose answer is lost has to run out */
    crew.run_ms = 1;
    enqueue(f, 200);
    crew_start(&crew);
    while (count_of(f, "pawl.history WHERE state = 'done'") < 200) {
        if (crew.settled >= next && next < 200) {
            next += 40;
            testdb_exec(&f->db,
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                        " current_database() AND pid <> pg_backend_pid()");
        }
        testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now() WHERE due_at > now()");
        run_until(f, true);
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    crew_stop(&crew);
    assert_int_equal(count_of(f, "(SELECT DISTINCT id FROM pawl.history) AS h"), 200);
    assert_int_equal(count_of(f, "pawl.history"), 200);
    assert_int_equal(count_of(f, "pawl.job"), 0);
}

static void a_claim_survives_its_backend(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    enqueue(f, 5);
    hold_claims(f);
    crew_start(&crew);
    run_until(f, claim_waits(f));
    testdb_exec(&f->db,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE '%pawl.job_claim%' AND datname = current_database()"
                " AND pid <> pg_backend_pid()");
    run_until(f, crew_stats(&crew)->claim_errors == 1);
    release_claims(f);
    run_until(f, crew.settled == 5);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND attempt = 1"), 5);
}

static struct outcome bad_text(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (job->id != 3)
        return outcome_done();
    return (struct outcome){.kind = OUTCOME_RETRY, .error = "\xff\xfe", .delay_ms = 0, .run_us = 1};
}

static void an_outcome_that_cannot_be_stored_fails_its_job_alone(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 8;
    crew.outcome = bad_text;
    crew.run_ms = HELD;
    enqueue(f, 8);
    crew_start(&crew);
    run_until(f, crew.now == 8);
    crew_let_go(&crew);
    run_until(f, crew.settled == 8);
    assert_int_equal(crew.failed, 1);
    assert_int_equal(crew.stale, 0);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND id <> 3"), 7);
    assert_int_equal(count_of(f,
                              "pawl.history WHERE state = 'failed' AND id = 3 AND "
                              "errors -> 0 ->> 'error' LIKE 'the outcome could not be stored: %'"),
                     1);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

/* Not one by one: a worker with a thousand outcomes would stand still for a second. */
static void a_bad_outcome_among_many_is_found_by_halving(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.concurrency = 200;
    crew.outcome = bad_text;
    crew.run_ms = HELD;
    enqueue(f, 200);
    crew_start(&crew);
    run_until(f, crew.now == 200);
    crew_let_go(&crew);
    run_until(f, crew.settled == 200);
    assert_int_equal(crew.failed, 1);
    /* 200, 100, … 1 are refused; then twice as many each time. */
    assert_in_range(crew_stats(&crew)->settle_errors, 2, 10);
    assert_in_range(crew_stats(&crew)->settles, 2, 20);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND id <> 3"), 199);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

static void a_job_that_cannot_be_settled_at_all_hurts_no_other(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.kinds[1] = "poison";
    crew.options.concurrency = 2;
    crew.options.lease_ms = 4000;
    crew.run_ms = HELD;
    testdb_exec(&f->db,
                "ALTER TABLE pawl.history ADD CHECK (kind <> 'poison');"
                "INSERT INTO pawl.job (queue, kind, payload, priority)"
                " VALUES ('q', 'poison', '', 9), ('q', 'k', '', 1)");
    crew_start(&crew);
    run_until(f, crew.now == 2);
    crew_let_go_one(&crew);
    run_until(f, crew_stats(&crew)->parked == 1);
    /* Its sibling of the same claim goes on for longer than a lease, and is still ours. */
    run_until(f, uv_now(&f->loop) - f->began_ms > 6000);
    assert_int_equal(crew.now, 1);
    assert_int_equal(crew.stops[STOP_LOST], 0);
    crew_let_go(&crew);
    run_until(f, crew.settled == 2);
    assert_int_equal(crew.stale, 0);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE kind = 'k' AND attempt = 1"), 1);
    assert_int_equal(
        count_of(f, "pawl.jobs WHERE kind = 'poison' AND attempt = 1 AND state = 'parked'"), 1);
}

static void the_jobs_of_the_dead_come_back(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 6000; /* its first sweep comes soon, whatever its lease */
    retry_late(f);
    enqueue(f, 3);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET token = 'a0000000-0000-4000-8000-000000000001', attempt = 1;"
                "UPDATE pawl.job SET max_attempts = 1 WHERE id = 2;"
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) VALUES"
                " ('a0000000-0000-4000-8000-000000000001', gen_random_uuid(),"
                "  now() - interval '1 s', '{1,2,3}')");
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.jobs WHERE state = 'retrying' AND attempt = 1") == 2);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'failed' AND id = 2"), 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now()");
    run_until(f, crew.settled == 2);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND attempt = 2"), 2);
    assert_int_equal(
        count_of(f, "pawl.history WHERE errors -> 0 ->> 'error' LIKE 'the worker died%'"), 3);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_claim_that_arrives_during_a_renewal_is_kept),
        engine_test(a_long_job_is_kept_by_its_heartbeat),
        engine_test(a_settle_survives_its_backend),
        engine_test(backends_killed_under_load_cost_nothing),
        engine_test(a_claim_survives_its_backend),
        engine_test(an_outcome_that_cannot_be_stored_fails_its_job_alone),
        engine_test(a_bad_outcome_among_many_is_found_by_halving),
        engine_test(a_job_that_cannot_be_settled_at_all_hurts_no_other),
        engine_test(the_jobs_of_the_dead_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
