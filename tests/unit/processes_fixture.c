/*
 * Process hands in a loop of their own, for tests.
 */
#include "processes_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dirent.h>

size_t count_fds(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void on_finished(void *data, struct run *run, const struct outcome *outcome)
{
    struct fixture *f = data;
    struct record *record = (struct record *)(void *)run;
    assert_false(f->inside_run);
    record->n_finished++;
    record->kind = outcome->kind;
    record->delay_ms = outcome->delay_ms;
    record->run_us = outcome->run_us;
    if (outcome->result) {
        record->result = malloc(outcome->result_len);
        assert_non_null(record->result);
        memcpy(record->result, outcome->result, outcome->result_len);
        record->result_len = outcome->result_len;
    }
    if (outcome->error)
        record->error = strdup(outcome->error);
    /* From here on the run is the coordinator's; hands that look into it are caught. */
    memset(run, 0xA5, sizeof(*run));
    f->n_finished++;
}

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    fprintf(stderr, "a run was not reported in time\n");
    abort();
}

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->n_fds = count_fds();
    assert_int_equal(uv_loop_init(&f->loop), 0);
    uv_timer_init(&f->loop, &f->watchdog);
    uv_timer_start(&f->watchdog, on_watchdog, WATCHDOG_MS, 0);
    uv_unref((uv_handle_t *)&f->watchdog);
    *state = f;
    return 0;
}

void on_hands_closed(void *data)
{
    struct fixture *f = data;
    f->closed = true;
}

void hands_close(struct fixture *f)
{
    if (!f->hands)
        return;
    processes_close(f->hands, on_hands_closed, f);
    assert_false(f->closed);
    while (!f->closed)
        uv_run(&f->loop, UV_RUN_ONCE);
    f->hands = NULL;
}

/* Whatever a test did: every run reported once, nothing running, no zombie, no descriptor, no
 * handle left. */
int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    hands_close(f);
    uv_close((uv_handle_t *)&f->watchdog, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    assert_int_equal(f->n_finished, f->n_started);
    for (size_t i = 0; i < f->n_started; i++) {
        assert_int_equal(f->records[i].n_finished, 1);
        free(f->records[i].result);
        free(f->records[i].error);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_fds(), f->n_fds);
    free(f);
    return 0;
}

void hands_open_with(struct fixture *f, const struct processes_options *options)
{
    struct pawl_err err = {0};
    f->hands = processes_new(&f->loop, options, &err);
    if (!f->hands)
        fail_msg("%s", err.message);
    f->hands->finished = on_finished;
    f->hands->finished_data = f;
}

void hands_open(struct fixture *f, const char *command)
{
    struct processes_handler handler = {.kind = "test", .command = command};
    hands_open_with(f, &(struct processes_options){.handlers = &handler, .n_handlers = 1});
}

struct record *record_next(struct fixture *f, const char *payload, size_t len)
{
    assert_true(f->n_started < PROCESSES_RUNS_MAX);
    struct record *record = &f->records[f->n_started];
    record->run.job = (struct job){.id = 4711,
                                   .queue = "mail",
                                   .kind = "test",
                                   .attempt = 2,
                                   .max_attempts = 7,
                                   .payload = payload,
                                   .payload_len = len};
    return record;
}

int try_start(struct fixture *f, struct record *record, struct pawl_err *err)
{
    f->inside_run = true;
    int r = f->hands->ops->run(f->hands, &record->run, err);
    f->inside_run = false;
    if (r == 0)
        f->n_started++;
    return r;
}

void start(struct fixture *f, struct record *record)
{
    struct pawl_err err = {0};
    if (try_start(f, record, &err) != 0)
        fail_msg("%s: %s", err.message, err.detail);
}

void run_all(struct fixture *f)
{
    while (f->n_finished < f->n_started)
        uv_run(&f->loop, UV_RUN_ONCE);
}

/* Runs one command with one payload to its end. */
struct record *run_with(struct fixture *f, const char *command, const char *payload, size_t len)
{
    hands_open(f, command);
    struct record *record = record_next(f, payload, len);
    start(f, record);
    run_all(f);
    hands_close(f);
    f->closed = false;
    return record;
}

struct record *run_one(struct fixture *f, const char *command)
{
    return run_with(f, command, "{}", 2);
}

void assert_result(const struct record *record, const char *result)
{
    if (record->kind != OUTCOME_DONE)
        fail_msg("not done: %s", record->error);
    assert_int_equal(record->result_len, strlen(result));
    assert_memory_equal(record->result, result, record->result_len);
}

void assert_error(const struct record *record, enum outcome_kind kind, const char *part)
{
    assert_int_equal(record->kind, kind);
    assert_non_null(record->error);
    if (!strstr(record->error, part))
        fail_msg("'%s' not in '%s'", part, record->error);
}

void hands_open_quick(struct fixture *f, const char *command, int64_t term_grace_ms)
{
    struct processes_handler handler = {.kind = "test", .command = command};
    hands_open_with(f,
                    &(struct processes_options){
                        .handlers = &handler, .n_handlers = 1, .term_grace_ms = term_grace_ms});
}

int processes_group_setup(void **state)
{
    (void)state;
    uv_loop_t loop;
    int r = uv_loop_init(&loop);
    return r < 0 ? r : uv_loop_close(&loop);
}
