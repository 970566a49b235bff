/* Commands as handlers, alone and beside functions, and what a worker tells its program: of each run, of all it counts, and in
 * its log. */
#include <signal.h>
#include <unistd.h>

#include <poll.h>

#include "lib_fixture.h"

#define TOLD_MAX 64

/* What was told of runs, in their order. The worker's thread; others look when it has stopped. */
static struct told {
    int64_t id;
    char kind[16];
    char state[16];
    char error[64];
    char result[16];
    int attempt;
    int64_t run_us;
} told[TOLD_MAX];

static size_t n_told;
static struct pawl_worker *stopped_when_told; /* NULL: not */
static struct gate *opened_when_told;         /* likewise */

static void copy_text(char *to, size_t size, const char *from, size_t len)
{
    snprintf(to, size, "%.*s", (int)len, from != NULL ? from : "");
}

static void on_settled(void *data, const struct pawl_settled *settled)
{
    struct told *t = &told[n_told++];

    assert_ptr_equal(data, told);
    assert_true(n_told < TOLD_MAX);
    assert_string_equal(settled->queue, "default");
    assert_int_equal(settled->max_attempts, 20);
    *t = (struct told){.id = settled->id, .attempt = settled->attempt, .run_us = settled->run_us};
    copy_text(t->kind, sizeof(t->kind), settled->kind, strlen(settled->kind));
    copy_text(t->state, sizeof(t->state), settled->state, strlen(settled->state));
    copy_text(t->error,
              sizeof(t->error),
              settled->error,
              settled->error != NULL ? strcspn(settled->error, "\n") : 0);
    copy_text(t->result, sizeof(t->result), settled->result, settled->result_len);
    if (stopped_when_told != NULL && n_told == 1) {
        pawl_worker_free(stopped_when_told); /* does nothing */
        assert_int_equal(pawl_worker_wait(stopped_when_told, -1, NULL), PAWL_ESTATE);
        pawl_worker_stop(stopped_when_told);
    }
    if (opened_when_told != NULL && strcmp(t->kind, "true") == 0)
        gate_open(opened_when_told);
}

static void listen(struct fixture *f)
{
    n_told = 0;
    stopped_when_told = NULL;
    opened_when_told = NULL;
    f->options.settled = on_settled;
    f->options.settled_data = told;
}

static const struct told *told_of(const char *kind)
{
    for (size_t i = 0; i < n_told; i++) {
        if (strcmp(told[i].kind, kind) == 0)
            return &told[i];
    }
    fail_msg("nothing was told of kind %s", kind);
    return NULL;
}

static void a_command_gets_the_payload_and_prints_the_result(void **state)
{
    struct fixture *f = *state;
    char command[] = "printf '%s %s ' \"$PAWL_JOB_KIND\" \"$PAWL_JOB_ATTEMPT\"; cat";

    listen(f);
    enqueue(f, "echo", 3);
    OK(pawl_worker_new(&f->options, &f->worker, &f->err));
    OK(pawl_worker_exec(f->worker, "echo", command, &f->err));
    memset(command, 'x', 4); /* it was copied */
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND result = 'echo 1 2'"), 1);
    assert_int_equal(n_told, 3);
}

static void each_run_is_told_with_what_became_of_it(void **state)
{
    struct fixture *f = *state;

    listen(f);
    enqueue(f, "good", 1);
    enqueue(f, "bad", 1);
    enqueue(f, "useless", 1);
    enqueue(f, "noop", 1);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_exec(f->worker, "good", "printf fine", &f->err));
    OK(pawl_worker_exec(f->worker, "bad", "echo no >&2; exit 1", &f->err));
    OK(pawl_worker_exec(f->worker, "useless", "exit 65", &f->err));
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(n_told, 4);
    assert_string_equal(told_of("good")->state, "done");
    assert_string_equal(told_of("good")->result, "fine");
    assert_string_equal(told_of("good")->error, "");
    assert_int_equal(told_of("good")->attempt, 1);
    assert_true(told_of("good")->run_us > 0);
    assert_string_equal(told_of("bad")->state, "retrying");
    assert_string_equal(told_of("bad")->error, "exit status 1");
    assert_string_equal(told_of("useless")->state, "failed");
    assert_string_equal(told_of("noop")->state, "done");
    assert_string_equal(told_of("noop")->result, "");
}

/* The function waits until the command is through, so they ran side by side. */
static void commands_and_functions_run_side_by_side(void **state)
{
    struct fixture *f = *state;

    listen(f);
    opened_when_told = &f->gate;
    f->options.concurrency = 2;
    f->options.prefetch = 10;
    enqueue(f, "gate", 1);
    enqueue(f, "true", 5);
    enqueue(f, "noop", 20);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_exec(f->worker, "true", "true", &f->err));
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND attempt = 1"), 26);
    assert_true(atomic_load(&f->n_most) <= 2);
}

/* One at a time, whichever it is: a command that met a function would find its mark. */
static int mark_fd;

static enum pawl_outcome leave_mark(struct pawl_run *run, void *data)
{
    (void)data;
    if (ftruncate(mark_fd, 1) < 0)
        return pawl_run_fail(run, "no mark");
    poll(NULL, 0, 5);
    return ftruncate(mark_fd, 0) < 0 ? pawl_run_fail(run, "no mark") : pawl_run_done(run, NULL, 0);
}

static void a_concurrency_of_one_is_one_of_both(void **state)
{
    struct fixture *f = *state;
    char path[] = "/tmp/pawl-exec-XXXXXX";
    char command[64];

    mark_fd = mkstemp(path);
    assert_true(mark_fd >= 0);
    snprintf(command, sizeof(command), "[ ! -s %s ] || exit 65", path);
    f->options.concurrency = 1;
    f->options.prefetch = 20;
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload)"
                " SELECT 'default', CASE n % 2 WHEN 0 THEN 'mark' ELSE 'look' END, ''"
                " FROM generate_series(1, 20) AS n");
    OK(pawl_worker_new(&f->options, &f->worker, &f->err));
    OK(pawl_worker_handle(f->worker, "mark", leave_mark, f, &f->err));
    OK(pawl_worker_exec(f->worker, "look", command, &f->err));
    OK(pawl_worker_run(f->worker, &f->err));
    close(mark_fd);
    unlink(path);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 20);
}

static void inside_another_loop_commands_run_too(void **state)
{
    struct fixture *f = *state;
    int fd = -1;
    int rc = 1;

    enqueue(f, "noop", 10);
    enqueue(f, "true", 10);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_exec(f->worker, "true", "true", &f->err));
    OK(pawl_worker_fd(f->worker, &fd, &f->err));
    while (rc == 1) {
        struct pollfd watched = {.fd = fd, .events = POLLIN};

        rc = pawl_worker_turn(f->worker, &f->err);
        if (rc == 1)
            (void)poll(&watched, 1, pawl_worker_timeout_ms(f->worker));
    }
    OK(rc);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 20);
}

static void who_is_told_may_stop_the_worker(void **state)
{
    struct fixture *f = *state;

    listen(f);
    f->options.until_empty = false;
    f->options.concurrency = 1;
    enqueue(f, "true", 10);
    OK(pawl_worker_new(&f->options, &f->worker, &f->err));
    OK(pawl_worker_exec(f->worker, "true", "true", &f->err));
    stopped_when_told = f->worker;
    OK(pawl_worker_run(f->worker, &f->err));
    assert_in_range(n_told, 1, 10); /* else it would have gone on waiting for more */
    assert_int_equal(count_of(f, "pawl.jobs WHERE state IN ('ready', 'done')"), 10);
}

/* It does not mind SIGTERM; so it is killed, and its job is for others at once. */
static void a_command_that_does_not_end_is_killed(void **state)
{
    struct fixture *f = *state;

    listen(f);
    f->options.until_empty = false;
    f->options.drain_ms = 1;
    f->options.kill_ms = 1;
    f->options.log_stderr = true;
    enqueue(f, "stubborn", 1);
    OK(pawl_worker_new(&f->options, &f->worker, &f->err));
    OK(pawl_worker_exec(
        f->worker, "stubborn", "trap '' TERM; echo begun >&2; while :; do sleep 1; done", &f->err));
    OK(pawl_worker_start(f->worker, &f->err));
    for (int i = 0; i < WATCHDOG_MS / 10 && count_logged(f, "begun") == 0; i++)
        poll(NULL, 0, 10);
    assert_int_equal(count_logged(f, "job_stderr"), 1);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(n_told, 1);
    assert_string_equal(told[0].state, "retrying");
    assert_int_equal(count_of(f, "pawl.job WHERE attempt = 1 AND token IS NULL"), 1);
}

static void commands_need_a_kind_and_words(void **state)
{
    struct fixture *f = *state;

    make_worker(f, NULL, NULL);
    EXPECT(PAWL_EINVAL, pawl_worker_exec(f->worker, NULL, "true", &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_exec(f->worker, "k", NULL, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_exec(f->worker, "k", "", &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_exec(f->worker, "k", " \t\n", &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_exec(f->worker, "a b", "true", &f->err));
    EXPECT(PAWL_EEXIST, pawl_worker_exec(f->worker, "noop", "true", &f->err));
    OK(pawl_worker_exec(f->worker, "k", "true", &f->err));
    EXPECT(PAWL_EEXIST, pawl_worker_exec(f->worker, "k", "false", &f->err));
    EXPECT(PAWL_EEXIST, pawl_worker_handle(f->worker, "k", do_nothing, f, &f->err));
    OK(pawl_worker_run(f->worker, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_exec(f->worker, "late", "true", &f->err));
}

/* ── by name ── */

struct numbers {
    int64_t done, settles, settle_us_max, concurrency;
    size_t n;
};

static void on_number(void *data, const char *name, int64_t value)
{
    struct numbers *numbers = data;

    numbers->n++;
    if (strcmp(name, "done") == 0)
        numbers->done = value;
    if (strcmp(name, "settles") == 0)
        numbers->settles = value;
    if (strcmp(name, "settle_us_max") == 0)
        numbers->settle_us_max = value;
    if (strcmp(name, "concurrency") == 0)
        numbers->concurrency = value;
}

static void all_that_is_counted_has_a_name(void **state)
{
    struct fixture *f = *state;
    struct numbers numbers = {0};
    struct pawl_stats stats = PAWL_STATS_INIT;

    enqueue(f, "noop", 7);
    f->options.concurrency = 3;
    make_worker(f, NULL, NULL);
    pawl_worker_stats_each(f->worker, on_number, &numbers);
    assert_int_equal(numbers.n, 0); /* there is nothing yet */
    OK(pawl_worker_run(f->worker, &f->err));
    pawl_worker_stats(f->worker, &stats);
    pawl_worker_stats_each(f->worker, on_number, &numbers);
    pawl_worker_stats_each(f->worker, NULL, NULL);
    assert_true(numbers.n > 40);
    assert_int_equal(numbers.done, 7);
    assert_int_equal(numbers.settles, stats.settles);
    assert_true(numbers.settle_us_max > 0);
    assert_int_equal(numbers.concurrency, 3);
}

/* ── the log ── */

static enum pawl_outcome say(struct pawl_run *run, void *data)
{
    (void)data;
    pawl_run_log(run, "hello");
    return pawl_run_done(run, NULL, 0);
}

static void the_log_is_as_it_was_asked_for(void **state)
{
    static const struct {
        enum pawl_log_level level;
        enum pawl_log_format format;
        int said; /* what a handler says is level info */
        int braces;
        int escapes;
    } cases[] = {
        {PAWL_LOG_INFO, PAWL_LOG_JSON, 1, 1, 0},
        {PAWL_LOG_INFO, PAWL_LOG_TEXT, 1, 0, 0},
        {PAWL_LOG_INFO, PAWL_LOG_COLOR, 1, 0, 1},
        {PAWL_LOG_DEBUG, PAWL_LOG_JSON, 1, 1, 0},
        {PAWL_LOG_ERROR, PAWL_LOG_JSON, 0, 0, 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < LEN(cases); i++) {
        f->log_len = 0;
        f->log[0] = '\0';
        f->options.log_level = cases[i].level;
        f->options.log_format = cases[i].format;
        enqueue(f, "say", 1);
        make_worker(f, "say", say);
        OK(pawl_worker_run(f->worker, &f->err));
        pawl_worker_free(f->worker);
        f->worker = NULL;
        assert_int_equal(count_logged(f, "hello"), cases[i].said);
        assert_int_equal(count_logged(f, "{") > 0, cases[i].braces);
        assert_int_equal(count_logged(f, "\x1b") > 0, cases[i].escapes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_command_gets_the_payload_and_prints_the_result),
        TEST(each_run_is_told_with_what_became_of_it),
        TEST(commands_and_functions_run_side_by_side),
        TEST(a_concurrency_of_one_is_one_of_both),
        TEST(inside_another_loop_commands_run_too),
        TEST(who_is_told_may_stop_the_worker),
        TEST(a_command_that_does_not_end_is_killed),
        TEST(commands_need_a_kind_and_words),
        TEST(all_that_is_counted_has_a_name),
        TEST(the_log_is_as_it_was_asked_for),
    };
    return cmocka_run_group_tests_name("lib commands", tests, NULL, NULL);
}
