/*
 * A sweep that takes back a part of a claim, beside settles, renewals, other sweeps and strangers who
 * hold locks: each job is taken once, a claim that was begun is not kept alive, and nobody waits for
 * a stranger.
 */
#include "session_fixture.h"

/* n jobs in one claim whose lease is over. */
static struct claimed expired(struct sessions *t, int n)
{
    enqueue_plain(t->s, (size_t)n);
    struct claimed c = claim(t->s, n);

    assert_int_equal(c.n, n);
    testdb_exec(
        &t->s->db,
        "UPDATE pawl.claim SET lease_until = now() - interval '1 s' WHERE swept_at IS NULL");
    return c;
}

/* What a sweep of n jobs took on this session, and whether there are more. */
static void
sweeps_some(struct sessions *t, PGconn *conn, int32_t n, const char *expected, bool more)
{
    char text[1000];
    bool said = sweep_on(t->s, conn, n, text, sizeof(text));

    assert_string_equal(text, expected);
    assert_int_equal(said, more);
}

static const struct stmt *renews(struct sessions *t, const struct claimed *c)
{
    claim_renew_bind(
        begin(t->s), &t->s->worker, &c->token, 1, 60000, &(struct worker_beat){.running = 1});
    return STMT(claim_renew);
}

static const struct stmt *ends(struct sessions *t, const struct claimed *c, size_t i, bool ended)
{
    struct job_settle one = item(c, i, as(OUTCOME_DONE));
    const struct job_settle *items = &one;

    job_settle_bind(begin(t->s), &items, 1, "host:1", &c->token, ended ? 1 : 0);
    return STMT(job_settle);
}

#define LEFT "SELECT coalesce(string_agg(job_ids::text, ' '), '') FROM pawl.claim"

static void a_claim_is_taken_back_in_parts(void **state)
{
    struct sessions *t = *state;

    expired(t, 5);
    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    assert_text(t->s, LEFT, "{3,4,5}");
    sweeps_some(t, t->a, 2, "3 retrying, 4 retrying", true);
    sweeps_some(t, t->a, 2, "5 retrying", false);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    sweeps_some(t, t->a, 2, "", false);
}

/* Those after it go behind the others: every claim has its turn. */
static void a_sweep_takes_of_several_claims_in_turn(void **state)
{
    struct sessions *t = *state;

    expired(t, 3);
    expired(t, 1);
    testdb_exec(
        &t->s->db,
        "UPDATE pawl.claim SET lease_until = now() - interval '1 h' WHERE job_ids = '{1,2,3}'");
    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    sweeps_some(t, t->a, 1, "4 retrying", true);
    sweeps_some(t, t->a, 2, "3 retrying", false);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
}

static void what_is_left_of_a_claim_is_not_renewed(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 3);

    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    assert_int_equal(step(t, t->b, renews(t, &c)), 0);
    sweeps_some(t, t->a, 2, "3 retrying", false);
}

static void a_renewal_during_the_first_sweep_of_a_claim_comes_too_late(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 3);

    exec_on(t->a, "BEGIN");
    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    assert_int_equal(step(t, t->b, renews(t, &c)), 1); /* still there, and not renewed */
    exec_on(t->a, "COMMIT");
    assert_int_equal(step(t, t->b, renews(t, &c)), 0);
}

/* The sweep was cancelled or its connection broke: nothing was taken, the claim holds. */
static void a_renewal_during_a_sweep_that_is_rolled_back_keeps_the_claim(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 3);

    exec_on(t->a, "BEGIN");
    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    assert_int_equal(step(t, t->b, renews(t, &c)), 1);
    exec_on(t->a, "ROLLBACK");
    assert_int_equal(step(t, t->b, renews(t, &c)), 1);
    sweeps_some(t, t->a, 2, "", false);
    assert_text(t->s, LEFT, "{1,2,3}");
}

static void a_sweep_leaves_a_claim_that_is_being_renewed(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 3);

    exec_on(t->b, "BEGIN");
    assert_int_equal(step(t, t->b, renews(t, &c)), 1);
    sweeps_some(t, t->a, 2, "", false);
    exec_on(t->b, "COMMIT");
    sweeps_some(t, t->a, 2, "", false);
    assert_text(t->s, LEFT, "{1,2,3}");
}

static void a_settle_beside_a_sweep_of_its_claim(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 4);

    /* The third job is being settled: the sweep leaves it, and what it left comes last. */
    exec_on(t->b, "BEGIN");
    assert_int_equal(step(t, t->b, ends(t, &c, 2, false)), 1);
    sweeps_some(t, t->a, 3, "1 retrying, 2 retrying", true);
    assert_text(t->s, LEFT, "{4,3}");
    exec_on(t->b, "COMMIT");
    /* The worker does not know yet. What was taken is stale; what was not is its own still. */
    assert_int_equal(step(t, t->b, ends(t, &c, 0, false)), 0);
    assert_int_equal(step(t, t->b, ends(t, &c, 3, false)), 1);
    sweeps_some(t, t->a, 3, "", false);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    assert_int_equal(count_of(t->s, "pawl.history WHERE state = 'done' AND id IN (3, 4)"), 2);
}

/* The settle ends the claim that a sweep has just shortened: the worker has reported all it had. */
static void a_settle_that_ends_a_claim_leaves_it_to_the_sweep_of_it(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 3);

    exec_on(t->a, "BEGIN");
    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    assert_int_equal(step(t, t->b, ends(t, &c, 2, true)), 1);
    exec_on(t->a, "COMMIT");
    sweeps_some(t, t->a, 2, "", false);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    assert_int_equal(count_of(t->s, "pawl.job WHERE token IS NULL"), 2);
    assert_int_equal(count_of(t->s, "pawl.history"), 1);
}

static void two_sweepers_on_one_claim(void **state)
{
    struct sessions *t = *state;

    expired(t, 4);
    exec_on(t->a, "BEGIN");
    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    sweeps_some(t, t->b, 4, "", false); /* it does not wait */
    exec_on(t->a, "COMMIT");
    sweeps_some(t, t->b, 4, "3 retrying, 4 retrying", false);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    assert_int_equal(
        count_of(t->s, "pawl.job WHERE token IS NULL AND jsonb_array_length(errors) = 1"), 4);
}

/* Jobs that others hold do not fill the bound of every run. */
static void locked_jobs_stand_in_nobodys_way(void **state)
{
    struct sessions *t = *state;

    expired(t, 4);
    expired(t, 2);
    testdb_exec(
        &t->s->db,
        "UPDATE pawl.claim SET lease_until = now() - interval '1 h' WHERE cardinality(job_ids) = 4");
    exec_on(t->c, "BEGIN; SELECT FROM pawl.job WHERE id IN (1, 2) FOR UPDATE");
    sweeps_some(t, t->a, 2, "", true);
    sweeps_some(t, t->a, 2, "5 retrying, 6 retrying", true);
    sweeps_some(t, t->a, 2, "3 retrying, 4 retrying", true);
    sweeps_some(t, t->a, 2, "", true);
    exec_on(t->c, "COMMIT");
    sweeps_some(t, t->a, 2, "1 retrying, 2 retrying", true);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
}

/* Nor does a claim that somebody holds. */
static void a_locked_claim_stands_in_nobodys_way(void **state)
{
    struct sessions *t = *state;

    expired(t, 2);
    expired(t, 2);
    exec_on(t->c, "BEGIN; SELECT FROM pawl.claim WHERE job_ids = '{1,2}' FOR UPDATE");
    sweeps_some(t, t->a, 2, "3 retrying, 4 retrying", true);
    exec_on(t->c, "COMMIT");
    sweeps_some(t, t->a, 3, "1 retrying, 2 retrying", false);
}

/* A child without attempts left, whose parent somebody has locked: it is counted when it can be. */
static void a_child_that_ends_does_not_wait_for_who_locks_its_parent(void **state)
{
    struct sessions *t = *state;

    enqueue_plain(t->s, 3);
    testdb_exec(&t->s->db,
                "UPDATE pawl.job SET waits_for = 'children', due_at = 'infinity', is_machine = true"
                " WHERE id = 1;"
                "INSERT INTO pawl.machine (job_id, step, children_left, join_at, joins)"
                " VALUES (1, 's', 1, 0, 1);"
                "UPDATE pawl.job SET parent_id = 1, join_of = 1, max_attempts = 1 WHERE id = 2");
    struct claimed c = claim(t->s, 2);

    assert_int_equal(c.n, 2);
    testdb_exec(&t->s->db, "UPDATE pawl.claim SET lease_until = now() - interval '1 s'");
    exec_on(t->c, "BEGIN; SELECT FROM pawl.job WHERE id = 1 FOR UPDATE");
    sweeps_some(t, t->a, 20, "3 retrying", false);
    assert_text(t->s, LEFT, "{2}");
    assert_int_equal(count_of(t->s, "pawl.job WHERE id = 2 AND token IS NOT NULL"), 1);
    exec_on(t->c, "COMMIT");
    sweeps_some(t, t->a, 20, "2 failed", false);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
    assert_int_equal(
        count_of(t->s,
                 "pawl.job JOIN pawl.machine ON job_id = id"
                 " WHERE id = 1 AND children_left = 0 AND due_at <= clock_timestamp()"),
        1);
    assert_int_equal(count_of(t->s, "pawl.child WHERE parent_id = 1 AND state = 'failed'"), 1);
}

/* Parked by name: one job of one claim, and only while nobody else has it. */
static void a_job_is_parked_out_of_its_claim(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 2);
    struct claim_job second = {.token = c.token, .id = 2};
    struct claim_job first = {.token = c.token, .id = 1};

    exec_on(t->c, "BEGIN; SELECT FROM pawl.job WHERE id = 2 FOR UPDATE");
    claim_sweep_park_bind(begin(t->s), &second, "no way");
    assert_int_equal(step(t, t->a, STMT(claim_sweep_park)), 0);
    exec_on(t->c, "COMMIT");
    claim_sweep_park_bind(begin(t->s), &second, "no way");
    assert_int_equal(step(t, t->a, STMT(claim_sweep_park)), 1);
    assert_text(t->s, LEFT, "{1}");
    assert_int_equal(count_of(t->s,
                              "pawl.jobs WHERE id = 2 AND state = 'parked' AND attempt = 1"
                              " AND errors -> 0 ->> 'error' = 'no way'"),
                     1);
    claim_sweep_park_bind(begin(t->s), &second, "no way");
    assert_int_equal(step(t, t->a, STMT(claim_sweep_park)), 0);
    claim_sweep_park_bind(begin(t->s), &first, "no way");
    assert_int_equal(step(t, t->a, STMT(claim_sweep_park)), 1);
    assert_int_equal(count_of(t->s, "pawl.claim"), 0);
}

static void what_comes_first_is_what_a_sweep_of_one_takes(void **state)
{
    struct sessions *t = *state;
    struct claimed c = expired(t, 3);
    struct claim_job job;

    for (int i = 1; i <= 3; i++) {
        char text[100];
        char expected[100];

        claim_sweep_first_bind(begin(t->s), 0);
        start(t, t->b, STMT(claim_sweep_first));
        PGresult *r = finish(t->b);

        assert_int_equal(PQntuples(r), 1);
        job = claim_sweep_first_row(r, 0);
        PQclear(r);
        assert_int_equal(job.id, i);
        assert_memory_equal(&job.token, &c.token, sizeof(c.token));
        if (i == 1) { /* by name it is the same */
            claim_sweep_bind(begin(t->s), 1, &job, 0);
            assert_int_equal(step(t, t->a, STMT(claim_sweep)), 2); /* and "more" */
            continue;
        }
        if (i == 2) { /* put aside, the next one is first */
            claim_sweep_aside_bind(begin(t->s), &job);
            start(t, t->a, STMT(claim_sweep_aside));
            PQclear(finish(t->a));
            assert_text(t->s, LEFT, "{3,2}");
            continue;
        }
        snprintf(expected, sizeof(expected), "%d retrying", i);
        sweep_on(t->s, t->a, 1, text, sizeof(text));
        assert_string_equal(text, expected);
    }
    assert_text(t->s, LEFT, "{2}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        session_test(a_claim_is_taken_back_in_parts),
        session_test(a_sweep_takes_of_several_claims_in_turn),
        session_test(what_is_left_of_a_claim_is_not_renewed),
        session_test(a_renewal_during_the_first_sweep_of_a_claim_comes_too_late),
        session_test(a_renewal_during_a_sweep_that_is_rolled_back_keeps_the_claim),
        session_test(a_sweep_leaves_a_claim_that_is_being_renewed),
        session_test(a_settle_beside_a_sweep_of_its_claim),
        session_test(a_settle_that_ends_a_claim_leaves_it_to_the_sweep_of_it),
        session_test(two_sweepers_on_one_claim),
        session_test(locked_jobs_stand_in_nobodys_way),
        session_test(a_locked_claim_stands_in_nobodys_way),
        session_test(a_child_that_ends_does_not_wait_for_who_locks_its_parent),
        session_test(a_job_is_parked_out_of_its_claim),
        session_test(what_comes_first_is_what_a_sweep_of_one_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
