/*
 * Signals, children and cancelling between sessions, stepped by hand: neither order leaves a parent
 * without its join, or a machine without its signal.
 */
#include "session_fixture.h"

/* ── signals: put to wait, and delivered ── */

static struct taken *machine_running(struct sessions *t, struct taken *m)
{
    enqueue_plain(t->s, 1);
    take(t, m, t->a, 1);
    assert_int_equal(m->n, 1);
    return m;
}

static const struct going_on wait_for_paid = {.step = "ship", .awaits = "paid"};

static struct outcome awaits_paid(void)
{
    return (struct outcome){.kind = OUTCOME_AWAIT, .delay_ms = -1, .on = &wait_for_paid};
}

static void a_signal_that_waits_for_the_step_to_park_wakes_the_machine(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &m, 0, awaits_paid())), 1);
    start_sql(t->b, "SELECT pawl.signal(1, 'paid')"); /* delivers when it commits */
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    PQclear(finish(t->b));
    assert_text(t->s, READY, "1");
    taken_clear(&m);
}

static void a_step_that_waits_for_a_signal_to_be_delivered_does_not_park(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->b, "BEGIN; SELECT pawl.signal(1, 'paid'); SET CONSTRAINTS ALL IMMEDIATE");
    start(t, t->a, settles(t, &m, 0, awaits_paid()));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    assert_int_equal(rows_of(finish(t->a)), 1);
    assert_text(t->s, READY, "1");
    taken_clear(&m);
}

/* Numbers of signals are given out in another order than they are committed. */
static void a_signal_with_an_older_number_is_not_overlooked(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    enqueue_plain(t->s, 1);
    exec_on(t->b, "BEGIN; SELECT pawl.signal(1, 'paid')"); /* 1, committed last */
    exec_on(t->c, "SELECT pawl.signal(1, 'other')");       /* 2 */
    take(t, &m, t->a, 1);
    exec_on(t->b, "SET CONSTRAINTS ALL IMMEDIATE");
    start(t, t->a, settles(t, &m, 0, awaits_paid()));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    assert_int_equal(rows_of(finish(t->a)), 1);
    assert_text(t->s, READY, "1");
    taken_clear(&m);
}

static void a_signal_that_is_rolled_back_wakes_nobody(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->b, "BEGIN; SELECT pawl.signal(1, 'paid')");
    assert_int_equal(step(t, t->a, settles(t, &m, 0, awaits_paid())), 1); /* does not wait */
    exec_on(t->b, "ROLLBACK");
    assert_text(t->s, READY, "");
    taken_clear(&m);
}

/* The job ends before the signal's transaction does: refused, whole. */
static void a_signal_to_a_job_that_ended_meanwhile_is_refused_at_commit(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->b, "BEGIN; SELECT pawl.signal(1, 'paid')");
    assert_int_equal(step(t, t->a, settles(t, &m, 0, as(OUTCOME_DONE))), 1);
    PGresult *r = PQexec(t->b, "COMMIT");

    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "PW002");
    PQclear(r);
    assert_int_equal(count_of(t->s, "pawl.signal"), 0);
    taken_clear(&m);
}

/* Its end begins before the signal is committed, and has to wait for it: it goes with the job. */
static void a_signal_that_an_end_waits_for_goes_with_its_job(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->b, "BEGIN; SELECT pawl.signal(1, 'paid'); SET CONSTRAINTS ALL IMMEDIATE");
    start(t, t->a, settles(t, &m, 0, as(OUTCOME_DONE)));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    assert_int_equal(rows_of(finish(t->a)), 1);
    assert_int_equal(count_of(t->s, "pawl.job"), 0);
    assert_int_equal(count_of(t->s, "pawl.signal"), 0);
    taken_clear(&m);
}

/* ── children ── */

static struct child_new kids[JOBS_MAX];

/* The job of the claim spawns n children of kind k, and goes on with "sum" when at most `left` are
 * left. */
static void spawn(
    struct sessions *t, PGconn *conn, const struct taken *m, size_t n, int32_t left, int16_t flags)
{
    struct going_on on = {
        .step = "sum", .children = kids, .n_children = n, .join_at = left, .join_flags = flags};

    for (size_t i = 0; i < n; i++)
        kids[i] = (struct child_new){.queue = "q",
                                     .kind = "k",
                                     .payload = "{}",
                                     .payload_len = 2,
                                     .priority = 4,
                                     .max_attempts = 1};
    assert_int_equal(
        step(t,
             conn,
             settles(t, m, 0, (struct outcome){.kind = OUTCOME_SPAWN, .delay_ms = -1, .on = &on})),
        1);
}

static void parent_with(struct sessions *t, size_t n, int32_t left, int16_t flags)
{
    struct taken m;

    machine_running(t, &m);
    spawn(t, t->a, &m, n, left, flags);
    taken_clear(&m);
}

#define PARENT                                                                                    \
    "SELECT children_left || CASE WHEN due_at <= clock_timestamp() THEN ' due' ELSE '' END FROM " \
    "pawl.job JOIN pawl.machine ON job_id = id WHERE id = 1"

static void the_last_two_children_at_once_join_the_parent_once(void **state)
{
    struct sessions *t = *state;
    struct taken one;
    struct taken two;

    parent_with(t, 2, 0, 0);
    take(t, &one, t->a, 1);
    take(t, &two, t->b, 1);
    assert_int_equal(two.n, 1);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE))), 1);
    start(t, t->b, settles(t, &two, 0, as(OUTCOME_DONE)));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    assert_int_equal(rows_of(finish(t->b)), 1);
    assert_text(t->s, PARENT, "0 due");
    assert_int_equal(count_of(t->s, "pawl.child WHERE parent_id = 1"), 2);
    taken_clear(&one);
    assert_int_equal(take(t, &one, t->a, 5)->n, 1);
    assert_string_equal(one.machines[0].step, "sum");
    taken_clear(&one);
    taken_clear(&two);
}

static void the_first_of_two_children_that_is_given_up_does_not_count(void **state)
{
    struct sessions *t = *state;
    struct taken one;
    struct taken two;

    parent_with(t, 2, 0, 0);
    take(t, &one, t->a, 1);
    take(t, &two, t->b, 1);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE))), 1);
    start(t, t->b, settles(t, &two, 0, as(OUTCOME_DONE)));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "ROLLBACK");
    assert_int_equal(rows_of(finish(t->b)), 1);
    assert_text(t->s, PARENT, "1");
    taken_clear(&one);
    taken_clear(&two);
}

/* Nobody sees the children before their parent waits for them. */
static void children_are_there_when_their_parent_waits_for_them(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->a, "BEGIN");
    spawn(t, t->a, &m, 3, 0, 0);
    assert_int_equal(take_n(t, t->b, 5), 0);
    exec_on(t->a, "COMMIT");
    assert_text(t->s, PARENT, "3");
    assert_int_equal(take_n(t, t->b, 5), 3);
    taken_clear(&m);
}

static void a_child_that_ends_while_its_parent_is_cancelled_ends_alone(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    parent_with(t, 1, 0, JOIN_CANCEL);
    take(t, &one, t->a, 1);
    exec_on(t->b, "BEGIN; SELECT pawl.cancel(1)"); /* the child runs: it is asked to end */
    start(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE)));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    assert_int_equal(rows_of(finish(t->a)), 1);
    assert_text(t->s,
                "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM pawl.history",
                "1 cancelled, 2 done");
    assert_int_equal(count_of(t->s, "pawl.child"), 0);
    assert_int_equal(count_of(t->s, "pawl.job"), 0);
    taken_clear(&one);
}

/* The child is just ending when its parent is cancelled: nobody waits for ever. */
static void a_parent_that_is_cancelled_waits_for_a_child_that_counts_down(void **state)
{
    struct sessions *t = *state;
    struct taken one;

    parent_with(t, 2, 0, JOIN_CANCEL);
    take(t, &one, t->a, 1);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &one, 0, as(OUTCOME_DONE))), 1);
    start_sql(t->b, "SELECT pawl.cancel(1)");
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    PQclear(finish(t->b));
    assert_text(t->s, "SELECT string_agg(child_id::text, ' ') FROM pawl.orphan", "3");
    assert_int_equal(step(t, t->b, sweeps(t)), 1); /* it says that there is something to mend */
    step(t, t->b, mends(t));
    assert_text(t->s,
                "SELECT string_agg(id || ' ' || state, ', ' ORDER BY id) FROM pawl.history",
                "1 cancelled, 2 done, 3 cancelled");
    assert_int_equal(count_of(t->s, "pawl.orphan"), 0);
    assert_int_equal(count_of(t->s, "pawl.child"), 0);
    taken_clear(&one);
}

/* One that its parent did not wait for ends after the parent has spawned again. */
static void a_child_of_an_earlier_join_does_not_count_for_the_next(void **state)
{
    struct sessions *t = *state;
    struct taken old;
    struct taken parent;

    parent_with(t, 2, 1, 0); /* goes on when one is left */
    take(t, &old, t->a, 2);
    assert_int_equal(old.n, 2);
    assert_int_equal(step(t, t->a, settles(t, &old, 0, as(OUTCOME_DONE))), 1);
    assert_text(t->s, PARENT, "1 due");
    take(t, &parent, t->b, 1);
    assert_int_equal(parent.jobs[0].id, 1);
    exec_on(t->b, "BEGIN");
    spawn(t, t->b, &parent, 1, 0, 0);
    start(t, t->a, settles(t, &old, 1, as(OUTCOME_DONE)));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    assert_int_equal(rows_of(finish(t->a)), 1);
    assert_text(t->s, PARENT, "1");
    assert_int_equal(count_of(t->s, "pawl.child"), 0);
    assert_int_equal(take_n(t, t->a, 5), 1); /* the new one */
    taken_clear(&old);
    taken_clear(&parent);
}

/* ── cancel in every state ── */

static void cancel_meets_a_job_in_every_state(void **state)
{
    struct sessions *t = *state;
    struct taken m;
    struct taken lane;

    machine_running(t, &m); /* 1 waits for a signal */
    assert_int_equal(step(t, t->a, settles(t, &m, 0, awaits_paid())), 1);
    taken_clear(&m);
    enqueue_in(t, "l", 2); /* 2 runs, 3 waits for the lane */
    take(t, &lane, t->a, 5);
    assert_int_equal(lane.n, 1);
    enqueue_plain(t->s, 4); /* 4 ready, 5 scheduled, 6 retrying, 7 parked */
    testdb_exec(
        &t->s->db,
        "UPDATE pawl.job SET due_at = now() + interval '1 h' WHERE id IN (5, 6);"
        "UPDATE pawl.job SET attempt = 1 WHERE id = 6;"
        "UPDATE pawl.job SET attempt = 1, waits_for = 'operator', due_at = 'infinity' WHERE id = 7");
    assert_text(t->s,
                "SELECT string_agg(id || ' ' || pawl.cancel(id, 'me'), ', ' ORDER BY id)"
                " FROM generate_series(1, 7) AS id",
                "1 cancelled, 2 cancelling, 3 cancelled, 4 cancelled, 5 cancelled, 6 cancelled,"
                " 7 cancelled");
    settle_in_lane(t, t->a, &lane, 0, as(OUTCOME_RETRY));
    assert_int_equal(count_of(t->s, "pawl.job"), 0);
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'cancelled'"), 7);
    assert_text(t->s, HOLDERS, "l{}");
    taken_clear(&lane);
}

/* A step that parks at the very moment when its end is asked for is not parked for ever. */
/* The cancel waits for the settle, and does not say that the job runs. */
static void a_job_that_ends_while_it_is_cancelled_is_said_to_be_finished(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    testdb_exec(&t->s->db,
                "INSERT INTO pawl.job (id, queue, kind, payload) VALUES (1, 'q', 'k', '{}')");
    take(t, &m, t->a, 1);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &m, 0, as(OUTCOME_DONE))), 1);
    start_sql(t->b, "SELECT pawl.cancel(1, 'me')");
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    PGresult *r = PQgetResult(t->b);

    assert_int_equal(PQresultStatus(r), PGRES_FATAL_ERROR);
    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "PW002");
    PQclear(r);
    assert_null(PQgetResult(t->b));
    taken_clear(&m);
}

/* Whoever cancels looks at the job's row, and lets go of it. */
static void a_cancel_in_a_long_transaction_holds_up_no_settle(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    testdb_exec(&t->s->db,
                "INSERT INTO pawl.job (id, queue, kind, payload) VALUES (1, 'q', 'k', '{}')");
    take(t, &m, t->a, 1);
    exec_on(t->b, "BEGIN; SELECT pawl.cancel(1, 'me')");
    assert_int_equal(step(t, t->a, settles(t, &m, 0, as(OUTCOME_DONE))), 1);
    exec_on(t->b, "COMMIT");
    assert_text(t->s, "SELECT state FROM pawl.history", "done");
    taken_clear(&m);
}

static void a_cancel_that_comes_while_a_step_parks_is_heard(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->b, "BEGIN; SELECT pawl.cancel(1); SET CONSTRAINTS ALL IMMEDIATE"); /* it runs */
    start(t, t->a, settles(t, &m, 0, awaits_paid()));
    assert_waits(t, t->a, t->b);
    exec_on(t->b, "COMMIT");
    assert_int_equal(rows_of(finish(t->a)), 1);
    assert_text(t->s, READY, "1");
    taken_clear(&m);
    take(t, &m, t->a, 1);
    assert_true(m.machines[0].cancelled);
    taken_clear(&m);
}

static void a_cancel_that_waits_for_a_step_to_park_ends_the_machine(void **state)
{
    struct sessions *t = *state;
    struct taken m;

    machine_running(t, &m);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles(t, &m, 0, awaits_paid())), 1);
    start_sql(t->b, "SELECT pawl.cancel(1)");
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    PQclear(finish(t->b));
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'cancelled'"), 1);
    taken_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        session_test(a_signal_that_waits_for_the_step_to_park_wakes_the_machine),
        session_test(a_step_that_waits_for_a_signal_to_be_delivered_does_not_park),
        session_test(a_signal_with_an_older_number_is_not_overlooked),
        session_test(a_signal_that_is_rolled_back_wakes_nobody),
        session_test(a_signal_to_a_job_that_ended_meanwhile_is_refused_at_commit),
        session_test(a_signal_that_an_end_waits_for_goes_with_its_job),
        session_test(the_last_two_children_at_once_join_the_parent_once),
        session_test(the_first_of_two_children_that_is_given_up_does_not_count),
        session_test(children_are_there_when_their_parent_waits_for_them),
        session_test(a_child_that_ends_while_its_parent_is_cancelled_ends_alone),
        session_test(a_parent_that_is_cancelled_waits_for_a_child_that_counts_down),
        session_test(a_child_of_an_earlier_join_does_not_count_for_the_next),
        session_test(cancel_meets_a_job_in_every_state),
        session_test(a_job_that_ends_while_it_is_cancelled_is_said_to_be_finished),
        session_test(a_cancel_in_a_long_transaction_holds_up_no_settle),
        session_test(a_cancel_that_comes_while_a_step_parks_is_heard),
        session_test(a_cancel_that_waits_for_a_step_to_park_ends_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
