/*
 * Machines: jobs that go on in steps, their state, durable sleep and attempts. The coordinator is the
 * shipped one; what a step says is decided by the test.
 */
#include "machines_fixture.h"

#define MANY 50

/* Counts in its state. */
static struct outcome count_up(struct crew *crew, const struct job *job)
{
    static char state[16];
    int n = atoi(state_of(job));

    (void)crew;
    if (n == MANY)
        return outcome_result(state_of(job));
    snprintf(state, sizeof(state), "%d", n + 1);
    return outcome_next("count", state, 0);
}

static void many_steps_run_in_one_claim_and_carry_their_state(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, count_up);
    enqueue(f, 1);
    crew_start(&crew);
    run_until_over(f, 1);
    run_until(f, crew.settled == 1);
    assert_int_equal(crew.runs, MANY + 1);
    assert_int_equal(crew_stats(&crew)->steps, MANY);
    assert_int_equal(crew_stats(&crew)->claimed, 1);
    crew_stop(&crew);
    assert_text(f, RESULT, "done 50");
    assert_all_done(f, 1);
    assert_int_equal(count_of(f, "pawl.history WHERE attempt = 1 AND step = 'count'"), 1);
}

static struct outcome state_kept(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_next("one", "first", 0);
    if (at_step(job, "one"))
        return outcome_next("two", NULL, 0); /* in this claim */
    if (at_step(job, "two"))
        return outcome_next("three", NULL, 1); /* and over the database */
    if (at_step(job, "three"))
        return outcome_next("four", "", 1); /* empty is not the same as none */
    return outcome_result("");
}

static void a_state_stays_unless_a_step_leaves_another(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, state_kept);
    enqueue(f, 1);
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_string_equal(steps_log, "::1 one:first:1 two:first:1 three:first:1 four::1");
}

static struct outcome sleep_long(struct crew *crew, const struct job *job)
{
    (void)crew;
    return at_step(job, "") ? outcome_next("later", "kept", 3600000) : outcome_result("slept");
}

static void a_delay_is_a_durable_sleep_without_a_claim(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, sleep_long);
    enqueue(f, 1);
    crew_start(&crew);
    run_until(f, crew.settled == 1);
    assert_int_equal(count_of(f,
                              MACHINE
                              "token IS NULL AND step = 'later' AND attempt = 0 AND"
                              " due_at BETWEEN now() + interval '59 min' AND now() + interval '61 "
                              "min'"),
                     1);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
    crew_stop(&crew); /* nobody needs to be there meanwhile */
    testdb_exec(&f->db, "UPDATE pawl.job SET due_at = now()");
    crew_init_machines(&crew, f, sleep_long);
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_string_equal(steps_log, "later:kept:1");
    assert_text(f, RESULT, "done slept");
}

static struct outcome retry_in_the_middle(struct crew *crew, const struct job *job)
{
    (void)crew;
    if (at_step(job, ""))
        return outcome_next("shaky", "s", 0);
    if (at_step(job, "shaky"))
        return job->attempt < 3 ? outcome_retry(0) : outcome_next("last", NULL, 0);
    return outcome_result("");
}

static void attempts_are_those_of_the_present_step(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init_machines(&crew, f, retry_in_the_middle);
    enqueue(f, 1);
    testdb_exec(&f->db, "UPDATE pawl.job SET max_attempts = 3");
    crew_start(&crew);
    run_until_over(f, 1);
    crew_stop(&crew);
    assert_string_equal(steps_log, "::1 shaky:s:1 shaky:s:2 shaky:s:3 last:s:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(many_steps_run_in_one_claim_and_carry_their_state),
        engine_test(a_state_stays_unless_a_step_leaves_another),
        engine_test(a_delay_is_a_durable_sleep_without_a_claim),
        engine_test(attempts_are_those_of_the_present_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
