/* Two sessions, stepped by hand: which statement waits for which, and what each comes to, in either order. */
#include "session_fixture.h"

/* ── what the sessions do; each binds, so that step or start can follow ── */

static const struct stmt *
claims(struct sessions *t, int32_t limit, const struct job_watermark *from)
{
    struct job_claim asked = {
        .queue = "q",
        .kinds = kind_k,
        .n_kinds = 1,
        .limit = limit,
        .token = uuid_random(),
        .worker = t->s->worker,
        .lease_ms = 60000,
    };

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        asked.from[i] = from != NULL ? *from : (struct job_watermark){.due_us = INT64_MIN};
    job_claim_bind(begin(t->s), &asked);
    return STMT(job_claim);
}

static const struct stmt *settles_done_of(struct sessions *t, const struct claimed *c, bool ends)
{
    struct job_settle one = item(c, 0, (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1});
    const struct job_settle *items = &one;

    job_settle_done_bind(begin(t->s), &items, 1, "host:1", &c->token, ends ? 1 : 0);
    return STMT(job_settle_done);
}

static const struct stmt *settles_done(struct sessions *t, const struct claimed *c)
{
    return settles_done_of(t, c, true);
}

static const struct stmt *
settles_by_id(struct sessions *t, const struct claimed *c, enum outcome_kind outcome)
{
    struct job_settle one = item(c, 0, (struct outcome){.kind = outcome, .delay_ms = 0});
    const struct job_settle *items = &one;

    job_settle_bind(begin(t->s), &items, 1, "host:1", &c->token, 1);
    return STMT(job_settle);
}

static const struct stmt *settles_retry(struct sessions *t, const struct claimed *c)
{
    return settles_by_id(t, c, OUTCOME_RETRY);
}

static const struct stmt *renews(struct sessions *t, const struct claimed *c)
{
    claim_renew_bind(
        begin(t->s), &t->s->worker, &c->token, 1, 60000, &(struct worker_beat){.running = 1});
    return STMT(claim_renew);
}

static const struct stmt *enqueues(struct sessions *t)
{
    struct pawl_job_new job = job_plain();

    job_enqueue_bind(begin(t->s), &job, 1);
    return STMT(job_enqueue);
}

static const struct stmt *cancels(struct sessions *t, const struct claimed *c)
{
    job_cancel_bind(begin(t->s), c->jobs[0].id, "me");
    return STMT(job_cancel);
}

static const struct stmt *marks(struct sessions *t, bool asleep)
{
    const char *queue = "q";

    sleeper_set_bind(begin(t->s), &t->s->worker, &queue, 1, asleep);
    return STMT(sleeper_set);
}

static struct claimed one_claimed(struct sessions *t)
{
    enqueue_plain(t->s, 1);
    struct claimed c = claim(t->s, 1);

    assert_int_equal(c.n, 1);
    return c;
}

static void expire(struct sessions *t)
{
    testdb_exec(&t->s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
}

/* ── claim and claim ── */

static void two_claims_share_and_neither_waits(void **state)
{
    struct sessions *t = *state;

    enqueue_plain(t->s, 5);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, claims(t, 2, NULL)), 2);
    assert_int_equal(step(t, t->b, claims(t, 5, NULL)), 3);
    exec_on(t->a, "COMMIT");
    assert_int_equal(step(t, t->b, claims(t, 5, NULL)), 0);
    assert_int_equal(count_of(t->s, "pawl.job WHERE attempt = 1"), 5);
    assert_int_equal(count_of(t->s, "pawl.claim"), 2);
}

static void what_a_claim_gave_up_is_there_for_the_next(void **state)
{
    struct sessions *t = *state;

    enqueue_plain(t->s, 2);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, claims(t, 2, NULL)), 2);
    assert_int_equal(step(t, t->b, claims(t, 2, NULL)), 0);
    exec_on(t->a, "ROLLBACK");
    assert_int_equal(step(t, t->b, claims(t, 2, NULL)), 2);
}

/* ── claim and sweep ── */

static void a_claim_does_not_wait_for_a_sweep(void **state)
{
    struct sessions *t = *state;

    one_claimed(t);
    expire(t);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, sweeps(t)), 1);
    assert_int_equal(step(t, t->b, claims(t, 1, NULL)), 0);
    exec_on(t->a, "COMMIT");
    testdb_exec(&t->s->db, "UPDATE pawl.job SET due_at = now()");
    assert_int_equal(step(t, t->b, claims(t, 1, NULL)), 1);
    assert_int_equal(count_of(t->s, "pawl.job WHERE attempt = 2"), 1);
}

static void a_sweep_does_not_wait_for_a_claim(void **state)
{
    struct sessions *t = *state;

    one_claimed(t);
    expire(t);
    enqueue_plain(t->s, 1);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, claims(t, 2, NULL)), 1);
    assert_int_equal(step(t, t->b, sweeps(t)), 1);
    exec_on(t->a, "COMMIT");
    assert_int_equal(count_of(t->s, "pawl.job WHERE attempt = 1"), 2);
    assert_int_equal(count_of(t->s, "pawl.claim"), 1);
    assert_int_equal(step(t, t->b, sweeps(t)), 0);
}

/* ── settle and sweep ── */

/* Whether or not the settle ends the claim too, and so holds it. */
static void a_sweep_leaves_what_is_being_settled(void **state)
{
    struct sessions *t = *state;

    for (int ends = 0; ends <= 1; ends++) {
        struct claimed c = one_claimed(t);

        expire(t);
        exec_on(t->a, "BEGIN");
        assert_int_equal(step(t, t->a, settles_done_of(t, &c, ends == 1)), 1);
        assert_int_equal(step(t, t->b, sweeps(t)), 0);
        assert_int_equal(count_of(t->s, "pawl.claim"), 1); /* should the settle be given up */
        exec_on(t->a, "COMMIT");
        assert_int_equal(step(t, t->b, sweeps(t)), 0);
        assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    }
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'done' AND attempt = 1"), 2);
}

static void a_settle_that_was_given_up_leaves_the_job_to_the_next_sweep(void **state)
{
    struct sessions *t = *state;
    struct claimed c = one_claimed(t);

    expire(t);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles_done(t, &c)), 1);
    assert_int_equal(step(t, t->b, sweeps(t)), 0);
    exec_on(t->a, "ROLLBACK");
    assert_int_equal(step(t, t->b, sweeps(t)), 1);
    assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NULL AND attempt = 1"), 1);
}

static void a_settle_waits_for_a_sweep_and_is_stale(void **state)
{
    struct sessions *t = *state;

    for (int done = 0; done <= 1; done++) {
        struct claimed c = one_claimed(t);

        expire(t);
        exec_on(t->a, "BEGIN");
        assert_int_equal(step(t, t->a, sweeps(t)), 1);
        start(t, t->b, done ? settles_done(t, &c) : settles_retry(t, &c));
        assert_waits(t, t->b, t->a);
        exec_on(t->a, "COMMIT");
        assert_int_equal(rows_of(finish(t->b)), 0);
        exec_on(t->a, "UPDATE pawl.job SET due_at = 'infinity'"); /* the next claim is not for it */
    }
    assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NULL AND attempt = 1"), 2);
    assert_int_equal(count_of(t->s, "pawl.history"), 0);
}

static void a_settle_waits_for_a_sweep_that_was_given_up_and_counts(void **state)
{
    struct sessions *t = *state;
    struct claimed c = one_claimed(t);

    expire(t);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, sweeps(t)), 1);
    start(t, t->b, settles_done(t, &c));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "ROLLBACK");
    assert_int_equal(rows_of(finish(t->b)), 1);
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'done'"), 1);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
}

/* ── settle and settle ── */

/* The same outcome sent twice, as after a commit of unknown fate. */
static void the_second_of_two_settles_waits_and_is_stale(void **state)
{
    struct sessions *t = *state;
    struct claimed c = one_claimed(t);

    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles_done(t, &c)), 1);
    start(t, t->b, settles_done(t, &c));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    assert_int_equal(rows_of(finish(t->b)), 0);
    assert_int_equal(count_of(t->s, "pawl.history"), 1);
}

/* ── settle and renew ── */

/* Neither waits for the other, nor for anybody else who holds the claim. */
static void a_renewal_does_not_wait_for_who_holds_its_claim(void **state)
{
    struct sessions *t = *state;
    struct claimed c = one_claimed(t);

    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles_done(t, &c)), 1);
    start(t, t->b, renews(t, &c));
    PGresult *r = finish(t->b);

    assert_int_equal(PQntuples(r), 1); /* still there, as far as is known */
    assert_false(claim_renew_renewed(r, 0));
    PQclear(r);
    exec_on(t->a, "COMMIT");
    assert_int_equal(step(t, t->b, renews(t, &c)), 0); /* gone; the engine knows that it ended it */
}

/* What is left of the claim is for the sweep. */
static void a_settle_does_not_wait_for_who_holds_its_claim(void **state)
{
    struct sessions *t = *state;

    for (int done = 0; done <= 1; done++) {
        struct claimed c = one_claimed(t);

        exec_on(t->a, "BEGIN");
        assert_int_equal(step(t, t->a, renews(t, &c)), 1);
        assert_int_equal(
            step(t, t->b, done ? settles_done(t, &c) : settles_by_id(t, &c, OUTCOME_DONE)), 1);
        exec_on(t->a, "COMMIT");
        assert_int_equal(count_of(t->s, "pawl.claim"), 1);
        expire(t);
        assert_int_equal(step(t, t->b, sweeps(t)), 0);
        assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    }
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'done'"), 2);
}

/* A renewal that is under way saves the claim from the sweep. */
static void a_sweep_skips_a_claim_that_is_being_renewed(void **state)
{
    struct sessions *t = *state;
    struct claimed c = one_claimed(t);

    expire(t);
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, renews(t, &c)), 1);
    assert_int_equal(step(t, t->b, sweeps(t)), 0);
    exec_on(t->a, "COMMIT");
    assert_int_equal(step(t, t->b, sweeps(t)), 0);
    assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NOT NULL"), 1);
}

/* ── settle and cancel ── */

/* A cancel touches a running job when its transaction commits. This is that moment, held still. */
#define BEGIN_COMMITTING "BEGIN; SET CONSTRAINTS ALL IMMEDIATE"

/* The settle waits, and sees that the end was asked for; done stays done. */
static void a_settle_waits_for_a_cancel_and_heeds_it(void **state)
{
    struct sessions *t = *state;

    for (int done = 0; done <= 1; done++) {
        struct claimed c = one_claimed(t);

        exec_on(t->a, BEGIN_COMMITTING);
        assert_int_equal(step(t, t->a, cancels(t, &c)), 1);
        start(t, t->b, done ? settles_done(t, &c) : settles_retry(t, &c));
        assert_waits(t, t->b, t->a);
        exec_on(t->a, "COMMIT");
        /* The cancel has moved the row: what is done is found by its id. */
        assert_int_equal(rows_of(finish(t->b)), done ? 0 : 1);
        if (done)
            assert_int_equal(step(t, t->b, settles_by_id(t, &c, OUTCOME_DONE)), 1);
        assert_int_equal(count_of(t->s, "pawl.job"), 0);
    }
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'cancelled' AND cancel_by = 'me'"),
                     1);
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'done' AND cancel_by IS NULL"), 1);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
}

/* The cancel waits, and finds the job waiting again: it is over at once, and the answer says so. */
static void a_cancel_waits_for_a_settle(void **state)
{
    struct sessions *t = *state;
    struct claimed c = one_claimed(t);

    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, settles_retry(t, &c)), 1);
    start(t, t->b, cancels(t, &c));
    assert_waits(t, t->b, t->a);
    exec_on(t->a, "COMMIT");
    PGresult *r = finish(t->b);

    assert_true(job_cancel_row(r));
    PQclear(r);
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'cancelled' AND cancel_by = 'me'"),
                     1);
    assert_int_equal(count_of(t->s, "pawl.job"), 0);
}

/* Neither is lost and neither waits: the sweep leaves the job to the cancel, then ends it. */
static void a_sweep_skips_what_is_being_cancelled_and_ends_it_next(void **state)
{
    struct sessions *t = *state;
    struct claimed c = one_claimed(t);

    expire(t);
    exec_on(t->a, BEGIN_COMMITTING);
    assert_int_equal(step(t, t->a, cancels(t, &c)), 1);
    assert_int_equal(step(t, t->b, sweeps(t)), 0);
    exec_on(t->a, "COMMIT");
    assert_int_equal(step(t, t->b, sweeps(t)), 1);
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'cancelled'"), 1);
}

/* ── enqueue and sleeper mark ── */

/* How many came so far. They come in the order of their commits: all are there with the last. */
static int notes(struct sessions *t)
{
    PGnotify *note;
    int n = 0;
    bool last = false;

    exec_on(t->s->db.conn, "NOTIFY pawl_wake, 'last'");
    while (!last) {
        exec_on(t->b, "SELECT");
        while ((note = PQnotifies(t->b)) != NULL) {
            last = last || strcmp(note->extra, "last") == 0;
            n += strcmp(note->extra, "q") == 0;
            PQfreemem(note);
        }
    }
    return n;
}

static void an_enqueue_before_the_mark_notifies_nobody(void **state)
{
    struct sessions *t = *state;

    exec_on(t->b, "LISTEN pawl_wake");
    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, enqueues(t)), 1);
    assert_int_equal(step(t, t->b, marks(t, true)), 0);
    /* The look that follows the mark is too early; the next ones are for this. */
    assert_int_equal(step(t, t->b, claims(t, 1, NULL)), 0);
    exec_on(t->a, "COMMIT");
    assert_int_equal(notes(t), 0);
    assert_int_equal(step(t, t->b, claims(t, 1, NULL)), 1);
}

static void an_enqueue_beside_an_uncommitted_mark_is_seen_by_the_look_after_it(void **state)
{
    struct sessions *t = *state;

    exec_on(t->b, "LISTEN pawl_wake; BEGIN");
    assert_int_equal(step(t, t->b, marks(t, true)), 0);
    assert_int_equal(step(t, t->a, enqueues(t)), 1);
    exec_on(t->b, "COMMIT");
    assert_int_equal(notes(t), 0);
    assert_int_equal(step(t, t->b, claims(t, 1, NULL)), 1);
}

static void an_enqueue_after_the_mark_notifies(void **state)
{
    struct sessions *t = *state;

    exec_on(t->b, "LISTEN pawl_wake");
    exec_on(t->a, "BEGIN; SELECT pg_current_xact_id()"); /* began before, enqueues after */
    assert_int_equal(step(t, t->b, marks(t, true)), 0);
    assert_int_equal(step(t, t->b, claims(t, 1, NULL)), 0);
    assert_int_equal(step(t, t->a, enqueues(t)), 1);
    assert_int_equal(notes(t), 0);
    exec_on(t->a, "COMMIT");
    assert_int_equal(notes(t), 1);
    assert_int_equal(step(t, t->b, claims(t, 1, NULL)), 1);
    assert_int_equal(step(t, t->b, marks(t, false)), 0);
    assert_int_equal(step(t, t->a, enqueues(t)), 1);
    assert_int_equal(notes(t), 0);
}

/* ── late commit ── */

static void a_commit_behind_the_watermark_is_seen_from_the_beginning_only(void **state)
{
    struct sessions *t = *state;

    exec_on(t->a, "BEGIN");
    assert_int_equal(step(t, t->a, enqueues(t)), 1);
    assert_int_equal(step(t, t->b, enqueues(t)), 1);
    start(t, t->b, claims(t, 5, NULL));
    PGresult *r = finish(t->b);
    struct job_watermark mark = {.due_us = job_claim_due(r, 0), .id = job_claim_id(r, 0)};

    PQclear(r);
    assert_int_equal(mark.id, 2);
    exec_on(t->a, "COMMIT");
    assert_int_equal(step(t, t->b, claims(t, 5, &mark)), 0);
    assert_int_equal(step(t, t->b, claims(t, 5, NULL)), 1);
}

/* ── the end of a plain job, and a signal to it ── */

/* Before its claim, so that the row is where that left it; job_settle also forgets the signal. */
static void done_jobs_that_were_sent_a_signal_are_left_to_the_settle_by_id(void **state)
{
    struct sessions *t = *state;

    enqueue_plain(t->s, 1);
    exec_on(t->a, "SELECT pawl.signal(id, 'go') FROM pawl.job");
    struct claimed c = claim(t->s, 1);

    settles_done(t, &c);
    assert_int_equal(step(t, t->b, STMT(job_settle_done)), 0);
    assert_int_equal(count_of(t->s, "pawl.claim"), 1);
    assert_int_equal(step(t, t->b, settles_by_id(t, &c, OUTCOME_DONE)), 1);
    assert_int_equal(count_of(t->s, "pawl.job"), 0);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    assert_int_equal(count_of(t->s, "pawl.signal"), 0);
    assert_int_equal(count_of(t->s, "pawl.machine"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sessions_setup, sessions_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_claims_share_and_neither_waits),
        TEST(done_jobs_that_were_sent_a_signal_are_left_to_the_settle_by_id),
        TEST(what_a_claim_gave_up_is_there_for_the_next),
        TEST(a_claim_does_not_wait_for_a_sweep),
        TEST(a_sweep_does_not_wait_for_a_claim),
        TEST(a_sweep_leaves_what_is_being_settled),
        TEST(a_settle_that_was_given_up_leaves_the_job_to_the_next_sweep),
        TEST(a_settle_waits_for_a_sweep_and_is_stale),
        TEST(a_settle_waits_for_a_sweep_that_was_given_up_and_counts),
        TEST(the_second_of_two_settles_waits_and_is_stale),
        TEST(a_renewal_does_not_wait_for_who_holds_its_claim),
        TEST(a_settle_does_not_wait_for_who_holds_its_claim),
        TEST(a_sweep_skips_a_claim_that_is_being_renewed),
        TEST(a_settle_waits_for_a_cancel_and_heeds_it),
        TEST(a_cancel_waits_for_a_settle),
        TEST(a_sweep_skips_what_is_being_cancelled_and_ends_it_next),
        TEST(an_enqueue_before_the_mark_notifies_nobody),
        TEST(an_enqueue_beside_an_uncommitted_mark_is_seen_by_the_look_after_it),
        TEST(an_enqueue_after_the_mark_notifies),
        TEST(a_commit_behind_the_watermark_is_seen_from_the_beginning_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
