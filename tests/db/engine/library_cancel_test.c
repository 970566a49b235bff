/*
 * Ending a job by hand, in every state it can be in, and the proof of a claim inside a handler's own
 * transaction. A live coordinator hears of a cancel by a notification, or with its next heartbeat.
 */
#include "engine_fixture.h"
#include "store/statements.h"

static int64_t the_int(struct fixture *f, const char *sql)
{
    return testdb_int(&f->db, sql);
}

static void assert_fails(struct fixture *f, const char *sql, const char *sqlstate)
{
    PGresult *r = PQexec(f->db.conn, sql);
    const char *got = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (got == NULL || strcmp(got, sqlstate) != 0)
        fail_msg("%s: %s instead of %s", sql, got != NULL ? got : "no error", sqlstate);
    PQclear(r);
}

static void what_does_not_run_is_cancelled_at_once(void **state)
{
    struct fixture *f = *state;
    static const char *const sets[] = {
        "attempt = 0",
        "due_at = now() + interval '1 h'",
        "attempt = 2, due_at = now() + interval '1 h'",
        "waits_for = 'operator', due_at = 'infinity'",
    };
    char sql[200];

    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        enqueue(f, 1);
        snprintf(sql, sizeof(sql), "UPDATE pawl.job SET %s", sets[i]);
        testdb_exec(&f->db, sql);
        assert_text(f, "SELECT pawl.cancel(id, 'me') FROM pawl.job", "cancelled");
        assert_int_equal(count_of(f, "pawl.job"), 0);
        assert_int_equal(count_of(f, "pawl.history WHERE state = 'cancelled' AND cancel_by = 'me'"),
                         i + 1);
    }
    assert_fails(f, "SELECT pawl.cancel(1)", "PW002");
    assert_fails(f, "SELECT pawl.cancel(999)", "PW001");
    assert_fails(f, "SELECT pawl.cancel(NULL)", "PW001");
}

/* What a run that was told to end comes to. */
static struct outcome outcome_wanted(struct crew *crew, const struct job *job);
static struct outcome wanted;

static struct outcome outcome_wanted(struct crew *crew, const struct job *job)
{
    (void)crew;
    (void)job;
    return wanted;
}

static void done_wins_and_all_else_is_cancelled(void **state)
{
    struct fixture *f = *state;

    static const struct {
        enum outcome_kind kind;
        const char *becomes;
    } cases[] = {
        {OUTCOME_DONE, "done "},
        {OUTCOME_RETRY, "cancelled me"},
        {OUTCOME_FAIL, "cancelled me"},
        {OUTCOME_SNOOZE, "cancelled me"},
        {OUTCOME_REJECT, "cancelled me"},
        {OUTCOME_CANCEL, "cancelled me"},
    };
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    crew.outcome = outcome_wanted;
    crew_start(&crew);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        wanted = (struct outcome){.kind = cases[i].kind, .error = "e", .delay_ms = 10};
        enqueue(f, 1);
        run_until(f, crew.now == 1);
        assert_text(f, "SELECT pawl.cancel(id, 'me') FROM pawl.job", "cancelling");
        run_until(f, crew.stops[STOP_CANCELLED] == (int)i + 1);
        crew_let_go(&crew);
        run_until(f, count_of(f, "pawl.job") == 0);
        assert_text(f,
                    "SELECT state || ' ' || coalesce(cancel_by, '') FROM pawl.history"
                    " ORDER BY id DESC LIMIT 1",
                    cases[i].becomes);
    }
    crew_stop(&crew);
}

/* Nobody calls: the heartbeat brings it. */
static void a_heartbeat_tells_of_a_cancel(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    crew.options.lease_ms = 6000; /* renewed three times in it */
    crew_start(&crew);
    enqueue(f, 1);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db,
                "UPDATE pawl.job SET cancel_by = 'me';"
                "SET session_replication_role = replica;" /* no trigger, so no notification */
                "INSERT INTO pawl.stop SELECT id, token, 'me' FROM pawl.job;"
                "RESET session_replication_role");
    run_until(f, crew.stops[STOP_CANCELLED] == 1);
    crew_let_go(&crew);
    run_until(f, count_of(f, "pawl.job") == 0);
    crew_stop(&crew);
}

/* Whoever asked has not committed yet: nobody waits for it, and what is done meanwhile is done. */
static void an_open_transaction_that_cancels_holds_up_nobody(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    crew.options.lease_ms = 6000;
    crew_start(&crew);
    enqueue(f, 1);
    run_until(f, crew.now == 1);
    testdb_exec(&f->db, "BEGIN; SELECT pawl.cancel((SELECT id FROM pawl.job))");
    uint64_t renewals = coordinator_stats(crew.c)->renewals;

    run_until(f, coordinator_stats(crew.c)->renewals >= renewals + 2);
    crew_let_go(&crew);
    run_until(f, crew.settled == 1);
    testdb_exec(&f->db, "COMMIT");
    assert_int_equal(count_of(f, "pawl.job"), 0);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
    crew_stop(&crew);
}

/* Claimed ahead, not started: it never runs. */
static void what_was_claimed_and_not_started_never_starts(void **state)
{
    struct fixture *f = *state;
    struct crew crew;

    crew_init(&crew, f);
    crew.run_ms = HELD;
    crew.options.concurrency = 1;
    crew.options.prefetch = 1;
    crew_start(&crew);
    enqueue(f, 2);
    run_until(f, count_of(f, "pawl.job WHERE token IS NOT NULL") == 2 && crew.now == 1);
    assert_text(f, "SELECT pawl.cancel(2, 'me')", "cancelling");
    run_until(f, count_of(f, "pawl.history WHERE state = 'cancelled'") == 1);
    assert_int_equal(crew.runs, 1);
    crew_let_go(&crew);
    run_until(f, count_of(f, "pawl.job") == 0);
    assert_int_equal(crew.runs, 1);
    crew_stop(&crew);
}

/* The worker died with it: the sweep ends it instead of trying again. */
static void a_sweep_ends_what_was_to_be_cancelled(void **state)
{
    struct fixture *f = *state;

    enqueue(f, 1);
    testdb_exec(&f->db,
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) VALUES"
                " ('a0000000-0000-4000-8000-00000000000a', gen_random_uuid(), now(), '{1}');"
                "UPDATE pawl.job SET token = 'a0000000-0000-4000-8000-00000000000a', attempt = 1");
    assert_text(f, "SELECT pawl.cancel(1, 'me')", "cancelling");
    struct crew crew;

    crew_init(&crew, f);
    crew_start(&crew);
    run_until(f, count_of(f, "pawl.history WHERE state = 'cancelled' AND cancel_by = 'me'") == 1);
    crew_stop(&crew);
}

/* ── assert_claim ── */

#define TOKEN "a0000000-0000-4000-8000-00000000000a"

static void with_expired_claim(struct fixture *f)
{
    enqueue(f, 1);
    testdb_exec(&f->db,
                "CREATE TABLE IF NOT EXISTS business (n int);"
                "INSERT INTO pawl.claim (token, worker, lease_until, job_ids) SELECT"
                " '" TOKEN "', gen_random_uuid(), now(), array[max(id)] FROM pawl.job;"
                "UPDATE pawl.job SET token = '" TOKEN "', attempt = 1");
}

static int64_t sweep(struct fixture *f)
{
    PGresult *r = PQexecParams(f->db.conn,
                               STMT(claim_sweep)->sql,
                               4,
                               NULL,
                               (const char *[]){"20", NULL, "0", "0"},
                               NULL,
                               NULL,
                               0);

    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(f->db.conn));
    int64_t n = PQntuples(r);

    PQclear(r);
    return n;
}

/* The sweeper was first: the handler's own work rolls back. */
static void a_handler_whose_job_was_taken_back_commits_nothing(void **state)
{
    struct fixture *f = *state;

    with_expired_claim(f);
    PGconn *handler = session(f, "BEGIN; INSERT INTO business VALUES (1)");

    assert_int_equal(sweep(f), 1);
    PGresult *r = PQexec(handler, "SELECT pawl.assert_claim(1, '" TOKEN "')");

    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "PW003");
    PQclear(r);
    r = PQexec(handler, "COMMIT");
    assert_string_equal(PQcmdStatus(r), "ROLLBACK");
    PQclear(r);
    PQfinish(handler);
    assert_int_equal(the_int(f, "SELECT count(*) FROM business"), 0);
}

/* The handler was first: the sweeper leaves the job alone until its transaction ends. */
static void a_proved_claim_is_left_alone(void **state)
{
    struct fixture *f = *state;

    with_expired_claim(f);
    PGconn *handler = session(
        f, "BEGIN; INSERT INTO business VALUES (1); SELECT pawl.assert_claim(1, '" TOKEN "')");

    assert_int_equal(sweep(f), 0);
    assert_int_equal(count_of(f, "pawl.claim"), 1);
    PQclear(PQexec(handler, "COMMIT"));
    assert_int_equal(sweep(f), 1);
    assert_int_equal(the_int(f, "SELECT count(*) FROM business"), 1);
    PQfinish(handler);
    assert_fails(f, "SELECT pawl.assert_claim(1, '" TOKEN "')", "PW003");
    assert_fails(f, "SELECT pawl.assert_claim(99, '" TOKEN "')", "PW003");
    assert_fails(f, "SELECT pawl.assert_claim(1, NULL)", "PW003");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        engine_test(what_does_not_run_is_cancelled_at_once),
        engine_test(done_wins_and_all_else_is_cancelled),
        engine_test(a_heartbeat_tells_of_a_cancel),
        engine_test(an_open_transaction_that_cancels_holds_up_nobody),
        engine_test(what_was_claimed_and_not_started_never_starts),
        engine_test(a_sweep_ends_what_was_to_be_cancelled),
        engine_test(a_handler_whose_job_was_taken_back_commits_nothing),
        engine_test(a_proved_claim_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
