/*
 * The sweep in a coordinator: whatever is slow, locked or broken, the jobs of the dead come back, and
 * nobody else waits for that.
 */
#include "engine_fixture.h"

#define TOKEN "a0000000-0000-4000-8000-000000000001"

/* n jobs of a claim whose worker is dead, late to be tried again. */
static void with_dead(struct fixture *f, int n)
{
    retry_late(f);
    enqueue(f, n);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET token = '" TOKEN "', attempt = 1;"
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
                " SELECT '" TOKEN "', gen_random_uuid(), now() - interval '1 s',"
                "  array_agg(id ORDER BY id) FROM pawl.job");
}

/* Each job that a sweep takes back does this first. */
static void on_each_swept(struct fixture *f, const char *what)
{
    char sql[700];

    snprintf(sql,
             sizeof(sql),
             "CREATE FUNCTION public.swept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
             " IF current_query() LIKE '%%pawl.claim_sweep%%' THEN %s END IF; RETURN new; END $$;"
             "CREATE TRIGGER swept BEFORE UPDATE ON pawl.job FOR EACH ROW"
             " EXECUTE FUNCTION public.swept()",
             what);
    testdb_exec(&f->db, sql);
}

#define BACK "pawl.job WHERE token IS NULL AND attempt = 1"

/* All of them at once would take 3 s, and a sweep has 1 s. */
static void a_slow_database_gets_smaller_sweeps(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 2000;
    crew.options.sweep_ms = 1000;
    with_dead(f, 150);
    on_each_swept(f, "PERFORM pg_sleep(0.02);");
    crew_start(&crew);
    run_until(f, count_of(f, BACK) == 150);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    run_until(f, crew_stats(&crew)->swept == 150);
    assert_int_equal(crew.runs, 0);
    crew_stop(&crew);
}

/* Even one takes too long, and then the database is as fast as ever. */
static void a_database_that_was_too_slow_for_one_gets_larger_sweeps_again(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 2000;
    crew.options.sweep_ms = 1000;
    with_dead(f, 300);
    testdb_exec(&f->db, "CREATE TABLE public.slow (s float8); INSERT INTO slow VALUES (30)");
    on_each_swept(f, "PERFORM pg_sleep(s) FROM public.slow;");
    crew_start(&crew);
    /* One that was put aside, for it cannot be that one's fault alone. */
    run_until(f, count_of(f, "pawl.claim WHERE swept_at IS NOT NULL") == 1);
    assert_int_equal(count_of(f, BACK), 0);
    testdb_exec(&f->db, "UPDATE public.slow SET s = 0");
    run_until(f, count_of(f, BACK) == 300);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.job WHERE waits_for IS NOT NULL"), 0);
}

static void a_job_that_cannot_be_taken_back_is_parked_alone(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 2000;
    with_dead(f, 200);
    on_each_swept(f,
                  "IF new.id IN (70, 130) AND new.waits_for IS NULL THEN"
                  " RAISE EXCEPTION 'not this one' USING ERRCODE = '23514'; END IF;");
    crew_start(&crew);
    run_until(f, count_of(f, BACK) == 200);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    run_until(f, crew_stats(&crew)->swept == 200);
    crew_stop(&crew);
    assert_int_equal(count_of(f,
                              "pawl.jobs WHERE state = 'parked' AND id IN (70, 130) AND"
                              " errors -> 0 ->> 'class' = 'lost' AND"
                              " errors -> 0 ->> 'error' LIKE '%not this one (SQLSTATE 23514)'"),
                     2);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'retrying'"), 198);
}

/* It cannot even be parked: it stays where it is, and in nobody's way. */
static void a_job_that_cannot_be_changed_at_all_holds_up_nobody(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 2000;
    with_dead(f, 100);
    on_each_swept(f,
                  "IF new.id IN (1, 60) THEN"
                  " RAISE EXCEPTION 'not this one' USING ERRCODE = '23514'; END IF;");
    crew_start(&crew);
    run_until(f, count_of(f, BACK) == 98);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NOT NULL AND id IN (1, 60)"), 2);
    assert_int_equal(count_of(f, "pawl.claim"), 1);
    testdb_exec(&f->db, "DROP TRIGGER swept ON pawl.job");
    run_until(f, count_of(f, BACK) == 100);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    crew_stop(&crew);
}

/* A sweep that waits for whatever holds up neither claims nor settles. */
static void jobs_run_while_a_sweep_takes_its_time(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 6000; /* its first sweep comes soon, whatever its lease */
    with_dead(f, 3);
    on_each_swept(f, "PERFORM pg_advisory_xact_lock(7);");
    PGconn *other = session(f, "SELECT pg_advisory_lock(7)");

    crew_start(&crew);
    run_until(f, count_of(f, WAITING("claim_sweep")) == 1);
    enqueue(f, 5);
    run_until(f, crew.settled == 5);
    assert_int_equal(count_of(f, WAITING("claim_sweep")), 1);
    PQfinish(other);
    run_until(f, count_of(f, BACK) == 3);
    crew_stop(&crew);
}

/* A worker whose lease ran out, and of whose claim a sweep took a part, learns that all of it is lost. */
static void a_worker_that_comes_back_loses_what_is_left_of_its_claim(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.options.lease_ms = 3000;
    crew.run_ms = HELD;
    retry_late(f);
    enqueue(f, 2);
    crew_start(&crew);
    run_until(f, crew.now == 2);
    /* As a sweep of one job by somebody else leaves it, but for the lease, which our own sweeper
     * must not find over before the renewal does. */
    testdb_exec(&f->db,
                "UPDATE pawl.job SET token = NULL, due_at = 'infinity' WHERE id = 1;"
                "UPDATE pawl.claim SET job_ids = '{2}', swept_at = now()");
    run_until(f, crew.stops[STOP_LOST] == 2);
    /* What was not taken yet is taken, and not kept by renewals. */
    run_until(f, count_of(f, "pawl.job WHERE token IS NULL") == 2);
    crew_let_go(&crew);
    run_until(f, crew.settled == 2);
    assert_int_equal(crew.stale, 2);
    crew_stop(&crew);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    assert_int_equal(count_of(f, "pawl.history"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(a_slow_database_gets_smaller_sweeps),
        engine_test(a_database_that_was_too_slow_for_one_gets_larger_sweeps_again),
        engine_test(a_job_that_cannot_be_taken_back_is_parked_alone),
        engine_test(a_job_that_cannot_be_changed_at_all_holds_up_nobody),
        engine_test(jobs_run_while_a_sweep_takes_its_time),
        engine_test(a_worker_that_comes_back_loses_what_is_left_of_its_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
