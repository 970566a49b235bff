/*
 * A worker whose database has a synchronous standby that stalls (support/standby.py): nothing is
 * started by a claim that a fail-over may undo, and no outcome is called settled before it lasts.
 */
#include "engine_fixture.h"
#include "support/standby.h"

static int setup(void **state)
{
    return fixture_setup(state);
}

static int teardown(void **state)
{
    standby_go_on();
    return fixture_teardown(state);
}

/* As somebody who cannot wait, until that is noticed. */
#define cancel_until(f, cond) run_until(f, (testdb_int(&(f)->db, STANDBY_CANCEL), (cond)))

static void a_claim_that_is_not_confirmed_starts_nothing(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 3);
    standby_stall();
    crew_start(&crew);
    cancel_until(f, crew_stats(&crew)->claim_errors > 0 && count_of(f, "pawl.claim") > 0);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NOT NULL"), 3);
    /* They go back, which waits for the standby as well. */
    run_until(f, testdb_int(&f->db, STANDBY_AWAITED) > 0);
    assert_int_equal(crew.runs, 0);
    standby_go_on();
    run_until(f, crew.now == 3);
    /* Only this claim counts as an attempt. */
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 1"), 3);
    crew_let_go(&crew);
    run_until(f, crew.settled == 3);
    crew_stop(&crew);
    assert_all_done(f, 3);
}

static void an_outcome_that_is_not_confirmed_is_not_settled(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1 && count_of(f, "pawl.worker") == 1);
    standby_stall();
    crew_let_go(&crew);
    cancel_until(f, crew_stats(&crew)->settle_errors > 0);
    assert_int_equal(count_of(f, "pawl.history"), 1); /* the primary has it */
    assert_int_equal(crew.settled, 0);
    /* It is repeated, finds it settled, and that answer waits for the standby, too. */
    run_until(f,
              count_of(f,
                       "pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE "
                       "'%pawl.job_settle%' AND datname = current_database()") == 1);
    assert_int_equal(crew.settled, 0);
    standby_go_on();
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    assert_all_done(f, 1);
}

/* A standby that stalls is no reason to stop what runs: the primary has renewed the lease. */
static void a_run_outlives_a_standby_that_stalls(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    crew.options.lease_ms = 6000;
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.now == 1 && count_of(f, "pawl.worker") == 1);
    standby_stall();
    uint64_t renewals = crew_stats(&crew)->renewals;

    /* A third of the lease each: together longer than one. */
    run_until(f, crew_stats(&crew)->renewals >= renewals + 4 || crew.stops[STOP_LOST] > 0);
    assert_int_equal(crew.stops[STOP_LOST], 0);
    standby_go_on();
    crew_let_go(&crew);
    run_until(f, crew.settled == 1);
    crew_stop(&crew);
    assert_all_done(f, 1);
}

#define STANDBY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STANDBY_TEST(a_claim_that_is_not_confirmed_starts_nothing),
        STANDBY_TEST(an_outcome_that_is_not_confirmed_is_not_settled),
        STANDBY_TEST(a_run_outlives_a_standby_that_stalls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
