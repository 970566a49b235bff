/*
 * Producing through pawl.h, on a connection of the caller's in whatever state: what is accepted, what
 * is refused before it is sent, and that nothing is left behind on the connection.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pawl.h>
#include <poll.h>

#include "support/cmocka.h"
#include "support/testdb.h"

static struct testdb db;
static struct pawl_err err;

static int setup(void **state)
{
    (void)state;
    return testdb_new(&db);
}

static int teardown(void **state)
{
    (void)state;
    testdb_free(&db);
    return 0;
}

#define lib_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static struct pawl_job_new plain(void)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;

    job.kind = "k";
    job.queue = "q";
    return job;
}

static int64_t enqueue(const struct pawl_job_new *job)
{
    int64_t id = 0;

    if (pawl_enqueue(db.conn, job, &id, NULL, &err) != 0)
        fail_msg("%s (%s)", err.message, err.detail);
    return id;
}

static void assert_text(const char *sql, const char *expected)
{
    char *text = testdb_text(&db, sql);

    assert_string_equal(text != NULL ? text : "(null)", expected);
    free(text);
}

static int64_t count(const char *from)
{
    char sql[300];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", from);
    return testdb_int(&db, sql);
}

/* ── what is accepted ── */

static void a_job_has_the_defaults(void **state)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;

    (void)state;
    job.kind = "k";
    assert_int_equal(enqueue(&job), 1);
    assert_text("SELECT concat_ws(' ', queue, kind, convert_from(payload, 'UTF8'), priority,"
                " max_attempts, attempt, due_at BETWEEN created_at AND now(), timeout_ms IS NULL,"
                " has_options IS NULL AND is_machine IS NULL)"
                " FROM pawl.job",
                "default k {} 4 20 0 t t t");
}

static void a_job_carries_everything_that_can_be_asked_for(void **state)
{
    static const char *const tags[] = {"red", "blue"};
    struct pawl_job_new job = plain();
    struct pawl_job_info *info = NULL;

    (void)state;
    job.payload = "a\0b";
    job.payload_len = 3;
    job.priority = 9;
    job.max_attempts = 3;
    job.delay_ms = 3600000;
    job.timeout_ms = 1500;
    job.retry = PAWL_RETRY_QUADRATIC;
    job.retry_base_ms = 10;
    job.retry_cap_ms = 20;
    job.unique_key = "schl\xc3\xbcssel!";
    job.unique_key_len = strlen(job.unique_key) - 1;
    job.tags = tags;
    job.n_tags = 2;
    job.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    int64_t id = enqueue(&job);

    assert_int_equal(pawl_job_get(db.conn, id, &info, &err), 0);
    assert_int_equal(info->id, id);
    assert_string_equal(info->state, "scheduled");
    assert_false(info->finished);
    assert_string_equal(info->queue, "q");
    assert_string_equal(info->kind, "k");
    assert_int_equal(info->priority, 9);
    assert_int_equal(info->max_attempts, 3);
    assert_in_range(info->due_at_us - info->created_at_us, 3600000000LL, 3660000000LL);
    assert_int_equal(info->payload_len, 3);
    assert_memory_equal(info->payload, "a\0b", 4);
    assert_null(info->result);
    assert_null(info->worker);
    assert_null(info->lane);
    assert_string_equal(info->tags, "[\"red\", \"blue\"]");
    assert_string_equal(info->trace, job.trace);
    pawl_job_info_free(info);
    pawl_job_info_free(NULL);
    assert_text("SELECT concat_ws(' ', timeout_ms, retry, retry_base_ms, retry_cap_ms,"
                " guard = pawl.unique_hash('kind', 'q', 'k', 'schlüssel'))"
                " FROM pawl.job JOIN pawl.job_option ON has_options AND job_id = id",
                "1500 quadratic 10 20 t");
}

static void a_job_belongs_to_the_callers_transaction(void **state)
{
    struct pawl_job_new job = plain();

    (void)state;
    testdb_exec(&db, "CREATE TABLE business (n int)");
    testdb_exec(&db, "BEGIN; INSERT INTO business VALUES (1)");
    enqueue(&job);
    testdb_exec(&db, "ROLLBACK");
    assert_int_equal(count("pawl.job"), 0);
    testdb_exec(&db, "BEGIN; INSERT INTO business VALUES (1)");
    enqueue(&job);
    testdb_exec(&db, "COMMIT");
    assert_int_equal(count("pawl.job, business"), 1);
}

static void an_empty_payload_is_not_none(void **state)
{
    struct pawl_job_new job = plain();

    (void)state;
    job.payload = "";
    enqueue(&job);
    assert_int_equal(testdb_int(&db, "SELECT octet_length(payload) FROM pawl.job"), 0);
}

/* ── many ── */

#define MANY 2500 /* more than one statement takes */

static struct pawl_job_new *many(size_t n)
{
    struct pawl_job_new *jobs = calloc(n, sizeof(*jobs));

    assert_non_null(jobs);
    for (size_t i = 0; i < n; i++) {
        char *payload = malloc(16);

        assert_non_null(payload);
        jobs[i] = plain();
        jobs[i].payload_len = (size_t)snprintf(payload, 16, "%zu", i);
        jobs[i].payload = payload;
    }
    return jobs;
}

static void many_free(struct pawl_job_new *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)jobs[i].payload);
    free(jobs);
}

/* Whatever statement carries them: alike, of two kinds, or more than plain. */
static void many_jobs_come_in_the_order_of_the_input(void **state)
{
    struct pawl_job_new *jobs = many(MANY);
    int64_t *ids = calloc(MANY, sizeof(*ids));

    (void)state;
    assert_non_null(ids);
    for (int variant = 0; variant < 3; variant++) {
        testdb_exec(&db, "TRUNCATE pawl.job RESTART IDENTITY");
        if (variant == 1)
            jobs[7].kind = "other";
        if (variant == 2)
            jobs[MANY - 1].trace = "t";
        assert_int_equal(pawl_enqueue_many(db.conn, jobs, MANY, ids, NULL, &err), 0);
        for (size_t i = 0; i < MANY; i++)
            assert_int_equal(ids[i], i + 1);
        assert_int_equal(count("pawl.job WHERE convert_from(payload, 'UTF8')::int = id - 1"), MANY);
        assert_int_equal(PQtransactionStatus(db.conn), PQTRANS_IDLE);
    }
    free(ids);
    many_free(jobs, MANY);
}

static void many_jobs_are_all_or_nothing(void **state)
{
    struct pawl_job_new *jobs = many(MANY);

    (void)state;
    /* Refused before anything is sent … */
    jobs[MANY - 1].priority = 10;
    assert_int_equal(pawl_enqueue_many(db.conn, jobs, MANY, NULL, NULL, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.message, "job 2500 of 2500"));
    /* … or by the database, in the last of three statements. */
    jobs[MANY - 1].priority = 4;
    testdb_exec(&db, "ALTER TABLE pawl.job ADD CHECK (payload <> '2499')");
    assert_int_equal(pawl_enqueue_many(db.conn, jobs, MANY, NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(PQtransactionStatus(db.conn), PQTRANS_IDLE);
    assert_int_equal(count("pawl.job"), 0);
    /* In a transaction of the caller's, it is the caller's to roll back. */
    testdb_exec(&db, "BEGIN");
    assert_int_equal(pawl_enqueue_many(db.conn, jobs, MANY, NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(PQtransactionStatus(db.conn), PQTRANS_INERROR);
    assert_int_equal(pawl_enqueue_many(db.conn, jobs, 1, NULL, NULL, &err), PAWL_ESTATE);
    testdb_exec(&db, "ROLLBACK");
    many_free(jobs, MANY);
}

static void of_many_with_one_key_the_first_one_wins(void **state)
{
    struct pawl_job_new jobs[3] = {plain(), plain(), plain()};
    int64_t ids[3];
    bool existed[3];

    (void)state;
    jobs[0].unique_key = jobs[2].unique_key = "x";
    assert_int_equal(pawl_enqueue_many(db.conn, jobs, 3, ids, existed, &err), 0);
    assert_int_equal(ids[0], ids[2]);
    assert_int_not_equal(ids[0], ids[1]);
    assert_false(existed[0]);
    assert_false(existed[1]);
    assert_true(existed[2]);
    assert_int_equal(count("pawl.job"), 2);
}

static void no_jobs_are_no_work(void **state)
{
    (void)state;
    assert_int_equal(pawl_enqueue_many(db.conn, NULL, 0, NULL, NULL, NULL), 0);
}

/* A program built against another header: longer structs, with nothing or with something in them. */
static void structs_may_be_longer_than_ours(void **state)
{
    struct {
        struct pawl_job_new job;
        int64_t more;
    } jobs[2] = {{plain(), 0}, {plain(), 0}};

    (void)state;
    jobs[0].job.size = jobs[1].job.size = sizeof(jobs[0]);
    assert_int_equal(pawl_enqueue_many(db.conn, &jobs[0].job, 2, NULL, NULL, &err), 0);
    jobs[1].more = 1;
    assert_int_equal(pawl_enqueue_many(db.conn, &jobs[0].job, 2, NULL, NULL, &err), PAWL_EINVAL);
    jobs[0].job.size = 3;
    assert_int_equal(pawl_enqueue(db.conn, &jobs[0].job, NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(count("pawl.job"), 2);
}

/* ── a connection in any state ── */

static void assert_all_refuse(int code)
{
    struct pawl_job_new job = plain();
    struct pawl_job_info *info = NULL;

    assert_int_equal(pawl_enqueue(db.conn, &job, NULL, NULL, &err), code);
    assert_int_equal(pawl_job_get(db.conn, 1, &info, &err), code);
    assert_int_equal(pawl_job_wait(db.conn, 1, 0, &info, &err), code);
    assert_int_equal(pawl_job_cancel(db.conn, 1, NULL, NULL, &err), code);
    assert_int_equal(pawl_job_retry(db.conn, 1, NULL, &err), code);
    assert_int_equal(pawl_assert_claim(db.conn, 1, "x", &err), code);
    assert_null(info);
}

static void a_connection_that_is_busy_is_refused(void **state)
{
    PGresult *r;

    (void)state;
    testdb_exec(&db, "BEGIN");
    PQclear(PQexec(db.conn, "SELECT 1/0"));
    assert_all_refuse(PAWL_ESTATE);
    testdb_exec(&db, "ROLLBACK");

    assert_int_equal(PQsendQuery(db.conn, "SELECT 1"), 1);
    assert_all_refuse(PAWL_ESTATE);
    while ((r = PQgetResult(db.conn)) != NULL)
        PQclear(r);

    PQclear(PQexec(db.conn, "COPY (SELECT 1) TO STDOUT"));
    assert_all_refuse(PAWL_ESTATE);
    for (char *row; PQgetCopyData(db.conn, &row, 0) > 0;)
        PQfreemem(row);
    while ((r = PQgetResult(db.conn)) != NULL)
        PQclear(r);

    assert_int_equal(PQenterPipelineMode(db.conn), 1);
    assert_all_refuse(PAWL_ESTATE);
    assert_int_equal(PQexitPipelineMode(db.conn), 1);
    assert_int_equal(testdb_int(&db, "SELECT 1"), 1); /* it is as it was */
}

static void count_notice(void *data, const PGresult *notice)
{
    (void)notice;
    ++*(int *)data;
}

static void nothing_is_left_on_the_connection(void **state)
{
    static const char settings[] =
        "SELECT coalesce(string_agg(name || '=' || setting, ';' ORDER BY name), '') FROM pg_settings"
        " WHERE source = 'session'";
    struct pawl_job_new job = plain();
    char *before = testdb_text(&db, settings);
    int notices = 0;
    int64_t id;

    (void)state;
    PQsetNoticeReceiver(db.conn, count_notice, &notices);
    job.unique_key = "x";
    id = enqueue(&job);
    assert_int_equal(pawl_job_wait(db.conn, id, 0, NULL, &err), PAWL_ETIMEOUT);
    assert_int_equal(pawl_job_cancel(db.conn, id, NULL, NULL, &err), 0);
    assert_int_equal(pawl_job_wait(db.conn, id, -1, NULL, &err), 0);
    char *after = testdb_text(&db, settings);

    assert_string_equal(before, after);
    free(before);
    free(after);
    assert_int_equal(count("pg_prepared_statements"), 0);
    assert_int_equal(count("pg_listening_channels()"), 0);
    assert_int_equal(count("pg_cursors"), 0);
    assert_false(PQisnonblocking(db.conn));
    testdb_exec(&db, "DO $$ BEGIN RAISE NOTICE 'x'; END $$");
    assert_int_equal(notices, 1);
    assert_int_equal(PQtransactionStatus(db.conn), PQTRANS_IDLE);
}

static void end_backend_of(PGconn *victim)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d, 10000)", PQbackendPID(victim));
    testdb_exec(&db, sql);
}

/* The server ends the session in the middle of the call. */
static void a_connection_lost_during_the_call_is_said(void **state)
{
    struct pawl_job_new job = plain();
    struct pawl_job_new *jobs = many(MANY);
    PGconn *conn;

    (void)state;
    testdb_exec(&db,
                "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;"
                "CREATE TRIGGER die AFTER INSERT ON pawl.job FOR EACH ROW"
                " WHEN (NEW.payload IN ('die', '2400')) EXECUTE FUNCTION die()");
    job.payload = "die";
    job.payload_len = 3;
    conn = PQconnectdb(db.conninfo);
    int rc = pawl_enqueue(conn, &job, NULL, NULL, &err);

    assert_true(rc == PAWL_EUNKNOWN || rc == PAWL_ECONN);
    PQfinish(conn);
    /* In a transaction it is known that nothing was committed. */
    conn = PQconnectdb(db.conninfo);
    PQclear(PQexec(conn, "BEGIN"));
    assert_int_equal(pawl_enqueue(conn, &job, NULL, NULL, &err), PAWL_ECONN);
    PQfinish(conn);
    conn = PQconnectdb(db.conninfo);
    assert_int_equal(pawl_enqueue_many(conn, jobs, MANY, NULL, NULL, &err), PAWL_ECONN);
    PQfinish(conn);
    assert_int_equal(count("pawl.job"), 0);
    /* Before the call, unnoticed. */
    conn = PQconnectdb(db.conninfo);
    end_backend_of(conn);
    job = plain();
    rc = pawl_enqueue(conn, &job, NULL, NULL, &err);
    assert_true(rc == PAWL_EUNKNOWN || rc == PAWL_ECONN);
    assert_true(pawl_enqueue(conn, &job, NULL, NULL, &err) == PAWL_ECONN);
    PQfinish(conn);
    many_free(jobs, MANY);
}

/* ── asking ── */

static void a_waiting_job_is_cancelled_at_once(void **state)
{
    struct pawl_job_new job = plain();
    struct pawl_job_info *info = NULL;
    int64_t id = enqueue(&job);
    bool ended = false;

    (void)state;
    assert_int_equal(pawl_job_cancel(db.conn, id, "me", &ended, &err), 0);
    assert_true(ended);
    assert_int_equal(pawl_job_get(db.conn, id, &info, &err), 0);
    assert_string_equal(info->state, "cancelled");
    assert_string_equal(info->cancel_by, "me");
    assert_true(info->finished);
    assert_true(info->finished_at_us > 0);
    pawl_job_info_free(info);
    assert_int_equal(pawl_job_cancel(db.conn, id, "me", &ended, &err), PAWL_ESTATE);
    /* In a transaction, with it. */
    id = enqueue(&job);
    testdb_exec(&db, "BEGIN");
    assert_int_equal(pawl_job_cancel(db.conn, id, NULL, NULL, &err), 0);
    testdb_exec(&db, "ROLLBACK");
    assert_int_equal(count("pawl.job"), 1);
}

static void a_job_is_let_run_again(void **state)
{
    struct pawl_job_new job = plain();
    int64_t again = 0;

    (void)state;
    job.delay_ms = 3600000;
    int64_t id = enqueue(&job);

    assert_int_equal(pawl_job_retry(db.conn, id, &again, &err), 0);
    assert_int_equal(again, id);
    assert_int_equal(count("pawl.jobs WHERE state = 'ready'"), 1);
    assert_int_equal(pawl_job_cancel(db.conn, id, NULL, NULL, &err), 0);
    assert_int_equal(pawl_job_retry(db.conn, id, &again, &err), 0);
    assert_true(again > id);
    testdb_exec(&db, "UPDATE pawl.history SET state = 'done'");
    assert_int_equal(pawl_job_retry(db.conn, id, NULL, &err), PAWL_ESTATE);
    testdb_exec(&db, "UPDATE pawl.job SET token = gen_random_uuid()");
    assert_int_equal(pawl_job_retry(db.conn, again, NULL, &err), PAWL_ESTATE);
}

struct waiter {
    PGconn *conn;
    int64_t id;
    int rc;
    struct pawl_job_info *info;
    struct pawl_err err;
};

static void *wait_thread(void *data)
{
    struct waiter *w = data;

    w->rc = pawl_job_wait(w->conn, w->id, 60000, &w->info, &w->err);
    return NULL;
}

/* From here on no look of a waiter by itself finds that a job has ended. */
static void looks_find_nothing(void)
{
    testdb_exec(&db,
                "CREATE OR REPLACE FUNCTION pawl.watch(job bigint) RETURNS boolean LANGUAGE sql"
                " AS 'SELECT true'");
}

/* A waiter sleeps on a notification, which alone ends its wait. */
static void whoever_waits_hears_of_the_end(void **state)
{
    struct pawl_job_new job = plain();
    struct waiter w = {.conn = PQconnectdb(db.conninfo), .id = enqueue(&job)};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, wait_thread, &w), 0);
    while (testdb_int(&db, "SELECT count(*) FROM pawl.job_option WHERE watched") == 0)
        poll(NULL, 0, 1);
    looks_find_nothing();
    assert_int_equal(pawl_job_cancel(db.conn, w.id, "me", NULL, &err), 0);
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, 0);
    assert_string_equal(w.info->state, "cancelled");
    pawl_job_info_free(w.info);
    PQfinish(w.conn);
}

/* A notification may get lost; a look by itself finds out. */
static void a_lost_notification_is_made_up_for(void **state)
{
    struct pawl_job_new job = plain();
    struct waiter w = {.conn = PQconnectdb(db.conninfo), .id = enqueue(&job)};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, wait_thread, &w), 0);
    while (testdb_int(&db, "SELECT count(*) FROM pawl.job_option WHERE watched") == 0)
        poll(NULL, 0, 1);
    testdb_exec(&db, "UPDATE pawl.job_option SET watched = NULL");
    assert_int_equal(pawl_job_cancel(db.conn, w.id, "me", NULL, &err), 0);
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, 0);
    pawl_job_info_free(w.info);
    PQfinish(w.conn);
}

static void waiting_ends_with_its_time_and_not_in_a_transaction(void **state)
{
    struct pawl_job_new job = plain();
    struct pawl_job_info *info = NULL;
    int64_t id = enqueue(&job);

    (void)state;
    assert_int_equal(pawl_job_wait(db.conn, id, 30, &info, &err), PAWL_ETIMEOUT);
    testdb_exec(&db, "BEGIN");
    assert_int_equal(pawl_job_wait(db.conn, id, 30, &info, &err), PAWL_ESTATE);
    assert_int_equal(PQtransactionStatus(db.conn), PQTRANS_INTRANS);
    testdb_exec(&db, "COMMIT");
    assert_null(info);
}

static void a_claim_is_proved_inside_a_transaction(void **state)
{
    struct pawl_job_new job = plain();
    int64_t id = enqueue(&job);

    (void)state;
    testdb_exec(&db, "UPDATE pawl.job SET token = 'a0000000-0000-4000-8000-00000000000a'");
    assert_int_equal(pawl_assert_claim(db.conn, id, "a0000000-0000-4000-8000-00000000000a", &err),
                     PAWL_ESTATE);
    testdb_exec(&db, "BEGIN");
    assert_int_equal(pawl_assert_claim(db.conn, id, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_assert_claim(db.conn, id, "", &err), PAWL_EINVAL);
    assert_int_equal(pawl_assert_claim(db.conn, id, "a0000000-0000-4000-8000-00000000000", &err),
                     PAWL_EINVAL);
    assert_int_equal(pawl_assert_claim(db.conn, id, "A0000000-0000-4000-8000-00000000000a", &err),
                     0);
    assert_int_equal(pawl_assert_claim(db.conn, id, "a0000000-0000-4000-8000-00000000000b", &err),
                     PAWL_ESTALE);
    testdb_exec(&db, "ROLLBACK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lib_test(a_job_has_the_defaults),
        lib_test(a_job_carries_everything_that_can_be_asked_for),
        lib_test(a_job_belongs_to_the_callers_transaction),
        lib_test(an_empty_payload_is_not_none),
        lib_test(many_jobs_come_in_the_order_of_the_input),
        lib_test(many_jobs_are_all_or_nothing),
        lib_test(of_many_with_one_key_the_first_one_wins),
        lib_test(no_jobs_are_no_work),
        lib_test(structs_may_be_longer_than_ours),
        lib_test(a_connection_that_is_busy_is_refused),
        lib_test(nothing_is_left_on_the_connection),
        lib_test(a_connection_lost_during_the_call_is_said),
        lib_test(a_waiting_job_is_cancelled_at_once),
        lib_test(a_job_is_let_run_again),
        lib_test(whoever_waits_hears_of_the_end),
        lib_test(a_lost_notification_is_made_up_for),
        lib_test(waiting_ends_with_its_time_and_not_in_a_transaction),
        lib_test(a_claim_is_proved_inside_a_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
