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

/* A look for a signal that waits for nothing, and a child with a payload of no bytes. */
static enum pawl_outcome do_edges(struct pawl_run *run, void *data)
{
    const char *step = pawl_run_step(run);
    struct pawl_job_new child = PAWL_JOB_NEW_INIT;

    (void)data;
    if (step == NULL)
        return pawl_run_await(run, "never", "late", NULL, 0, 0);
    if (strcmp(step, "end") == 0)
        return pawl_run_done(run, "edge", 4);
    if (!pawl_run_timed_out(run))
        return pawl_run_fail(run, "it did not time out");
    child.kind = "noop";
    child.payload = "";
    return pawl_run_spawn(run, &child, 1, NULL, "end", NULL, 0);
}

static void outcomes_at_their_edges_mean_what_they_mean_with_a_database(void **state)
{
    struct fixture *f = *state;

    serve(f);
    enqueue(f, "edges", 1);
    make_worker(f, "edges", do_edges);
    OK(pawl_worker_start(f->worker, &f->err));
    await_count(f, "pawl.history WHERE state = 'done' AND result = 'edge'", 1);
    assert_int_equal(count_of(f, "pawl.history WHERE kind = 'noop' AND payload = ''"), 1);
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

static void on_settled(void *data, const struct pawl_settled *settled)
{
    assert_string_equal(settled->state, "done");
    *(int *)data += 1;
}

static void on_number(void *data, const char *name, int64_t value)
{
    if (strcmp(name, "done") == 0)
        *(int64_t *)data = value;
}

static void commands_run_beside_functions(void **state)
{
    struct fixture *f = *state;
    int64_t done = -1;
    int told = 0;

    serve(f);
    f->options.settled = on_settled;
    f->options.settled_data = &told;
    enqueue(f, "noop", 10);
    enqueue(f, "cat", 10);
    make_worker(f, NULL, NULL);
    OK(pawl_worker_exec(f->worker, "cat", "cat", &f->err));
    OK(pawl_worker_start(f->worker, &f->err));
    await_count(f, "pawl.history WHERE state = 'done'", 20);
    pawl_worker_stop(f->worker);
    OK(pawl_worker_wait(f->worker, WATCHDOG_MS, &f->err));
    assert_int_equal(count_of(f, "pawl.history WHERE result = '7'"), 1);
    assert_int_equal(told, 20);
    pawl_worker_stats_each(f->worker, on_number, &done);
    assert_int_equal(done, 20);
}

static void jobs_go_by_it_all_or_none(void **state)
{
    static const char *const tags[] = {"a", "b"};
    struct fixture *f = *state;
    struct pawl_server_options options = PAWL_SERVER_OPTIONS_INIT;
    struct pawl_server *it = NULL;
    struct pawl_job_new jobs[] = {PAWL_JOB_NEW_INIT, PAWL_JOB_NEW_INIT, PAWL_JOB_NEW_INIT};
    int64_t ids[LEN(jobs)] = {77, 77, 77};
    bool existed[LEN(jobs)];

    serve(f);
    options.address = server.address;
    OK(pawl_server_new(&options, &it, &f->err));
    jobs[0].kind = jobs[1].kind = jobs[2].kind = "k";
    jobs[0].payload = "\0no JSON";
    jobs[0].payload_len = 8;
    jobs[1].unique_key = jobs[2].unique_key = "key";
    jobs[1].tags = tags;
    jobs[1].n_tags = LEN(tags);
    jobs[1].priority = 0;
    jobs[2].queue = "not a queue";
    EXPECT(PAWL_EINVAL, pawl_server_enqueue(it, jobs, LEN(jobs), ids, existed, &f->err));
    assert_non_null(strstr(f->err.message, "job 3 of 3"));
    assert_int_equal(ids[0], 77);
    jobs[2].queue = NULL;
    jobs[2].parent_id = 1;
    EXPECT(PAWL_EINVAL, pawl_server_enqueue(it, jobs, LEN(jobs), ids, existed, &f->err));
    jobs[2].parent_id = 0;
    assert_int_equal(count_of(f, "pawl.job"), 0);
    OK(pawl_server_enqueue(it, jobs, LEN(jobs), ids, existed, &f->err));
    assert_true(!existed[0] && !existed[1] && existed[2]);
    assert_true(ids[0] < ids[1] && ids[1] == ids[2]);
    assert_int_equal(count_of(f, "pawl.job"), 2);
    assert_int_equal(count_of(f, "pawl.job WHERE payload = '\\x006e6f204a534f4e'"), 1);
    assert_int_equal(
        count_of(f, "pawl.job WHERE priority = 0 AND meta -> 'tags' = '[\"a\",\"b\"]'"), 1);
    OK(pawl_server_enqueue(it, jobs, 0, NULL, NULL, NULL));
    OK(pawl_server_enqueue(it, jobs, 1, NULL, NULL, NULL));
    assert_int_equal(count_of(f, "pawl.job"), 3);
    /* The key is held by one that waits: taken, or not, as is asked. */
    jobs[2].unique_states = PAWL_UNIQUE_PARKED | PAWL_UNIQUE_WAITING;
    OK(pawl_server_enqueue(it, &jobs[2], 1, ids, existed, &f->err));
    assert_true(existed[0]);
    jobs[2].unique_states = PAWL_UNIQUE_RUNNING;
    OK(pawl_server_enqueue(it, &jobs[2], 1, ids, existed, &f->err));
    assert_false(existed[0]);
    pawl_server_free(it);
}

static void a_call_takes_so_much_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct pawl_server_options options = PAWL_SERVER_OPTIONS_INIT;
    struct pawl_server *it = NULL;
    struct pawl_job_new *jobs = calloc(1001, sizeof(*jobs));
    char *payload = calloc(1, PAWL_PAYLOAD_MAX);

    assert_true(jobs != NULL && payload != NULL);
    for (size_t i = 0; i < 1001; i++) {
        jobs[i] = PAWL_JOB_NEW_INIT;
        jobs[i].kind = "k";
    }
    options.address = "127.0.0.1:1"; /* nobody is asked */
    OK(pawl_server_new(&options, &it, &f->err));
    EXPECT(PAWL_ELIMIT, pawl_server_enqueue(it, jobs, 1001, NULL, NULL, &f->err));
    jobs[0].payload = jobs[1].payload = payload;
    jobs[0].payload_len = jobs[1].payload_len = PAWL_PAYLOAD_MAX / 2 + 1;
    EXPECT(PAWL_ELIMIT, pawl_server_enqueue(it, jobs, 2, NULL, NULL, &f->err));
    EXPECT(PAWL_ECONN, pawl_server_enqueue(it, jobs, 1, NULL, NULL, &f->err));
    pawl_server_free(it);
    free(payload);
    free(jobs);
}

static void a_server_that_makes_no_sense_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pawl_server_options options = PAWL_SERVER_OPTIONS_INIT;
    struct pawl_server *it = (void *)f;

    EXPECT(PAWL_EINVAL, pawl_server_new(&options, &it, &f->err));
    options.address = "not an address";
    EXPECT(PAWL_EINVAL, pawl_server_new(&options, &it, &f->err));
    options.address = "127.0.0.1:1";
    options.token = "with a blank";
    EXPECT(PAWL_EINVAL, pawl_server_new(&options, &it, &f->err));
    options.token = NULL;
    options.tls_ca = "/nonexistent";
    EXPECT(PAWL_EINVAL, pawl_server_new(&options, &it, &f->err));
    options.tls_ca = NULL;
    options.timeout_ms = -1;
    EXPECT(PAWL_EINVAL, pawl_server_new(&options, &it, &f->err));
    options.size = 1;
    EXPECT(PAWL_EINVAL, pawl_server_new(&options, &it, &f->err));
    assert_ptr_equal(it, f);
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
        REMOTE(outcomes_at_their_edges_mean_what_they_mean_with_a_database),
        REMOTE(the_number_at_a_time_may_change),
        REMOTE(commands_run_beside_functions),
        REMOTE(jobs_go_by_it_all_or_none),
        REMOTE(a_call_takes_so_much_and_no_more),
        REMOTE(a_server_that_makes_no_sense_is_refused),
        REMOTE(what_is_wrong_is_said_when_it_starts),
    };

    return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
