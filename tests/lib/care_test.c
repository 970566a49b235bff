/* A worker that looks after itself, as its owner sees it: the options, the counters, the log. */
#include <poll.h>

#include "lib_fixture.h"

static enum pawl_outcome do_fail(struct pawl_run *run, void *data)
{
    count_in(data);
    return pawl_run_retry(run, 0, "as always");
}

/* Looks every few milliseconds: what is waited for here is said nowhere else. */
#define AWAIT(condition)                               \
    do {                                               \
        for (int tries = 0; !(condition); tries++) {   \
            if (tries == WATCHDOG_MS / 5)              \
                fail_msg("still not: %s", #condition); \
            poll(NULL, 0, 5);                          \
        }                                              \
    } while (0)

static struct pawl_stats stats_of(struct fixture *f)
{
    struct pawl_stats stats = PAWL_STATS_INIT;

    pawl_worker_stats(f->worker, &stats);
    return stats;
}

/* A loop of somebody else's that does not call pawl_worker_turn. */
static void a_loop_that_stands_still_is_noticed(void **state)
{
    struct fixture *f = *state;
    int fd;

    f->options.until_empty = false;
    f->options.watchdog_ms = 100;
    make_worker(f, NULL, NULL);
    OK(pawl_worker_fd(f->worker, &fd, &f->err));
    EXPECT(1, pawl_worker_turn(f->worker, &f->err));
    AWAIT(count_logged(f, "coordinator_stalled") == 1);
    AWAIT(pawl_worker_turn(f->worker, &f->err) == 1 && stats_of(f).stalls == 1);
}

static void nobody_watches_a_loop_if_so_asked(void **state)
{
    struct fixture *f = *state;
    int fd;

    f->options.until_empty = false;
    f->options.watchdog_ms = -1;
    make_worker(f, NULL, NULL);
    OK(pawl_worker_fd(f->worker, &fd, &f->err));
    EXPECT(1, pawl_worker_turn(f->worker, &f->err));
    assert_int_equal(stats_of(f).stalls, 0);
}

static void a_closed_memory_gate_is_counted(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    f->options.memory_max_percent = 1; /* so much is always in use */
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    AWAIT(stats_of(f).memory_gate_closed);
    assert_int_equal(stats_of(f).memory_closings, 1);
    assert_true(stats_of(f).memory_bytes > 0);
}

static void an_open_breaker_is_counted(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    f->options.breaker_percent = 50;
    enqueue(f, "fail", 5);
    make_worker(f, "fail", do_fail);
    OK(pawl_worker_start(f->worker, &f->err));
    AWAIT(stats_of(f).breakers_open == 1);
    assert_int_equal(stats_of(f).breaker_openings, 1);
}

static void a_guarded_change_is_taken_back_when_runs_fail(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    f->options.concurrency = 1;
    f->options.max_concurrency = 4;
    f->options.rollout_watch_ms = WATCHDOG_MS;
    testdb_exec(&f->db,
                "INSERT INTO pawl.job (queue, kind, payload, max_attempts)"
                " SELECT 'default', 'fail', '{}', 1000 FROM generate_series(1, 500)");
    make_worker(f, "fail", do_fail);
    OK(pawl_worker_start(f->worker, &f->err));
    OK(pawl_worker_set_concurrency(f->worker, 4, true, &f->err));
    AWAIT(stats_of(f).rollbacks == 1);
    AWAIT(stats_of(f).concurrency == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_loop_that_stands_still_is_noticed),
        TEST(nobody_watches_a_loop_if_so_asked),
        TEST(a_closed_memory_gate_is_counted),
        TEST(an_open_breaker_is_counted),
        TEST(a_guarded_change_is_taken_back_when_runs_fail),
    };
    return cmocka_run_group_tests_name("lib care", tests, NULL, NULL);
}
