/* Thread hands over time: timeouts that are noticed, extended and complained about, progress on its way to the loop, and a
 * number of threads that changes. */
#include "threads_fixture.h"

#define LOG_MAX 16384

static struct {
    pthread_mutex_t mutex;
    char text[LOG_MAX];
    int n_progress;
    char last_progress[64];
    struct run *progress_of;
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void on_line(void *data, const char *line)
{
    (void)data;
    pthread_mutex_lock(&seen.mutex);
    strncat(seen.text, line, sizeof(seen.text) - strlen(seen.text) - 1);
    pthread_mutex_unlock(&seen.mutex);
}

static int count_logged(const char *what)
{
    int n = 0;

    pthread_mutex_lock(&seen.mutex);
    for (const char *at = seen.text; (at = strstr(at, what)) != NULL; at++)
        n++;
    pthread_mutex_unlock(&seen.mutex);
    return n;
}

static void on_progress(void *data, struct run *run, const char *text)
{
    struct fixture *f = data;

    assert_true(pthread_equal(pthread_self(), f->loop_thread));
    assert_int_equal(((struct record *)(void *)run)->n_finished, 0); /* it is still in the hands */
    seen.n_progress++;
    seen.progress_of = run;
    snprintf(seen.last_progress, sizeof(seen.last_progress), "%s", text);
}

/* Not before the worker has complained. */
static void do_ignore(void *data, struct task *task)
{
    (void)data;
    enter_gate(&fixture->gate);
    while (count_logged("job_overrun") == 0)
        sched_yield();
    task_done(task, "late", 4);
}

static void do_extend(void *data, struct task *task)
{
    struct pawl_err err;

    (void)data;
    if (task_extend(task, -1, &err) != PAWL_EINVAL || task_extend(task, 60000, &err) != 0 ||
        task_left_ms(task) < 50000)
        task_fail(task, "could not extend");
}

static void do_extend_late(void *data, struct task *task)
{
    struct pawl_err err;
    enum stop_reason reason;

    (void)data;
    while (!task_should_stop(task))
        sched_yield();
    if (task_extend(task, 60000, &err) != PAWL_ESTATE || task_left_ms(task) >= 0 ||
        !task_stop_reason(task, &reason) || reason != STOP_TIMEOUT)
        abort();
    task_cancel(task);
}

static void do_without_timeout(void *data, struct task *task)
{
    struct pawl_err err;

    (void)data;
    if (task_left_ms(task) != INT64_MAX || task_extend(task, 1, &err) != 0 ||
        task_left_ms(task) != INT64_MAX || task_should_stop(task))
        task_fail(task, "it has a timeout");
}

static void do_tell(void *data, struct task *task)
{
    struct pawl_err err;

    (void)data;
    for (int i = 0; i < 100; i++) {
        char text[16];

        snprintf(text, sizeof(text), "%d", i);
        if (task_progress(task, text, &err) < 0)
            task_fail(task, err.message);
    }
    enter_gate(&fixture->gate); /* what was said so far comes while it runs … */
    if (task_progress(task, "the last word", &err) < 0) /* … and this before it is reported */
        task_fail(task, err.message);
}

static atomic_int n_now;
static atomic_int n_most;

/* How many run at a time, and time for others to come in. */
static void do_count(void *data, struct task *task)
{
    int now = atomic_fetch_add(&n_now, 1) + 1;
    int most = atomic_load(&n_most);

    (void)data;
    (void)task;
    while (most < now && !atomic_compare_exchange_weak(&n_most, &most, now)) {
    }
    for (int i = 0; i < 20; i++)
        sched_yield();
    atomic_fetch_sub(&n_now, 1);
}

static const struct threads_handler more[] = {
    {"count", do_count, NULL},
    {"gate", do_gate, NULL},
    {"ignore", do_ignore, NULL},
    {"extend", do_extend, NULL},
    {"extend-late", do_extend_late, NULL},
    {"without", do_without_timeout, NULL},
    {"tell", do_tell, NULL},
    {"until", do_until_stopped, NULL},
};

static struct log log_here = {
    .level = LOG_INFO, .format = LOG_JSON, .clock = &clock_system, .sink = on_line};

static void open_more(struct fixture *f, size_t threads, size_t limit, size_t queue_max)
{
    struct pawl_err err;

    seen.text[0] = '\0';
    seen.n_progress = 0;
    f->hands = threads_new(&f->loop,
                           &(struct threads_options){
                               .handlers = more,
                               .n_handlers = LEN(more),
                               .threads = threads,
                               .limit = limit,
                               .queue_max = queue_max,
                               .log = &log_here,
                               .progress = on_progress,
                               .data = f,
                           },
                           &err);
    assert_non_null(f->hands);
    f->hands->finished = on_finished;
    f->hands->finished_data = f;
}

static struct record *start_timed(struct fixture *f, const char *kind, int64_t timeout_ms)
{
    struct record *record = next(f, kind);

    record->run.job.timeout_ms = timeout_ms;
    return start_record(f, record);
}

static void an_overrun_is_complained_about_once_and_counts_as_a_retry(void **state)
{
    struct fixture *f = *state;

    open_more(f, 2, 0, 4);
    open_gate(&f->gate);
    struct record *late = start_timed(f, "ignore", 20);
    struct record *fine = start_timed(f, "gate", 60000);

    run_all(f);
    assert_outcome(late, OUTCOME_RETRY, "ran longer than its timeout of 20 ms");
    assert_int_equal(late->delay_ms, -1);
    assert_outcome(fine, OUTCOME_DONE, NULL);
    assert_int_equal(count_logged("job_overrun"), 1);
    assert_int_equal(threads_overruns(f->hands), 1);
}

/* It had to wait for its thread, so its time began later than the timer thought at first. */
static void one_that_waited_for_a_thread_is_noticed_too(void **state)
{
    struct fixture *f = *state;

    open_more(f, 1, 0, 4);
    start(f, "gate");
    await_inside(&f->gate, 1);
    struct record *late = start_timed(f, "ignore", 5);

    uv_run(&f->loop, UV_RUN_ONCE); /* the timer, while nothing of it runs */
    assert_int_equal(count_logged("job_overrun"), 0);
    open_gate(&f->gate);
    run_all(f);
    assert_outcome(late, OUTCOME_RETRY, "ran longer than its timeout of 5 ms");
}

static void an_extension_in_time_counts_and_a_late_one_is_refused(void **state)
{
    struct fixture *f = *state;

    open_more(f, 3, 0, 0);
    struct record *extended = start_timed(f, "extend", 10000);
    struct record *late = start_timed(f, "extend-late", 10);
    struct record *without = start(f, "without");

    run_all(f);
    assert_outcome(extended, OUTCOME_DONE, NULL);
    assert_outcome(late, OUTCOME_RETRY, "ran longer than its timeout of 10 ms");
    assert_outcome(without, OUTCOME_DONE, NULL);
    assert_int_equal(count_logged("job_overrun"), 1); /* also of one that noticed by itself */
}

/* Or it would run again, which nobody wants. */
static void one_that_was_cancelled_stays_so_when_it_is_late(void **state)
{
    struct fixture *f = *state;

    open_more(f, 1, 0, 0);
    open_gate(&f->gate);
    struct record *record = start_timed(f, "ignore", 20);

    await_inside(&f->gate, 1);
    f->hands->ops->stop(f->hands, &record->run, STOP_CANCELLED);
    run_all(f);
    assert_outcome(record, OUTCOME_CANCEL, NULL);
}

static void progress_reaches_the_loop_while_the_handler_runs_and_before_its_end(void **state)
{
    struct fixture *f = *state;

    open_more(f, 1, 0, 0);
    struct record *record = start(f, "tell");

    await_inside(&f->gate, 1);
    while (strcmp(seen.last_progress, "99") != 0)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_ptr_equal(seen.progress_of, &record->run);
    assert_true(seen.n_progress <= 100);
    open_gate(&f->gate);
    run_all(f);
    assert_outcome(record, OUTCOME_DONE, NULL);
    assert_string_equal(seen.last_progress, "the last word");
}

static void threads_beyond_the_limit_sit_out(void **state)
{
    struct fixture *f = *state;

    open_more(f, 4, 1, 20);
    for (int i = 0; i < 12; i++)
        start(f, "gate");
    await_inside(&f->gate, 1);
    threads_set_limit(f->hands, 3);
    await_inside(&f->gate, 3);
    threads_set_limit(f->hands, 4);
    await_inside(&f->gate, 4);
    threads_set_limit(f->hands, 1); /* those that run go on; the rest is one thread's */
    open_gate(&f->gate);
    run_all(f);
    assert_int_equal(f->gate.inside, 12);
    threads_set_limit(f->hands, 2);
    start(f, "without");
    start(f, "without");
    run_all(f);
}

static void never_do_more_run_than_the_limit_says(void **state)
{
    struct fixture *f = *state;

    open_more(f, 4, 2, 60);
    for (size_t limit = 2; limit > 0; limit--) {
        atomic_store(&n_most, 0);
        for (int i = 0; i < 30; i++)
            start(f, "count");
        run_all(f);
        assert_true(atomic_load(&n_most) <= (int)limit);
        threads_set_limit(f->hands, 1); /* while those beyond wait for work, and nobody runs */
    }
}

/* The loop may be somebody else's, who has other things to do. */
static void closing_does_not_hold_up_the_loop(void **state)
{
    struct fixture *f = *state;

    open_more(f, 2, 1, 3);
    struct record *running = start(f, "gate");

    await_inside(&f->gate, 1);
    threads_close(f->hands, on_closed, f);
    f->hands = NULL;
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_false(f->closed);
    assert_int_equal(running->n_finished, 0);
    open_gate(&f->gate);
    while (!f->closed)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_outcome(running, OUTCOME_DONE, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_overrun_is_complained_about_once_and_counts_as_a_retry),
        TEST(one_that_waited_for_a_thread_is_noticed_too),
        TEST(an_extension_in_time_counts_and_a_late_one_is_refused),
        TEST(one_that_was_cancelled_stays_so_when_it_is_late),
        TEST(progress_reaches_the_loop_while_the_handler_runs_and_before_its_end),
        TEST(threads_beyond_the_limit_sit_out),
        TEST(never_do_more_run_than_the_limit_says),
        TEST(closing_does_not_hold_up_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
