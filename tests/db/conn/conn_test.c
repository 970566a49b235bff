/*
 * conn: what a caller of the asynchronous connection may rely on while the server is well:
 * transactions, order, prepared statements, deadlines, notifications, closing.
 */
#include <fcntl.h>

#include "conn_fixture.h"

#define BIG             (20UL * 1024 * 1024)
#define BIG_DEADLINE_MS 100000 /* half a second, but for valgrind */

static void statements_of_a_batch_share_a_transaction(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "CREATE TABLE t (id int8)");
    fixture_ready(f);
    struct ended ended = {0};
    struct batch *batch = batch_new(f->conn);
    params_i64(batch_add(batch, &stmt_insert), 7);
    params_i64(batch_add(batch, &stmt_insert), 8);
    params_i64(batch_add(batch, &stmt_divide), 0);
    batch_submit(batch, DEADLINE_MS, ended_cb, &ended);
    assert_int_equal(ended.calls, 0);
    assert_int_equal(conn_pending(f->conn), 1);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_PERMANENT);
    assert_string_equal(ended.err.sqlstate, "22012");
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t"), 0);
    assert_int_equal(conn_pending(f->conn), 0);
}

static void every_statement_has_its_result(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    struct ended ended = {0};
    struct batch *batch = batch_new(f->conn);
    for (int i = 0; i < BATCH_CALLS_MAX; i++)
        params_i64(batch_add(batch, &stmt_echo), 40 + i);
    assert_null(batch_add(batch, &stmt_echo));
    batch_submit(batch, DEADLINE_MS, ended_cb, &ended);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_OK);
    assert_int_equal(ended.n_results, BATCH_CALLS_MAX);
    assert_int_equal(ended.value, 40);
    assert_true(ended.took_us > 0);
}

static void a_result_is_not_a_commit(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "CREATE TABLE t (id int8 UNIQUE DEFERRABLE INITIALLY DEFERRED)");
    fixture_ready(f);
    struct ended ended = {0}, next = {0};
    struct batch *batch = batch_new(f->conn);
    params_i64(batch_add(batch, &stmt_insert), 1);
    params_i64(batch_add(batch, &stmt_insert), 1);
    batch_submit(batch, DEADLINE_MS, ended_cb, &ended);
    submit(f, &stmt_echo, 5, &next);
    run_until(f, next.calls == 1);
    assert_int_equal(ended.calls, 1);
    assert_ended(ended, PG_VERDICT_PERMANENT);
    assert_string_equal(ended.err.sqlstate, "23505");
    assert_int_equal(ended.n_results, 0);
    assert_ended(next, PG_VERDICT_OK);
    assert_int_equal(next.value, 5);
    assert_int_equal(f->down, 0);
}

static void an_aborted_batch_leaves_the_next_alone(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "CREATE TABLE t (id int8)");
    fixture_ready(f);
    query(f, &stmt_pid);
    struct ended bad = {0}, good = {0}, last = {0};
    struct batch *batch = batch_new(f->conn);
    params_i64(batch_add(batch, &stmt_divide), 0);
    /* Its Parse is skipped too, so the next batch must not believe that it happened. */
    params_i64(batch_add(batch, &stmt_insert), 1);
    batch_submit(batch, DEADLINE_MS, ended_cb, &bad);
    submit(f, &stmt_insert, 2, &good);
    submit_plain(f, &stmt_pid, &last);
    run_until(f, good.calls == 1 && last.calls == 1);
    assert_ended(bad, PG_VERDICT_PERMANENT);
    assert_ended(good, PG_VERDICT_OK);
    /* In order: it did not have to fail and be sent a second time. */
    assert_true(bad.order < good.order && good.order < last.order);
    assert_int_equal(testdb_int(&f->db, "SELECT sum(id) FROM t"), 2);
    assert_int_equal(f->down, 0);
}

static void a_statement_that_cannot_be_prepared_can_be_later(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    struct ended ended = {0}, again = {0};
    submit(f, &stmt_insert, 1, &ended);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_PERMANENT);
    assert_string_equal(ended.err.sqlstate, "42P01");
    testdb_exec(&f->db, "CREATE TABLE t (id int8)");
    submit(f, &stmt_insert, 1, &again);
    run_until(f, again.calls == 1);
    assert_ended(again, PG_VERDICT_OK);
}

static void many_batches_in_flight_end_in_order(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "CREATE TABLE t (id int8, n serial)");
    fixture_ready(f);
    static struct ended ended[60];
    memset(ended, 0, sizeof(ended));
    ended_order = 0;
    for (int i = 0; i < 60; i++)
        submit(f, &stmt_insert, i, &ended[i]);
    assert_int_equal(conn_pending(f->conn), 60);
    run_until(f, ended[59].calls == 1);
    for (int i = 0; i < 60; i++) {
        assert_ended(ended[i], PG_VERDICT_OK);
        assert_int_equal(ended[i].order, i + 1);
    }
    assert_int_equal(testdb_int(&f->db, "SELECT count(*) FROM t WHERE id = n - 1"), 60);
}

static void statements_are_prepared_once(void **state)
{
    struct fixture *f = *state;
    static const struct stmt count = {
        9, "count", "SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql"};
    fixture_ready(f);
    struct ended ended[3] = {0};
    for (int i = 0; i < 3; i++)
        submit(f, &stmt_echo, i, &ended[i]);
    run_until(f, ended[2].calls == 1);
    assert_int_equal(query(f, &count), 2);
    assert_int_equal(query(f, &count), 2);
}

static void without_preparing_nothing_is_left_at_the_server(void **state)
{
    struct fixture *f = *state;
    static const struct stmt count = {9, "count", "SELECT count(*) FROM pg_prepared_statements"};
    f->options.unprepared = true;
    fixture_ready(f);
    struct ended ended = {0};
    submit(f, &stmt_echo, 3, &ended);
    run_until(f, ended.calls == 1);
    assert_int_equal(ended.value, 3);
    assert_int_equal(query(f, &count), 0);
}

static const struct stmt stmt_session = {
    10, "session", "SELECT set_config('application_name', 'ours', $1::bool)"};
static const struct stmt stmt_is_ours = {
    11, "is_ours", "SELECT (current_setting('application_name') = 'ours')::int4"};

static void settings_are_made_on_every_connection(void **state)
{
    struct fixture *f = *state;
    char sql[80];
    f->options.session = &stmt_session;
    fixture_ready(f);
    assert_int_equal(query(f, &stmt_is_ours), 1);
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d)", (int)query(f, &stmt_pid));
    testdb_exec(&f->db, sql);
    run_until(f, f->ready == 2);
    assert_int_equal(query(f, &stmt_is_ours), 1);
    assert_int_equal(f->looks, 0); /* it does not listen */
}

/* The next transaction may be in another session, and this one belongs to others afterwards. */
static void without_preparing_settings_are_made_for_each_transaction(void **state)
{
    struct fixture *f = *state;
    f->options.session = &stmt_session;
    f->options.unprepared = true;
    fixture_ready(f);
    assert_int_equal(query(f, &stmt_is_ours), 1);
    assert_int_equal(query(f, &stmt_is_ours), 1);
    assert_int_equal(
        testdb_int(&f->db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ours'"),
        0);
}

static void settings_that_fail_are_told(void **state)
{
    struct fixture *f = *state;
    static const struct stmt bad = {10, "bad", "SELECT set_config('no', 'such', $1::bool)"};
    f->options.session = &bad;
    fixture_conn_to(f, f->db.conninfo);
    conn_start(f->conn);
    run_until(f, f->down >= 2);
    assert_string_equal(f->down_err.sqlstate, "42704");
}

static void forgotten_statements_are_prepared_again(void **state)
{
    struct fixture *f = *state;
    static const struct stmt forget = {9, "forget", "DEALLOCATE ALL"};
    fixture_ready(f);
    struct ended ended[5] = {0};
    submit(f, &stmt_echo, 1, &ended[0]);
    run_until(f, ended[0].calls == 1);
    query(f, &stmt_pid);
    query(f, &forget);
    /* All three are in flight before the first is found out. */
    submit(f, &stmt_echo, 2, &ended[1]);
    submit_plain(f, &stmt_pid, &ended[2]);
    submit(f, &stmt_echo, 3, &ended[3]);
    run_until(f, ended[1].calls && ended[2].calls && ended[3].calls);
    for (int i = 1; i < 4; i++)
        assert_ended(ended[i], PG_VERDICT_OK);
    assert_int_equal(ended[1].value, 2);
    assert_int_equal(ended[3].value, 3);
    assert_int_equal(f->down, 0);
}

static void a_changed_result_type_is_prepared_again(void **state)
{
    struct fixture *f = *state;
    static const struct stmt all = {9, "all", "SELECT * FROM t"};
    testdb_exec(&f->db, "CREATE TABLE t (id int8); INSERT INTO t VALUES (4)");
    fixture_ready(f);
    assert_int_equal(query(f, &all), 4);
    testdb_exec(&f->db, "ALTER TABLE t ALTER id TYPE int4");
    assert_int_equal(query(f, &all), 4);
    testdb_exec(&f->db, "ALTER TABLE t ADD more text");
    assert_int_equal(query(f, &all), 4);
    assert_int_equal(f->down, 0);
}

static void what_is_never_supported_is_tried_twice_and_told(void **state)
{
    struct fixture *f = *state;
    static const struct stmt never = {9, "never", "SELECT refuse()"};
    testdb_exec(&f->db,
                "CREATE SEQUENCE s;"
                "CREATE FUNCTION refuse() RETURNS int LANGUAGE plpgsql AS $$ BEGIN "
                "PERFORM nextval('s'); RAISE SQLSTATE '0A000'; END $$");
    fixture_ready(f);
    struct ended ended = {0};
    submit_plain(f, &never, &ended);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_PERMANENT);
    assert_string_equal(ended.err.sqlstate, "0A000");
    assert_int_equal(testdb_int(&f->db, "SELECT last_value FROM s"), 2);
}

static void large_parameters_and_results_do_not_deadlock(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    char *data = malloc(BIG);
    assert_non_null(data);
    memset(data, 'x', BIG);
    struct ended ended[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct batch *batch = batch_new(f->conn);
        params_bytes(batch_add(batch, &stmt_bytes), (struct bytes){data, BIG});
        batch_submit(batch, BIG_DEADLINE_MS, ended_cb, &ended[i]);
    }
    free(data);
    run_until(f, ended[1].calls == 1);
    for (int i = 0; i < 2; i++) {
        assert_ended(ended[i], PG_VERDICT_OK);
        assert_int_equal(ended[i].bytes.len, BIG);
    }
}

static void parameters_beyond_the_limit_are_refused(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    char *data = calloc(1, BIG);
    assert_non_null(data);
    struct ended ended = {0}, empty = {0};
    struct batch *batch = batch_new(f->conn);
    for (int i = 0; i < 4; i++)
        params_bytes(batch_add(batch, &stmt_bytes), (struct bytes){data, BIG});
    free(data);
    batch_submit(batch, DEADLINE_MS, ended_cb, &ended);
    batch_submit(batch_new(f->conn), DEADLINE_MS, ended_cb, &empty);
    assert_int_equal(ended.calls, 0);
    run_until(f, ended.calls == 1 && empty.calls == 1);
    assert_ended(ended, PG_VERDICT_PERMANENT);
    assert_int_equal(ended.err.code, PAWL_ELIMIT);
    assert_int_equal(empty.err.code, PAWL_EINVAL);
    query(f, &stmt_pid);
}

static void notifications_that_come_with_other_traffic_are_delivered(void **state)
{
    struct fixture *f = *state;
    static const struct stmt notify = {9, "notify", "SELECT pg_notify('door', 'knock')"};
    fixture_conn_to(f, f->db.conninfo);
    conn_listen(f->conn, &stmt_listen);
    conn_start(f->conn);
    run_until(f, f->looks == 1);
    for (int i = 1; i <= 20; i++) {
        query(f, &notify);
        run_until(f, f->notified == i);
    }
    assert_string_equal(f->channel, "door");
    assert_string_equal(f->payload, "knock");
    /* And from somebody else while nothing is in flight. */
    testdb_exec(&f->db, "NOTIFY door, 'ring'");
    run_until(f, f->notified == 21);
    assert_string_equal(f->payload, "ring");
}

static void a_listen_that_fails_is_told(void **state)
{
    struct fixture *f = *state;
    static const struct stmt wrong = {9, "wrong", "LISTEN"};
    fixture_conn_to(f, f->db.conninfo);
    conn_listen(f->conn, &wrong);
    conn_start(f->conn);
    run_until(f, f->down >= 2);
    assert_string_equal(f->down_err.sqlstate, "42601");
    assert_int_equal(f->looks, 0);
}

static void a_copy_ends_the_connection_with_a_reason(void **state)
{
    struct fixture *f = *state;
    static const struct stmt copy = {9, "copy", "COPY (SELECT 1) TO STDOUT"};
    fixture_ready(f);
    struct ended ended = {0};
    submit_plain(f, &copy, &ended);
    run_until(f, ended.calls == 1 && f->ready == 2);
    assert_ended(ended, PG_VERDICT_UNKNOWN);
    assert_non_null(strstr(ended.err.detail, "COPY"));
    query(f, &stmt_pid);
}

static void a_deadline_cancels_and_the_connection_goes_on(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "SELECT pg_advisory_lock(1)");
    fixture_ready(f);
    int64_t pid = query(f, &stmt_pid), one = 1;
    struct ended late = {0}, next = {0};
    submit_ms(f, &stmt_wait, &one, 100, &late);
    submit(f, &stmt_echo, 9, &next);
    run_until(f, late.calls == 1 && next.calls == 1);
    assert_ended(late, PG_VERDICT_RETRY);
    assert_int_equal(late.err.code, PAWL_ETIMEOUT);
    assert_string_equal(late.err.sqlstate, "57014");
    assert_ended(next, PG_VERDICT_OK);
    assert_int_equal(query(f, &stmt_pid), pid);
    assert_int_equal(f->down, 0);
}

/* The cancel and the end of its batch race: whoever it hits, those that are not late must end well.
 */
static void a_cancel_never_hurts_the_wrong_batch(void **state)
{
    struct fixture *f = *state;
    static const struct stmt nap = {9, "nap", "SELECT 1 FROM pg_sleep($1::int8 / 1000.0)"};
    fixture_ready(f);
    for (int64_t ms = 8; ms <= 12; ms++) {
        for (int i = 0; i < 6; i++) {
            struct ended late = {0}, next[3] = {0};
            submit_ms(f, &nap, &ms, 10, &late);
            for (int j = 0; j < 3; j++)
                submit(f, &nap, 2, &next[j]);
            run_until(f, late.calls && next[0].calls && next[1].calls && next[2].calls);
            assert_true(late.verdict == PG_VERDICT_OK || late.verdict == PG_VERDICT_RETRY ||
                        late.verdict == PG_VERDICT_CONNECTION);
            for (int j = 0; j < 3; j++)
                assert_ended(next[j], PG_VERDICT_OK);
        }
    }
    assert_int_equal(f->down, 0);
}

static void only_the_oldest_is_cancelled(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "SELECT pg_advisory_lock(1)");
    fixture_ready(f);
    struct ended warm = {0}, first = {0}, late = {0};
    int64_t two = 2;
    submit(f, &stmt_wait, 3, &warm);
    run_until(f, warm.calls == 1);
    submit(f, &stmt_wait, 1, &first);
    submit_ms(f, &stmt_wait, &two, 50, &late);
    run_until_waiting(f);
    /* Its deadline passes while the first is still running. */
    uv_timer_start(&f->guard, fixture_guard_cb, 150, 0);
    while (!f->guard_fired)
        uv_run(&f->loop, UV_RUN_ONCE);
    f->guard_fired = false;
    assert_int_equal(first.calls, 0);
    testdb_exec(&f->db, "SELECT pg_advisory_unlock(1)");
    run_until(f, late.calls == 1);
    assert_ended(first, PG_VERDICT_OK);
    assert_true(late.verdict == PG_VERDICT_OK || late.verdict == PG_VERDICT_RETRY);
    assert_true(first.order < late.order);
    assert_int_equal(f->down, 0);
}

static void a_full_queue_says_so(void **state)
{
    struct fixture *f = *state;
    f->options.queue_max = 2;
    fixture_ready(f);
    struct ended ended = {0};
    submit(f, &stmt_echo, 1, &ended);
    struct batch *open = batch_new(f->conn);
    assert_non_null(open);
    assert_null(batch_new(f->conn));
    batch_free(open);
    open = batch_new(f->conn);
    assert_non_null(open);
    batch_free(open);
    run_until(f, ended.calls == 1);
    query(f, &stmt_pid);
}

struct chain {
    struct fixture *f;
    int left;
};

static void chain_cb(void *data, const struct batch_end *end)
{
    struct chain *chain = data;
    assert_int_equal(end->verdict, PG_VERDICT_OK);
    if (--chain->left == 0)
        return;
    struct batch *batch = batch_new(chain->f->conn);
    assert_non_null(batch);
    params_i64(batch_add(batch, &stmt_echo), chain->left);
    batch_submit(batch, DEADLINE_MS, chain_cb, chain);
}

static void a_callback_may_submit(void **state)
{
    struct fixture *f = *state;
    f->options.queue_max = 1; /* its own place is free by then */
    fixture_ready(f);
    struct chain chain = {f, 50};
    struct batch *batch = batch_new(f->conn);
    params_i64(batch_add(batch, &stmt_echo), 0);
    batch_submit(batch, DEADLINE_MS, chain_cb, &chain);
    run_until(f, chain.left == 0);
}

static void close_cb(void *data, const struct batch_end *end)
{
    struct fixture *f = data;
    if (f->conn == NULL)
        return;
    assert_int_equal(end->verdict, PG_VERDICT_OK);
    conn_close(f->conn, fixture_closed_cb, f);
    assert_null(batch_new(f->conn));
    f->conn = NULL;
}

static void a_callback_may_close(void **state)
{
    struct fixture *f = *state;
    fixture_ready(f);
    struct ended rest[3] = {0};
    struct batch *batch = batch_new(f->conn);
    params_i64(batch_add(batch, &stmt_echo), 0);
    batch_submit(batch, DEADLINE_MS, close_cb, f);
    for (int i = 0; i < 3; i++)
        submit(f, &stmt_echo, i, &rest[i]);
    run_until(f, f->closed);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rest[i].calls, 1);
}

static void close_on_notify(void *data, const char *channel, const char *payload)
{
    struct fixture *f = data;
    (void)payload;
    if (channel == NULL || f->conn == NULL)
        return;
    conn_close(f->conn, fixture_closed_cb, f);
    f->conn = NULL;
}

static void a_notification_may_close(void **state)
{
    struct fixture *f = *state;
    static const struct stmt notify = {
        9, "notify", "SELECT pg_notify('door', n::text) FROM generate_series(1, 5) n"};
    f->options.on_notify = close_on_notify;
    fixture_conn_to(f, f->db.conninfo);
    conn_listen(f->conn, &stmt_listen);
    conn_start(f->conn);
    struct ended ended = {0};
    submit_plain(f, &notify, &ended);
    run_until(f, f->closed);
    assert_int_equal(ended.calls, 1);
}

static void closing_ends_what_was_sent_as_unknown_and_the_rest_without_effect(void **state)
{
    struct fixture *f = *state;
    testdb_exec(&f->db, "SELECT pg_advisory_lock(1)");
    fixture_ready(f);
    struct ended sent = {0}, unsent = {0};
    submit(f, &stmt_wait, 1, &sent);
    run_until_waiting(f);
    submit(f, &stmt_echo, 1, &unsent);
    fixture_close(f);
    assert_int_equal(sent.calls, 1);
    assert_ended(sent, PG_VERDICT_UNKNOWN);
    assert_int_equal(sent.err.code, PAWL_EUNKNOWN);
    assert_int_equal(unsent.calls, 1);
    assert_ended(unsent, PG_VERDICT_CONNECTION);
    assert_int_equal(unsent.err.code, PAWL_ECONN);
}

static void it_can_be_closed_before_it_was_started_and_while_it_connects(void **state)
{
    struct fixture *f = *state;
    struct ended ended = {0};
    fixture_conn_to(f, f->db.conninfo);
    assert_int_equal(conn_state(f->conn), CONN_IDLE);
    submit(f, &stmt_echo, 1, &ended);
    fixture_close(f);
    assert_ended(ended, PG_VERDICT_CONNECTION);
    for (int turns = 0; turns < 6; turns++) {
        f->closed = false;
        fixture_conn_to(f, f->db.conninfo);
        conn_start(f->conn);
        for (int i = 0; i < turns; i++)
            uv_run(&f->loop, UV_RUN_NOWAIT);
        fixture_close(f);
    }
}

static void descriptors_are_closed_on_exec_and_at_the_end(void **state)
{
    struct fixture *f = *state;
    struct fds before = fds_now();
    fixture_ready(f);
    query(f, &stmt_pid);
    struct fds during = fds_now();
    int more = 0;
    for (int fd = 0; fd < 1024; fd++) {
        if (before.open[fd] || !during.open[fd])
            continue;
        more++;
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    assert_true(more > 0);
    fixture_close(f);
    struct fds after = fds_now();
    assert_memory_equal(&before, &after, sizeof(before));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(statements_of_a_batch_share_a_transaction),
        TEST(every_statement_has_its_result),
        TEST(a_result_is_not_a_commit),
        TEST(an_aborted_batch_leaves_the_next_alone),
        TEST(a_statement_that_cannot_be_prepared_can_be_later),
        TEST(many_batches_in_flight_end_in_order),
        TEST(statements_are_prepared_once),
        TEST(without_preparing_nothing_is_left_at_the_server),
        TEST(settings_are_made_on_every_connection),
        TEST(without_preparing_settings_are_made_for_each_transaction),
        TEST(settings_that_fail_are_told),
        TEST(forgotten_statements_are_prepared_again),
        TEST(a_changed_result_type_is_prepared_again),
        TEST(what_is_never_supported_is_tried_twice_and_told),
        TEST(large_parameters_and_results_do_not_deadlock),
        TEST(parameters_beyond_the_limit_are_refused),
        TEST(notifications_that_come_with_other_traffic_are_delivered),
        TEST(a_listen_that_fails_is_told),
        TEST(a_copy_ends_the_connection_with_a_reason),
        TEST(a_deadline_cancels_and_the_connection_goes_on),
        TEST(a_cancel_never_hurts_the_wrong_batch),
        TEST(only_the_oldest_is_cancelled),
        TEST(a_full_queue_says_so),
        TEST(a_callback_may_submit),
        TEST(a_callback_may_close),
        TEST(a_notification_may_close),
        TEST(closing_ends_what_was_sent_as_unknown_and_the_rest_without_effect),
        TEST(it_can_be_closed_before_it_was_started_and_while_it_connects),
        TEST(descriptors_are_closed_on_exec_and_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
