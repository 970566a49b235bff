/*
 * conn under faults: servers that go away, do not answer, accept and drop, or are cut off during
 * the commit. What is known stays known, what is not is called so, and what was not sent survives.
 */
#include <sys/socket.h>

#include "conn_proxy.h"

static void terminate(struct fixture *f, int64_t pid)
{
    char sql[80];
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%lld)", (long long)pid);
    testdb_exec(&f->db, sql);
}

static void an_idle_connection_that_is_terminated_comes_back(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    int64_t pid = query(f, &stmt_pid);
    terminate(f, pid);
    run_until(f, f->ready == 2);
    assert_int_equal(f->down, 1);
    assert_string_equal(f->down_err.sqlstate, "57P01");
    assert_true(query(f, &stmt_pid) != pid);
}

static void a_terminated_backend_loses_what_was_in_flight_and_keeps_what_was_not_sent(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "CREATE TABLE t (id int8); SELECT pg_advisory_lock(1)");
    fixture_ready(f);
    int64_t pid = query(f, &stmt_pid);
    static struct ended warm, running, sent[15], unsent[20];
    memset(sent, 0, sizeof(sent));
    memset(unsent, 0, sizeof(unsent));
    /* Prepared before, or the others would wait for that and not be in flight. */
    submit(f, &stmt_insert, 0, &warm);
    run_until(f, warm.calls == 1);
    submit(f, &stmt_wait, 1, &running);
    for (int i = 0; i < 15; i++)
        submit(f, &stmt_insert, 1, &sent[i]);
    run_until_waiting(f);
    /* The window is full by now. */
    for (int i = 0; i < 20; i++)
        submit(f, &stmt_insert, 2, &unsent[i]);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    terminate(f, pid);
    run_until(f, unsent[19].calls == 1);
    /* The server said that it gave up before it had answered: rolled back. */
    assert_ended(running, PG_VERDICT_RETRY);
    assert_string_equal(running.err.sqlstate, "57P01");
    for (int i = 0; i < 15; i++) {
        assert_int_equal(sent[i].calls, 1);
        assert_ended(sent[i], PG_VERDICT_UNKNOWN);
        assert_int_equal(sent[i].err.code, PAWL_EUNKNOWN);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(unsent[i].calls, 1);
        assert_ended(unsent[i], PG_VERDICT_OK);
    }
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t WHERE id = 2"), 20);
    assert_int_equal(f->ready, 2);
}

static void a_cut_during_commit_is_unknown(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "CREATE TABLE t (id int8)");
    struct proxy *proxy = proxy_new(f);
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    query(f, &stmt_pid);
    struct ended ended = {0};
    submit(f, &stmt_insert, 1, &ended);
    proxy->mode = PROXY_CUT_ON_ANSWER;
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_int_equal(ended.err.code, PAWL_EUNKNOWN);
    /* And this time it had happened. */
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t"), 1);
    proxy->mode = PROXY_RELAY;
    run_until(f, f->ready == 2);
    query(f, &stmt_pid);
}

static void a_result_without_its_sync_is_unknown(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "CREATE TABLE t (id int8)");
    struct proxy *proxy = proxy_new(f);
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    query(f, &stmt_pid);
    struct ended ended = {0};
    submit(f, &stmt_insert, 1, &ended);
    proxy->mode = PROXY_CUT_BEFORE_READY;
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_int_equal(ended.n_results, 0);
    proxy->mode = PROXY_RELAY;
}

static void a_failure_that_was_heard_is_not_unknown(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_new(f);
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    query(f, &stmt_pid);
    struct ended failed = {0};
    submit(f, &stmt_divide, 0, &failed);
    proxy->mode = PROXY_CUT_BEFORE_READY;
    run_until(f, failed.calls == 1);
    assert_int_equal(f->down, 1); /* it ended because the connection did */
    assert_ended(failed, PG_VERDICT_PERMANENT);
    assert_string_equal(failed.err.sqlstate, "22012");
    proxy->mode = PROXY_RELAY;
}

static void a_batch_that_had_not_left_is_sent_again(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_new(f);
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    query(f, &stmt_pid);
    /* More than the socket buffers take while the proxy holds it back: the sync cannot have left.
     */
    size_t size = 30UL * 1024 * 1024;
    char *data = calloc(1, size);
    assert_non_null(data);
    struct ended ended = {0};
    struct batch *batch = batch_new(f->conn);
    params_bytes(batch_add(batch, &stmt_bytes), (struct bytes){data, size});
    free(data);
    batch_submit(batch, DEADLINE_MS, ended_cb, &ended);
    proxy->mode = PROXY_STALL;
    run_until(f, proxy->held == 1);
    proxy_cut_all(proxy);
    proxy->mode = PROXY_RELAY;
    run_until(f, ended.calls == 1);
    assert_int_equal(f->down, 1);
    assert_ended(ended, PG_VERDICT_OK);
    assert_int_equal(ended.bytes.len, size);
}

static void listen_survives_a_reconnect_and_says_look_once(void **state)
{
    struct fixture *f = *state;
    fixture_conn_to(f, f->db.conninfo);
    conn_listen(f->conn, &stmt_listen);
    conn_start(f->conn);
    run_until(f, f->looks == 1);
    terminate(f, query(f, &stmt_pid));
    run_until(f, f->looks == 2);
    assert_int_equal(f->ready, 2);
    testdb_exec(&f->db, "NOTIFY door, 'again'");
    run_until(f, f->notified == 1);
    assert_string_equal(f->payload, "again");
    assert_int_equal(f->looks, 2);
}

static void a_notification_before_the_end_is_not_lost(void **state)
{
    struct fixture *f = *state;
    fixture_conn_to(f, f->db.conninfo);
    conn_listen(f->conn, &stmt_listen);
    conn_start(f->conn);
    run_until(f, f->looks == 1);
    char sql[120];
    snprintf(sql,
             sizeof(sql),
             "NOTIFY door, 'last'; SELECT pg_terminate_backend(%lld)",
             (long long)query(f, &stmt_pid));
    testdb_exec(&f->db, sql);
    run_until(f, f->looks == 2);
    /* Delivered, or the look after the reconnect stands for it. */
    assert_true(f->notified <= 1);
    assert_int_equal(f->down, 1);
}

static void a_server_that_does_not_answer_the_cancel_is_dropped(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_new(f);
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    struct ended warm = {0}, held = {0}, waiting = {0};
    int64_t zero = 0;
    submit(f, &stmt_echo, 1, &warm);
    run_until(f, warm.calls == 1);
    proxy->mode = PROXY_HOLD;
    submit_ms(f, &stmt_echo, &zero, 50, &held);
    run_until(f, proxy->held == 2); /* the batch, then the cancel on a connection of its own */
    submit(f, &stmt_echo, 7, &waiting);
    run_until(f, held.calls == 1);
    assert_ended(held, PG_VERDICT_UNKNOWN);
    assert_int_equal(held.err.code, PAWL_EUNKNOWN);
    assert_true(held.took_us >= 2 * US_PER_S);
    /* The cancel still hangs in its thread; all goes on without it. */
    proxy->mode = PROXY_RELAY;
    run_until(f, waiting.calls == 1);
    assert_ended(waiting, PG_VERDICT_OK);
    proxy_cut_all(proxy);
}

static void it_can_be_closed_while_a_cancel_is_under_way(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_new(f);
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    query(f, &stmt_pid);
    proxy->mode = PROXY_HOLD;
    struct ended held = {0};
    submit_ms(f, &stmt_pid, NULL, 20, &held);
    run_until(f, proxy->held == 2);
    conn_close(f->conn, fixture_closed_cb, f);
    f->conn = NULL;
    run_until(f, held.calls == 1);
    assert_ended(held, PG_VERDICT_UNKNOWN);
    assert_false(f->closed);
    proxy_cut_all(proxy);
    run_until(f, f->closed);
}

/* A port that takes the connection (the kernel does) and never says a word. */
static int black_hole(char *conninfo, size_t size)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    snprintf(
        conninfo, size, "host=127.0.0.1 port=%d user=nobody dbname=none", ntohs(addr.sin_port));
    return fd;
}

static void a_server_that_never_answers_meets_the_connect_deadline(void **state)
{
    struct fixture *f = *state;
    char conninfo[128];
    int fd = black_hole(conninfo, sizeof(conninfo));
    f->options.connect_timeout_ms = 100;
    fixture_conn_to(f, conninfo);
    struct ended ended = {0};
    int64_t zero = 0;
    submit_ms(f, &stmt_echo, &zero, 400, &ended);
    conn_start(f->conn);
    assert_int_equal(conn_state(f->conn), CONN_CONNECTING);
    run_until(f, f->down >= 1);
    assert_int_equal(f->down_err.code, PAWL_ECONN);
    assert_non_null(strstr(f->down_err.detail, "100 ms"));
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_CONNECTION);
    assert_int_equal(ended.err.code, PAWL_ETIMEOUT);
    assert_int_equal(f->ready, 0);
    /* Closing does not wait for the server either. */
    run_until(f, conn_state(f->conn) == CONN_CONNECTING);
    fixture_close(f);
    close(fd);
}

static void a_server_that_accepts_and_closes_is_not_hammered(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_new(f);
    proxy->mode = PROXY_REFUSE;
    f->options.backoff_min_ms = 100;
    f->options.backoff_max_ms = 1000;
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    struct ended ended = {0};
    int64_t zero = 0;
    submit_ms(f, &stmt_echo, &zero, 1000, &ended);
    run_until(f, ended.calls == 1);
    assert_true(proxy->accepted < 30);
    run_until(f, proxy->accepted >= 2);
    assert_int_equal(f->ready, 0);
    /* Closing in the back-off. */
    run_until(f, conn_state(f->conn) == CONN_WAITING);
}

static void cut_when_ready(void *data, enum conn_state state, const struct pawl_err *err)
{
    struct proxy *proxy = data;
    (void)err;
    if (state == CONN_READY) {
        proxy->f->ready++;
        proxy_cut_all(proxy);
    }
}

static void a_server_that_lets_in_and_drops_is_not_hammered_either(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_new(f);
    f->options.backoff_min_ms = 100;
    f->options.backoff_max_ms = 1000;
    f->options.on_state = cut_when_ready;
    f->options.data = proxy;
    f->options.on_notify = NULL;
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    uv_timer_start(&f->guard, fixture_guard_cb, 1000, 0);
    while (!f->guard_fired)
        uv_run(&f->loop, UV_RUN_ONCE);
    f->guard_fired = false;
    assert_true(f->ready < 15);
    run_until(f, f->ready >= 2);
}

static void a_silent_host_is_passed_over(void **state)
{
    struct fixture *f = *state;
    char conninfo[768];
    int fd = black_hole(conninfo, sizeof(conninfo));
    const char *port = strstr(conninfo, "port=") + strlen("port=");
    char hosts[256];
    snprintf(hosts,
             sizeof(hosts),
             " host=127.0.0.1,%s port=%.*s,%s",
             PQhost(f->db.conn),
             (int)strcspn(port, " "),
             port,
             PQport(f->db.conn));
    snprintf(conninfo, sizeof(conninfo), "%s%s", f->db.conninfo, hosts);
    f->options.connect_timeout_ms = 3000; /* also for the one that answers */
    fixture_conn_to(f, conninfo);
    conn_start(f->conn);
    run_until(f, f->ready == 1);
    assert_int_equal(f->down, 0);
    query(f, &stmt_pid);
    close(fd);
}

static void a_wrong_database_is_told_by_name(void **state)
{
    struct fixture *f = *state;
    char conninfo[600];
    snprintf(conninfo, sizeof(conninfo), "%s dbname=nosuch", f->db.conninfo);
    fixture_conn_to(f, conninfo);
    conn_start(f->conn);
    struct ended ended = {0};
    int64_t zero = 0;
    submit_ms(f, &stmt_echo, &zero, 200, &ended);
    run_until(f, ended.calls == 1);
    assert_int_equal(f->down_err.code, PAWL_ENOTFOUND);
    assert_non_null(strstr(ended.err.detail, "nosuch"));
}

static void nobody_listening_is_told(void **state)
{
    struct fixture *f = *state;
    fixture_conn_to(f, "host=/nonexistent user=nobody dbname=none");
    conn_start(f->conn);
    assert_int_equal(f->down, 0);
    run_until(f, f->down >= 3);
    assert_int_equal(f->down_err.code, PAWL_ECONN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_idle_connection_that_is_terminated_comes_back),
        TEST(a_terminated_backend_loses_what_was_in_flight_and_keeps_what_was_not_sent),
        TEST(a_cut_during_commit_is_unknown),
        TEST(a_result_without_its_sync_is_unknown),
        TEST(a_failure_that_was_heard_is_not_unknown),
        TEST(a_batch_that_had_not_left_is_sent_again),
        TEST(listen_survives_a_reconnect_and_says_look_once),
        TEST(a_notification_before_the_end_is_not_lost),
        TEST(a_server_that_does_not_answer_the_cancel_is_dropped),
        TEST(it_can_be_closed_while_a_cancel_is_under_way),
        TEST(a_server_that_never_answers_meets_the_connect_deadline),
        TEST(a_server_that_accepts_and_closes_is_not_hammered),
        TEST(a_server_that_lets_in_and_drops_is_not_hammered_either),
        TEST(a_silent_host_is_passed_over),
        TEST(a_wrong_database_is_told_by_name),
        TEST(nobody_listening_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
