/* Thousands of jobs in one call without asking for their ids: by COPY, for those who may. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pawl.h>
#include <poll.h>

#include "support/cmocka.h"
#include "support/testdb.h"

#define MANY    2500
#define WAIT_MS 60000

static struct testdb db;
static struct pawl_err err;
static struct pawl_job_new jobs[MANY];

/* The first word of every statement that inserts jobs is noted. */
static int setup(void **state)
{
    (void)state;
    if (testdb_new(&db) != 0)
        return -1;
    testdb_exec(
        &db,
        "CREATE TABLE public.ways (way text); GRANT INSERT ON public.ways TO PUBLIC;"
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT"
        " INTO public.ways SELECT substring(current_query(), 'COPY|INSERT'); RETURN NULL; END $$;"
        "CREATE TRIGGER note AFTER INSERT ON pawl.job EXECUTE FUNCTION public.note()");
    for (size_t i = 0; i < MANY; i++) {
        jobs[i] = PAWL_JOB_NEW_INIT;
        jobs[i].kind = "k";
        jobs[i].queue = "q";
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testdb_free(&db);
    return 0;
}

static void assert_ways(const char *expected)
{
    char *text = testdb_text(&db, "SELECT string_agg(DISTINCT way, ',') FROM public.ways");

    assert_string_equal(text, expected);
    free(text);
    testdb_exec(&db, "TRUNCATE public.ways");
}

static void enqueue_all(int64_t *ids)
{
    if (pawl_enqueue_many(db.conn, jobs, MANY, ids, NULL, &err) != 0)
        fail_msg("%s (%s)", err.message, err.detail);
}

static void the_rows_are_the_same_by_either_way(void **state)
{
    static int64_t ids[MANY];

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        jobs[i].priority = (int)(i % 10);
        jobs[i].delay_ms = i % 3 == 0 ? 100000 * (int64_t)i : 0;
        jobs[i].timeout_ms = i % 4 == 0 ? 1500 : 0;
        jobs[i].max_attempts = 1 + (int)(i % 5);
        jobs[i].queue = i % 2 == 0 ? "q" : "other/queue";
        if (i % 5 != 0) {
            jobs[i].payload = "{\"caf\u00e9\": 1}";
            jobs[i].payload_len = strlen(jobs[i].payload);
        }
    }
    jobs[7].at_us = INT64_C(4102444800123456);
    jobs[7].delay_ms = 0;
    /* In one transaction, so that created_at is the same. A due time is that of its insert, and delays
     * are multiples of 300 s. */
    testdb_exec(&db, "BEGIN");
    enqueue_all(ids);
    assert_ways("INSERT");
    enqueue_all(NULL);
    assert_ways("COPY");
    testdb_exec(&db, "COMMIT");
    assert_int_equal(
        testdb_int(
            &db,
            "WITH j AS (SELECT id, to_jsonb(a) - 'id' - 'due_at' AS row,"
            " floor(extract(epoch FROM due_at - created_at) / 300) AS due FROM pawl.job AS a)"
            " SELECT count(*) FROM (SELECT row, due FROM j WHERE id > 2500 EXCEPT ALL"
            " SELECT row, due FROM j WHERE id <= 2500) AS d"),
        0);
    assert_int_equal(testdb_int(&db, "SELECT count(*) FROM pawl.job"), 2 * MANY);
    assert_int_equal(PQtransactionStatus(db.conn), PQTRANS_IDLE);
    assert_false(PQisnonblocking(db.conn));
}

static bool hears(PGconn *conn, const char *queue)
{
    struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
    PGnotify *notify;

    do {
        assert_int_equal(PQconsumeInput(conn), 1);
        while ((notify = PQnotifies(conn)) != NULL) {
            bool same = strcmp(notify->extra, queue) == 0;

            PQfreemem(notify);
            if (same)
                return true;
        }
    } while (poll(&fd, 1, WAIT_MS) > 0);
    return false;
}

/* Of a few queues by name, of very many all who sleep. */
static void who_sleeps_on_their_queues_is_told(void **state)
{
    static char names[MANY][16];
    PGconn *listener = PQconnectdb(db.conninfo);

    (void)state;
    PQclear(PQexec(listener, "LISTEN pawl_wake"));
    testdb_exec(&db,
                "INSERT INTO pawl.sleeper (queue, worker, asleep) VALUES"
                " ('q', gen_random_uuid(), true), ('n2400', gen_random_uuid(), true)");
    enqueue_all(NULL);
    assert_true(hears(listener, "q"));
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "n%zu", i);
        jobs[i].queue = names[i];
    }
    enqueue_all(NULL);
    assert_ways("COPY");
    assert_true(hears(listener, "n2400"));
    PQfinish(listener);
}

/* PostgreSQL has no COPY for those whose rows it checks. */
static void a_role_for_certain_queues_goes_another_way(void **state)
{
    (void)state;
    testdb_exec(
        &db,
        "DO $$ BEGIN EXECUTE format('CREATE ROLE %I', 'p_' || current_database());"
        " EXECUTE format('GRANT pawl_enqueuer TO %I', 'p_' || current_database());"
        " INSERT INTO pawl.queue_producer VALUES ('q', ('p_' || current_database())::regrole);"
        " EXECUTE format('SET ROLE %I', 'p_' || current_database()); END $$");
    enqueue_all(NULL);
    jobs[MANY - 1].queue = "other";
    int rc = pawl_enqueue_many(db.conn, jobs, MANY, NULL, NULL, &err);

    testdb_exec(&db,
                "RESET ROLE; DO $$ BEGIN EXECUTE format('DROP OWNED BY %I; DROP ROLE %1$I',"
                " 'p_' || current_database()); END $$");
    assert_int_equal(rc, PAWL_EDENIED);
    assert_int_equal(testdb_int(&db, "SELECT count(*) FROM pawl.job"), MANY);
    assert_ways("INSERT");
}

/* Few, or more than plain: the rows need what COPY does not do. */
static void few_jobs_and_rich_ones_go_another_way(void **state)
{
    (void)state;
    assert_int_equal(pawl_enqueue_many(db.conn, jobs, 100, NULL, NULL, &err), 0);
    jobs[MANY - 1].lane = "l";
    enqueue_all(NULL);
    assert_ways("INSERT");
    assert_int_equal(testdb_int(&db, "SELECT count(*) FROM pawl.job"), 100 + MANY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_rows_are_the_same_by_either_way, setup, teardown),
        cmocka_unit_test_setup_teardown(who_sleeps_on_their_queues_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_role_for_certain_queues_goes_another_way, setup, teardown),
        cmocka_unit_test_setup_teardown(few_jobs_and_rich_ones_go_another_way, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
