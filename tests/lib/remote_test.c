/* A worker with a server in the place of a database: the same handlers, driven in all three ways. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <poll.h>
#include <spawn.h>

#include "lib_fixture.h"

extern char **environ;

static struct {
    pid_t pid;
    char address[128];
} server;

/* `pawl serve` on the test's database, with its first line read. */
static void serve(struct fixture *f)
{
    char *argv[] = {getenv("PAWL_TEST_BIN"),
                    (char *)(uintptr_t) "serve",
                    (char *)(uintptr_t) "-l",
                    (char *)(uintptr_t) "127.0.0.1:0",
                    NULL};
    posix_spawn_file_actions_t actions;
    char line[256] = "";
    size_t len = 0;
    int out[2];

    setenv("PAWL_DATABASE_URL", f->db.conninfo, 1);
    assert_int_equal(0, pipe2(out, O_CLOEXEC));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    assert_int_equal(0, posix_spawn(&server.pid, argv[0], &actions, NULL, argv, environ));
    posix_spawn_file_actions_destroy(&actions);
    unsetenv("PAWL_DATABASE_URL");
    close(out[1]);
    while (len < sizeof(line) - 1 && strchr(line, '\n') == NULL) {
        ssize_t n = read(out[0], line + len, sizeof(line) - 1 - len);

        assert_true(n > 0);
        len += (size_t)n;
        line[len] = '\0';
    }
    close(out[0]);
    assert_int_equal(1, sscanf(line, "listening on %127s", server.address));
    f->options.conninfo = NULL;
    f->options.until_empty = false;
    f->options.server = server.address;
}

static int remote_teardown(void **state)
{
    int rc = fixture_teardown(state);

    if (server.pid > 0) {
        kill(server.pid, SIGTERM);
        while (waitpid(server.pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    server.pid = 0;
    return rc;
}

/* Something that happens by itself. */
static void await_count(struct fixture *f, const char *from, int64_t n)
{
    for (int i = 0; i < WATCHDOG_MS / 10 && count_of(f, from) != n; i++)
        poll(NULL, 0, 10);
    assert_int_equal(count_of(f, from), n);
}

static void runs_in_the_background_until_it_is_stopped(void **state)
{
    struct fixture *f = *state;
    struct pawl_stats stats = PAWL_STATS_INIT;

    serve(f);
    enqueue(f, "noop", 500);
    enqueue(f, "gate", 2);
    f->options.prefetch = 50;
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 2);
    await_count(f, "pawl.history WHERE state = 'done'", 500);
    pawl_worker_stop(f->worker);
    EXPECT(PAWL_ETIMEOUT, pawl_worker_wait(f->worker, 0, &f->err));
    gate_open(&f->gate);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE state = 'done' AND result = 'through'"), 2);
    assert_int_equal(count_of(f, "pawl.history WHERE attempt <> 1"), 0);
    pawl_worker_stats(f->worker, &stats);
    assert_int_equal(stats.done, 502);
    assert_true(stats.settles < 502);
}

static void runs_inside_another_loop(void **state)
{
    struct fixture *f = *state;
    int fd = -1;
    int rc = 1;

    serve(f);
    enqueue(f, "noop", 300);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_fd(f->worker, &fd, &f->err));
    while (rc == 1) {
        struct pollfd watched = {.fd = fd, .events = POLLIN};

        rc = pawl_worker_turn(f->worker, &f->err);
        if (rc == 1)
            (void)poll(&watched, 1, pawl_worker_timeout_ms(f->worker));
        if (atomic_load(&f->n_runs) == 300)
            pawl_worker_stop(f->worker);
        if (atomic_load(&f->n_runs) == 300)
            atomic_fetch_add(&f->n_runs, 1); /* once is enough */
    }
    assert_int_equal(rc, 0);
    await_count(f, "pawl.history WHERE state = 'done'", 300);
}

static enum pawl_outcome do_steps(struct pawl_run *run, void *data)
{
    const char *step = pawl_run_step(run);
    size_t len = 0;

    (void)data;
    if (step == NULL)
        return pawl_run_next(run, "second", "{\"n\":1}", 7, 0);
    const void *was = pawl_run_state(run, &len);

    if (pawl_run_progress(run, "half", NULL) < 0)
        return pawl_run_fail(run, "no progress");
    return pawl_run_done(run, was, len);
}

static void a_machine_goes_on(void **state)
{
    struct fixture *f = *state;

    serve(f);
    enqueue(f, "steps", 3);
    make_worker(f, "steps", do_steps);
    OK(pawl_worker_start(f->worker, &f->err));
    await_count(f, "pawl.history WHERE state = 'done' AND result = '{\"n\":1}'", 3);
}

static void the_number_at_a_time_may_change(void **state)
{
    struct fixture *f = *state;

    serve(f);
    f->options.concurrency = 1;
    f->options.max_concurrency = 3;
    enqueue(f, "gate", 3);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_start(f->worker, &f->err));
    gate_await(&f->gate, 1);
    OK(pawl_worker_set_concurrency(f->worker, 3, false, &f->err));
    gate_await(&f->gate, 3);
    gate_open(&f->gate);
    await_count(f, "pawl.history WHERE state = 'done' AND attempt = 1", 3);
}

static void what_is_wrong_is_said_when_it_starts(void **state)
{
    struct fixture *f = *state;

    f->options.until_empty = false;
    f->options.server = "127.0.0.1:1";
    EXPECT(PAWL_EINVAL, pawl_worker_new(&f->options, &f->worker, &f->err)); /* and a database */
    assert_non_null(strstr(f->err.message, "conninfo"));
    f->options.conninfo = NULL;
    f->options.server = "not an address";
    EXPECT(PAWL_EINVAL, pawl_worker_new(&f->options, &f->worker, &f->err));
    f->options.server = "127.0.0.1:1";
    f->options.token = "with a blank";
    EXPECT(PAWL_EINVAL, pawl_worker_new(&f->options, &f->worker, &f->err));
    f->options.token = NULL;
    f->options.tls_ca = "/nonexistent";
    EXPECT(PAWL_EINVAL, pawl_worker_new(&f->options, &f->worker, &f->err));
    f->options.tls_ca = NULL;
    make_worker(f, NULL, NULL);
    EXPECT(PAWL_ECONN, pawl_worker_start(f->worker, &f->err));
    assert_string_equal("could not connect to the server at 127.0.0.1:1", f->err.message);
    /* As before, and may be started again. */
    EXPECT(PAWL_ECONN, pawl_worker_run(f->worker, &f->err));
}

#define REMOTE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, remote_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REMOTE(runs_in_the_background_until_it_is_stopped),
        REMOTE(runs_inside_another_loop),
        REMOTE(a_machine_goes_on),
        REMOTE(the_number_at_a_time_may_change),
        REMOTE(what_is_wrong_is_said_when_it_starts),
    };

    return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
