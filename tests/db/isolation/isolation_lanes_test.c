/*
 * Lanes between sessions, stepped by hand: who waits for whom, and that neither order leaves a
 * sibling behind in an empty lane.
 */
#include "session_fixture.h"

/* ── lanes: moved behind, and called ── */

/* The claim that moves a sibling behind commits before the settle gets the lane. */
static void a_leave_waits_for_the_claim_that_moves_a_sibling_behind_and_calls_it(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 2);
    take(t, &one, t->a, 1);
    assert_int_equal(one.jobs[0].id, 1);
    exec_on(t->b, "BEGIN");
    assert_int_equal(take_n(t, t->b, 5), 0); /* 2 is moved behind, not committed */
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE))), 1);
    start(t, t->a, leaves(t, "l", 1));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    assert_text(t->s, BEHIND, "2");
    PQclear(finish(t->a));
    exec_on(t->a, "COMMIT");
    assert_text(t->s, READY, "2");
    assert_text(t->s, HOLDERS, "l{}");
    assert_int_equal(take_n(t, t->b, 5), 1);
    taken_clear(&one);
}

/* The settle has the lane: the claim leaves the sibling where it is. */
static void a_claim_does_not_wait_for_a_leave_nor_move_behind_what_it_cannot_judge(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 2);
    take(t, &one, t->a, 1);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE))), 1);
    step(t, t->a, leaves(t, "l", 1));
    assert_int_equal(take_n(t, t->b, 5), 0);
    assert_text(t->s, BEHIND, "");
    exec_on(t->a, "COMMIT");
    assert_int_equal(take_n(t, t->b, 5), 1);
    assert_text(t->s, HOLDERS, "l{2}");
    taken_clear(&one);
}

static void a_leave_that_is_given_up_calls_nobody(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 2);
    take(t, &one, t->a, 1);
    assert_int_equal(take_n(t, t->b, 5), 0);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE))), 1);
    step(t, t->a, leaves(t, "l", 1));
    exec_on(t->a, "ROLLBACK");
    assert_text(t->s, BEHIND, "2");
    assert_text(t->s, HOLDERS, "l{1}");
    settle_in_lane(t, t->a, &one, 0, as(OUTCOME_DONE));
    assert_text(t->s, READY, "2");
    taken_clear(&one);
}

/* A sibling that a claim which is given up had moved behind is where it was. */
static void a_claim_that_is_given_up_takes_no_place(void **state)
{
    struct sessions *t = *state;

    enqueue_in(t, "l", 2);
    exec_on(t->a, "BEGIN");
    assert_int_equal(take_n(t, t->a, 5), 1);
    exec_on(t->a, "ROLLBACK");
    assert_text(t->s, READY, "1,2");
    assert_text(t->s, HOLDERS, "");
    assert_int_equal(take_n(t, t->b, 5), 1);
    assert_text(t->s, HOLDERS, "l{1}");
    assert_text(t->s, BEHIND, "2");
}

static void of_two_who_want_the_last_place_one_gets_it(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    testdb_exec(&t->s->db, "SELECT pawl.lane_set('q', 'l', 2)");
    enqueue_in(t, "l", 1);
    assert_int_equal(take_n(t, t->a, 1), 1);
    enqueue_in(t, "l", 2);
    exec_on(t->a, "BEGIN");
    take(t, &one, t->a, 1);
    assert_int_equal(one.n, 1);
    assert_int_equal(take_n(t, t->b, 5), 0); /* the lane is locked: not decided */
    assert_text(t->s, BEHIND, "");
    exec_on(t->a, "COMMIT");
    assert_int_equal(take_n(t, t->b, 5), 0);
    assert_text(t->s, HOLDERS, "l{1,2}");
    assert_text(t->s, BEHIND, "3");
    taken_clear(&one);
}

/* Both see no lane; the second waits for the first, and takes nothing. */
static void two_make_the_same_lane_and_one_enters_it(void **state)
{
    struct sessions *t = *state;
    struct taken second = {.asked = claim_of(t, 5)};

    enqueue_in(t, "l", 2);
    exec_on(t->a, "BEGIN");
    assert_int_equal(take_n(t, t->a, 1), 1);
    job_claim_bind(begin(t->s), &second.asked);
    start(t, t->b, STMT(job_claim_lanes));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    taken_read(&second, finish(t->b));
    assert_int_equal(second.n, 0);
    assert_text(t->s, HOLDERS, "l{1}");
    taken_clear(&second);
    assert_int_equal(take_n(t, t->b, 5), 0);
    assert_text(t->s, BEHIND, "2");
}

static void two_make_the_same_lane_and_the_first_gives_up(void **state)
{
    struct sessions *t = *state;
    struct taken second = {.asked = claim_of(t, 5)};

    enqueue_in(t, "l", 2);
    exec_on(t->a, "BEGIN");
    assert_int_equal(take_n(t, t->a, 1), 1);
    job_claim_bind(begin(t->s), &second.asked);
    start(t, t->b, STMT(job_claim_lanes));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "ROLLBACK");
    taken_read(&second, finish(t->b));
    assert_int_equal(second.n, 1);
    taken_clear(&second);
    assert_int_equal(take_n(t, t->a, 5), 0);
    assert_text(t->s, HOLDERS, "l{2}");
}

/* Lanes that several make are made in one order, whatever stands first. */
static void two_who_make_several_lanes_do_not_deadlock(void **state)
{
    struct sessions *t = *state;
    struct taken second = {.asked = claim_of(t, 2)};

    enqueue_in(t, "x", 1);
    enqueue_in(t, "y", 1);
    enqueue_in(t, "y", 1);
    enqueue_in(t, "x", 1);
    exec_on(t->a, "BEGIN");
    assert_int_equal(take_n(t, t->a, 2), 2);
    job_claim_bind(begin(t->s), &second.asked);
    start(t, t->b, STMT(job_claim_lanes));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    taken_read(&second, finish(t->b));
    assert_int_equal(second.n, 0);
    taken_clear(&second);
}

/* ── lanes: strict order ── */

/* 1 is given back while a claim that began before looks at 2. */
static void a_strict_lane_that_changed_meanwhile_is_left_for_the_next_claim(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    testdb_exec(&t->s->db, "SELECT pawl.lane_set('q', 'l', strict => true)");
    enqueue_in(t, "l", 2);
    while (take(t, &one, t->a, 1)->n == 0)
        taken_clear(&one);
    assert_int_equal(one.jobs[0].id, 1);
    /* b's statement has its snapshot and stops before it looks at lanes: at a lock of ours. */
    testdb_exec(&t->s->db,
                "CREATE FUNCTION public.hold() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM pg_advisory_xact_lock_shared(77); RETURN true; END $$;"
                "CREATE POLICY held ON pawl.lane USING (public.hold());"
                "CREATE ROLE held_worker LOGIN PASSWORD 'x' IN ROLE pawl_worker;"
                "ALTER TABLE pawl.lane ENABLE ROW LEVEL SECURITY;"
                "GRANT EXECUTE ON FUNCTION public.hold TO PUBLIC;"
                "SELECT pg_advisory_lock(77)");
    exec_on(t->b, "SET ROLE held_worker");
    struct taken second = {.asked = claim_of(t, 1)};

    job_claim_bind(begin(t->s), &second.asked);
    start(t, t->b, STMT(job_claim_lanes));
    assert_waits(t, t->b, t->s->db.conn);
    settle_in_lane(t, t->a, &one, 0, as(OUTCOME_RELEASE));
    testdb_exec(&t->s->db, "SELECT pg_advisory_unlock(77);");
    taken_read(&second, finish(t->b));
    assert_int_equal(second.n, 0);
    taken_clear(&second);
    exec_on(t->b, "RESET ROLE");
    take(t, &second, t->b, 1);
    assert_int_equal(second.n, 1);
    assert_int_equal(second.jobs[0].id, 1);
    taken_clear(&second);
    taken_clear(&one);
    testdb_exec(&t->s->db,
                "DROP POLICY held ON pawl.lane; DROP OWNED BY held_worker; DROP ROLE held_worker");
}

/* ── lanes: several together ── */

/* Some were looked for, some came along, one of these had been moved behind before. */
static void several_of_a_lane_are_taken_together_and_fill_it_until_the_last_has_left(void **state)
{
    struct sessions *t = *state;
    struct taken first;
    struct taken all;

    enqueue_in(t, "l", 6);
    take(t, &first, t->a, 1);
    settle_in_lane(t, t->a, &first, 0, as(OUTCOME_DONE));
    testdb_exec(&t->s->db,
                "UPDATE pawl.job SET waits_for = 'lane', due_at = 'infinity', lane_due_at = due_at"
                " WHERE id IN (2, 5)");
    take_together(t, &all, t->a, 2, 4);
    assert_int_equal(all.n, 4); /* 3 and 4, and with them 2 and 5 */
    for (int row = 0; row < 4; row++) {
        int64_t id = job_claim_id(all.r, row);

        assert_true(job_claim_together(all.r, row));
        assert_int_equal(job_claim_along(all.r, row), id == 2 || id == 5);
        assert_int_equal(job_claim_priority(all.r, row), 4);
    }
    assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NOT NULL AND isfinite(due_at)"), 4);
    assert_int_equal(take_n(t, t->b, 5), 0); /* full: 6 is moved behind */
    assert_text(t->s, BEHIND, "6");
    for (size_t i = 0; i < 3; i++) {
        settle_in_lane(t, t->a, &all, i, as(OUTCOME_DONE));
        assert_text(t->s, BEHIND, "6");
    }
    settle_in_lane(t, t->a, &all, 3, as(OUTCOME_DONE));
    assert_text(t->s, HOLDERS, "l{}");
    assert_text(t->s, READY, "6");
    taken_clear(&all);
    taken_clear(&first);
}

/* One of them failed, and its next try is due: it has no place while the others run. */
static void one_of_several_that_is_tried_again_waits_for_the_others(void **state)
{
    struct sessions *t = *state;
    struct taken all;

    enqueue_in(t, "l", 3);
    take_together(t, &all, t->a, 1, 3);
    assert_int_equal(all.n, 3);
    /* Settled, but the lane is not left yet. */
    assert_int_equal(step(t, t->a, settles(t, &all, 0, as(OUTCOME_RETRY))), 1);
    assert_int_equal(take_n(t, t->b, 5), 0);
    assert_text(t->s, BEHIND, "1");
    settle_in_lane(t, t->a, &all, 1, as(OUTCOME_DONE));
    assert_int_equal(take_n(t, t->b, 5), 0);
    settle_in_lane(t, t->a, &all, 2, as(OUTCOME_DONE));
    assert_text(t->s, READY, "1");
    assert_int_equal(take_n(t, t->b, 5), 1);
    taken_clear(&all);
}

static void only_lanes_with_one_place_no_rate_and_no_order_are_entered_together(void **state)
{
    static const char *const rules[] = {
        "SELECT pawl.lane_set('q', 'l*', 2)",
        "SELECT pawl.lane_set('q', 'l*', rate_per_s => 1)",
        "SELECT pawl.lane_set('q', 'l*', strict => true)",
    };
    struct sessions *t = *state;
    struct taken some;

    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        char lane[] = {'l', (char)('0' + i), '\0'};

        testdb_exec(&t->s->db, "DELETE FROM pawl.job");
        testdb_exec(&t->s->db, rules[i]);
        enqueue_in(t, lane, 5);
        take_together(t, &some, t->a, 5, 5);
        assert_int_equal(some.n, i == 0 ? 2 : 1);
        for (int row = 0; row < (int)some.n; row++)
            assert_false(job_claim_together(some.r, row));
        taken_clear(&some);
    }
}

/* ── lanes: mending ── */

static void a_mend_skips_a_lane_that_is_held_and_the_next_mends_it(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 3);
    take(t, &one, t->a, 1);
    assert_int_equal(take_n(t, t->b, 5), 0);
    testdb_exec(&t->s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    exec_on(t->c, "BEGIN; SELECT FROM pawl.lane FOR UPDATE");
    assert_int_equal(step(t, t->a, sweeps(t)), 2); /* waits for nobody; a job, and lanes */
    step(t, t->a, mends(t));
    assert_text(t->s, HOLDERS, "l{1}");
    assert_int_equal(count_of(t->s, "pawl.lane_stir"), 1);
    exec_on(t->c, "COMMIT");
    step(t, t->a, mends(t));
    assert_text(t->s, HOLDERS, "l{}");
    assert_text(t->s, READY, "2");
    assert_int_equal(count_of(t->s, "pawl.lane_stir"), 0);
    taken_clear(&one);
}

/* Who entered the lane while the mend had begun is not thrown out. */
static void a_mend_keeps_who_entered_while_it_began(void **state)
{
    struct sessions *t = *state;

    enqueue_in(t, "l", 1);
    assert_int_equal(take_n(t, t->a, 1), 1);
    testdb_exec(&t->s->db,
                "UPDATE pawl.claim SET lease_until = '-infinity';"
                "UPDATE pawl.job SET max_attempts = 1");
    enqueue_in(t, "l", 1);
    assert_int_equal(step(t, t->a, sweeps(t)), 2); /* 1 failed; lanes */
    exec_on(t->b, "BEGIN; SELECT FROM pawl.lane_stir");
    exec_on(t->b, "COMMIT");
    step(t, t->b, mends(t));
    assert_text(t->s, HOLDERS, "l{}");
    exec_on(t->a, "BEGIN");
    assert_int_equal(take_n(t, t->a, 1), 1);
    testdb_exec(&t->s->db, "INSERT INTO pawl.lane_stir (queue, name) VALUES ('q', 'l')");
    step(t, t->b, mends(t));
    exec_on(t->a, "COMMIT");
    step(t, t->b, mends(t));
    assert_text(t->s, HOLDERS, "l{2}");
}

/* Somebody else has the job by now, and runs it in the lane. */
static void a_stale_leave_does_not_free_the_place_of_who_has_the_job_now(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 2);
    take(t, &one, t->a, 1);
    testdb_exec(&t->s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    assert_int_equal(step(t, t->c, sweeps(t)), 2);
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now() - interval '1 h' WHERE id = 1");
    exec_on(t->b, "BEGIN");
    assert_int_equal(take_n(t, t->b, 1), 1); /* 1 again, as a holder */
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE))), 0);
    start(t, t->a, leaves(t, "l", 1));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    PQclear(finish(t->a));
    exec_on(t->a, "COMMIT");
    assert_text(t->s, HOLDERS, "l{1}");
    taken_clear(&one);
}

/* As a claim does that began before the sibling was moved behind: it locks the row, sees that it is
 * not due any more, and keeps the lock until it commits. */
static void
one_that_waits_and_is_locked_when_the_lane_is_left_is_called_by_the_next_mend(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 2);
    take(t, &one, t->a, 5);
    assert_text(t->s, BEHIND, "2");
    exec_on(t->c, "BEGIN; SELECT FROM pawl.job WHERE id = 2 FOR UPDATE");
    settle_in_lane(t, t->a, &one, 0, as(OUTCOME_DONE));
    step(t, t->a, mends(t));
    assert_text(t->s, BEHIND, "2");
    exec_on(t->c, "COMMIT");
    step(t, t->a, mends(t));
    assert_text(t->s, READY, "2");
    assert_int_equal(count_of(t->s, "pawl.lane_stir"), 0);
    taken_clear(&one);
}

/* Then the next one is called, whose turn it is not. */
static void
the_first_of_a_strict_lane_that_is_locked_when_the_lane_is_left_has_its_turn(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    testdb_exec(&t->s->db, "SELECT pawl.lane_set('q', 'l', strict => true)");
    enqueue_in(t, "l", 3);
    while (take(t, &one, t->a, 5)->n == 0)
        taken_clear(&one);
    assert_int_equal(one.jobs[0].id, 1);
    assert_int_equal(take_n(t, t->a, 5), 0);
    assert_text(t->s, BEHIND, "2,3");
    exec_on(t->c, "BEGIN; SELECT FROM pawl.job WHERE id = 2 FOR UPDATE");
    settle_in_lane(t, t->a, &one, 0, as(OUTCOME_DONE));
    assert_text(t->s, READY, "3");
    exec_on(t->c, "COMMIT");
    assert_int_equal(take_n(t, t->a, 5), 0);
    step(t, t->a, mends(t));
    taken_clear(&one);
    take(t, &one, t->a, 5);
    assert_int_equal(one.n, 1);
    assert_int_equal(one.jobs[0].id, 2);
    taken_clear(&one);
}

/* A transaction that cancels, and takes its time, keeps nobody waiting. */
static void a_cancel_in_a_long_transaction_holds_up_no_lane(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 4);
    take(t, &one, t->a, 1);
    exec_on(t->c, "BEGIN; SELECT pawl.cancel(2)");
    settle_in_lane(t, t->a, &one, 0, as(OUTCOME_DONE));
    assert_int_equal(take_n(t, t->b, 1), 1);
    exec_on(t->c, "COMMIT");
    assert_text(t->s, HOLDERS, "l{3}");
    taken_clear(&one);
}

/* The one that was called is cancelled before it is claimed. */
static void a_cancel_of_the_one_that_was_called_calls_the_next(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 3);
    take(t, &one, t->a, 5);
    settle_in_lane(t, t->a, &one, 0, as(OUTCOME_DONE));
    assert_text(t->s, READY, "2");
    assert_text(t->s, BEHIND, "3");
    testdb_exec(&t->s->db, "SELECT pawl.cancel(2)");
    step(t, t->a, mends(t));
    assert_text(t->s, READY, "3");
    taken_clear(&one);
}

static void one_that_waits_and_is_cancelled_is_not_called(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    enqueue_in(t, "l", 3);
    take(t, &one, t->a, 5);
    testdb_exec(&t->s->db, "SELECT pawl.cancel(2)");
    settle_in_lane(t, t->a, &one, 0, as(OUTCOME_DONE));
    assert_text(t->s, READY, "3");
    taken_clear(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        session_test(a_leave_waits_for_the_claim_that_moves_a_sibling_behind_and_calls_it),
        session_test(a_claim_does_not_wait_for_a_leave_nor_move_behind_what_it_cannot_judge),
        session_test(a_leave_that_is_given_up_calls_nobody),
        session_test(a_claim_that_is_given_up_takes_no_place),
        session_test(of_two_who_want_the_last_place_one_gets_it),
        session_test(two_make_the_same_lane_and_one_enters_it),
        session_test(two_make_the_same_lane_and_the_first_gives_up),
        session_test(two_who_make_several_lanes_do_not_deadlock),
        session_test(a_strict_lane_that_changed_meanwhile_is_left_for_the_next_claim),
        session_test(several_of_a_lane_are_taken_together_and_fill_it_until_the_last_has_left),
        session_test(one_of_several_that_is_tried_again_waits_for_the_others),
        session_test(only_lanes_with_one_place_no_rate_and_no_order_are_entered_together),
        session_test(a_mend_skips_a_lane_that_is_held_and_the_next_mends_it),
        session_test(a_mend_keeps_who_entered_while_it_began),
        session_test(a_stale_leave_does_not_free_the_place_of_who_has_the_job_now),
        session_test(one_that_waits_and_is_locked_when_the_lane_is_left_is_called_by_the_next_mend),
        session_test(the_first_of_a_strict_lane_that_is_locked_when_the_lane_is_left_has_its_turn),
        session_test(a_cancel_in_a_long_transaction_holds_up_no_lane),
        session_test(a_cancel_of_the_one_that_was_called_calls_the_next),
        session_test(one_that_waits_and_is_cancelled_is_not_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
