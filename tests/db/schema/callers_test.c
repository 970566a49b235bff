/*
 * What functions say to whom about jobs of a queue that is not the caller's. Every function with the
 * rights of its owner, and every function that a member of pawl_enqueuer may call, is in the table
 * below: one that is not fails the test.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/cmocka.h"
#include "support/testdb.h"

/* none: a member of pawl_enqueuer without a queue; mail: one with the queue mail. */
enum { STRANGER, NONE, MAIL, PRODUCER, READER, WORKER, SERVER, ROLES };

static const char *const words[ROLES] = {
    "stranger", "none", "mail", "producer", "reader", "worker", "server"};

struct expectation {
    const char *function; /* NULL: no function, and worth a line */
    const char *sql;
    const char *answers[ROLES]; /* the only value, or a SQLSTATE */
};

#define NO "42501"
#define NOBODY                     \
    {                              \
        NO, NO, NO, NO, NO, NO, NO \
    }
/* Those for workers and servers, which have all queues. */
#define WORKERS(answer)                    \
    {                                      \
        NO, NO, NO, NO, NO, answer, answer \
    }
#define SERVERS(answer)                \
    {                                  \
        NO, NO, NO, NO, NO, NO, answer \
    }
/* Producers that may, by their queues. */
#define BY_QUEUE(none, mail, all)        \
    {                                    \
        NO, none, mail, all, NO, NO, all \
    }

/* Live jobs: 1 in payroll, 2 in mail. Finished ones: 3 in payroll, 4 in mail. No job: 9. */
static const struct expectation table[] = {
    {"signal", "SELECT pawl.signal(1, 'go')", BY_QUEUE("PW001", "PW001", "t")},
    {"signal", "SELECT pawl.signal(2, 'go')", BY_QUEUE("PW001", "t", "t")},
    {"signal", "SELECT pawl.signal(3, 'go')", BY_QUEUE("PW001", "PW001", "PW002")},
    {"signal", "SELECT pawl.signal(4, 'go')", BY_QUEUE("PW001", "PW002", "PW002")},
    {"signal", "SELECT pawl.signal(9, 'go')", BY_QUEUE("PW001", "PW001", "PW001")},
    /* A key that is taken there is told no more than the job. */
    {"signal", "SELECT pawl.signal(1, 'go', '1', 'taken')", BY_QUEUE("PW001", "PW001", "f")},
    {"signal_all", "SELECT pawl.signal_all('c', 'go')", BY_QUEUE("0", "1", "2")},
    {"correlated", "SELECT count(*) FROM pawl.correlated('c')", BY_QUEUE("0", "1", "2")},
    {"raise_unseen", "SELECT pawl.raise_unseen(1)", BY_QUEUE("PW001", "PW001", "PW001")},
    {"raise_unseen", "SELECT pawl.raise_unseen(3)", BY_QUEUE("PW001", "PW001", "PW002")},
    {"raise_unseen", "SELECT pawl.raise_unseen(4)", BY_QUEUE("PW001", "PW002", "PW002")},
    {"watch", "SELECT pawl.watch(1)", {NO, "f", "f", "t", "t", NO, "t"}},
    {"watch", "SELECT pawl.watch(2)", {NO, "f", "t", "t", "t", NO, "t"}},
    {"watch", "SELECT pawl.watch(3)", {NO, "f", "f", "f", "f", NO, "f"}},
    {"watch", "SELECT pawl.watch(9)", {NO, "f", "f", "f", "f", NO, "f"}},
    {"cancel", "SELECT pawl.cancel(1)", SERVERS("cancelled")},
    {"cancel", "SELECT pawl.cancel(3)", SERVERS("PW002")},
    {"retry", "SELECT pawl.retry(1)", SERVERS("1")},
    {"machine_restart", "SELECT pawl.machine_restart(1, 's')", SERVERS("1")},
    {"job_start_at", "SELECT pawl.job_start_at(1, 's')", SERVERS("f")},
    {"assert_claim",
     "SELECT pawl.assert_claim(1, gen_random_uuid())",
     {NO, "PW003", "PW003", "PW003", NO, "PW003", "PW003"}},
    {"assert_claim",
     "SELECT pawl.assert_claim(9, gen_random_uuid())",
     {NO, "PW003", "PW003", "PW003", NO, "PW003", "PW003"}},
    {"guard_take",
     "SELECT pawl.guard_take(1, 'global', 'g', 7, 0, 0)",
     BY_QUEUE("PW001", "PW001", "PW001")},
    {"guard_take",
     "INSERT INTO pawl.job (queue, kind, payload, has_options) VALUES ('mail', 'k', '', true);"
     "SELECT pawl.guard_take((SELECT max(id) FROM pawl.job), 'global', 'g', 7, 0, 0)",
     BY_QUEUE(NO, "-1", "-1")},
    {"retry_put", "SELECT pawl.retry_put(1, NULL, 1, 1)", BY_QUEUE("PW001", "PW001", "PW001")},
    {"retry_put",
     "INSERT INTO pawl.job (queue, kind, payload, has_options) VALUES ('mail', 'k', '', true);"
     "SELECT pawl.retry_put((SELECT max(id) FROM pawl.job), NULL, 1, 1)",
     BY_QUEUE(NO, "", "")},
    /* Who holds a global key elsewhere is for those who may know of all queues. */
    {"enqueue",
     "SELECT pawl.enqueue('k', queue => 'mail', unique_key => 'g', unique_scope => 'global')",
     BY_QUEUE(NO, "PW004", "1")},
    {"enqueue",
     "SELECT pawl.enqueue('k', queue => 'payroll', unique_key => 'p')",
     BY_QUEUE(NO, NO, "1")},
    {"enqueue", "SELECT pawl.enqueue('k', queue => 'payroll') > 0", BY_QUEUE(NO, NO, "t")},
    {"enqueue_many",
     "SELECT count(*) FROM pawl.enqueue_many('k', '{1}'::jsonb[], 'payroll')",
     BY_QUEUE(NO, NO, "1")},
    {"enqueue_plain",
     "SELECT pawl.enqueue_plain('payroll', 'k', '', 4::int2, 0, 0, 1, 0) > 0",
     BY_QUEUE(NO, NO, "t")},
    {"enqueue_options",
     "SELECT pawl.enqueue_options('k', '1', 'payroll', 4, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL,"
     " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) > 0",
     BY_QUEUE(NO, NO, "t")},
    {"enqueue_row",
     "SELECT id > 0 FROM pawl.enqueue_row('payroll', 'k', '', 4::int2, NULL, now(), 1, NULL, NULL, NULL,"
     " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
     BY_QUEUE(NO, NO, "t")},
    {"children_let_go", "SELECT pawl.children_let_go(1, gen_random_uuid(), true)", WORKERS("f")},
    {"children_let_go", "SELECT pawl.children_let_go(9, NULL, true)", WORKERS("f")},
    {"children_cancel", "SELECT pawl.children_cancel('{1}')", NOBODY},
    {"cancel_idle", "SELECT pawl.cancel_idle(1, 'me')", SERVERS("t")},
    {"cancel_idle", "SELECT pawl.cancel_idle(3, 'me')", SERVERS("f")},
    {"jobs_end",
     "SELECT pawl.jobs_end('{1}', '{done}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
     WORKERS("")},
    {"claims_sweep", "SELECT count(*) FROM pawl.claims_sweep(1, NULL, 0, 0)", WORKERS("0")},
    {"orphans_end", "SELECT pawl.orphans_end(1)", WORKERS("0")},
    {"lanes_mend", "SELECT pawl.lanes_mend(1)", WORKERS("0")},
    {"lanes_maintain", "SELECT pawl.lanes_maintain()", WORKERS("0")},
    {"guard_maintain", "SELECT pawl.guard_maintain()", WORKERS("0")},
    {"stop_maintain", "SELECT pawl.stop_maintain()", WORKERS("0")},
    {"serve_maintain", "SELECT pawl.serve_maintain()", WORKERS("0")},
    {"history_maintain", "SELECT dropped FROM pawl.history_maintain()", WORKERS("0")},
    /* Of triggers. */
    {"signal_accept", "SELECT pawl.signal_accept()", NOBODY},
    {"signal_deliver", "SELECT pawl.signal_deliver()", NOBODY},
    {"stop_deliver", "SELECT pawl.stop_deliver()", NOBODY},
    {"watch_deliver", "SELECT pawl.watch_deliver()", NOBODY},
    /* These compute, and know no job. */
    {"unique_hash",
     "SELECT pawl.unique_hash('queue', 'q', 'k', 'x') IS NULL",
     BY_QUEUE("f", "f", "f")},
    {"name_check", "SELECT pawl.name_check('queue', 'q')", BY_QUEUE("", "", "")},
    {"interval_ms", "SELECT pawl.interval_ms('delay', '1 s')", BY_QUEUE("1000", "1000", "1000")},
    {"due_time",
     "SELECT pawl.due_time(NULL, NULL) BETWEEN now() AND clock_timestamp()",
     BY_QUEUE("t", "t", "t")},
    {"job_check", "SELECT pawl.job_check('q', 'k', 4, 1, 0)", BY_QUEUE("", "", "")},
    /* Past the functions. */
    {NULL, "SELECT count(*) FROM (SELECT id FROM pawl.job) j", {NO, "0", "1", "2", "2", "2", "2"}},
    {NULL,
     "SELECT count(*) FROM (SELECT job_id FROM pawl.signal) s",
     {NO, "0", "0", "1", "1", "1", "1"}},
    {NULL,
     "SELECT count(*) FROM (SELECT job_id FROM pawl.guard) g",
     {NO, NO, NO, "2", "2", "2", "2"}},
    {NULL, "SELECT count(guard) FROM pawl.job_option", {NO, NO, NO, NO, "2", "2", "2"}},
    {NULL, "SELECT count(*) FROM pawl.machine", {NO, NO, NO, NO, "1", "1", "1"}},
    {NULL, "SELECT count(*) FROM pawl.orphan", {NO, NO, NO, NO, "0", "0", "0"}},
    {NULL, "SELECT count(payload) FROM pawl.signal", {NO, NO, NO, NO, "1", "1", "1"}},
    {NULL,
     "INSERT INTO pawl.signal (job_id, name, payload) VALUES (1, 'go', '1')",
     {NO, NO, NO, "", NO, "", ""}},
    {NULL, "INSERT INTO pawl.watcher (job_id) VALUES (1)", {NO, NO, NO, "", "", NO, ""}},
    {NULL, "INSERT INTO pawl.watcher (job_id) VALUES (9)", {NO, NO, NO, "", "", NO, ""}},
};
#define N_TABLE (sizeof(table) / sizeof(*table))

static void role_name(const struct testdb *db, int role, char *name, size_t size)
{
    if (role < PRODUCER)
        snprintf(name, size, "%s_%s", db->name, words[role]);
    else
        snprintf(name, size, "pawl_%s", words[role]);
}

static int setup(void **state)
{
    static struct testdb db;
    char sql[1000];

    if (testdb_new(&db) != 0)
        return -1;
    *state = &db;
    snprintf(sql,
             sizeof(sql),
             "CREATE ROLE %1$s_stranger; CREATE ROLE %1$s_none; CREATE ROLE %1$s_mail;"
             "GRANT pawl_enqueuer TO %1$s_none, %1$s_mail;"
             "INSERT INTO pawl.queue_producer VALUES ('mail', '%1$s_mail');",
             db.name);
    testdb_exec(&db, sql);
    testdb_exec(
        &db,
        "INSERT INTO pawl.job (queue, kind, payload, has_options, meta) SELECT q, 'k', '', true,"
        "  '{\"correlation\": \"c\"}' FROM unnest('{payroll,mail}'::text[]) AS q;"
        "INSERT INTO pawl.job_option (job_id, guard)"
        " SELECT id, pawl.unique_hash('global', queue, 'k', 'g') FROM pawl.job;"
        "INSERT INTO pawl.guard VALUES (pawl.unique_hash('global', '', '', 'g'), 1, 0),"
        " (pawl.unique_hash('kind', 'payroll', 'k', 'p'), 1, 0);"
        "SELECT pawl.signal(1, 'go', '1', 'taken');"
        "INSERT INTO pawl.history (id, queue, created_at, due_at, started_at, finished_at, expires_on,"
        "  state, attempt, max_attempts, priority, kind, payload)"
        " SELECT id, q, now(), now(), now(), now(), current_date + 7, 'done', 1, 1, 4, 'k', ''"
        " FROM (VALUES (3, 'payroll'), (4, 'mail')) AS h(id, q);"
        "SELECT setval('pawl.job_id_seq', 100)");
    return 0;
}

static int teardown(void **state)
{
    struct testdb *db = *state;
    char sql[700];

    snprintf(sql,
             sizeof(sql),
             "RESET ROLE; DROP OWNED BY %1$s_stranger, %1$s_none, %1$s_mail;"
             "DROP ROLE %1$s_stranger; DROP ROLE %1$s_none; DROP ROLE %1$s_mail",
             db->name);
    testdb_exec(db, sql);
    testdb_free(db);
    return 0;
}

/* What the role is told; nothing stays. */
static void ask(struct testdb *db, int role, const char *sql, char *ret, size_t size)
{
    char name[100];
    char begin[200];

    role_name(db, role, name, sizeof(name));
    snprintf(begin, sizeof(begin), "BEGIN; SET LOCAL ROLE \"%s\"", name);
    testdb_exec(db, begin);
    PGresult *r = PQexec(db->conn, sql);
    const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (sqlstate != NULL)
        snprintf(ret, size, "%s", sqlstate);
    else
        snprintf(ret, size, "%s", PQntuples(r) == 1 ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    testdb_exec(db, "ROLLBACK");
}

static void everybody_is_told_what_he_may_know(void **state)
{
    struct testdb *db = *state;
    int wrong = 0;

    for (size_t i = 0; i < N_TABLE; i++) {
        for (int role = 0; role < ROLES; role++) {
            char answer[100];

            ask(db, role, table[i].sql, answer, sizeof(answer));
            if (strcmp(answer, table[i].answers[role]) == 0)
                continue;
            print_error("%s: %s: \"%s\", not \"%s\"\n",
                        words[role],
                        table[i].sql,
                        answer,
                        table[i].answers[role]);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void a_full_inbox_is_told_to_who_may_know_of_the_job(void **state)
{
    static const char send[] =
        "INSERT INTO pawl.signal (job_id, name, payload) VALUES (1, 'go', '1')";
    struct testdb *db = *state;
    char before[100];
    char full[100];

    ask(db, MAIL, send, before, sizeof(before));
    testdb_exec(db,
                "ALTER TABLE pawl.signal DISABLE TRIGGER USER;"
                "INSERT INTO pawl.signal (job_id, name, payload, bytes, inbox_count, inbox_bytes)"
                " SELECT 1, 'go', '{}', 58, n, 58 * n FROM generate_series(1, 10000) AS n;"
                "ALTER TABLE pawl.signal ENABLE TRIGGER USER");
    ask(db, MAIL, send, full, sizeof(full));
    assert_string_equal(full, before);
    assert_string_equal(full, "42501");
    ask(db, PRODUCER, send, full, sizeof(full));
    assert_string_equal(full, "PW005");
}

static void every_function_is_in_the_table(void **state)
{
    struct testdb *db = *state;
    int unknown = 0;
    PGresult *r = PQexec(db->conn,
                         "SELECT DISTINCT proname FROM pg_proc"
                         " WHERE pronamespace = 'pawl'::regnamespace AND (prosecdef"
                         "  OR has_function_privilege('pawl_enqueuer', oid, 'EXECUTE'))");

    assert_true(PQntuples(r) > 20);
    for (int row = 0; row < PQntuples(r); row++) {
        bool known = false;

        for (size_t i = 0; i < N_TABLE; i++)
            known |=
                table[i].function != NULL && strcmp(table[i].function, PQgetvalue(r, row, 0)) == 0;
        if (!known)
            print_error("pawl.%s: what may it tell whom?\n", PQgetvalue(r, row, 0));
        unknown += !known;
    }
    PQclear(r);
    assert_int_equal(unknown, 0);
}

/* A function of its own, which others call, gets a role no further than it gets itself. */
static void a_detour_leads_nowhere(void **state)
{
    struct testdb *db = *state;
    char sql[1000];
    char answer[100];

    snprintf(sql,
             sizeof(sql),
             "CREATE SCHEMA detour AUTHORIZATION %1$s_mail; SET ROLE %1$s_mail;"
             "GRANT USAGE ON SCHEMA detour TO %1$s_stranger;"
             "CREATE FUNCTION detour.one(bigint) RETURNS boolean LANGUAGE sql SECURITY DEFINER"
             " AS 'SELECT pawl.signal($1, ''go'')';"
             "CREATE FUNCTION detour.all() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
             " AS 'SELECT pawl.signal_all(''c'', ''go'')'; RESET ROLE",
             db->name);
    testdb_exec(db, sql);
    ask(db, STRANGER, "SELECT detour.one(1)", answer, sizeof(answer));
    assert_string_equal(answer, "PW001");
    ask(db, STRANGER, "SELECT detour.one(2)", answer, sizeof(answer));
    assert_string_equal(answer, "t");
    ask(db, STRANGER, "SELECT detour.one(3)", answer, sizeof(answer));
    assert_string_equal(answer, "PW001");
    ask(db, STRANGER, "SELECT detour.all()", answer, sizeof(answer));
    assert_string_equal(answer, "1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(everybody_is_told_what_he_may_know),
        TEST(a_full_inbox_is_told_to_who_may_know_of_the_job),
        TEST(every_function_is_in_the_table),
        TEST(a_detour_leads_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
