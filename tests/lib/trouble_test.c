/* Workers that die, are forked, or lose their database. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib_fixture.h"

#define PATIENCE_S 120

static enum pawl_outcome do_abort(struct pawl_run *run, void *data)
{
    (void)run;
    (void)data;
    abort();
}

/* A process of its own, with a worker whose handler aborts. No thread has been started here yet. */
static void let_one_die(struct fixture *f)
{
    struct rlimit none = {0, 0};
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct pawl_worker *worker = NULL;

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL); /* cmocka would report it as a failure */
        if (pawl_worker_new(&f->options, &worker, &f->err) == 0 &&
            pawl_worker_handle(worker, "abort", do_abort, NULL, &f->err) == 0)
            _exit(-pawl_worker_run(worker, &f->err));
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void enqueue_attempts(struct fixture *f, int max_attempts)
{
    char sql[400];

    snprintf(sql,
             sizeof(sql),
             "WITH new AS (INSERT INTO pawl.job (queue, kind, payload, max_attempts, has_options)"
             "             VALUES ('default', 'abort', '', %d, true) RETURNING id)"
             " INSERT INTO pawl.job_option (job_id, retry_base_ms) SELECT id, 3600000 FROM new",
             max_attempts);
    testdb_exec(&f->db, sql);
}

/* Another worker, until the job is in this state. */
static void sweep_until(struct fixture *f, const char *state)
{
    char sql[200];

    f->options.until_empty = false;
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    snprintf(sql,
             sizeof(sql),
             "SELECT count(*) FROM pawl.jobs WHERE state = '%s' AND kind = 'abort' AND"
             " errors->-1->>'error' LIKE '%%worker died%%'",
             state);
    for (time_t until = time(NULL) + PATIENCE_S; testdb_int(&f->db, sql) == 0;) {
        if (time(NULL) > until)
            fail_msg("the job did not become %s; the log ends with: %s",
                     state,
                     f->log + (f->log_len > 1000 ? f->log_len - 1000 : 0));
    }
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
}

static void a_handler_that_aborts_uses_up_an_attempt(void **state)
{
    struct fixture *f = *state;

    f->options.lease_ms = 2000;
    enqueue_attempts(f, 2);
    let_one_die(f);
    assert_int_equal(testdb_int(&f->db, "SELECT attempt FROM pawl.job"), 1);
    sweep_until(f, "retrying");
}

static void one_that_aborts_every_time_is_failed_in_the_end(void **state)
{
    struct fixture *f = *state;

    f->options.lease_ms = 2000;
    enqueue_attempts(f, 1);
    let_one_die(f);
    sweep_until(f, "failed");
}

static void or_parked_where_its_kind_says_so(void **state)
{
    struct fixture *f = *state;

    f->options.lease_ms = 2000;
    testdb_exec(&f->db, "INSERT INTO pawl.kind (name, park) VALUES ('abort', true)");
    enqueue_attempts(f, 1);
    let_one_die(f);
    sweep_until(f, "parked");
}

static int in_the_child(struct pawl_worker *worker)
{
    struct pawl_stats stats = PAWL_STATS_INIT;
    struct pawl_err err;
    int fd;

    pawl_worker_stop(worker);
    pawl_worker_wake(worker);
    pawl_worker_stats(worker, &stats);
    int wrong = pawl_worker_start(worker, &err) != PAWL_ESTATE ||
                pawl_worker_run(worker, &err) != PAWL_ESTATE ||
                pawl_worker_fd(worker, &fd, &err) != PAWL_ESTATE ||
                pawl_worker_turn(worker, &err) != PAWL_ESTATE ||
                pawl_worker_wait(worker, -1, &err) != PAWL_ESTATE ||
                pawl_worker_handle(worker, "k", do_nothing, NULL, &err) != PAWL_ESTATE ||
                pawl_worker_set_concurrency(worker, 1, false, &err) != PAWL_ESTATE ||
                strstr(err.message, "fork") == NULL || stats.concurrency != 0;

    pawl_worker_free(worker); /* does nothing, and does not hang */
    return wrong;
}

static void a_forked_child_is_refused_and_the_parent_goes_on(void **state)
{
    struct fixture *f = *state;
    int status;

    f->options.until_empty = false;
    enqueue(f, "gate", 2);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 2);
    pid_t pid = fork();

    if (pid == 0)
        _exit(in_the_child(f->worker));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    gate_open(&f->gate);
    enqueue(f, "gate", 1);
    pawl_worker_wake(f->worker);
    gate_await(&f->gate, 3);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 3);
}

static void let_connect(struct fixture *f, bool allowed)
{
    PGconn *conn = PQconnectdb(getenv("PAWL_TEST_DB"));
    char sql[200];

    snprintf(sql,
             sizeof(sql),
             "ALTER DATABASE %s ALLOW_CONNECTIONS %s",
             f->db.name,
             allowed ? "true" : "false");
    PGresult *r = PQexec(conn, sql);

    assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    PQclear(r);
    PQfinish(conn);
}

static void without_a_database_it_does_not_start_and_may_try_again(void **state)
{
    struct fixture *f = *state;
    int fd;

    enqueue(f, "noop", 1);
    make_worker(f, NULL, NULL);
    let_connect(f, false);
    EXPECT(PAWL_ESTATE, pawl_worker_start(f->worker, &f->err));
    assert_non_null(strstr(f->err.detail, "not currently accepting connections"));
    EXPECT(PAWL_ESTATE, pawl_worker_run(f->worker, NULL));
    EXPECT(PAWL_ESTATE, pawl_worker_fd(f->worker, &fd, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_wait(f->worker, -1, &f->err)); /* it was not started */
    let_connect(f, true);
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
}

static void a_server_that_is_not_there_is_said_at_the_start(void **state)
{
    struct fixture *f = *state;

    f->options.conninfo = "host=/nonexistent dbname=x";
    make_worker(f, NULL, NULL);
    EXPECT(PAWL_ECONN, pawl_worker_start(f->worker, &f->err));
    assert_non_null(strstr(f->err.message, "/nonexistent"));
}

static void a_database_without_the_schema_is_said_at_the_start(void **state)
{
    struct fixture *f = *state;

    f->options.conninfo = getenv("PAWL_TEST_DB");
    make_worker(f, NULL, NULL);
    EXPECT(PAWL_ESCHEMA, pawl_worker_start(f->worker, &f->err));
}

static void a_user_without_the_right_is_said_at_the_start(void **state)
{
    struct fixture *f = *state;
    char conninfo[700];
    char sql[200];

    snprintf(sql,
             sizeof(sql),
             "CREATE ROLE %s LOGIN PASSWORD 'p'; GRANT pawl_reader TO %s",
             f->db.name,
             f->db.name);
    testdb_exec(&f->db, sql);
    f->options.conninfo = testdb_conninfo_as(&f->db, f->db.name, "p", conninfo, sizeof(conninfo));
    make_worker(f, NULL, NULL);
    int rc = pawl_worker_start(f->worker, &f->err);

    snprintf(sql, sizeof(sql), "DROP ROLE %s", f->db.name); /* roles outlive the database */
    testdb_exec(&f->db, sql);
    EXPECT(PAWL_EDENIED, rc);
    assert_non_null(strstr(f->err.hint, "GRANT pawl_worker"));
}

static void it_outlives_its_connections(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    f->options.concurrency = 1;
    enqueue(f, "gate", 1);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 1);
    testdb_exec(&f->db,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()");
    enqueue(f, "gate", 3);
    gate_open(&f->gate);
    gate_await(&f->gate, 4);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 4);
}

static void stopped_while_the_database_is_gone_it_ends_and_says_what_is_left(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    enqueue(f, "gate", 1);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 1);
    let_connect(f, false);
    testdb_exec(&f->db,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()");
    gate_open(&f->gate);
    pawl_worker_stop(f->worker);
    pawl_worker_stop(f->worker);
    EXPECT(PAWL_EINTERRUPTED, pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    let_connect(f, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_handler_that_aborts_uses_up_an_attempt),
        TEST(one_that_aborts_every_time_is_failed_in_the_end),
        TEST(or_parked_where_its_kind_says_so),
        TEST(a_forked_child_is_refused_and_the_parent_goes_on),
        TEST(without_a_database_it_does_not_start_and_may_try_again),
        TEST(a_server_that_is_not_there_is_said_at_the_start),
        TEST(a_database_without_the_schema_is_said_at_the_start),
        TEST(a_user_without_the_right_is_said_at_the_start),
        TEST(it_outlives_its_connections),
        TEST(stopped_while_the_database_is_gone_it_ends_and_says_what_is_left),
    };
    return cmocka_run_group_tests_name("lib trouble", tests, NULL, NULL);
}
