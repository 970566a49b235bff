/* A worker's life, driven in all three ways, and stopped from everywhere. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <poll.h>

#include "lib_fixture.h"

static void runs_on_the_callers_thread_until_nothing_is_due(void **state)
{
    struct fixture *f = *state;

    enqueue(f, "noop", 50);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(atomic_load(&f->n_runs), 50);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 50);
    assert_int_equal(count_of(f, "pawl.job"), 0);
    assert_int_equal(count_of(f, "pawl.worker"), 0);
    OK(pawl_worker_wait(f->worker, 0, &f->err));
}

static void runs_in_the_background_until_it_is_stopped(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    enqueue(f, "gate", 2);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 2);
    EXPECT(PAWL_ETIMEOUT, pawl_worker_wait(f->worker, 0, &f->err));
    enqueue(f, "noop", 3); /* it is woken, or looks: until then it sleeps */
    gate_open(&f->gate);
    enqueue(f, "gate", 1);
    pawl_worker_wake(f->worker);
    gate_await(&f->gate, 3);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    OK(pawl_worker_wait(f->worker, -1, &f->err)); /* as often as one likes */
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND kind = 'gate'"), 3);
    assert_int_equal(count_of(f, "pawl.claim"), 0);
}

/* As somebody else's loop does it. */
static void drive(struct fixture *f, int fd)
{
    int rc;

    while ((rc = pawl_worker_turn(f->worker, &f->err)) == 1) {
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        int timeout_ms = pawl_worker_timeout_ms(f->worker);

        assert_true(timeout_ms < 60000);
        if (poll(&watched, 1, timeout_ms) < 0)
            assert_int_equal(errno, EINTR);
    }
    assert_int_equal(rc, 0);
}

static void runs_inside_another_loop(void **state)
{
    struct fixture *f = *state;
    int fd = -1;

    f->options.concurrency = 2;
    enqueue(f, "noop", 500);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_fd(f->worker, &fd, &f->err));
    assert_true(fd >= 0);
    EXPECT(PAWL_ESTATE, pawl_worker_wait(f->worker, -1, &f->err)); /* it would wait for itself */
    drive(f, fd);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 500);
    assert_int_equal(pawl_worker_turn(f->worker, &f->err), 0); /* for good */
    assert_int_equal(pawl_worker_timeout_ms(f->worker), -1);
}

static enum pawl_outcome do_stop(struct pawl_run *run, void *data)
{
    struct fixture *f = data;

    count_in(f);
    pawl_worker_stop(f->worker);
    struct pawl_err err;

    if (pawl_worker_wait(f->worker, -1, &err) != PAWL_ESTATE)
        return pawl_run_fail(run, "it waited for itself");
    pawl_worker_free(f->worker); /* refused as well, silently */
    return pawl_run_done(run, "x", 1);
}

static void a_handler_may_stop_its_worker_but_not_wait_for_it(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    f->options.concurrency = 1;
    enqueue(f, "stop", 5);
    make_worker(f, "stop", do_stop);
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NULL AND attempt = 0"), 4);
}

static void embedded_it_can_be_stopped_by_a_handler_too(void **state)
{
    struct fixture *f = *state;
    int fd;

    f->options.until_empty = false;
    enqueue(f, "stop", 1);
    make_worker(f, "stop", do_stop);
    OK(pawl_worker_fd(f->worker, &fd, &f->err));
    drive(f, fd);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
}

static struct pawl_worker *of_the_signal;

static void on_signal(int signum)
{
    (void)signum;
    pawl_worker_stop(of_the_signal);
}

static enum pawl_outcome do_raise(struct pawl_run *run, void *data)
{
    (void)data;
    /* To the process: a thread of the worker takes no signals. */
    return kill(getpid(), SIGUSR2) == 0 ? pawl_run_done(run, NULL, 0) : pawl_run_fail(run, "kill");
}

static void a_signal_handler_may_stop_it(void **state)
{
    struct fixture *f = *state;
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;

    f->options.until_empty = false;
    enqueue(f, "raise", 1);
    make_worker(f, "raise", do_raise);
    of_the_signal = f->worker;
    assert_int_equal(sigaction(SIGUSR2, &action, &before), 0);
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(sigaction(SIGUSR2, &before, NULL), 0);
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 1);
}

static void *stop_it(void *worker)
{
    for (int i = 0; i < 100; i++)
        pawl_worker_stop(worker);
    return NULL;
}

static void stops_from_many_threads_at_once_are_fine(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[8];

    f->options.until_empty = false;
    enqueue(f, "gate", 4);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 4);
    for (size_t i = 0; i < LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stop_it, f->worker), 0);
    for (size_t i = 0; i < LEN(threads); i++)
        pthread_join(threads[i], NULL);
    EXPECT(PAWL_ETIMEOUT,
           pawl_worker_wait(f->worker, 10, &f->err)); /* the handlers have not returned */
    gate_open(&f->gate);
    EXPECT(PAWL_EINTERRUPTED, pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_non_null(strstr(f->err.message, "4 jobs"));
    assert_int_equal(count_of(f, "pawl.job WHERE token IS NOT NULL"), 4);
}

static void stopped_before_its_start_it_runs_nothing(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    make_worker(f, NULL, NULL);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_start(f->worker, &f->err));
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.worker"), 0);
    pawl_worker_stop(f->worker); /* and after its end */
    pawl_worker_wake(f->worker);
}

static void free_alone_stops_and_waits(void **state)
{
    struct fixture *f = *state;
    int fd;

    f->options.until_empty = false;
    enqueue(f, "noop", 1);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    pawl_worker_free(f->worker);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_fd(f->worker, &fd, &f->err));
    pawl_worker_free(f->worker);
    make_worker(f, NULL, NULL);
    pawl_worker_free(f->worker);
    f->worker = NULL;
    assert_int_equal(count_of(f, "pawl.worker"), 0);
}

static void it_lives_once(void **state)
{
    struct fixture *f = *state;
    int fd = 77;

    make_worker(f, NULL, NULL);
    EXPECT(PAWL_ESTATE, pawl_worker_wait(f->worker, 0, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_turn(f->worker, &f->err));
    OK(pawl_worker_start(f->worker, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_start(f->worker, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_run(f->worker, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_fd(f->worker, &fd, &f->err));
    assert_int_equal(fd, 77);
    EXPECT(PAWL_ESTATE, pawl_worker_handle(f->worker, "late", do_nothing, f, &f->err));
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_run(f->worker, &f->err));
    EXPECT(PAWL_ESTATE, pawl_worker_set_concurrency(f->worker, 1, false, &f->err));
}

static void kinds_without_a_handler_are_left_alone(void **state)
{
    struct fixture *f = *state;

    enqueue(f, "strange", 3);
    enqueue(f, "noop", 3);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_run(f->worker, &f->err));
    assert_int_equal(count_of(f, "pawl.job WHERE kind = 'strange' AND attempt = 0"), 3);
    assert_int_equal(count_of(f, "pawl.history"), 3);
}

static void concurrency_bounds_what_runs_and_can_be_changed(void **state)
{
    struct fixture *f = *state;
    struct pawl_stats stats = PAWL_STATS_INIT;

    f->options.until_empty = false;
    f->options.concurrency = 2;
    f->options.max_concurrency = 6;
    f->options.prefetch = 10; /* waits for a thread, and must not run beyond the limit */
    enqueue(f, "gate", 20);
    make_worker(f, NULL, NULL);
    EXPECT(PAWL_EINVAL, pawl_worker_set_concurrency(f->worker, 0, false, &f->err));
    EXPECT(PAWL_EINVAL, pawl_worker_set_concurrency(f->worker, 7, false, &f->err));
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 2);
    assert_int_equal(atomic_load(&f->n_most), 2);
    OK(pawl_worker_set_concurrency(f->worker, 6, false, &f->err));
    gate_await(&f->gate, 6);
    do
        pawl_worker_stats(f->worker, &stats);
    while (stats.running != 6 || stats.concurrency != 6);
    OK(pawl_worker_set_concurrency(f->worker, 1, false, &f->err));
    do
        pawl_worker_stats(f->worker, &stats);
    while (stats.concurrency != 1);
    atomic_store(&f->n_most, 0);
    gate_open(&f->gate);
    gate_await(&f->gate, 20);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done'"), 20);
    assert_true(atomic_load(&f->n_most) <= 6); /* those that had begun */
}

static void counters_can_be_read_at_any_time(void **state)
{
    struct fixture *f = *state;
    struct pawl_stats stats = PAWL_STATS_INIT;

    struct {
        struct pawl_stats stats;
        char beyond;
    } old = {.beyond = 77};

    enqueue(f, "noop", 30);
    make_worker(f, NULL, NULL);
    pawl_worker_stats(f->worker, &stats);
    assert_int_equal(stats.done, 0);
    assert_int_equal(stats.concurrency, 4);
    OK(pawl_worker_run(f->worker, &f->err));
    pawl_worker_stats(f->worker, &stats);
    assert_int_equal(stats.size, sizeof(stats));
    assert_int_equal(stats.done, 30);
    assert_int_equal(stats.claimed, 30);
    assert_int_equal(stats.running, 0);
    /* A program that knows less of it gets no more than it has room for. */
    memset(&old.stats, 7, sizeof(old.stats));
    old.stats.size = offsetof(struct pawl_stats, empty_claims);
    pawl_worker_stats(f->worker, &old.stats);
    assert_int_equal(old.stats.claimed, 30);
    assert_int_equal(old.stats.empty_claims, 0x0707070707070707);
    assert_int_equal(old.beyond, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(runs_on_the_callers_thread_until_nothing_is_due),
        TEST(runs_in_the_background_until_it_is_stopped),
        TEST(runs_inside_another_loop),
        TEST(a_handler_may_stop_its_worker_but_not_wait_for_it),
        TEST(embedded_it_can_be_stopped_by_a_handler_too),
        TEST(a_signal_handler_may_stop_it),
        TEST(stops_from_many_threads_at_once_are_fine),
        TEST(stopped_before_its_start_it_runs_nothing),
        TEST(free_alone_stops_and_waits),
        TEST(it_lives_once),
        TEST(kinds_without_a_handler_are_left_alone),
        TEST(concurrency_bounds_what_runs_and_can_be_changed),
        TEST(counters_can_be_read_at_any_time),
    };
    return cmocka_run_group_tests_name("lib worker", tests, NULL, NULL);
}
