/* job: names of states and outcomes there and back, and what may name a queue. */
#include "core/job.h"

#include <stdio.h>

#include "check.h"

static void states_read_back_as_themselves(void **state)
{
    (void)state;
    for (int s = JOB_READY; s <= JOB_CANCELLED; s++) {
        enum job_state back;
        assert_string_not_equal(job_state_text(s), "unknown");
        assert_int_equal(job_state_parse(job_state_text(s), &back), 0);
        assert_int_equal((int)back, s);
    }
    assert_string_equal(job_state_text(JOB_RETRYING), "retrying");
}

static void what_is_no_state_is_unknown_or_refused(void **state)
{
    static const char *const texts[] = {"", "Ready", "ready ", "read", "unknown", "1"};
    enum job_state s = JOB_PARKED;

    (void)state;
    assert_string_equal(job_state_text(0), "unknown");
    assert_string_equal(job_state_text(-1), "unknown");
    assert_string_equal(job_state_text(10), "unknown");
    for (size_t i = 0; i < LEN(texts); i++)
        assert_int_equal(job_state_parse(texts[i], &s), PAWL_EINVAL);
    assert_int_equal(job_state_parse(NULL, &s), PAWL_EINVAL);
    assert_int_equal((int)s, JOB_PARKED);
}

static void outcomes_have_names(void **state)
{
    (void)state;
    assert_string_equal(outcome_text(OUTCOME_DONE), "done");
    assert_string_equal(outcome_text(OUTCOME_RELEASE), "release");
    assert_string_equal(outcome_text(0), "unknown");
    assert_string_equal(outcome_text(99), "unknown");
}

static void the_numbers_that_are_stored_do_not_move(void **state)
{
    (void)state;
    assert_int_equal(JOB_DONE, 6);
    assert_int_equal(JOB_FAILED, 7);
    assert_int_equal(JOB_CANCELLED, 8);
    assert_int_equal(OUTCOME_DONE, 1);
    assert_int_equal(OUTCOME_RETRY, 2);
    assert_int_equal(OUTCOME_FAIL, 3);
    assert_int_equal(OUTCOME_SNOOZE, 4);
    assert_int_equal(OUTCOME_CANCEL, 5);
    assert_int_equal(OUTCOME_RELEASE, 6);
}

static void plain_names_are_accepted(void **state)
{
    static const char *const names[] = {
        "a", "_", "0", "default", "mail.send", "a:b/c-d_e.f", "X9", "a-", "a//"};
    char longest[PAWL_NAME_MAX + 1];

    (void)state;
    for (size_t i = 0; i < LEN(names); i++)
        assert_int_equal(name_check("queue", names[i], NULL), 0);
    memset(longest, 'q', PAWL_NAME_MAX);
    longest[PAWL_NAME_MAX] = '\0';
    assert_int_equal(name_check("kind", longest, NULL), 0);
}

static void other_names_are_refused_with_the_byte(void **state)
{
    static const struct {
        const char *name, *message, *detail;
    } rows[] = {
        {"", "a kind's name cannot be empty", ""},
        {"-a", "a kind's name cannot begin with '-'", "byte 1"},
        {".a", "a kind's name cannot begin with '.'", "byte 1"},
        {"/", "a kind's name cannot begin with '/'", "byte 1"},
        {" a", "a kind's name cannot begin with a blank", "byte 1"},
        {"a b", "a kind's name cannot hold a blank", "byte 2"},
        {"ab'", "a kind's name cannot hold '''", "byte 3"},
        {"a\"", "a kind's name cannot hold '\"'", "byte 2"},
        {"a$b", "a kind's name cannot hold '$'", "byte 2"},
        {"a%", "a kind's name cannot hold '%'", "byte 2"},
        {"a\n", "a kind's name cannot hold the byte 0x0a", "byte 2"},
        {"a\x1b[m", "a kind's name cannot hold the byte 0x1b", "byte 2"},
        {"a\x7f", "a kind's name cannot hold the byte 0x7f", "byte 2"},
        {"caf\xc3\xa9", "a kind's name cannot hold the byte 0xc3", "byte 4"},
    };
    struct pawl_err err;

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        assert_int_equal(name_check("kind", rows[i].name, &err), PAWL_EINVAL);
        assert_int_equal(err.code, PAWL_EINVAL);
        assert_string_equal(err.message, rows[i].message);
        assert_has(err.detail, rows[i].detail);
    }
    assert_has(err.hint, "128");
    assert_int_equal(name_check("queue", NULL, &err), PAWL_EINVAL);
    assert_string_equal(err.message, "a queue's name cannot be empty");
}

static void a_name_that_is_too_long_names_the_limit(void **state)
{
    char name[PAWL_NAME_MAX + 2];
    struct pawl_err err;

    (void)state;
    memset(name, 'q', PAWL_NAME_MAX + 1);
    name[PAWL_NAME_MAX + 1] = '\0';
    assert_int_equal(name_check("queue", name, &err), PAWL_ELIMIT);
    assert_string_equal(err.message,
                        "a queue's name cannot be longer than 128 bytes; this one has 129");
}

static void kinds_may_carry_a_version(void **state)
{
    static const char *const good[] = {"order", "order@1", "a.b/c@20"};
    static const char *const bad[] = {"@1", "order@", "order@x", "order@1@2", "a b@1", "order@1.5"};
    char longest[PAWL_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < LEN(good); i++)
        assert_int_equal(kind_check(good[i], NULL), 0);
    for (size_t i = 0; i < LEN(bad); i++)
        assert_int_equal(kind_check(bad[i], NULL), PAWL_EINVAL);
    assert_int_equal(kind_check("", NULL), PAWL_EINVAL);
    assert_int_equal(kind_check(NULL, NULL), PAWL_EINVAL);
    /* Only kinds: a queue has none. */
    assert_int_equal(name_check("queue", "order@1", NULL), PAWL_EINVAL);
    memset(longest, 'k', sizeof(longest));
    memcpy(longest + PAWL_NAME_MAX - 1, "@1", 3);
    assert_int_equal(kind_check(longest, NULL), PAWL_ELIMIT);
    assert_int_equal(kind_check(longest + 1, NULL), 0);
}

static void priorities_go_from_0_to_9(void **state)
{
    static const int64_t bad[] = {-1, 10, INT64_MIN, INT64_MAX, (int64_t)1 << 32};
    struct pawl_err err;

    (void)state;
    for (int64_t p = 0; p <= 9; p++)
        assert_int_equal(priority_check(p, NULL), 0);
    for (size_t i = 0; i < LEN(bad); i++) {
        assert_int_equal(priority_check(bad[i], &err), PAWL_EINVAL);
        assert_has(err.message, "is not between 0 and 9");
        assert_has(err.hint, "urgent");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_read_back_as_themselves),
        cmocka_unit_test(what_is_no_state_is_unknown_or_refused),
        cmocka_unit_test(outcomes_have_names),
        cmocka_unit_test(the_numbers_that_are_stored_do_not_move),
        cmocka_unit_test(plain_names_are_accepted),
        cmocka_unit_test(other_names_are_refused_with_the_byte),
        cmocka_unit_test(a_name_that_is_too_long_names_the_limit),
        cmocka_unit_test(kinds_may_carry_a_version),
        cmocka_unit_test(priorities_go_from_0_to_9),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
