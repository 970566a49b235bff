/* NULL, empty, too much and nonsense: a defined answer, and nothing done. */
#include "lib_fixture.h"

static void no_arguments_at_all_are_survived(void **state)
{
    struct pawl_err err;
    struct pawl_stats stats = PAWL_STATS_INIT;
    struct pawl_worker *none = NULL;
    size_t len = 77;
    int fd = 77;

    (void)state;
    assert_int_equal(pawl_worker_new(NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_worker_new(NULL, NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_worker_handle(NULL, "k", do_nothing, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_worker_start(NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_worker_run(NULL, NULL), PAWL_EINVAL);
    assert_int_equal(pawl_worker_fd(NULL, &fd, &err), PAWL_EINVAL);
    assert_int_equal(pawl_worker_timeout_ms(NULL), -1);
    assert_int_equal(pawl_worker_turn(NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_worker_wait(NULL, -1, &err), PAWL_EINVAL);
    assert_int_equal(pawl_worker_set_concurrency(NULL, 1, true, &err), PAWL_EINVAL);
    pawl_worker_stop(NULL);
    pawl_worker_wake(NULL);
    pawl_worker_stats(NULL, &stats);
    pawl_worker_stats(none, NULL);
    pawl_worker_stats_each(NULL, NULL, NULL);
    assert_int_equal(pawl_worker_exec(NULL, "k", "true", &err), PAWL_EINVAL);
    pawl_worker_free(NULL);

    assert_int_equal(pawl_run_id(NULL), 0);
    assert_null(pawl_run_queue(NULL));
    assert_null(pawl_run_kind(NULL));
    assert_int_equal(pawl_run_attempt(NULL), 0);
    assert_int_equal(pawl_run_max_attempts(NULL), 0);
    assert_null(pawl_run_payload(NULL, &len));
    assert_int_equal(len, 0);
    assert_null(pawl_run_token(NULL));
    assert_null(pawl_run_trace(NULL));
    assert_int_equal(pawl_run_left_ms(NULL), INT64_MAX);
    assert_false(pawl_run_should_stop(NULL));
    assert_null(pawl_run_stop_reason(NULL));
    assert_int_equal(pawl_run_progress(NULL, "x", &err), PAWL_EINVAL);
    assert_int_equal(pawl_run_extend(NULL, 1, &err), PAWL_EINVAL);
    pawl_run_log(NULL, "x");
    assert_int_equal(pawl_run_done(NULL, NULL, 0), PAWL_OUTCOME_DONE);
    assert_int_equal(pawl_run_retry(NULL, 0, "x"), PAWL_OUTCOME_RETRY);
    assert_int_equal(pawl_run_fail(NULL, "x"), PAWL_OUTCOME_FAIL);
    assert_int_equal(pawl_run_reject(NULL, "x"), PAWL_OUTCOME_REJECT);
    assert_int_equal(pawl_run_snooze(NULL, 0), PAWL_OUTCOME_SNOOZE);
    assert_int_equal(pawl_run_cancel(NULL), PAWL_OUTCOME_CANCEL);

    len = 77;
    assert_null(pawl_run_step(NULL));
    assert_null(pawl_run_state(NULL, &len));
    assert_int_equal(len, 0);
    assert_null(pawl_run_state(NULL, NULL));
    assert_null(pawl_run_signals(NULL));
    assert_null(pawl_run_children(NULL));
    assert_false(pawl_run_timed_out(NULL));
    assert_int_equal(pawl_run_children_left(NULL), 0);
    assert_int_equal(pawl_run_next(NULL, "s", NULL, 0, 0), PAWL_OUTCOME_NEXT);
    assert_int_equal(pawl_run_await(NULL, "n", "s", NULL, 0, 0), PAWL_OUTCOME_AWAIT);
    assert_int_equal(pawl_run_spawn(NULL, NULL, 0, NULL, "s", NULL, 0), PAWL_OUTCOME_SPAWN);
    assert_int_equal(pawl_run_spawn(NULL, NULL, 1, NULL, "s", NULL, 0), PAWL_OUTCOME_RETRY);
    assert_int_equal(pawl_job_signal(NULL, 1, "n", NULL, NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_signal_all(NULL, "c", "n", NULL, NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_job_restart(NULL, 1, "s", NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_server_new(NULL, NULL, &err), PAWL_EINVAL);
    assert_int_equal(pawl_server_enqueue(NULL, NULL, 0, NULL, NULL, NULL), PAWL_EINVAL);
    pawl_server_free(NULL);
}

static void the_version_and_the_codes_have_names(void **state)
{
    (void)state;
    assert_string_equal(pawl_version(), PAWL_VERSION);
    assert_string_equal(pawl_code_name(0), "PAWL_OK");
    assert_string_equal(pawl_code_name(PAWL_ESTALE), "PAWL_ESTALE");
    assert_string_equal(pawl_code_name(1), "PAWL_UNKNOWN");
    assert_string_equal(pawl_code_name(-1000), "PAWL_UNKNOWN");
}

/* Sets one option to nonsense and expects to be told its name. */
#define REFUSED(change, word)                                                    \
    do {                                                                         \
        struct pawl_worker_options options = PAWL_WORKER_OPTIONS_INIT;           \
        struct pawl_worker *worker = (void *)&options;                           \
        struct pawl_err err;                                                     \
        options.conninfo = "host=/nowhere";                                      \
        change;                                                                  \
        assert_int_equal(pawl_worker_new(&options, &worker, &err), PAWL_EINVAL); \
        assert_ptr_equal(worker, &options);                                      \
        assert_int_equal(err.code, PAWL_EINVAL);                                 \
        if (strstr(err.message, (word)) == NULL)                                 \
            fail_msg("%s: no word of %s", err.message, (word));                  \
        assert_int_equal(pawl_worker_new(&options, &worker, NULL), PAWL_EINVAL); \
    } while (0)

static void nonsense_options_are_refused_by_name(void **state)
{
    const char *twice[] = {"a", "b", "a"};
    const char *hole[] = {"a", NULL};
    const char *bad[] = {"a b"};

    (void)state;
    REFUSED(options.size = 0, "size");
    REFUSED(options.size = SIZE_MAX, "size");
    REFUSED(options.conninfo = "", "empty");
    REFUSED(options.conninfo = "nonsense", "connection string");
    REFUSED(options.n_queues = 1, "queues");
    REFUSED((options.queues = hole, options.n_queues = 2), "queues");
    REFUSED((options.queues = bad, options.n_queues = 1), "queue");
    REFUSED((options.queues = twice, options.n_queues = 3), "twice");
    REFUSED(options.n_queues = 100000, "n_queues");
    REFUSED(options.concurrency = 1000000, "concurrency");
    REFUSED((options.concurrency = 5, options.max_concurrency = 4), "concurrency");
    REFUSED(options.min_concurrency = 5, "min_concurrency");
    REFUSED(options.prefetch = 1000000, "prefetch");
    REFUSED(options.min_demand = 1000000, "min_demand");
    REFUSED(options.lease_ms = -1, "lease_ms");
    REFUSED(options.lease_ms = 99, "lease_ms");
    REFUSED(options.lease_ms = INT64_MAX, "lease_ms");
    REFUSED(options.poll_ms = -1, "poll_ms");
    REFUSED((options.poll_ms = 1000, options.poll_max_ms = 10), "poll_max_ms");
    REFUSED(options.jitter_ms = -1, "jitter_ms");
    REFUSED(options.drain_ms = -1, "drain_ms");
    REFUSED(options.memory_max_percent = 101, "memory_max_percent");
    REFUSED(options.breaker_percent = 101, "breaker_percent");
    REFUSED(options.watchdog_ms = -2, "watchdog_ms");
    REFUSED(options.watchdog_ms = 99, "watchdog_ms");
    REFUSED(options.rollout_watch_ms = -1, "rollout_watch_ms");
    REFUSED(options.rollout_watch_ms = INT64_MAX, "rollout_watch_ms");
    REFUSED(options.rollout = 4, "rollout"); /* as many as there are anyway */
    REFUSED((options.max_concurrency = 5, options.rollout = 6), "rollout");
    REFUSED((options.min_concurrency = 1, options.rollout = 6), "rollout");
    REFUSED(options.memory_machine_max_percent = 101, "memory_machine_max_percent");
    REFUSED(options.kill_ms = -1, "kill_ms");
    REFUSED(options.log_level = (enum pawl_log_level)4, "log_level");
    REFUSED(options.log_format = (enum pawl_log_format) - 1, "log_format");
}

static void structs_of_other_versions_are_understood_or_refused(void **state)
{
    struct {
        struct pawl_worker_options options;
        char more[16];
    } newer = {.options = PAWL_WORKER_OPTIONS_INIT};
    struct pawl_worker *worker;
    struct pawl_err err;

    (void)state;
    newer.options.conninfo = "host=/nowhere";
    newer.options.size = sizeof(newer);
    assert_int_equal(pawl_worker_new(&newer.options, &worker, &err), 0);
    pawl_worker_free(worker);
    newer.more[15] = 1;
    assert_int_equal(pawl_worker_new(&newer.options, &worker, &err), PAWL_EINVAL);
    assert_non_null(strstr(err.message, "does not know"));
    /* An older one: what is behind its end is not read. */
    newer.options.size = offsetof(struct pawl_worker_options, n_queues);
    newer.options.n_queues = 100000;
    assert_int_equal(pawl_worker_new(&newer.options, &worker, &err), 0);
    pawl_worker_free(worker);
}

static void handlers_need_a_kind_and_a_function(void **state)
{
    struct fixture *f = *state;
    char kind[] = "mine";

    OK(pawl_worker_new(&f->options, &f->worker, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_handle(f->worker, NULL, do_nothing, f, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_handle(f->worker, "", do_nothing, f, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_handle(f->worker, "a b", do_nothing, f, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_handle(f->worker, "k", NULL, f, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_run(f->worker, &f->err)); /* without any */
    assert_non_null(strstr(f->err.message, "no handler"));
    OK(pawl_worker_handle(f->worker, kind, do_nothing, f, &f->err));
    EXPECT(PAWL_EEXIST, pawl_worker_handle(f->worker, "mine", do_gate, f, &f->err));
    memset(kind, 'x', 4); /* it was copied */
    enqueue(f, "mine", 1);
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
}

static void queues_are_copied_and_taken_in_turn(void **state)
{
    struct fixture *f = *state;
    char one[] = "one";
    char two[] = "two";
    const char *queues[] = {one, two};

    testdb_exec(
        &f->db,
        "INSERT INTO pawl.job (queue, kind, payload) VALUES ('one', 'noop', ''), ('two', 'noop', ''),"
        " ('three', 'noop', '')");
    f->options.queues = queues;
    f->options.n_queues = 2;
    make_worker(f, NULL, NULL);
    memset(one, 'x', 3);
    memset(two, 'x', 3);
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE queue IN ('one', 'two')"), 2);
    assert_int_equal(count_of(f, "pawl.job WHERE queue = 'three'"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_arguments_at_all_are_survived),
        cmocka_unit_test(the_version_and_the_codes_have_names),
        cmocka_unit_test(nonsense_options_are_refused_by_name),
        cmocka_unit_test(structs_of_other_versions_are_understood_or_refused),
        TEST(handlers_need_a_kind_and_a_function),
        TEST(queues_are_copied_and_taken_in_turn),
    };
    return cmocka_run_group_tests_name("lib args", tests, NULL, NULL);
}
