/*
 * Unique keys: at most one job holds a key, whoever is too late learns who holds it; in every scope and
 * mode, in either order of two sessions, and free again when its job has ended.
 */
#include <poll.h>

#include "store_fixture.h"

#define WAIT_MS 60000

static int64_t sql_int(struct store *s, const char *sql)
{
    return testdb_int(&s->db, sql);
}

static void exec_on(PGconn *conn, const char *sql)
{
    PGresult *r = PQexec(conn, sql);

    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(r);
}

/* The number a session's statement answered with. */
static int64_t answer(PGconn *conn)
{
    struct pollfd readable = {.fd = PQsocket(conn), .events = POLLIN};

    while (PQisBusy(conn)) {
        if (poll(&readable, 1, WAIT_MS) != 1)
            fail_msg("it waits");
        assert_int_equal(PQconsumeInput(conn), 1);
    }
    PGresult *r = PQgetResult(conn);

    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(conn));
    int64_t value = strtoll(PQgetvalue(r, 0, 0), NULL, 10);

    PQclear(r);
    assert_null(PQgetResult(conn));
    return value;
}

static void start(struct store *s, PGconn *conn, const char *sql)
{
    char waits[200];

    assert_int_equal(PQsendQuery(conn, sql), 1);
    snprintf(waits, sizeof(waits), "SELECT cardinality(pg_blocking_pids(%d))", PQbackendPID(conn));
    while (sql_int(s, waits) == 0) {
        struct pollfd readable = {.fd = PQsocket(conn), .events = POLLIN};

        if (poll(&readable, 1, 1) == 1)
            fail_msg("it does not wait");
    }
}

#define ENQUEUE "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'x')"

static void the_second_learns_who_holds_the_key(void **state)
{
    struct store *s = *state;

    int64_t id = sql_int(s, ENQUEUE);

    assert_int_equal(sql_int(s, ENQUEUE), id);
    assert_int_equal(count_of(s, "pawl.job"), 1);
    assert_int_equal(count_of(s, "pawl.guard"), 1);
}

static void of_two_at_once_the_loser_waits_and_learns(void **state)
{
    struct store *s = *state;
    PGconn *a = PQconnectdb(s->db.conninfo);
    PGconn *b = PQconnectdb(s->db.conninfo);

    exec_on(a, "BEGIN");
    exec_on(a, ENQUEUE);
    start(s, b, ENQUEUE);
    exec_on(a, "COMMIT");
    assert_int_equal(answer(b), 1);
    assert_int_equal(count_of(s, "pawl.job"), 1);
    /* A winner that gives up leaves the key to the other. */
    testdb_exec(&s->db, "TRUNCATE pawl.job, pawl.job_option, pawl.guard");
    exec_on(a, "BEGIN");
    exec_on(a, ENQUEUE);
    start(s, b, ENQUEUE);
    exec_on(a, "ROLLBACK");
    int64_t id = answer(b);

    assert_int_equal(sql_int(s, "SELECT id FROM pawl.job"), id);
    assert_int_equal(sql_int(s, "SELECT job_id FROM pawl.guard"), id);
    PQfinish(a);
    PQfinish(b);
}

static void a_key_is_a_key_within_its_scope(void **state)
{
    struct store *s = *state;

    /* scope, then how many jobs there are after four that differ in queue or kind */
    static const struct {
        const char *scope;
        int jobs;
    } scopes[] = {{"kind", 4}, {"queue", 2}, {"global", 1}};

    char sql[400];

    for (size_t i = 0; i < sizeof(scopes) / sizeof(*scopes); i++) {
        testdb_exec(&s->db, "TRUNCATE pawl.job, pawl.job_option, pawl.guard");
        snprintf(sql,
                 sizeof(sql),
                 "SELECT pawl.enqueue(k, queue => q, unique_key => 'x', unique_scope => '%s')"
                 " FROM unnest('{k1,k2}'::text[]) AS k, unnest('{q1,q2}'::text[]) AS q",
                 scopes[i].scope);
        testdb_exec(&s->db, sql);
        testdb_exec(&s->db, sql);
        assert_int_equal(count_of(s, "pawl.job"), scopes[i].jobs);
    }
    /* Whatever is in the names, different keys stay different. */
    assert_int_equal(
        sql_int(
            s,
            "SELECT count(DISTINCT h) FROM (VALUES (pawl.unique_hash('kind', 'a', 'bc', 'd')),"
            " (pawl.unique_hash('kind', 'ab', 'c', 'd')), (pawl.unique_hash('kind', 'a', 'b', 'cd')),"
            " (pawl.unique_hash('queue', 'a', 'b', 'cd')), (pawl.unique_hash('global', 'a', 'b', 'cd')))"
            " AS v(h)"),
        5);
}

static void what_happens_to_the_holder_is_the_callers_choice(void **state)
{
    struct store *s = *state;
    static const char shown[] =
        "SELECT convert_from(payload, 'UTF8') || ' ' || priority || ' ' || (due_at > now()) FROM pawl.job";

    testdb_exec(&s->db, "SELECT pawl.enqueue('k', '1', unique_key => 'x', delay => '1 h')");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', '2', unique_key => 'x', priority => 7)");
    assert_text(s, shown, "1 4 true");
    testdb_exec(&s->db,
                "SELECT pawl.enqueue('k', '3', unique_key => 'x', priority => 7,"
                " on_conflict => 'reschedule')");
    assert_text(s, shown, "1 4 false");
    testdb_exec(&s->db,
                "SELECT pawl.enqueue('k', '4', unique_key => 'x', priority => 7, delay => '1 h',"
                " on_conflict => 'replace')");
    assert_text(s, shown, "4 7 true");
    PGresult *r = PQexec(
        s->db.conn, "SELECT pawl.enqueue('k', '5', unique_key => 'x', on_conflict => 'refuse')");

    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "PW004");
    assert_string_equal(PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL), "job 1");
    PQclear(r);
    assert_int_equal(count_of(s, "pawl.job"), 1);
    /* One that runs stays as it is. */
    testdb_exec(&s->db, "UPDATE pawl.job SET token = gen_random_uuid()");
    testdb_exec(&s->db,
                "SELECT pawl.enqueue('k', '6', unique_key => 'x', on_conflict => 'replace')");
    assert_text(s, shown, "4 7 true");
    /* One that is parked gets the payload and stays parked. */
    testdb_exec(&s->db,
                "UPDATE pawl.job SET token = NULL, waits_for = 'operator', due_at = 'infinity'");
    testdb_exec(&s->db,
                "SELECT pawl.enqueue('k', '7', unique_key => 'x', on_conflict => 'replace')");
    assert_text(
        s, "SELECT convert_from(payload, 'UTF8') || ' ' || due_at FROM pawl.job", "7 infinity");
}

/* While its holder is in another state the key is there to be taken over. */
static void a_key_counts_in_the_states_that_were_asked_for(void **state)
{
    struct store *s = *state;

    static const struct {
        const char *holder;
        const char *states;
        bool taken;
    } cases[] = {
        {"token = NULL", "{waiting}", true},
        {"token = NULL", "{running,parked}", false},
        {"token = gen_random_uuid()", "{running}", true},
        {"token = gen_random_uuid()", "{waiting,parked}", false},
        {"waits_for = 'operator'", "{parked}", true},
        {"waits_for = 'operator'", "{waiting,running}", false},
        {"due_at = now() + interval '1 h'", "{waiting}", true},
        {"token = NULL", "{}", false},
    };

    char sql[300];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        testdb_exec(&s->db, "TRUNCATE pawl.job, pawl.job_option, pawl.guard RESTART IDENTITY");
        testdb_exec(&s->db, ENQUEUE);
        snprintf(sql, sizeof(sql), "UPDATE pawl.job SET %s", cases[i].holder);
        testdb_exec(&s->db, sql);
        snprintf(sql,
                 sizeof(sql),
                 "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'x', unique_states => '%s')",
                 cases[i].states);
        int64_t id = sql_int(s, sql);

        if ((id == 1) != cases[i].taken)
            fail_msg("%s, %s", cases[i].holder, cases[i].states);
        assert_int_equal(sql_int(s, "SELECT job_id FROM pawl.guard"), id);
    }
}

/* ── the end of the holder ── */

static struct claimed claimed_with_key(struct store *s, const char *more)
{
    char sql[300];

    snprintf(sql,
             sizeof(sql),
             "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'x', max_attempts => 1%s)",
             more);
    testdb_exec(&s->db, sql);
    struct claimed c = claim(s, 1);

    assert_int_equal(c.n, 1);
    assert_true(c.jobs[0].has_options);
    assert_false(c.jobs[0].is_machine || c.jobs[0].is_child);
    return c;
}

static void a_key_is_free_when_its_job_has_ended(void **state)
{
    struct store *s = *state;

    static const enum outcome_kind ends[] = {
        OUTCOME_DONE, OUTCOME_FAIL, OUTCOME_CANCEL, OUTCOME_REJECT, OUTCOME_RETRY};

    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct claimed c = claimed_with_key(s, "");

        settle_one(s, &c, (struct outcome){.kind = ends[i], .error = "e", .delay_ms = -1});
        assert_int_equal(count_of(s, "pawl.job"), 0);
        assert_int_equal(count_of(s, "pawl.guard"), 0);
    }
    /* Released or swept with attempts left, it holds the key on. */
    struct claimed c = claimed_with_key(s, "");

    settle_one(s, &c, (struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1});
    assert_int_equal(count_of(s, "pawl.guard"), 1);
    claim(s, 1);
    testdb_exec(&s->db, "UPDATE pawl.claim SET lease_until = '-infinity'");
    char text[64];

    sweep_on(s, s->db.conn, 20, text, sizeof(text));
    assert_non_null(strstr(text, "failed"));
    assert_int_equal(count_of(s, "pawl.guard"), 0);
    testdb_exec(&s->db, ENQUEUE);
    testdb_exec(&s->db, "SELECT pawl.cancel(max(id)) FROM pawl.job");
    assert_int_equal(count_of(s, "pawl.guard"), 0);
}

static void a_key_stays_taken_for_as_long_as_was_asked(void **state)
{
    struct store *s = *state;
    struct claimed c = claimed_with_key(s, ", unique_for => '1 h'");
    int64_t id = c.jobs[0].id;

    settle_one(s, &c, (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1});
    assert_int_equal(count_of(s, "pawl.job"), 0);
    assert_int_equal(sql_int(s, ENQUEUE), id);
    assert_int_equal(count_of(s, "pawl.job"), 0);
    assert_int_equal(sql_int(s, "SELECT pawl.guard_maintain()"), 0);
    testdb_exec(&s->db, "UPDATE pawl.guard SET free_at = now()");
    assert_true(sql_int(s, ENQUEUE) > id);
    /* Likewise after a cancel; and what is over is cleaned away. */
    testdb_exec(&s->db, "UPDATE pawl.guard SET keep_ms = 1000");
    testdb_exec(&s->db, "SELECT pawl.cancel(id) FROM pawl.job");
    assert_int_equal(count_of(s, "pawl.guard WHERE free_at > now()"), 1);
    testdb_exec(&s->db, "UPDATE pawl.guard SET free_at = now() - interval '1 s'");
    assert_int_equal(sql_int(s, "SELECT pawl.guard_maintain()"), 1);
    assert_int_equal(count_of(s, "pawl.guard"), 0);
}

/* A stranger's transaction holds the key; the worker goes on, and what is left says nothing. */
static void a_settle_does_not_wait_for_a_key(void **state)
{
    struct store *s = *state;
    PGconn *a = PQconnectdb(s->db.conninfo);
    struct claimed c = claimed_with_key(s, "");

    exec_on(a, "BEGIN");
    exec_on(
        a,
        "SELECT pawl.enqueue('k', queue => 'q', unique_key => 'x', unique_states => '{waiting}')");
    testdb_exec(&s->db, "SET lock_timeout = '5s'");
    assert_string_equal(settle_one(s, &c, (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1}),
                        "done");
    /* Cleaning does not wait either, and takes no key away from its new holder. */
    assert_int_equal(sql_int(s, "SELECT pawl.guard_maintain()"), 0);
    exec_on(a, "ROLLBACK");
    assert_int_equal(count_of(s, "pawl.guard"), 1);
    assert_int_equal(sql_int(s, "SELECT count(*) FROM pawl.job"), 0);
    int64_t id = sql_int(s, ENQUEUE);

    assert_int_equal(sql_int(s, "SELECT job_id FROM pawl.guard"), id);
    testdb_exec(&s->db, "DELETE FROM pawl.job");
    assert_int_equal(sql_int(s, "SELECT pawl.guard_maintain()"), 1);
    PQfinish(a);
}

/* The enqueue comes while the holder's end is not committed: it waits for that, and gets the key. */
static void an_enqueue_waits_for_the_end_of_the_holder(void **state)
{
    struct store *s = *state;
    PGconn *b = PQconnectdb(s->db.conninfo);
    struct claimed c = claimed_with_key(s, "");

    testdb_exec(&s->db, "BEGIN");
    settle_one(s, &c, (struct outcome){.kind = OUTCOME_DONE, .delay_ms = -1});
    start(s, b, ENQUEUE);
    testdb_exec(&s->db, "COMMIT");
    int64_t id = answer(b);

    assert_true(id > c.jobs[0].id);
    assert_int_equal(sql_int(s, "SELECT job_id FROM pawl.guard"), id);
    PQfinish(b);
}

static void a_key_may_be_long_and_is_stored_as_a_hash(void **state)
{
    struct store *s = *state;

    testdb_exec(&s->db, "SELECT pawl.enqueue('k', unique_key => repeat('ü', 5000))");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', unique_key => repeat('ü', 5000))");
    testdb_exec(&s->db, "SELECT pawl.enqueue('k', unique_key => repeat('ü', 5000) || 'x')");
    assert_int_equal(count_of(s, "pawl.job"), 2);
    PGresult *r = PQexec(s->db.conn, "SELECT pawl.enqueue('k', unique_key => repeat('a', 65537))");

    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "54000");
    PQclear(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(the_second_learns_who_holds_the_key),
        store_test(of_two_at_once_the_loser_waits_and_learns),
        store_test(a_key_is_a_key_within_its_scope),
        store_test(what_happens_to_the_holder_is_the_callers_choice),
        store_test(a_key_counts_in_the_states_that_were_asked_for),
        store_test(a_key_is_free_when_its_job_has_ended),
        store_test(a_key_stays_taken_for_as_long_as_was_asked),
        store_test(a_settle_does_not_wait_for_a_key),
        store_test(an_enqueue_waits_for_the_end_of_the_holder),
        store_test(a_key_may_be_long_and_is_stored_as_a_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
