/* Deadlines of jobs that wait for their lane: they fail then, in nobody's place, and nobody is forgotten over it. */
#include "lanes_fixture.h"

/* Who sleeps looks again only when something is due: the poll is out of the way. */
static void patient_crew(struct crew *crew, struct fixture *f)
{
    lane_crew(crew, f);
    crew->options.poll_ms = crew->options.poll_max_ms = 3600000;
    crew->run_ms = HELD;
}

#define FAILED_AT_ITS_DEADLINE                                \
    "pawl.history WHERE state = 'failed' AND lane = 'l1' AND" \
    " errors -> -1 ->> 'error' = 'the deadline of the job has passed'"

/* The lane stays full all the time, and the deadline is later than all the looks of who falls asleep. */
static void who_waits_for_a_full_lane_fails_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    patient_crew(&crew, f);
    enqueue_in(f, "l1", 1, 4);
    crew_start(&crew);
    run_until(f, crew.runs == 1);
    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1', deadline => '1.5 s')"
                " FROM generate_series(1, 3);"
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1')");
    run_until(f, count_of(f, FAILED_AT_ITS_DEADLINE) == 3);
    assert_int_equal(crew.runs, 1);
    assert_text(f, "SELECT holders::text FROM pawl.lane", "{1}");
    crew_let_go(&crew);
    run_until(f, crew.runs == 2);
    crew_let_go(&crew);
    run_until(f, crew.settled == 5);
    crew_stop(&crew);
    assert_order("1,5");
}

static struct outcome wait_first(struct crew *crew, const struct job *job)
{
    static const struct going_on on = {.step = "then", .awaits = "go"};

    (void)crew;
    if (job->machine == NULL || job->machine->step == NULL ||
        strcmp(job->machine->step, "then") != 0) {
        struct outcome outcome = leave_as(job, OUTCOME_AWAIT, -1);

        outcome.on = &on;
        return outcome;
    }
    return leave_as(job, OUTCOME_DONE, -1);
}

/* It waits for a signal, the signal comes, and somebody else is in the lane. */
static void a_machine_that_waits_for_its_lane_fails_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    patient_crew(&crew, f);
    crew.outcome = wait_first;
    testdb_exec(&f->db, "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1', deadline => '1 h')");
    crew_start(&crew);
    run_until(f, crew.runs == 1);
    crew_let_go(&crew);
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'signal' AND due_at = deadline_at") == 1);
    enqueue_in(f, "l1", 1, 4);
    run_until(f, crew.runs == 2);
    testdb_exec(&f->db, "SELECT pawl.signal(1, 'go')");
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'lane' AND due_at = deadline_at") == 1);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET deadline_at = clock_timestamp(), due_at = clock_timestamp()"
                " WHERE id = 1; SELECT pg_notify('pawl_wake', 'q')");
    run_until(f, count_of(f, "pawl.history WHERE id = 1 AND state = 'failed'") == 1);
    assert_int_equal(crew.runs, 2);
    crew_let_go(&crew);
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'signal'") == 1);
    crew_stop(&crew);
}

/* It is due at its deadline, and waits for its lane all the same. */
static void who_has_a_deadline_is_called_like_the_others(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    patient_crew(&crew, f);
    enqueue_in(f, "l1", 1, 4);
    crew_start(&crew);
    run_until(f, crew.runs == 1);
    testdb_exec(&f->db, "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1', deadline => '1 h')");
    run_until(f, count_of(f, "pawl.job WHERE waits_for = 'lane' AND due_at = deadline_at") == 1);
    assert_int_equal(count_of(f, "pawl.jobs WHERE state = 'waiting'"), 1);
    crew_let_go(&crew);
    run_until(f, crew.runs == 2);
    crew_let_go(&crew);
    run_until(f, crew.settled == 2);
    crew_stop(&crew);
    assert_all_done(f, 2);
}

/* Moved behind by a worker of an older version. */
static void who_has_a_deadline_and_is_due_never_is_called_too(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1', deadline => '1 h');"
                "UPDATE pawl.job SET waits_for = 'lane', due_at = 'infinity', lane_due_at = now();"
                "INSERT INTO pawl.lane (queue, name, holders) VALUES ('q', 'l1', '{}')");
    assert_int_equal(testdb_int(&f->db, "SELECT pawl.lanes_leave('{q}', '{l1}', '{7}')"), 1);
    assert_int_equal(count_of(f, "pawl.job WHERE due_at <= clock_timestamp()"), 1);
}

/* Job 1 runs, and job 2, the next of its lane, fails at its deadline before job 3. */
static void second_of_three_fails(struct crew *crew, struct fixture *f, const char *rule)
{
    patient_crew(crew, f);
    testdb_exec(&f->db, rule);
    enqueue_in(f, "l1", 1, 4);
    crew_start(crew);
    run_until(f, crew->runs == 1);
    testdb_exec(&f->db,
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1', deadline => '300 ms');"
                "SELECT pawl.enqueue('k', queue => 'q', lane => 'l1')");
    run_until(f, count_of(f, FAILED_AT_ITS_DEADLINE) == 1);
}

/* In order, but not behind one that will not run. */
static void a_strict_lane_goes_on_when_the_deadline_of_the_first_has_passed(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    second_of_three_fails(&crew, f, "SELECT pawl.lane_set('q', '*', strict => true)");
    crew_let_go(&crew);
    run_until(f, crew.runs == 2);
    crew_let_go(&crew);
    run_until(f, crew.settled == 3);
    crew_stop(&crew);
    assert_order("1,3");
}

/* One start in an hour: whoever was to be called by the clock fails before, and another takes its turn. */
static void the_clock_calls_another_when_the_deadline_of_the_first_comes_before(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    second_of_three_fails(&crew, f, "SELECT pawl.lane_set('q', '*', 9, rate_per_s => 1.0 / 3600)");
    testdb_exec(&f->db, "SELECT pawl.lanes_mend(10)"); /* as the next sweep does */
    run_until(f,
              count_of(f,
                       "pawl.job AS j JOIN pawl.lane AS l ON l.name = j.lane WHERE j.id = 3 AND"
                       " j.waits_for = 'lane' AND isfinite(j.due_at) AND j.due_at <= l.next_at") ==
                  1);
    crew_let_go(&crew);
    crew_stop(&crew);
    assert_order("1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lanes_test(who_waits_for_a_full_lane_fails_at_its_deadline),
        lanes_test(a_machine_that_waits_for_its_lane_fails_at_its_deadline),
        lanes_test(who_has_a_deadline_is_called_like_the_others),
        lanes_test(who_has_a_deadline_and_is_due_never_is_called_too),
        lanes_test(a_strict_lane_goes_on_when_the_deadline_of_the_first_has_passed),
        lanes_test(the_clock_calls_another_when_the_deadline_of_the_first_comes_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
