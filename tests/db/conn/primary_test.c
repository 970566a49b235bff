/*
 * One primary at a time: what servers say about themselves decides whether a connection may use
 * them. A table stands in for what a real server would say, so that a test can promote it with an
 * UPDATE; tests/fault/failover does the same with two real ones.
 */
#include "pg/primary.h"

#include "conn_fixture.h"

static const struct stmt stmt_who = {
    20, "who", "SELECT standby, system, timeline, pg_catalog.pg_backend_pid() FROM who"};
static const struct stmt stmt_sleep = {21, "sleep", "SELECT 1 FROM pg_catalog.pg_sleep(3600)"};
static const struct stmt stmt_forbidden = {
    22, "forbidden", "SELECT pg_catalog.no_such_function_here()"};
static const struct stmt stmt_one = {23, "one", "SELECT 1"};

static struct primary primary;
static struct clock_fake now;
static uint64_t n_statements;

/* A second connection of the same process. */
struct second {
    struct conn *conn;
    int ready;
    int down;
    bool closed;
    struct pawl_err err;
};

static void second_on_state(void *data, enum conn_state state, const struct pawl_err *err)
{
    struct second *s = data;
    if (state == CONN_READY) {
        s->ready++;
    } else {
        s->down++;
        s->err = *err;
    }
}

static void second_closed(void *data)
{
    ((struct second *)data)->closed = true;
}

static void second_start(struct fixture *f, struct second *s)
{
    struct conn_options options = f->options;
    options.name = "second";
    options.on_state = second_on_state;
    options.on_notify = NULL;
    options.data = s;
    s->conn = conn_new(&f->loop, &options);
    assert_non_null(s->conn);
    conn_start(s->conn);
}

static void second_close(struct fixture *f, struct second *s)
{
    conn_close(s->conn, second_closed, s);
    run_until(f, s->closed);
}

static int setup(void **state)
{
    if (fixture_setup(state) != 0)
        return -1;
    struct fixture *f = *state;
    testdb_exec(
        &f->db,
        "CREATE TABLE who AS SELECT false AS standby, 7::bigint AS system, 1::bigint AS timeline");
    clock_fake_init(&now, 0);
    clock_fake_advance(&now, US_PER_S);
    n_statements = 0;
    primary_init(&primary, &stmt_who, NULL);
    f->options.primary = &primary;
    f->options.clock = &now.clock;
    f->options.n_statements = &n_statements;
    return 0;
}

/* The same server under two names, as far as the connection knows. */
static void two_hosts(struct fixture *f, char *conninfo, size_t size)
{
    snprintf(
        conninfo, size, "%s host=%s,%s", f->db.conninfo, PQhost(f->db.conn), PQhost(f->db.conn));
}

static void a_newer_timeline_takes_all_connections_along(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    struct second second = {0};
    fixture_ready(f);
    submit_plain(f, &stmt_sleep, &ended);
    run_until(f, n_statements >= 2);
    testdb_exec(&f->db, "UPDATE who SET timeline = 2");
    second_start(f, &second);
    run_until(f, second.ready == 1 && f->ready == 2 && ended.calls == 1);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_non_null(strstr(f->down_err.message, "the primary is at"));
    assert_int_equal(second.down, 0);
    assert_int_equal(primary.timeline, 2);
    assert_int_equal(query(f, &stmt_one), 1);
    second_close(f, &second);
}

/* The second cannot be sent before the first has told that its statement is prepared. */
static void what_is_for_one_connection_only_does_not_wait_for_the_next(void **state)
{
    struct fixture *f = *state;
    struct ended sent = {0};
    struct ended here = {0};
    struct ended waits = {0};
    struct second second = {0};
    fixture_ready(f);
    submit_plain(f, &stmt_sleep, &sent);
    struct batch *batch = batch_new(f->conn);
    assert_non_null(batch_add(batch, &stmt_sleep));
    batch_here_only(batch);
    batch_submit(batch, DEADLINE_MS, ended_cb, &here);
    submit_plain(f, &stmt_one, &waits);
    run_until(f, n_statements >= 2);
    testdb_exec(&f->db, "UPDATE who SET timeline = 2");
    second_start(f, &second);
    run_until(f, here.calls == 1 && waits.calls == 1);
    assert_ended(sent, PG_VERDICT_UNKNOWN);
    assert_ended(here, PG_VERDICT_CONNECTION);
    assert_int_equal(here.err.code, PAWL_ECONN);
    assert_ended(waits, PG_VERDICT_OK);
    second_close(f, &second);
}

static void an_older_timeline_is_never_taken_again(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    testdb_exec(&f->db, "UPDATE who SET timeline = 2");
    fixture_ready(f);
    fixture_close(f);
    testdb_exec(&f->db, "UPDATE who SET timeline = 1");
    f->closed = false;
    fixture_conn_to(f, f->db.conninfo);
    conn_start(f->conn);
    submit_plain(f, &stmt_one, &ended);
    run_until(f, f->down >= 3);
    assert_int_equal(f->ready, 1);
    assert_int_equal(ended.calls, 0);
    assert_int_equal(f->down_err.code, PAWL_ESTATE);
    assert_non_null(strstr(f->down_err.message, "is not the primary any more"));
    assert_non_null(strstr(f->down_err.detail, "timeline 1; timeline 2 was seen"));
    testdb_exec(&f->db, "UPDATE who SET timeline = 2");
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_OK);
}

static void another_database_system_needs_a_restart(void **state)
{
    struct fixture *f = *state;
    struct second second = {0};
    fixture_ready(f);
    testdb_exec(&f->db, "UPDATE who SET system = 8, timeline = 9");
    second_start(f, &second);
    run_until(f, second.down >= 2);
    assert_int_equal(second.ready, 0);
    assert_int_equal(second.err.code, PAWL_ESTATE);
    assert_non_null(strstr(second.err.message, "another database system"));
    assert_non_null(strstr(second.err.hint, "restart this process"));
    assert_int_equal(f->down, 0);
    second_close(f, &second);
}

static void a_standby_is_left_in_words_of_its_own(void **state)
{
    struct fixture *f = *state;
    char conninfo[768];
    testdb_exec(&f->db, "UPDATE who SET standby = true");
    snprintf(
        conninfo, sizeof(conninfo), "%s host=/nonexistent,%s", f->db.conninfo, PQhost(f->db.conn));
    fixture_conn_to(f, conninfo);
    conn_start(f->conn);
    run_until(f, f->down >= 1);
    assert_int_equal(f->ready, 0);
    assert_int_equal(f->down_err.code, PAWL_EREADONLY);
    assert_non_null(strstr(f->down_err.message, "is a standby (read-only)"));
    assert_non_null(strstr(f->down_err.detail, "/nonexistent/.s.PGSQL."));
    assert_non_null(strstr(f->down_err.detail, "No such file or directory; "));
    assert_non_null(strstr(f->down_err.detail, PQhost(f->db.conn)));
    assert_non_null(strstr(f->down_err.hint, "host=a,b"));
    testdb_exec(&f->db, "UPDATE who SET standby = false");
    run_until(f, f->ready == 1);
}

static void a_read_only_session_is_left_without_a_question(void **state)
{
    struct fixture *f = *state;
    char conninfo[768];
    snprintf(conninfo,
             sizeof(conninfo),
             "%s options='-c default_transaction_read_only=on'",
             f->db.conninfo);
    fixture_conn_to(f, conninfo);
    conn_start(f->conn);
    run_until(f, f->down >= 1);
    assert_int_equal(f->down_err.code, PAWL_EREADONLY);
    assert_int_equal(n_statements, 0);
}

static void a_server_that_does_not_tell_is_taken(void **state)
{
    struct fixture *f = *state;
    primary_init(&primary, &stmt_forbidden, NULL);
    fixture_ready(f);
    assert_true(primary.mute);
    assert_int_equal(query(f, &stmt_one), 1);
}

/* Nothing answers and the other host was promoted: everybody moves, before any deadline. */
static void a_silent_primary_is_left_for_a_promoted_standby(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    char conninfo[768];
    two_hosts(f, conninfo, sizeof(conninfo));
    fixture_conn_to(f, conninfo);
    conn_start(f->conn);
    run_until(f, f->ready == 1);
    primary.scouted_us = now.mono_us;
    submit_plain(f, &stmt_sleep, &ended);
    run_until(f, n_statements >= 2);
    primary_tick(&primary);
    assert_null(primary.scout); /* nothing is overdue yet */
    testdb_exec(&f->db, "UPDATE who SET standby = true");
    clock_fake_advance(&now, 2 * US_PER_S);
    primary_tick(&primary);
    assert_non_null(primary.scout);
    run_until(f, primary.scout == NULL);
    assert_int_equal(f->down, 0); /* it was a standby: a slow statement is not disturbed */
    testdb_exec(&f->db, "UPDATE who SET standby = false, timeline = 2");
    clock_fake_advance(&now, US_PER_S);
    primary_tick(&primary);
    run_until(f, f->ready == 2 && ended.calls == 1);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_int_equal(primary.host, 1);
}

static void an_idle_connection_is_asked_again(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    uint64_t before = n_statements;
    for (int i = 0; i < 9; i++) {
        clock_fake_advance(&now, US_PER_S);
        primary_tick(&primary);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(n_statements, before); /* with one host there is nowhere to go */
    testdb_exec(&f->db, "UPDATE who SET standby = true");
    clock_fake_advance(&now, US_PER_S);
    primary_tick(&primary);
    run_until(f, f->down >= 1);
    assert_int_equal(n_statements > before, true);
    assert_int_equal(f->down_err.code, PAWL_EREADONLY);
}

static void closing_waits_for_the_look_at_another_host(void **state)
{
    struct fixture *f = *state;
    char conninfo[768];
    two_hosts(f, conninfo, sizeof(conninfo));
    fixture_conn_to(f, conninfo);
    conn_start(f->conn);
    run_until(f, f->ready == 1);
    clock_fake_advance(&now, 60 * US_PER_S);
    primary_tick(&primary);
    assert_non_null(primary.scout);
    fixture_close(f);
    assert_null(primary.scout);
    assert_true(list_empty(&primary.conns));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_newer_timeline_takes_all_connections_along),
        TEST(what_is_for_one_connection_only_does_not_wait_for_the_next),
        TEST(an_older_timeline_is_never_taken_again),
        TEST(another_database_system_needs_a_restart),
        TEST(a_standby_is_left_in_words_of_its_own),
        TEST(a_read_only_session_is_left_without_a_question),
        TEST(a_server_that_does_not_tell_is_taken),
        TEST(a_silent_primary_is_left_for_a_promoted_standby),
        TEST(an_idle_connection_is_asked_again),
        TEST(closing_waits_for_the_look_at_another_host),
    };
    return cmocka_run_group_tests_name("primary", tests, NULL, NULL);
}
