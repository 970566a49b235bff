/*
 * Leases and workers, statement by statement: renewing, and sweeping up what the dead left behind,
 * whoever else is at it.
 */
#include "store_fixture.h"

/* A claim of the next n jobs whose lease ran out `ago` seconds ago. */
static struct claimed claim_expired(struct store *s, int32_t n, int ago)
{
    struct claimed c = claim(s, n);
    char sql[200];
    char token[UUID_TEXT_LEN + 1];

    assert_int_equal(c.n, n);
    uuid_format(&c.token, token);
    snprintf(sql,
             sizeof(sql),
             "UPDATE pawl.claim SET lease_until = now() - interval '%d s' WHERE token = '%s'",
             ago,
             token);
    testdb_exec(&s->db, sql);
    return c;
}

static size_t
renew(struct store *s, const struct uuid *tokens, size_t n, int64_t lease_ms, struct uuid *ret)
{
    claim_renew_bind(
        begin(s), &s->worker, tokens, n, lease_ms, &(struct worker_beat){.running = 7});
    PGresult *r = run(s, STMT(claim_renew));
    size_t found = (size_t)PQntuples(r);

    for (size_t i = 0; i < found; i++)
        ret[i] = claim_renew_row(r, (int)i);
    PQclear(r);
    return found;
}

static void start_worker(struct store *s)
{
    static const char *const queues[] = {"q", "r"};

    worker_start_bind(
        begin(s),
        &(struct worker_start){
            .id = s->worker, .name = "host:1", .queues = queues, .n_queues = 2, .slots = 4});
    PQclear(run(s, STMT(worker_start)));
}

static void a_lease_only_grows(void **state)
{
    struct store *s = *state;
    struct uuid found[2];

    enqueue_plain(s, 1);
    struct claimed c = claim(s, 1);

    assert_int_equal(renew(s, &c.token, 1, 1000, found), 1);
    assert_memory_equal(&found[0], &c.token, sizeof(c.token));
    assert_int_equal(
        count_of(s, "pawl.claim WHERE lease_until - claimed_at BETWEEN interval '59 s' AND '60 s'"),
        1);
    assert_int_equal(renew(s, &c.token, 1, 600000, found), 1);
    assert_int_equal(
        count_of(s,
                 "pawl.claim WHERE lease_until - clock_timestamp() BETWEEN interval '500 s'"
                 " AND '600 s'"),
        1);
}

static void a_renewal_tells_which_claims_are_gone(void **state)
{
    struct store *s = *state;
    struct uuid found[3];

    enqueue_plain(s, 2);
    struct claimed a = claim(s, 1);
    struct claimed b = claim_expired(s, 1, 5);
    struct uuid tokens[3] = {uuid_random(), b.token, a.token};

    assert_int_equal(renew(s, tokens, 3, 60000, found), 2); /* expired is not yet gone */
    testdb_exec(&s->db, "DELETE FROM pawl.claim WHERE job_ids = '{2}'");
    assert_int_equal(renew(s, tokens, 3, 60000, found), 1);
    assert_memory_equal(&found[0], &a.token, sizeof(a.token));
    assert_int_equal(renew(s, NULL, 0, 60000, found), 0);
}

static void a_renewal_is_the_workers_sign_of_life(void **state)
{
    struct store *s = *state;

    start_worker(s);
    testdb_exec(&s->db,
                "UPDATE pawl.worker SET beat_at = now() - interval '1 h';"
                "INSERT INTO pawl.worker (id, name, version, queues, slots, beat_at)"
                " VALUES (gen_random_uuid(), 'other', '', '{}', 1, now() - interval '1 h')");
    assert_int_equal(renew(s, NULL, 0, 60000, NULL), 0);
    assert_int_equal(count_of(s,
                              "pawl.worker WHERE name = 'host:1' AND running = 7"
                              " AND beat_at > now() - interval '1 min'"),
                     1);
    assert_int_equal(
        count_of(s, "pawl.worker WHERE name = 'other' AND beat_at < now() - interval '59 min'"), 1);
}

static void a_worker_comes_stays_and_goes(void **state)
{
    struct store *s = *state;

    testdb_exec(&s->db,
                "INSERT INTO pawl.worker (id, name, version, queues, slots, beat_at) VALUES"
                " (gen_random_uuid(), 'silent', '', '{}', 1, now() - interval '25 h'),"
                " (gen_random_uuid(), 'quiet', '', '{}', 1, now() - interval '23 h')");
    start_worker(s);
    start_worker(s); /* after a reconnect */
    assert_int_equal(count_of(s,
                              "pawl.worker WHERE name = 'host:1' AND queues = '{q,r}'"
                              " AND slots = 4 AND running = 0 AND version <> ''"),
                     1);
    assert_text(s, "SELECT string_agg(name, ' ' ORDER BY name) FROM pawl.worker", "host:1 quiet");
    worker_stop_bind(begin(s), &s->worker);
    PQclear(run(s, STMT(worker_stop)));
    assert_text(s, "SELECT string_agg(name, ' ') FROM pawl.worker", "quiet");
}

static void what_expired_comes_back_or_fails(void **state)
{
    struct store *s = *state;

    start_worker(s);
    enqueue_plain(s, 4);
    claim_expired(s, 3, 2);
    claim(s, 1); /* its lease is good */
    testdb_exec(&s->db, "UPDATE pawl.job SET max_attempts = 1 WHERE id = 2");
    assert_sweeps(s, "1 retrying, 2 failed, 3 retrying");
    assert_sweeps(s, "");
    assert_int_equal(
        count_of(
            s,
            "pawl.job WHERE id IN (1, 3) AND token IS NULL AND attempt = 1"
            " AND due_at - (errors -> 0 ->> 'at')::timestamptz BETWEEN interval '0.5 s' AND '1.3 s'"
            " AND jsonb_array_length(errors) = 1"
            " AND errors -> 0 ->> 'worker' = 'host:1'"
            " AND (errors -> 0 ->> 'run_us')::bigint > 0"
            " AND errors -> 0 ->> 'error' = 'the worker died or lost its lease'"),
        2);
    assert_int_equal(count_of(s,
                              "pawl.history WHERE id = 2 AND state = 'failed' AND attempt = 1"
                              " AND worker = 'host:1' AND result IS NULL AND payload = '{}'"
                              " AND jsonb_array_length(errors) = 1"
                              " AND expires_on = (finished_at AT TIME ZONE 'UTC')::date + 7"),
                     1);
    assert_int_equal(count_of(s, "pawl.job WHERE id = 4 AND token IS NOT NULL"), 1);
    assert_int_equal(count_of(s, "pawl.claim"), 1);
}

static void a_worker_without_a_row_is_swept_all_the_same(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 1);
    claim_expired(s, 1, 2);
    assert_sweeps(s, "1 retrying");
    assert_int_equal(count_of(s, "pawl.job WHERE errors -> 0 ->> 'worker' IS NULL"), 1);
}

static void failed_jobs_of_a_forgetful_queue_leave_nothing(void **state)
{
    struct store *s = *state;

    testdb_exec(&s->db, "INSERT INTO pawl.queue (name, keep_days) VALUES ('q', 0)");
    enqueue_plain(s, 1);
    testdb_exec(&s->db, "UPDATE pawl.job SET max_attempts = 1");
    claim_expired(s, 1, 2);
    assert_sweeps(s, "1 failed");
    assert_int_equal(count_of(s, "pawl.jobs"), 0);
    assert_int_equal(count_of(s, "pawl.claim"), 0);
}

static void a_renewed_claim_is_not_swept(void **state)
{
    struct store *s = *state;
    struct uuid found;

    enqueue_plain(s, 1);
    struct claimed c = claim_expired(s, 1, 2);

    assert_int_equal(renew(s, &c.token, 1, 60000, &found), 1);
    assert_sweeps(s, "");
    assert_int_equal(count_of(s, "pawl.claim"), 1);
}

static void what_was_settled_meanwhile_is_left_alone(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 2);
    struct claimed c = claim_expired(s, 2, 2);
    struct job_settle one = item(&c, 0, (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1});

    settle(s, &one, 1, NULL);
    assert_sweeps(s, "2 retrying");
    assert_int_equal(count_of(s, "pawl.claim"), 0);
    assert_int_equal(count_of(s, "pawl.history WHERE state = 'done'"), 1);
}

static void a_swept_job_cannot_be_settled_any_more(void **state)
{
    struct store *s = *state;

    enqueue_plain(s, 1);
    struct claimed c = claim_expired(s, 1, 2);

    assert_sweeps(s, "1 retrying");
    assert_string_equal(settle_one(s, &c, (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1}),
                        "");
    assert_int_equal(count_of(s, "pawl.job WHERE token IS NULL AND attempt = 1"), 1);
    assert_int_equal(count_of(s, "pawl.history"), 0);
}

static void a_job_that_somebody_holds_is_swept_later(void **state)
{
    struct store *s = *state;
    PGconn *other = PQconnectdb(s->db.conninfo);

    enqueue_plain(s, 3);
    claim_expired(s, 3, 2);
    PQclear(PQexec(other, "BEGIN; SELECT FROM pawl.job WHERE id = 2 FOR UPDATE"));
    assert_sweeps(s, "1 retrying, 3 retrying"); /* it does not wait */
    assert_int_equal(count_of(s, "pawl.claim"), 1);
    assert_int_equal(count_of(s, "pawl.job WHERE token IS NOT NULL"), 1);
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    assert_sweeps(s, "2 retrying");
    assert_int_equal(count_of(s, "pawl.claim"), 0);
}

static void two_sweepers_take_each_claim_once(void **state)
{
    struct store *s = *state;
    char theirs[200];
    PGconn *other = PQconnectdb(s->db.conninfo);

    enqueue_plain(s, 4);
    claim_expired(s, 2, 4);
    claim_expired(s, 2, 2);
    PQclear(PQexec(other, "BEGIN"));
    sweep_on(s, other, 2, theirs, sizeof(theirs));
    assert_string_equal(theirs, "1 retrying, 2 retrying"); /* the oldest first */
    assert_sweeps(s, "3 retrying, 4 retrying");
    PQclear(PQexec(other, "COMMIT"));
    PQfinish(other);
    assert_int_equal(count_of(s, "pawl.job WHERE token IS NULL AND attempt = 1"), 4);
    assert_int_equal(count_of(s, "pawl.claim"), 0);
}

static void a_sweep_touches_only_what_expired(void **state)
{
    struct store *s = *state;
    char text[200];

    testdb_exec(&s->db,
                "INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'x', 'k', '' FROM generate_series(1, 5000); ANALYZE pawl.job");
    enqueue_plain(s, 3);
    claim_expired(s, 1, 3);
    claim_expired(s, 2, 2);
    testdb_exec(&s->db, "BEGIN");
    sweep_on(s, s->db.conn, 1, text, sizeof(text));
    assert_string_equal(text, "5001 retrying");
    assert_true(testdb_int(&s->db,
                           "SELECT pg_stat_get_xact_tuples_returned('pawl.job'::regclass)"
                           " + pg_stat_get_xact_tuples_fetched('pawl.job'::regclass)") < 20);
    testdb_exec(&s->db, "COMMIT");
    assert_int_equal(count_of(s, "pawl.claim"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_lease_only_grows),
        store_test(a_renewal_tells_which_claims_are_gone),
        store_test(a_renewal_is_the_workers_sign_of_life),
        store_test(a_worker_comes_stays_and_goes),
        store_test(what_expired_comes_back_or_fails),
        store_test(a_worker_without_a_row_is_swept_all_the_same),
        store_test(failed_jobs_of_a_forgetful_queue_leave_nothing),
        store_test(a_renewed_claim_is_not_swept),
        store_test(what_was_settled_meanwhile_is_left_alone),
        store_test(a_swept_job_cannot_be_settled_any_more),
        store_test(a_job_that_somebody_holds_is_swept_later),
        store_test(two_sweepers_take_each_claim_once),
        store_test(a_sweep_touches_only_what_expired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
