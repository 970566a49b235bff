/*
 * job_settle_done is job_settle with outcome 1: the same rows in history, the same guard, the same
 * end of claims.
 */
#include "store_fixture.h"

/* Settles by one statement or the other; ret_done[i]: whether the i-th is in the answer. */
static void settle_by(struct store *s,
                      bool done,
                      const struct job_settle *items,
                      size_t n,
                      const struct uuid *ended,
                      bool *ret_done)
{
    const struct job_settle *pointers[JOBS_MAX];
    int64_t ids[JOBS_MAX];

    for (size_t i = 0; i < n; i++) {
        pointers[i] = &items[i];
        ids[i] = items[i].job->id;
        ret_done[i] = false;
    }
    if (done)
        job_settle_done_bind(begin(s), pointers, n, "host:1", ended, ended != NULL ? 1 : 0);
    else
        job_settle_bind(begin(s), pointers, n, "host:1", ended, ended != NULL ? 1 : 0);
    PGresult *r = run(s, done ? STMT(job_settle_done) : STMT(job_settle));

    for (int row = 0; row < PQntuples(r); row++) {
        struct job_settled settled = {.state = "done"};

        if (done)
            settled.item = job_settle_done_row(r, row, ids, n);
        else
            job_settle_row(r, row, &settled);
        assert_true(settled.item < n);
        assert_string_equal(settled.state, "done");
        assert_false(ret_done[settled.item]);
        ret_done[settled.item] = true;
    }
    PQclear(r);
}

static struct outcome result(const char *data, size_t len)
{
    return (struct outcome){
        .kind = OUTCOME_DONE, .result = data, .result_len = len, .delay_ms = -1, .run_us = 2000000};
}

/* Two jobs of the same making by each: none, empty and binary results, an earlier error. */
static void it_leaves_the_same_history(void **state)
{
    struct store *s = *state;
    bool done[3];

    for (int by = 0; by <= 1; by++) {
        enqueue_plain(s, 3);
        testdb_exec(&s->db,
                    "UPDATE pawl.job SET errors = pawl.errors_add(NULL, 1, 'transient', 'bad',"
                    " 'host:0', 5), timeout_ms = 77");
        struct claimed c = claim(s, 3);
        const struct job_settle items[] = {
            item(&c, 0, result(NULL, 0)),
            item(&c, 1, result("", 0)),
            item(&c, 2, result("a\0\xff", 3)),
        };

        settle_by(s, by == 1, items, 3, &c.token, done);
        assert_true(done[0] && done[1] && done[2]);
        assert_int_equal(count_of(s, "pawl.job"), 0);
        assert_int_equal(count_of(s, "pawl.claim"), 0);
    }
    /* All columns but those that tell one job, or one moment, from another. */
    assert_int_equal(
        count_of(
            s,
            "(SELECT state, attempt, max_attempts, priority, queue, kind, worker,"
            " payload, result, errors #- '{0,at}' AS errors,"
            " finished_at - started_at AS took, expires_on, (id - 1) % 3 AS nth,"
            " due_at >= created_at AND due_at < finished_at AS same, count(*) FROM pawl.history"
            " GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14"
            " HAVING count(*) = 2) AS pairs"),
        3);
    assert_int_equal(count_of(s, "pawl.history"), 6);
}

static void a_stale_token_is_ignored_and_missing_from_the_answer(void **state)
{
    struct store *s = *state;
    bool done[3];

    for (int by = 0; by <= 1; by++) {
        enqueue_plain(s, 3);
        struct claimed c = claim(s, 3);

        c.jobs[1].token = uuid_random();
        const struct job_settle items[] = {
            item(&c, 0, result("x", 1)),
            item(&c, 1, result("y", 1)),
            item(&c, 2, result("z", 1)),
        };

        settle_by(s, by == 1, items, 3, NULL, done);
        assert_true(done[0] && !done[1] && done[2]);
        assert_int_equal(count_of(s, "pawl.job WHERE token IS NOT NULL AND attempt = 1"), by + 1);
        /* Again, as after a commit of unknown fate. */
        settle_by(s, by == 1, items, 3, NULL, done);
        assert_false(done[0] || done[1] || done[2]);
        assert_int_equal(count_of(s, "pawl.history"), 2 * (by + 1));
    }
}

static void only_the_claims_that_are_named_end(void **state)
{
    struct store *s = *state;
    bool done[1];

    for (int by = 0; by <= 1; by++) {
        enqueue_plain(s, 2);
        struct claimed first = claim(s, 1);
        struct claimed second = claim(s, 1);
        struct job_settle one = item(&first, 0, result(NULL, 0));
        struct job_settle two = item(&second, 0, result(NULL, 0));

        settle_by(s, by == 1, &one, 1, NULL, done);
        assert_int_equal(count_of(s, "pawl.claim"), 2);
        settle_by(s, by == 1, &two, 1, &second.token, done);
        assert_int_equal(count_of(s, "pawl.claim"), 1);
        testdb_exec(&s->db, "DELETE FROM pawl.claim");
    }
}

static void a_queue_that_keeps_nothing_leaves_nothing(void **state)
{
    struct store *s = *state;
    bool done[1];

    testdb_exec(&s->db, "INSERT INTO pawl.queue (name, keep_days) VALUES ('q', 0)");
    for (int by = 0; by <= 1; by++) {
        enqueue_plain(s, 1);
        struct claimed c = claim(s, 1);
        struct job_settle one = item(&c, 0, result("x", 1));

        settle_by(s, by == 1, &one, 1, &c.token, done);
        assert_true(done[0]);
    }
    assert_int_equal(count_of(s, "pawl.history"), 0);
    assert_int_equal(count_of(s, "pawl.job"), 0);
}

static void one_that_somebody_waits_for_is_kept_where_nothing_else_is(void **state)
{
    struct store *s = *state;
    bool done[2];

    testdb_exec(&s->db, "INSERT INTO pawl.queue (name, keep_days) VALUES ('q', 0)");
    for (int by = 0; by <= 1; by++) {
        enqueue_plain(s, 2);
        testdb_exec(&s->db,
                    "UPDATE pawl.job SET has_options = true WHERE id % 2 = 0;"
                    "INSERT INTO pawl.job_option (job_id, watched)"
                    " SELECT id, true FROM pawl.job WHERE id % 2 = 0");
        struct claimed c = claim(s, 2);
        const struct job_settle items[] = {
            item(&c, 0, result("x", 1)),
            item(&c, 1, result("yz", 2)),
        };

        settle_by(s, by == 1, items, 2, &c.token, done);
        assert_true(done[0] && done[1] == (by == 0));
        if (by == 1) /* one with options is for job_settle */
            settle_by(s, false, items + 1, 1, &c.token, done + 1);
        assert_true(done[1]);
        assert_int_equal(count_of(s, "pawl.claim"), 0);
        assert_int_equal(count_of(s, "pawl.job_option"), 0);
    }
    assert_int_equal(count_of(s, "pawl.history WHERE result = 'yz' AND queue = 'q' AND id % 2 = 0"),
                     2);
    assert_int_equal(count_of(s, "pawl.history"), 2);
}

/* ── where the rows are ── */

/* The claim stays: a worker that dies now must leave it to the sweeper. */
static void a_row_that_moved_is_missing_from_the_answer_and_its_claim_stays(void **state)
{
    struct store *s = *state;
    bool done[2];

    enqueue_plain(s, 2);
    struct claimed c = claim(s, 2);
    const struct job_settle items[] = {
        item(&c, 0, result("x", 1)),
        item(&c, 1, result("y", 1)),
    };

    testdb_exec(&s->db, "UPDATE pawl.job SET meta = '{}' WHERE id = 2");
    settle_by(s, true, items, 2, &c.token, done);
    assert_true(done[0] && !done[1]);
    assert_int_equal(count_of(s, "pawl.claim"), 1);
    settle_by(s, false, items + 1, 1, &c.token, done);
    assert_true(done[0]);
    assert_int_equal(count_of(s, "pawl.claim"), 0);
    assert_int_equal(count_of(s, "pawl.history"), 2);
}

/* As when a row has moved and the page was cleaned: a sibling under the same token is there now. */
static void another_job_in_the_place_of_one_is_left_alone(void **state)
{
    struct store *s = *state;
    bool done[1];

    enqueue_plain(s, 3);
    struct claimed c = claim(s, 3);

    for (size_t i = 0; i < 3; i++) {
        size_t other = (i + 1) % 3;

        if (other == 0)
            continue;
        c.jobs[0].tid = c.jobs[other].tid;
        struct job_settle one = item(&c, 0, result("x", 1));

        settle_by(s, true, &one, 1, &c.token, done);
        assert_false(done[0]);
    }
    assert_int_equal(count_of(s, "pawl.job WHERE token IS NOT NULL"), 3);
    assert_int_equal(count_of(s, "pawl.claim"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(it_leaves_the_same_history),
        store_test(a_stale_token_is_ignored_and_missing_from_the_answer),
        store_test(only_the_claims_that_are_named_end),
        store_test(a_queue_that_keeps_nothing_leaves_nothing),
        store_test(one_that_somebody_waits_for_is_kept_where_nothing_else_is),
        store_test(a_row_that_moved_is_missing_from_the_answer_and_its_claim_stays),
        store_test(another_job_in_the_place_of_one_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
