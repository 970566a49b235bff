/*
 * Who can commit behind a mark: a late committer is seen as a writer until it has ended, and then by
 * the look; and a claim that is committed late is not below the low mark. One step after the other
 * on named sessions.
 */
#include "session_fixture.h"
#include "store/statements.h"

static struct writers writers_now(struct sessions *t, PGresult **ret_r)
{
    begin(t->s);
    start(t, t->b, STMT(writer_list));
    *ret_r = finish(t->b);
    assert_int_equal(PQntuples(*ret_r), 1);
    return writer_list_row(*ret_r);
}

static size_t n_writers(struct sessions *t, bool of_claims)
{
    PGresult *r;
    struct writers w = writers_now(t, &r);
    const char *names = of_claims ? w.claims : w.jobs;
    size_t n = *names != '\0';

    for (; *names != '\0'; names++)
        n += *names == ' ';
    PQclear(r);
    return n;
}

/* How many jobs a look between the beginning and now finds. */
static int32_t look(struct sessions *t)
{
    static const char *const kinds[] = {"k"};
    struct job_marks from;
    struct job_marks to;
    int32_t n = 0;

    for (size_t i = 0; i < JOB_LEVELS; i++) {
        from.at[i] = (struct job_watermark){.due_us = INT64_MIN};
        to.at[i] = (struct job_watermark){.due_us = INT64_MAX};
    }
    job_look_bind(begin(t->s), "q", kinds, 1, &from, &to);
    start(t, t->b, STMT(job_look));
    PGresult *r = finish(t->b);

    for (int row = 0; row < PQntuples(r); row++) {
        size_t level;
        struct job_watermark at;

        n += job_look_row(r, row, &level, &at);
        assert_int_equal(level, 4);
        assert_true(at.due_us > 0);
    }
    PQclear(r);
    return n;
}

#define INSERT_ONE "INSERT INTO pawl.job (queue, kind, payload) VALUES ('q', 'k', '')"

static void a_late_committer_is_a_writer_until_it_ends_and_then_it_is_found(void **state)
{
    struct sessions *t = *state;

    exec_on(t->a, "BEGIN");
    assert_int_equal(n_writers(t, false), 0); /* it has not written yet */
    exec_on(t->a, INSERT_ONE);
    assert_int_equal(n_writers(t, false), 1);
    assert_int_equal(look(t), 0);
    exec_on(t->a, "COMMIT");
    assert_int_equal(n_writers(t, false), 0);
    assert_int_equal(look(t), 1);
}

/* Its due time is that of the insert: a transaction that idled before is not behind marks that passed meanwhile. */
static void a_due_time_is_taken_after_the_lock_on_the_table(void **state)
{
    struct sessions *t = *state;

    exec_on(t->a, "BEGIN; SELECT now()");
    exec_on(t->b, "CREATE TABLE mark AS SELECT clock_timestamp() AS at");
    exec_on(t->a, INSERT_ONE);
    exec_on(t->a, "SELECT pawl.enqueue('k', queue => 'q')");
    exec_on(t->a, "COMMIT");
    assert_int_equal(count_of(t->s, "pawl.job, mark WHERE due_at > at"), 2);
}

static void a_reader_is_no_writer(void **state)
{
    struct sessions *t = *state;

    exec_on(t->a,
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pawl.job; SELECT FROM pawl.claim");
    assert_int_equal(n_writers(t, false), 0);
    assert_int_equal(n_writers(t, true), 0);
    exec_on(t->a, "COMMIT");
}

static int64_t low_of(struct sessions *t, int64_t end)
{
    claim_low_bind(begin(t->s), 0, end);
    start(t, t->b, STMT(claim_low));
    PGresult *r = finish(t->b);
    int64_t low = claim_low_row(r);

    PQclear(r);
    return low;
}

/* Steps: a takes a number and stays open; b's claim gets a higher one and is committed. The low mark may not rise past a's number
 * before a has ended. */
static void a_claim_that_is_committed_late_is_not_below_the_low_mark(void **state)
{
    struct sessions *t = *state;
    PGresult *r;

    exec_on(t->a, "BEGIN");
    exec_on(t->a,
            "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
            " VALUES (gen_random_uuid(), gen_random_uuid(), now(), '{1}')");
    exec_on(t->b,
            "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
            " VALUES (gen_random_uuid(), gen_random_uuid(), now(), '{2}')");
    int64_t end = writers_now(t, &r).seq;

    PQclear(r);
    assert_int_equal(end, 2);
    assert_int_equal(n_writers(t, true), 1); /* so nothing may be concluded yet */
    assert_int_equal(low_of(t, end), 2);     /* and this would be wrong */
    exec_on(t->a, "COMMIT");
    assert_int_equal(n_writers(t, true), 0);
    assert_int_equal(low_of(t, end), 1);
}

static void a_claim_that_fell_behind_gets_a_new_number_when_it_is_renewed(void **state)
{
    struct sessions *t = *state;

    enqueue_plain(t->s, 1);
    struct claimed c = claim(t->s, 1);

    claim_renew_bind(
        begin(t->s), &t->s->worker, &c.token, 1, 60000, &(struct worker_beat){.running = 1});
    assert_int_equal(step(t, t->b, STMT(claim_renew)), 1);
    assert_int_equal(count_of(t->s, "pawl.claim WHERE seq = 1"), 1);
    exec_on(t->b, "SELECT setval('pawl.claim_seq_seq', 5000)");
    claim_renew_bind(
        begin(t->s), &t->s->worker, &c.token, 1, 60000, &(struct worker_beat){.running = 1});
    assert_int_equal(step(t, t->b, STMT(claim_renew)), 1);
    assert_int_equal(count_of(t->s, "pawl.claim WHERE seq = 5001"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        session_test(a_late_committer_is_a_writer_until_it_ends_and_then_it_is_found),
        session_test(a_due_time_is_taken_after_the_lock_on_the_table),
        session_test(a_reader_is_no_writer),
        session_test(a_claim_that_is_committed_late_is_not_below_the_low_mark),
        session_test(a_claim_that_fell_behind_gets_a_new_number_when_it_is_renewed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
