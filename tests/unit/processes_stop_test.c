/*
 * Process hands with real processes: ending early, by timeout, stop and close, with everything a
 * command started.
 */
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

#include "processes_fixture.h"

/* ── ending early ── */

static bool gone_or_zombie(pid_t pid)
{
    char path[64];
    char stat[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return true;
    size_t n = fread(stat, 1, sizeof(stat) - 1, file);
    fclose(file);
    stat[n] = '\0';
    const char *end = strrchr(stat, ')');
    return !end || end[2] == 'Z' || end[2] == 'X';
}

/* SIGKILL was sent; the kernel may take a moment to act. A process that survives hangs here until
 * the watchdog of meson. */
static void await_gone(pid_t pid)
{
    while (!gone_or_zombie(pid))
        sched_yield();
}

/* The number a command printed on its stderr. */
static pid_t pid_in_error(const struct record *record)
{
    const char *line = strstr(record->error, "\npid ");
    assert_non_null(line);
    pid_t pid = (pid_t)strtol(line + 5, NULL, 10);
    assert_true(pid > 1);
    return pid;
}

static pid_t pid_in_result(const struct record *record)
{
    assert_int_equal(record->kind, OUTCOME_DONE);
    char text[32] = "";
    assert_true(record->result_len < sizeof(text));
    memcpy(text, record->result, record->result_len);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    assert_true(pid > 1);
    return pid;
}

/* A place to meet, which commands find as $READY. One at a time; what a failed test left goes at
 * the end. */
static struct {
    char dir[64];
    char path[80];
} fifo;

static void fifo_remove(void)
{
    unsetenv("READY");
    if (fifo.dir[0] == '\0')
        return;
    unlink(fifo.path);
    rmdir(fifo.dir);
    fifo.dir[0] = '\0';
}

static int fifo_teardown(void **state)
{
    (void)state;
    fifo_remove();
    return 0;
}

static void fifo_make(void)
{
    fifo_remove();
    snprintf(fifo.dir, sizeof(fifo.dir), "/tmp/pawl-hands-XXXXXX");
    assert_non_null(mkdtemp(fifo.dir));
    snprintf(fifo.path, sizeof(fifo.path), "%s/ready", fifo.dir);
    assert_int_equal(mkfifo(fifo.path, 0600), 0);
    setenv("READY", fifo.path, 1);
}

/* Until the command reads from the fifo: then its traps are set. */
static void await_ready(struct fixture *f)
{
    int fd;
    while ((fd = open(fifo.path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
        assert_int_equal(errno, ENXIO);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    close(fd);
}

/* Time enough for the command to say its piece, also where a process stands still for a moment. */
#define TIMEOUT_MS 3000

static void timeout_ends_a_run_that_listens_to_sigterm(void **state)
{
    struct fixture *f = *state;
    hands_open(f, "sleep 1000 & echo pid $! >&2; wait");
    struct record *record = record_next(f, NULL, 0);
    record->run.job.timeout_ms = TIMEOUT_MS;
    start(f, record);
    run_all(f);
    assert_error(record, OUTCOME_RETRY, "ran longer than its timeout of 3000 ms");
    assert_error(record, OUTCOME_RETRY, "signal 15");
    assert_int_equal(record->delay_ms, -1);
    assert_true(record->run_us >= TIMEOUT_MS * US_PER_MS);
    assert_true(record->run_us < (TIMEOUT_MS + PROCESSES_TERM_GRACE_MS) * US_PER_MS);
    await_gone(pid_in_error(record));
}

static void timeout_kills_the_whole_group_when_sigterm_is_ignored(void **state)
{
    struct fixture *f = *state;
    hands_open_quick(f, "trap '' TERM; sleep 1000 & echo pid $! >&2; wait; wait; wait", 50);
    struct record *record = record_next(f, NULL, 0);
    record->run.job.timeout_ms = TIMEOUT_MS;
    start(f, record);
    run_all(f);
    assert_error(record, OUTCOME_RETRY, "timeout of 3000 ms; killed by signal 9");
    await_gone(pid_in_error(record));
}

static void timeout_that_is_not_reached_changes_nothing(void **state)
{
    struct fixture *f = *state;
    hands_open(f, "echo quick");
    struct record *record = record_next(f, NULL, 0);
    record->run.job.timeout_ms = WATCHDOG_MS;
    start(f, record);
    run_all(f);
    assert_result(record, "quick");
}

static void grandchild_that_holds_stdout_does_not_hold_the_slot(void **state)
{
    struct record *record = run_one(*state, "sleep 1000 & echo $!");
    await_gone(pid_in_result(record));
}

static void grandchild_that_holds_nothing_is_killed_too(void **state)
{
    struct record *record = run_one(*state, "sleep 1000 >/dev/null 2>&1 & echo $!");
    await_gone(pid_in_result(record));
}

static void grandchild_that_left_the_group_does_not_hold_the_slot(void **state)
{
    fifo_make();
    struct record *record = run_one(*state,
                                    "setsid sh -c 'echo $$; echo >\"$READY\"; exec sleep 1000' & "
                                    "read x <\"$READY\"");
    fifo_remove();
    pid_t pid = pid_in_result(record);
    assert_int_equal(kill(pid, SIGKILL), 0);
    await_gone(pid);
}

static void stop(struct fixture *f, struct record *record, enum stop_reason reason)
{
    f->inside_run = true; /* nothing is reported from inside a stop either */
    f->hands->ops->stop(f->hands, &record->run, reason);
    f->inside_run = false;
}

static void the_reason_of_a_stop_decides_the_outcome(void **state)
{
    static const struct {
        enum stop_reason reason;
        enum outcome_kind kind;
        int64_t delay_ms;
        const char *error;
    } cases[] = {
        {STOP_SHUTDOWN, OUTCOME_RETRY, 0, "stopped by the shutdown"},
        {STOP_CANCELLED, OUTCOME_CANCEL, -1, "cancelled"},
        {STOP_TIMEOUT, OUTCOME_RETRY, -1, "timeout"},
        {STOP_LOST, OUTCOME_RETRY, -1, "lease was lost"},
    };
    struct fixture *f = *state;
    hands_open(f, "sleep 1000");
    for (size_t i = 0; i < 4; i++) {
        struct record *record = record_next(f, NULL, 0);
        start(f, record);
        stop(f, record, cases[i].reason);
        run_all(f);
        assert_error(record, cases[i].kind, cases[i].error);
        assert_int_equal(record->delay_ms, cases[i].delay_ms);
    }
}

/* Exit 0 after SIGTERM is not taken for done: too many programs answer so without having finished.
 */
static void stopped_run_that_exits_with_0_is_not_done(void **state)
{
    struct fixture *f = *state;
    fifo_make();
    hands_open(f, "trap 'exit 0' TERM; read x <\"$READY\"; sleep 1000 & wait");
    struct record *record = record_next(f, NULL, 0);
    start(f, record);
    await_ready(f);
    stop(f, record, STOP_SHUTDOWN);
    run_all(f);
    assert_error(record, OUTCOME_RETRY, "exit status 0");
    fifo_remove();
}

/* The shell dies of SIGTERM at once; the program under it cleans up and keeps its grace. */
static void program_under_a_dead_shell_keeps_its_grace(void **state)
{
    struct fixture *f = *state;
    fifo_make();
    hands_open(f,
               "sh -c 'trap \"sleep 0.4; echo cleaned >&2; exit\" TERM; read x <\"$READY\"; "
               "while :; do sleep 0.05; done'; true");
    struct record *record = record_next(f, NULL, 0);
    start(f, record);
    await_ready(f);
    stop(f, record, STOP_CANCELLED);
    run_all(f);
    assert_error(record, OUTCOME_CANCEL, "cleaned");
    fifo_remove();
}

static void second_stop_kills_at_once_and_the_weightier_reason_stays(void **state)
{
    struct fixture *f = *state;
    fifo_make();
    hands_open_quick(f, "trap '' TERM; read x <\"$READY\"; sleep 1000", 10 * WATCHDOG_MS);
    struct record *record = record_next(f, NULL, 0);
    start(f, record);
    await_ready(f);
    stop(f, record, STOP_CANCELLED);
    stop(f, record, STOP_SHUTDOWN);
    run_all(f);
    assert_error(record, OUTCOME_CANCEL, "killed by signal 9");
    fifo_remove();
}

static void halted_process_still_hears_sigterm(void **state)
{
    struct fixture *f = *state;
    hands_open_quick(f, "kill -STOP $$; sleep 1000", 10 * WATCHDOG_MS);
    struct record *record = record_next(f, NULL, 0);
    start(f, record);
    siginfo_t info;
    assert_int_equal(waitid(P_ALL, 0, &info, WSTOPPED | WNOWAIT), 0);
    stop(f, record, STOP_CANCELLED);
    run_all(f);
    assert_error(record, OUTCOME_CANCEL, "killed by signal 15");
}

static void run_that_had_ended_before_the_stop_keeps_its_ending(void **state)
{
    struct fixture *f = *state;
    hands_open(f, "echo done");
    struct record *record = record_next(f, NULL, 0);
    start(f, record);
    /* The loop does not run, so the hands have not seen it. */
    siginfo_t info;
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
    stop(f, record, STOP_CANCELLED);
    run_all(f);
    assert_result(record, "done");
}

static void closing_kills_and_reports_what_still_runs(void **state)
{
    struct fixture *f = *state;
    hands_open_quick(f, "trap '' TERM; sleep 1000", 10 * WATCHDOG_MS);
    for (size_t i = 0; i < 3; i++)
        start(f, record_next(f, NULL, 0));
    struct hands *hands = f->hands;
    processes_close(hands, on_hands_closed, f);
    struct pawl_err err;
    assert_int_equal(try_start(f, record_next(f, NULL, 0), &err), PAWL_ESTATE);
    while (!f->closed)
        uv_run(&f->loop, UV_RUN_ONCE);
    f->hands = NULL;
    assert_int_equal(f->n_finished, 3);
    assert_error(&f->records[2], OUTCOME_RETRY, "shutdown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(timeout_ends_a_run_that_listens_to_sigterm),
        TEST(timeout_kills_the_whole_group_when_sigterm_is_ignored),
        TEST(timeout_that_is_not_reached_changes_nothing),
        TEST(grandchild_that_holds_stdout_does_not_hold_the_slot),
        TEST(grandchild_that_holds_nothing_is_killed_too),
        TEST(grandchild_that_left_the_group_does_not_hold_the_slot),
        TEST(the_reason_of_a_stop_decides_the_outcome),
        TEST(stopped_run_that_exits_with_0_is_not_done),
        TEST(program_under_a_dead_shell_keeps_its_grace),
        TEST(second_stop_kills_at_once_and_the_weightier_reason_stays),
        TEST(halted_process_still_hears_sigterm),
        TEST(run_that_had_ended_before_the_stop_keeps_its_ending),
        TEST(closing_kills_and_reports_what_still_runs),
    };
    return cmocka_run_group_tests(tests, processes_group_setup, fifo_teardown);
}
