/*
 * One statement at a time on a real server: how it ends when all is well, when the server refuses,
 * when time runs out and when the connection breaks.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "sync_fixture.h"

static int try_within(struct fixture *f, const char *sql, int64_t deadline_ms)
{
    const struct stmt stmt = {.name = "slow_test", .sql = sql};

    err_clear(&f->err);
    return sync_exec_within(f->conn, &stmt, NULL, deadline_ms, NULL, &f->err);
}

static void assert_usable(struct fixture *f)
{
    assert_true(fixture_bool(f, "SELECT true"));
}

static void a_statement_without_parameters_or_rows_works(void **state)
{
    struct fixture *f = *state;
    const struct stmt stmt = {.name = "make", .sql = "CREATE TABLE made (n int)"};

    assert_int_equal(sync_exec(f->conn, &stmt, NULL, NULL, NULL), 0);
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM made"), 0);
    assert_int_equal(sync_exec(f->conn, &stmt, NULL, NULL, NULL), PAWL_EFAILED);
    assert_usable(f);
}

static void a_failure_leaves_the_result_alone(void **state)
{
    struct fixture *f = *state;
    PGresult *const before = (PGresult *)f;
    PGresult *r = before;

    assert_int_equal(fixture_try(f, "SELECT 1/0", &r), PAWL_EINVAL);
    assert_ptr_equal(r, before);
    assert_string_equal(f->err.sqlstate, "22012");
    assert_string_equal(f->err.message, "division by zero");
    assert_usable(f);
}

static void a_commit_that_rolled_back_is_an_error(void **state)
{
    static const char *const commits[] = {
        "COMMIT", "  commit;", "-- why\n/* and how */ END", "COMMIT AND NO CHAIN"};
    struct fixture *f = *state;

    testdb_exec(&f->db, "CREATE TABLE kept (n int)");
    for (size_t i = 0; i < sizeof(commits) / sizeof(commits[0]); i++) {
        PQclear(fixture_query(f, "BEGIN"));
        PQclear(fixture_query(f, "INSERT INTO kept VALUES (1)"));
        assert_int_equal(fixture_try(f, "SELECT 1/0", NULL), PAWL_EINVAL);
        assert_int_equal(fixture_try(f, commits[i], NULL), PAWL_EFAILED);
        assert_string_equal(f->err.message, "the transaction was rolled back, not committed");
        assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM kept"), 0);
    }
    PQclear(fixture_query(f, "BEGIN"));
    assert_int_equal(fixture_try(f, "SELECT 1/0", NULL), PAWL_EINVAL);
    assert_int_equal(fixture_try(f, "SELECT 1", NULL), PAWL_ESTATE);
    assert_int_equal(sync_script(f->conn, "COMMIT; SELECT 1", 5000, &f->err), PAWL_EFAILED);
    assert_usable(f);
}

static void a_rollback_that_was_asked_for_is_none(void **state)
{
    struct fixture *f = *state;

    PQclear(fixture_query(f, "BEGIN"));
    assert_int_equal(fixture_try(f, "SELECT 1/0", NULL), PAWL_EINVAL);
    PQclear(fixture_query(f, "-- enough\nROLLBACK"));
    PQclear(fixture_query(f, "BEGIN"));
    PQclear(fixture_query(f, "abort"));
    assert_int_equal(sync_script(f->conn, "BEGIN; SELECT 1; ROLLBACK", 5000, &f->err), 0);
    PQclear(fixture_query(f, "BEGIN"));
    PQclear(fixture_query(f, "COMMIT"));
}

static void a_statement_past_its_deadline_is_cancelled(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(try_within(f, "SELECT pg_sleep(600)", 100), PAWL_ETIMEOUT);
    assert_string_equal(f->err.message, "the database did not answer within 100 ms");
    assert_string_equal(f->err.detail, "slow_test was cancelled.");
    assert_string_equal(f->err.sqlstate, "57014");
    assert_usable(f);
    assert_int_equal(sync_script(f->conn, "SELECT 1; SELECT pg_sleep(600)", 100, &f->err),
                     PAWL_ETIMEOUT);
    assert_usable(f);
}

static void a_timeout_of_the_server_is_a_timeout(void **state)
{
    struct fixture *f = *state;

    PQclear(fixture_query(f, "SET statement_timeout = '50ms'"));
    assert_int_equal(fixture_try(f, "SELECT pg_sleep(600)", NULL), PAWL_ETIMEOUT);
    assert_string_equal(f->err.message, "canceling statement due to statement timeout");
}

static void a_lock_that_is_not_had_in_time_is_worth_another_try(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db, "CREATE TABLE busy (n int)");
    testdb_exec(&f->db, "BEGIN; LOCK busy");
    PQclear(fixture_query(f, "SET lock_timeout = '50ms'"));
    assert_int_equal(fixture_try(f, "SELECT * FROM busy", NULL), PAWL_ERETRY);
    assert_string_equal(f->err.sqlstate, "55P03");
}

static void a_connection_ended_by_the_server_says_so(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fixture_try(f, "SELECT pg_terminate_backend(pg_backend_pid())", NULL),
                     PAWL_ECONN);
    assert_string_equal(f->err.sqlstate, "57P01");
    assert_int_equal(fixture_try(f, "SELECT 1", NULL), PAWL_ECONN);
    assert_string_equal(f->err.message, "the connection to the database is lost");
}

struct cutter {
    const char *conninfo;
    int pid;
    int fd;
};

/* Cuts the line once the server is at work. */
static void *cut(void *data)
{
    const struct cutter *cutter = data;
    PGconn *conn = PQconnectdb(cutter->conninfo);
    char sql[200];
    bool active = false;

    snprintf(
        sql,
        sizeof(sql),
        "SELECT 1 FROM pg_stat_activity WHERE pid = %d AND state = 'active' AND wait_event = 'PgSleep'",
        cutter->pid);
    while (!active && PQstatus(conn) == CONNECTION_OK) {
        PGresult *r = PQexec(conn, sql);
        active = PQntuples(r) == 1;
        PQclear(r);
    }
    shutdown(cutter->fd, SHUT_RDWR);
    PQfinish(conn);
    return NULL;
}

static void a_line_cut_after_sending_leaves_the_outcome_unknown(void **state)
{
    struct fixture *f = *state;
    struct cutter cutter = {f->db.conninfo, PQbackendPID(f->conn), PQsocket(f->conn)};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, cut, &cutter), 0);
    assert_int_equal(fixture_try(f, "SELECT pg_sleep(600)", NULL), PAWL_EUNKNOWN);
    pthread_join(thread, NULL);
    assert_true(f->err.hint[0] != '\0');
    assert_int_equal(fixture_try(f, "SELECT 1", NULL), PAWL_ECONN);
}

static void on_alarm(int signal)
{
    (void)signal;
}

static void signals_do_not_disturb_a_statement(void **state)
{
    struct fixture *f = *state;
    struct sigaction action = {.sa_handler = on_alarm};
    struct sigaction before;
    const struct itimerval often = {{.tv_usec = 2000}, {.tv_usec = 2000}};
    const struct itimerval never = {{0}, {0}};

    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    int slept = fixture_try(f, "SELECT pg_sleep(0.1)", NULL);
    int cancelled = try_within(f, "SELECT pg_sleep(600)", 50);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(slept, 0);
    assert_int_equal(cancelled, PAWL_ETIMEOUT);
}

static void copy_is_refused_and_does_not_hang(void **state)
{
    struct fixture *f = *state;

    testdb_exec(&f->db, "CREATE TABLE copied (n int)");
    assert_int_equal(fixture_try(f, "COPY copied FROM STDIN", NULL), PAWL_EINVAL);
    assert_usable(f);
    assert_int_equal(fixture_try(f, "COPY (SELECT generate_series(1, 100000)) TO STDOUT", NULL),
                     PAWL_EINVAL);
    assert_non_null(strstr(f->err.message, "COPY"));
    assert_usable(f);
    assert_int_equal(
        sync_script(f->conn, "SELECT 1; COPY copied TO STDOUT; SELECT 2", 5000, &f->err),
        PAWL_EINVAL);
    assert_usable(f);
}

static void a_script_happens_as_a_whole_or_not_at_all(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        sync_script(
            f->conn, "CREATE TABLE a (n int); INSERT INTO a VALUES (1), (2);", 5000, &f->err),
        0);
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM a"), 2);
    assert_int_equal(
        sync_script(f->conn, "INSERT INTO a VALUES (3); SELECT 1/0; SELECT 1", 5000, &f->err),
        PAWL_EINVAL);
    assert_string_equal(f->err.message, "division by zero");
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM a"), 2);
    assert_int_equal(sync_script(f->conn, "-- nothing", 5000, &f->err), 0);
}

static void the_callers_connection_stays_as_it_was(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(PQisnonblocking(f->db.conn), 0);
    assert_int_equal(sync_script(f->db.conn, "SELECT 1", 5000, &f->err), 0);
    assert_int_equal(PQisnonblocking(f->db.conn), 0);
    assert_int_equal(PQsetnonblocking(f->db.conn, 1), 0);
    assert_int_equal(sync_script(f->db.conn, "SELECT 1/0", 5000, &f->err), PAWL_EINVAL);
    assert_int_equal(PQisnonblocking(f->db.conn), 1);
}

static void a_connection_in_use_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(PQenterPipelineMode(f->conn), 1);
    assert_int_equal(fixture_try(f, "SELECT 1", NULL), PAWL_ESTATE);
    assert_int_equal(PQexitPipelineMode(f->conn), 1);
    assert_int_equal(PQsendQuery(f->conn, "SELECT 1"), 1);
    assert_int_equal(fixture_try(f, "SELECT 1", NULL), PAWL_ESTATE);
    assert_non_null(strstr(f->err.message, "busy"));
}

static void parameters_that_did_not_fit_are_not_sent(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i <= PARAMS_MAX; i++)
        params_i32(&f->params, i);
    assert_int_equal(fixture_try(f, "SELECT 1", NULL), PAWL_ENOMEM);
    assert_usable(f);
}

static void a_missing_table_hints_at_migrating(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(fixture_try(f, "SELECT * FROM nowhere.job", NULL), PAWL_ESCHEMA);
    assert_string_equal(f->err.hint, "Run: pawl db migrate");
    assert_int_equal(fixture_try(f, "SELECT nowhere.job_claim()", NULL), PAWL_ESCHEMA);
}

static void what_users_stored_stays_out_of_errors(void **state)
{
    struct fixture *f = *state;

    testdb_exec(
        &f->db,
        "CREATE TABLE t (s text CONSTRAINT t_s_unique UNIQUE, n int CONSTRAINT small CHECK (n < 9))");
    PQclear(fixture_query(f, "INSERT INTO t VALUES ('secret', 1)"));
    assert_int_equal(fixture_try(f, "INSERT INTO t VALUES ('secret', 1)", NULL), PAWL_ESTATE);
    assert_null(strstr(f->err.detail, "secret"));
    assert_non_null(strstr(f->err.detail, "t_s_unique"));
    assert_int_equal(fixture_try(f, "INSERT INTO t VALUES ('secret2', 10)", NULL), PAWL_EINVAL);
    assert_null(strstr(f->err.detail, "secret"));
    assert_non_null(strstr(f->err.detail, "small"));
}

static void a_long_message_becomes_one_short_line(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        fixture_try(f, "DO $$BEGIN RAISE EXCEPTION '%', repeat(E'line\\n', 1000); END$$", NULL),
        PAWL_EFAILED);
    assert_string_equal(f->err.sqlstate, "P0001");
    assert_null(strchr(f->err.message, '\n'));
    assert_true(strlen(f->err.message) > 200);
}

static void a_read_only_database_is_told_apart(void **state)
{
    struct fixture *f = *state;

    PQclear(fixture_query(f, "SET default_transaction_read_only = on"));
    assert_int_equal(fixture_try(f, "CREATE TABLE x (n int)", NULL), PAWL_EREADONLY);
    assert_non_null(strstr(f->err.hint, "primary"));
}

static void notices_are_not_printed(void **state)
{
    struct fixture *f = *state;
    int file = memfd_create("stderr", MFD_CLOEXEC);
    int kept = dup(STDERR_FILENO);
    int rc;

    assert_true(file >= 0 && kept >= 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    rc = fixture_try(f, "DO $$BEGIN RAISE WARNING 'noise'; END$$", NULL);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    off_t printed = lseek(file, 0, SEEK_END);
    close(file);
    close(kept);
    assert_int_equal(rc, 0);
    assert_int_equal(printed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_statement_without_parameters_or_rows_works),
        FIXTURE_TEST(a_failure_leaves_the_result_alone),
        FIXTURE_TEST(a_commit_that_rolled_back_is_an_error),
        FIXTURE_TEST(a_rollback_that_was_asked_for_is_none),
        FIXTURE_TEST(a_statement_past_its_deadline_is_cancelled),
        FIXTURE_TEST(a_timeout_of_the_server_is_a_timeout),
        FIXTURE_TEST(a_lock_that_is_not_had_in_time_is_worth_another_try),
        FIXTURE_TEST(a_connection_ended_by_the_server_says_so),
        FIXTURE_TEST(a_line_cut_after_sending_leaves_the_outcome_unknown),
        FIXTURE_TEST(signals_do_not_disturb_a_statement),
        FIXTURE_TEST(copy_is_refused_and_does_not_hang),
        FIXTURE_TEST(a_script_happens_as_a_whole_or_not_at_all),
        FIXTURE_TEST(the_callers_connection_stays_as_it_was),
        FIXTURE_TEST(a_connection_in_use_is_refused),
        FIXTURE_TEST(parameters_that_did_not_fit_are_not_sent),
        FIXTURE_TEST(a_missing_table_hints_at_migrating),
        FIXTURE_TEST(what_users_stored_stays_out_of_errors),
        FIXTURE_TEST(a_long_message_becomes_one_short_line),
        FIXTURE_TEST(a_read_only_database_is_told_apart),
        FIXTURE_TEST(notices_are_not_printed),
    };

    return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
