/* err: what is filled in, what is emptied, and that a long text is cut between characters. */
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "check.h"

static void setting_replaces_everything_that_was_there(void **state)
{
    struct pawl_err err;

    (void)state;
    memset(&err, 'x', sizeof(err)); /* as an uninitialised one might be */
    assert_int_equal(err_set(&err, PAWL_EINVAL, "priority %d", 12), PAWL_EINVAL);
    assert_int_equal(err.code, PAWL_EINVAL);
    assert_string_equal(err.message, "priority 12");
    assert_string_equal(err.sqlstate, "");
    assert_string_equal(err.detail, "");
    assert_string_equal(err.hint, "");
    assert_int_equal(err_detail(&err, "It was %s.", "high"), PAWL_EINVAL);
    assert_int_equal(err_hint(&err, "Use %d.", 9), PAWL_EINVAL);
    assert_string_equal(err.message, "priority 12");
    assert_string_equal(err.detail, "It was high.");
    assert_string_equal(err.hint, "Use 9.");
    err_set(&err, PAWL_ECONN, "other");
    assert_string_equal(err.detail, "");
    assert_string_equal(err.hint, "");
    err_clear(&err);
    assert_int_equal(err.code, 0);
    assert_string_equal(err.message, "");
}

static void every_setter_accepts_no_error(void **state)
{
    (void)state;
    err_clear(NULL);
    assert_int_equal(err_set(NULL, PAWL_ESTALE, "x"), PAWL_ESTALE);
    assert_int_equal(err_set_errno(NULL, ENOSPC, "x"), PAWL_EFULL);
    assert_int_equal(err_detail(NULL, "x"), PAWL_EFAILED);
    assert_int_equal(err_hint(NULL, "x"), PAWL_EFAILED);
}

static void errno_becomes_a_code_and_a_detail(void **state)
{
    static const struct {
        int errnum, code;
    } rows[] = {
        {ENOSPC, PAWL_EFULL},
        {EDQUOT, PAWL_EFULL},
        {EMFILE, PAWL_EFULL},
        {ENFILE, PAWL_EFULL},
        {EACCES, PAWL_EDENIED},
        {EPERM, PAWL_EDENIED},
        {ENOMEM, PAWL_ENOMEM},
        {ENOENT, PAWL_ENOTFOUND},
        {EIO, PAWL_EFAILED},
        {999999, PAWL_EFAILED},
    };
    struct pawl_err err;

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        assert_int_equal(err_set_errno(&err, rows[i].errnum, "could not open %s", "x"),
                         rows[i].code);
        assert_int_equal(err.code, rows[i].code);
        assert_string_equal(err.message, "could not open x");
        char text[128];
        assert_string_equal(err.detail, strerror_r(rows[i].errnum, text, sizeof(text)));
    }
}

static void a_message_may_be_wrapped_in_place(void **state)
{
    struct pawl_err err;

    (void)state;
    err_set(&err, PAWL_ECONN, "no route");
    err_detail(&err, "It was down.");
    err_set(&err, err.code, "could not claim: %s (%s)", err.message, err.detail);
    assert_string_equal(err.message, "could not claim: no route (It was down.)");
    assert_string_equal(err.detail, "");
    err_detail(&err, "%s %s", err.message, "more");
    err_detail(&err, "again: %s", err.detail);
    assert_string_equal(err.detail, "again: could not claim: no route (It was down.) more");
}

static void a_prefix_goes_in_front_and_leaves_the_rest(void **state)
{
    struct pawl_err err;

    (void)state;
    err_set(&err, PAWL_EINVAL, "not valid JSON");
    err_hint(&err, "Mend it.");
    assert_int_equal(err_prefix(&err, "%s, line %d", "jobs.jsonl", 3), PAWL_EINVAL);
    assert_string_equal(err.message, "jobs.jsonl, line 3: not valid JSON");
    assert_string_equal(err.hint, "Mend it.");
    assert_int_equal(err_prefix(NULL, "x"), PAWL_EFAILED);
    err_set(&err, PAWL_EINVAL, "%250d", 1);
    err_prefix(&err, "in a file");
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_memory_equal(err.message, "in a file:  ", 12);
}

static void a_text_that_just_fits_is_whole(void **state)
{
    struct pawl_err err;

    (void)state;
    err_set(&err, PAWL_EFAILED, "%255d", 1);
    assert_int_equal(strlen(err.message), 255);
    assert_int_equal(err.message[254], '1');
    err_set(&err, PAWL_EFAILED, "%256d", 1);
    assert_int_equal(strlen(err.message), 255);
    assert_string_equal(err.message + 252, "\xe2\x80\xa6");
}

/* Whatever the place of the cut, before, in or behind a character of 2, 3 or 4 bytes. */
static void a_long_text_is_cut_between_characters(void **state)
{
    static const char *const chars[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    struct pawl_err err;
    char text[4096];

    (void)state;
    for (size_t c = 0; c < LEN(chars); c++) {
        for (size_t shift = 0; shift < 4; shift++) {
            size_t len = shift;
            memset(text, 'x', shift);
            for (; len + 4 < sizeof(text); len += strlen(chars[c]))
                memcpy(text + len, chars[c], strlen(chars[c]));
            text[len] = '\0';
            err_set(&err, PAWL_EFAILED, "%s", text);
            err_detail(&err, "%s", text);
            err_hint(&err, "%s", text);
            const char *const cut[] = {err.message, err.detail, err.hint};
            const size_t sizes[] = {sizeof(err.message), sizeof(err.detail), sizeof(err.hint)};
            for (size_t i = 0; i < LEN(cut); i++) {
                size_t n = strlen(cut[i]);
                assert_true(utf8_valid(cut[i], n));
                assert_string_equal(cut[i] + n - 3, "\xe2\x80\xa6");
                assert_true(n < sizes[i] && n >= sizes[i] - 4);
            }
        }
    }
}

static void every_code_has_its_name_text_and_exit_status(void **state)
{
    (void)state;
    assert_string_equal(err_code_name(PAWL_OK), "PAWL_OK");
    assert_int_equal(err_code_exit(PAWL_OK), 0);
    assert_string_equal(err_code_name(PAWL_EINVAL), "PAWL_EINVAL");
    assert_int_equal(err_code_exit(PAWL_EINVAL), 2);
    assert_int_equal(err_code_exit(PAWL_EINTERRUPTED), 130);
    assert_string_equal(err_code_text(PAWL_ENOMEM), "out of memory");
    for (int code = PAWL_EINTERRUPTED; code <= 0; code++) {
        assert_memory_equal(err_code_name(code), "PAWL_", 5);
        assert_true(strlen(err_code_text(code)) > 0);
        assert_true(code == 0 || err_code_exit(code) > 0);
    }
}

static void an_unknown_code_dies_in_a_debug_build(void **state)
{
    (void)state;
#ifdef NDEBUG
    assert_string_equal(err_code_name(-999), "PAWL_EFAILED");
#else
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        err_code_name(-999);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_replaces_everything_that_was_there),
        cmocka_unit_test(every_setter_accepts_no_error),
        cmocka_unit_test(errno_becomes_a_code_and_a_detail),
        cmocka_unit_test(a_message_may_be_wrapped_in_place),
        cmocka_unit_test(a_prefix_goes_in_front_and_leaves_the_rest),
        cmocka_unit_test(a_text_that_just_fits_is_whole),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
        cmocka_unit_test(every_code_has_its_name_text_and_exit_status),
        cmocka_unit_test(an_unknown_code_dies_in_a_debug_build),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
