/*
 * Process hands with real processes: what a command sees and what its ending means.
 */
#include "hands/processes.h"

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

/* ── payload and result ── */

static void payload_with_nul_bytes_comes_back_exactly(void **state)
{
    const char payload[] = "a\0b\0\xff\n\n";
    struct record *record = run_with(*state, "cat", payload, sizeof(payload) - 1);
    assert_int_equal(record->kind, OUTCOME_DONE);
    /* One newline less. */
    assert_int_equal(record->result_len, sizeof(payload) - 2);
    assert_memory_equal(record->result, payload, sizeof(payload) - 2);
}

static void empty_payload_is_an_empty_stdin_and_no_output_no_result(void **state)
{
    struct record *record = run_with(*state, "cat", NULL, 0);
    assert_int_equal(record->kind, OUTCOME_DONE);
    assert_null(record->result);
    record = run_with(*state, "wc -c", NULL, 0);
    assert_result(record, "0");
    record = run_with(*state, "echo", NULL, 0);
    assert_null(record->result);
}

static void largest_payload_goes_in_and_comes_out(void **state)
{
    struct fixture *f = *state;
    char *payload = malloc(PAWL_PAYLOAD_MAX);
    assert_non_null(payload);
    for (size_t i = 0; i < PAWL_PAYLOAD_MAX; i++)
        payload[i] = (char)(i * 31 + (i >> 13));
    struct processes_handler handler = {.kind = "test", .command = "cat"};
    hands_open_with(f,
                    &(struct processes_options){
                        .handlers = &handler, .n_handlers = 1, .result_max = PAWL_PAYLOAD_MAX});
    struct record *record = record_next(f, payload, PAWL_PAYLOAD_MAX);
    start(f, record);
    run_all(f);
    assert_int_equal(record->kind, OUTCOME_DONE);
    assert_int_equal(record->result_len, PAWL_PAYLOAD_MAX);
    assert_true(memcmp(record->result, payload, PAWL_PAYLOAD_MAX) == 0);
    free(payload);
}

static void large_payload_is_not_needed_to_be_read(void **state)
{
    size_t len = 1024 * 1024;
    char *payload = calloc(1, len);
    assert_non_null(payload);
    /* SIGPIPE at its default would end this test here and now. */
    struct sigaction old;
    assert_int_equal(sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, &old), 0);
    assert_result(run_with(*state, "exec <&-; echo closed", payload, len), "closed");
    assert_result(run_with(*state, "head -c 5 >/dev/null; exec 0<&-; echo some", payload, len),
                  "some");
    assert_result(run_with(*state, "echo unread", payload, len), "unread");
    sigaction(SIGPIPE, &old, NULL);
    free(payload);
}

static void result_at_the_limit_is_kept_and_beyond_it_fails(void **state)
{
    struct fixture *f = *state;
    struct processes_handler handlers[] = {{"at", "printf 12345678"},
                                           {"newline", "echo 12345678"},
                                           {"over", "printf 123456789; echo why >&2"},
                                           {"far", "head -c 3000000 /dev/zero"},
                                           {"far_and_failed", "head -c 3000000 /dev/zero; exit 3"}};
    hands_open_with(
        f, &(struct processes_options){.handlers = handlers, .n_handlers = 5, .result_max = 8});
    for (size_t i = 0; i < 5; i++) {
        struct record *record = record_next(f, NULL, 0);
        record->run.job.kind = handlers[i].kind;
        start(f, record);
    }
    run_all(f);
    assert_result(&f->records[0], "12345678");
    assert_result(&f->records[1], "12345678");
    assert_error(&f->records[2], OUTCOME_FAIL, "8 bytes");
    assert_error(&f->records[2], OUTCOME_FAIL, "\nwhy");
    assert_error(&f->records[3], OUTCOME_FAIL, "8 bytes");
    assert_error(&f->records[4], OUTCOME_RETRY, "exit status 3");
}

/* ── endings ── */

static void exit_statuses_mean_what_is_documented(void **state)
{
    struct record *record = run_one(*state, "exit 1");
    assert_error(record, OUTCOME_RETRY, "exit status 1");
    assert_string_equal(record->error, "exit status 1");
    assert_int_equal(record->delay_ms, -1);
    assert_true(record->run_us > 0);
    assert_error(run_one(*state, "exit 75"), OUTCOME_RETRY, "exit status 75");
    assert_error(run_one(*state, "exit 65"), OUTCOME_FAIL, "exit status 65");
    assert_error(run_one(*state, "exit 255"), OUTCOME_RETRY, "exit status 255");
    assert_error(run_one(*state, "exit 137"), OUTCOME_RETRY, "signal 9, Killed");
}

static void missing_command_is_retried_with_a_hint(void **state)
{
    assert_error(run_one(*state, "/nonexistent/command"), OUTCOME_RETRY, "exit status 127");
    assert_error(run_one(*state, "/nonexistent/command"), OUTCOME_RETRY, "was not found");
    assert_error(run_one(*state, "/dev/null"), OUTCOME_RETRY, "cannot be executed");
}

static void death_by_a_signal_is_named(void **state)
{
    struct record *record = run_one(*state, "kill -9 $$");
    assert_error(record, OUTCOME_RETRY, "killed by signal 9 (Killed)");
    assert_error(run_one(*state, "kill -TERM $$"), OUTCOME_RETRY, "signal 15 (Terminated)");
}

static void last_lines_of_stderr_are_part_of_the_error(void **state)
{
    struct record *record = run_one(*state, "echo one >&2; echo two >&2; exit 2");
    assert_string_equal(record->error, "exit status 2\none\ntwo");
    /* Only the end of much, from the beginning of a line. */
    record = run_one(*state, "seq 100000 >&2; exit 2");
    assert_error(record, OUTCOME_RETRY, "\n99999\n100000");
    assert_true(strlen(record->error) < 2100);
    const char *first = strchr(record->error, '\n') + 1;
    assert_int_equal(strcspn(first, "\n"), 5);
    assert_true(strlen(record->error) > 2000);
}

static void bytes_on_stderr_that_are_not_text_become_text(void **state)
{
    struct record *record = run_one(*state, "printf 'a\\377b\\000c\\303\\244\\303' >&2; exit 1");
    assert_string_equal(record->error,
                        "exit status 1\na\xEF\xBF\xBD"
                        "b\xEF\xBF\xBD"
                        "c\xC3\xA4\xEF\xBF\xBD");
    /* The worst case still fits: nothing but bad bytes. */
    record = run_one(*state, "head -c 50000 /dev/zero >&2; exit 1");
    assert_int_equal(strlen(record->error), strlen("exit status 1\n") + 3 * 2048);
    /* A cut inside a character (2048 is no multiple of 3) leaves no half of it. */
    record = run_one(
        *state,
        "i=0; while [ $i -lt 2000 ]; do printf '\\342\\202\\254' >&2; i=$((i+1)); done; exit 1");
    assert_null(strstr(record->error, "\xEF\xBF\xBD"));
    assert_non_null(strstr(record->error, "\n\xE2\x82\xAC"));
}

/* ── what a command sees ── */

static void environment_names_the_job_and_keeps_what_was_there(void **state)
{
    setenv("PAWL_JOB_ID", "stale", 1);
    setenv("HANDS_TEST", "inherited", 1);
    struct fixture *f = *state;
    hands_open(f,
               "echo $HANDS_TEST $PAWL_JOB_ID $PAWL_JOB_KIND $PAWL_JOB_QUEUE $PAWL_JOB_ATTEMPT "
               "$PAWL_JOB_MAX_ATTEMPTS $PAWL_JOB_TOKEN; env | grep -c ^PAWL_JOB_");
    unsetenv("PAWL_JOB_ID");
    unsetenv("HANDS_TEST");
    struct record *record = record_next(f, NULL, 0);
    record->run.job.token = (struct uuid){{0x01, 0x23, 0x45, 0x67, [15] = 0xff}};
    start(f, record);
    run_all(f);
    assert_result(record, "inherited 4711 test mail 2 7 01234567-0000-0000-0000-0000000000ff\n6");
}

static void command_inherits_no_descriptor_but_its_five(void **state)
{
    /* Not close-on-exec, as a host program may leave them. */
    int leak = open("/dev/null", O_RDONLY);
    int high = fcntl(leak, F_DUPFD, 200);
    assert_true(leak >= 0 && high >= 200);
    struct fixture *f = *state;
    /* 5 is the directory that ls reads. */
    assert_result(run_one(f, "ls /proc/self/fd | tr '\\n' ' '"), "0 1 2 3 4 5 ");
    close(leak);
    close(high);
}

static void a_line_on_descriptor_3_says_how_the_job_goes_on(void **state)
{
    struct fixture *f = *state;
    struct record *record = run_one(f, "echo printed; echo '{\"done\":[1.0]}' >&3");

    /* What it printed is no result then. */
    assert_result(record, "[1.0]");
    record = run_one(f, "printf '{\"stop\":\"no use\"}' >/dev/fd/3");
    assert_error(record, OUTCOME_FAIL, "no use");
    /* Said, and then failed: it failed. */
    record = run_one(f, "echo '{\"done\":1}' >&3; exit 3");
    assert_error(record, OUTCOME_RETRY, "exit status 3");
}

static void a_wrong_line_is_a_failure_of_the_run(void **state)
{
    struct fixture *f = *state;

    assert_error(run_one(f, "echo nonsense >&3"), OUTCOME_RETRY, "the control line is wrong");
    assert_error(run_one(f, "echo '{\"nxt\":\"a\"}' >&3; echo sorry >&2"), OUTCOME_RETRY, "sorry");
    assert_error(run_one(f, "printf '\\n' >&3"), OUTCOME_RETRY, "the control line is wrong");
    /* More than a line may have, and more than a pipe holds: it is read on, so that the command can
     * end. */
    assert_error(run_one(f, "head -c 17000000 /dev/zero >&3"), OUTCOME_RETRY, "more than 16777216");
}

static void a_line_longer_than_a_pipe_arrives_whole(void **state)
{
    struct fixture *f = *state;
    struct record *record = run_one(
        f, "{ printf '{\"done\":\"'; head -c 1000000 /dev/zero | tr '\\0' a; printf '\"}'; } >&3");

    assert_int_equal(record->kind, OUTCOME_DONE);
    assert_int_equal(record->result_len, 1000002);
}

static void descriptor_4_tells_where_the_job_is(void **state)
{
    struct fixture *f = *state;

    assert_result(run_one(f, "read -r line <&4; echo \"$line\""),
                  "{\"step\":null,\"state\":null,\"signals\":[],\"children\":[],"
                  "\"children_left\":0,\"timed_out\":false,\"attempt\":2}");
}

/* Nobody waits for what a process that was left behind might still say. */
static void what_is_left_behind_does_not_hold_the_line_open(void **state)
{
    struct fixture *f = *state;

    assert_result(run_one(f, "setsid sh -c 'sleep 5' >/dev/null 2>&1 & echo '{\"done\":1}' >&3"),
                  "1");
}

static void command_has_clean_signals_and_its_own_group(void **state)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    struct sigaction old_action;
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &old_action);
    struct record *record = run_one(*state, "exec grep -E '^Sig(Blk|Ign)' /proc/self/status");
    sigaction(SIGPIPE, &old_action, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    unsigned long long blocked = 1;
    unsigned long long ignored = 1;
    assert_int_equal(record->kind, OUTCOME_DONE);
    char text[128] = "";
    assert_true(record->result_len < sizeof(text));
    memcpy(text, record->result, record->result_len);
    assert_int_equal(sscanf(text, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    /* 32 and 33 are the C library's own; its posix_spawn leaves them ignored, and no program can
     * see them. */
    assert_int_equal(blocked, 0);
    assert_int_equal(ignored & ~(3ULL << 31), 0);
    record = run_one(*state, "test \"$(cut -d' ' -f5 /proc/$$/stat)\" = $$ && echo leader");
    assert_result(record, "leader");
}

/* What the host prints must not end up in a pipe of a job. */
static void host_without_stdio_does_not_print_into_jobs(void **state)
{
    struct fixture *f = *state;
    size_t len = 1024 * 1024;
    char *payload = calloc(1, len);
    assert_non_null(payload);
    hands_open(f, "wc -c");
    struct record *record = record_next(f, payload, len);
    int kept[3];
    for (int i = 0; i < 3; i++)
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
    for (int i = 0; i < 3; i++)
        close(i);
    struct pawl_err err = {0};
    int r = try_start(f, record, &err);
    unsigned n_pipes = 0;
    for (int i = 0; i < 3; i++) {
        struct stat st;
        n_pipes += fstat(i, &st) == 0 && S_ISFIFO(st.st_mode);
    }
    run_all(f);
    for (int i = 0; i < 3; i++) {
        if (kept[i] >= 0) {
            dup2(kept[i], i);
            close(kept[i]);
        }
    }
    free(payload);
    assert_int_equal(r, 0);
    assert_int_equal(n_pipes, 0);
    assert_result(record, "1048576");
}

/* ── many, and too many ── */

static void fifty_at_once_do_not_mix(void **state)
{
    struct fixture *f = *state;
    char payloads[50][16];
    hands_open(f, "cat; cat >&2 /dev/null");
    for (size_t i = 0; i < 50; i++) {
        int n = snprintf(payloads[i], sizeof(payloads[i]), "payload %zu", i);
        start(f, record_next(f, payloads[i], (size_t)n));
    }
    run_all(f);
    for (size_t i = 0; i < 50; i++)
        assert_result(&f->records[i], payloads[i]);
}

static void lack_of_descriptors_is_an_error_and_leaks_nothing(void **state)
{
    struct fixture *f = *state;
    char *payload = calloc(1, 1024 * 1024); /* needs the most descriptors */
    assert_non_null(payload);
    hands_open(f, "wc -c");
    size_t n_fds = count_fds();
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    int next = dup(0);
    close(next);
    unsigned n_failed = 0;
    int r = -1;
    for (unsigned room = 0; r != 0; room++) {
        assert_true(room < 20);
        struct pawl_err err = {0};
        struct rlimit low = {.rlim_cur = (rlim_t)next + room, .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        r = try_start(f, record_next(f, payload, 1024 * 1024), &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        if (r == 0)
            break;
        n_failed++;
        assert_int_equal(r, PAWL_EFULL);
        assert_int_equal(err.code, PAWL_EFULL);
        assert_int_equal(count_fds(), n_fds);
    }
    assert_true(n_failed >= 6);
    run_all(f);
    assert_result(&f->records[0], "1048576");
    free(payload);
}

static void host_that_ignores_sigchld_gets_an_honest_error(void **state)
{
    /* More than a pipe holds: the command cannot end before the loop has run. */
    size_t len = 1024 * 1024;
    char *payload = calloc(1, len);
    assert_non_null(payload);
    struct sigaction old;
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_IGN}, &old);
    struct record *record = run_with(*state, "cat >/dev/null", payload, len);
    sigaction(SIGCHLD, &old, NULL);
    free(payload);
    assert_error(record, OUTCOME_RETRY, "exit status unknown");
}

/* ── making hands, and the log ── */

static void bad_handlers_are_refused(void **state)
{
    struct fixture *f = *state;
    struct pawl_err err;
    struct processes_handler twice[] = {{"a", "true"}, {"a", "false"}};
    struct processes_handler empty = {"a", " "};
    struct processes_handler name = {"a b", "true"};
    assert_null(processes_new(
        &f->loop, &(struct processes_options){.handlers = twice, .n_handlers = 2}, &err));
    assert_int_equal(err.code, PAWL_EINVAL);
    assert_null(processes_new(
        &f->loop, &(struct processes_options){.handlers = &empty, .n_handlers = 1}, &err));
    assert_int_equal(err.code, PAWL_EINVAL);
    assert_null(processes_new(
        &f->loop, &(struct processes_options){.handlers = &name, .n_handlers = 1}, &err));
    assert_int_equal(err.code, PAWL_EINVAL);
    assert_null(processes_new(&f->loop, &(struct processes_options){0}, &err));
    assert_int_equal(err.code, PAWL_EINVAL);
}

static void kinds_are_those_given_and_no_other_runs(void **state)
{
    struct fixture *f = *state;
    struct processes_handler handlers[] = {{"a", "echo of a"}, {"b", "echo of b"}};
    hands_open_with(f, &(struct processes_options){.handlers = handlers, .n_handlers = 2});
    const char *const *kinds = f->hands->ops->kinds(f->hands);
    assert_string_equal(kinds[0], "a");
    assert_string_equal(kinds[1], "b");
    assert_null(kinds[2]);
    struct record *record = record_next(f, NULL, 0);
    struct pawl_err err;
    assert_int_equal(try_start(f, record, &err), PAWL_ENOTFOUND);
    record->run.job.kind = "b";
    start(f, record);
    run_all(f);
    assert_result(record, "of b");
}

static void stderr_is_logged_line_by_line_when_asked(void **state)
{
    struct fixture *f = *state;
    FILE *file = tmpfile();
    assert_non_null(file);
    struct log log;
    log_init(&log, fileno(file), LOG_INFO);
    struct processes_handler handler = {
        "test", "printf 'one\\ntwo\\r\\n\\nlast' >&2; head -c 3000 /dev/zero | tr '\\0' x >&2"};
    hands_open_with(f,
                    &(struct processes_options){
                        .handlers = &handler, .n_handlers = 1, .log = &log, .log_stderr = true});
    start(f, record_next(f, "secret", 6));
    run_all(f);
    char text[8192] = "";
    rewind(file);
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "\"one\""));
    assert_non_null(strstr(text, "\"two\""));
    assert_non_null(strstr(text, "\"lastxxx"));
    assert_null(strstr(text, "secret"));
    size_t lines = 0;
    for (const char *s = text; (s = strstr(s, "job_stderr")); s++)
        lines++;
    assert_int_equal(lines, 2 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(payload_with_nul_bytes_comes_back_exactly),
        TEST(empty_payload_is_an_empty_stdin_and_no_output_no_result),
        TEST(largest_payload_goes_in_and_comes_out),
        TEST(large_payload_is_not_needed_to_be_read),
        TEST(result_at_the_limit_is_kept_and_beyond_it_fails),
        TEST(exit_statuses_mean_what_is_documented),
        TEST(missing_command_is_retried_with_a_hint),
        TEST(death_by_a_signal_is_named),
        TEST(last_lines_of_stderr_are_part_of_the_error),
        TEST(bytes_on_stderr_that_are_not_text_become_text),
        TEST(environment_names_the_job_and_keeps_what_was_there),
        TEST(command_inherits_no_descriptor_but_its_five),
        TEST(a_line_on_descriptor_3_says_how_the_job_goes_on),
        TEST(a_wrong_line_is_a_failure_of_the_run),
        TEST(a_line_longer_than_a_pipe_arrives_whole),
        TEST(descriptor_4_tells_where_the_job_is),
        TEST(what_is_left_behind_does_not_hold_the_line_open),
        TEST(command_has_clean_signals_and_its_own_group),
        TEST(host_without_stdio_does_not_print_into_jobs),
        TEST(fifty_at_once_do_not_mix),
        TEST(lack_of_descriptors_is_an_error_and_leaks_nothing),
        TEST(host_that_ignores_sigchld_gets_an_honest_error),
        TEST(bad_handlers_are_refused),
        TEST(kinds_are_those_given_and_no_other_runs),
        TEST(stderr_is_logged_line_by_line_when_asked),
    };
    return cmocka_run_group_tests(tests, processes_group_setup, NULL);
}
