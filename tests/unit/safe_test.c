/*
 * Behind which marks nobody can commit any more: what is looked at, when, and how far the safe marks
 * rise. One level is enough to say it; marks are plain numbers here.
 */
#include "engine/safe.h"

#include "check.h"

#define LEVEL 4

static struct job_marks at(int64_t due_us)
{
    struct job_marks marks;

    job_marks_fill(&marks, INT64_MIN);
    marks.at[LEVEL].due_us = due_us;
    return marks;
}

static struct safe safe_at(int64_t due_us)
{
    struct safe safe;
    struct job_marks marks = at(due_us);

    safe_init(&safe, &marks);
    return safe;
}

/* A poll: the marks were there when it was sent. */
static void poll(struct safe *safe, uint64_t n, int64_t due_us, uint64_t ended, uint64_t oldest)
{
    struct job_marks marks = at(due_us);

    safe_note(safe, n, &marks);
    safe_polled(safe, n, ended, oldest);
}

/* The next look is from there to there, and finds this first; INT64_MAX: nothing. */
static void looks(struct safe *safe, int64_t from_us, int64_t to_us, int64_t found_us)
{
    const struct safe_range *range;
    struct job_marks found;

    assert_true(safe_look(safe, 0, true, &range));
    assert_int_equal(range->from.at[LEVEL].due_us, from_us);
    assert_int_equal(range->to.at[LEVEL].due_us, to_us);
    job_marks_fill(&found, INT64_MAX);
    found.at[LEVEL].due_us = found_us;
    safe_looked(safe, &found, 0, 0);
}

static void looks_at_nothing(struct safe *safe)
{
    const struct safe_range *range;

    assert_false(safe_look(safe, 0, true, &range));
}

static int64_t safe_now(const struct safe *safe, uint64_t n, uint64_t oldest)
{
    struct job_marks marks;

    safe_marks(safe, n, oldest, &marks);
    return marks.at[LEVEL].due_us;
}

static void what_the_marks_passed_is_looked_at_once_at_the_poll_after(void **state)
{
    struct safe safe = safe_at(0);

    (void)state;
    poll(&safe, 1, 100, 0, 0);
    looks_at_nothing(&safe); /* who wrote there may be at it */
    assert_int_equal(safe_now(&safe, 1, 0), 0);
    poll(&safe, 2, 200, 0, 0);
    looks(&safe, 0, 100, INT64_MAX);
    looks_at_nothing(&safe);
    assert_int_equal(safe_now(&safe, 2, 0), 100);
    poll(&safe, 3, 300, 0, 0);
    looks(&safe, 100, 200, INT64_MAX);
}

static void marks_that_stand_still_are_safe_after_two_polls(void **state)
{
    struct safe safe = safe_at(0);
    struct job_marks marks = at(100);

    (void)state;
    poll(&safe, 1, 100, 0, 0);
    assert_true(safe_is_behind(&safe, &marks));
    poll(&safe, 2, 100, 0, 0);
    looks(&safe, 0, 100, INT64_MAX);
    poll(&safe, 3, 100, 0, 0);
    looks_at_nothing(&safe);
    assert_false(safe_is_behind(&safe, &marks));
    assert_int_equal(safe_now(&safe, 3, 0), 100);
}

static void a_writer_that_stays_open_costs_nothing_until_it_ends(void **state)
{
    struct safe safe = safe_at(0);
    uint64_t n = 2;

    (void)state;
    poll(&safe, 1, 100, 0, 0);
    for (; n < 1000; n++) { /* poll 2 saw it first: its jobs are not before the marks of poll 1 */
        poll(&safe, n, (int64_t)n * 100, 0, 2);
        looks(&safe, (int64_t)(n - 2) * 100, (int64_t)(n - 1) * 100, INT64_MAX);
        looks_at_nothing(&safe);
        assert_true(safe_now(&safe, n, 2) <= 100);
    }
    safe.chunk_us = 1000000;
    poll(&safe, n, (int64_t)n * 100, 2, 0);
    looks(&safe,
          (int64_t)(n - 2) * 100,
          (int64_t)(n - 1) * 100,
          INT64_MAX); /* what is near comes first */
    looks(&safe, 100, (int64_t)(n - 1) * 100, INT64_MAX);
    looks_at_nothing(&safe);
    assert_int_equal(safe_now(&safe, n, 0), (int64_t)(n - 1) * 100);
}

static void what_is_far_behind_is_looked_at_in_parts(void **state)
{
    struct safe safe = safe_at(0);
    struct job_marks from = at(0);
    struct job_marks to = at(250);

    (void)state;
    safe.chunk_us = 100;
    safe_suspect(&safe, &from, &to);
    const struct safe_range *range;
    struct job_marks none;

    job_marks_fill(&none, INT64_MAX);
    for (int64_t part = 0; part < 3; part++) {
        assert_true(safe_look(&safe, 0, true, &range));
        assert_int_equal(range->from.at[LEVEL].due_us, part * 100);
        assert_int_equal(range->to.at[LEVEL].due_us, part < 2 ? (part + 1) * 100 : 250);
        safe_looked(&safe, &none, SAFE_LOOK_US, 0);
    }
    looks_at_nothing(&safe);
}

static void the_safe_marks_do_not_pass_a_job_that_was_found_and_not_claimed(void **state)
{
    struct safe safe = safe_at(0);
    const struct safe_range *range;

    (void)state;
    poll(&safe, 1, 100, 0, 0);
    poll(&safe, 2, 200, 0, 0);
    looks(&safe, 0, 100, 50);
    assert_int_equal(safe_now(&safe, 2, 0), 50);
    assert_false(safe_look(&safe, 0, false, &range)); /* its claim is on the wire */
    looks(&safe, 50, 100, INT64_MAX);
    assert_int_equal(safe_now(&safe, 2, 0), 100);
}

static void a_look_that_failed_is_repeated_and_keeps_the_safe_marks(void **state)
{
    struct safe safe = safe_at(0);
    const struct safe_range *range;

    (void)state;
    poll(&safe, 1, 100, 0, 0);
    poll(&safe, 2, 200, 0, 0);
    assert_true(safe_look(&safe, 0, true, &range));
    assert_int_equal(safe_now(&safe, 2, 0), 0);
    safe_look_failed(&safe);
    assert_int_equal(safe_now(&safe, 2, 0), 0);
    poll(&safe, 3, 300, 0, 0);
    looks(&safe, 0, 200, INT64_MAX);
}

/* However many writers began one after the other and stay: each ends with a look that begins no later than it did. */
static void steps_that_are_too_many_only_make_looks_longer(void **state)
{
    (void)state;
    for (uint64_t since = 2; since < 300; since++) {
        struct safe safe = safe_at(0);

        for (uint64_t n = 1; n < 400; n++)
            poll(&safe, n, (int64_t)n * 100, 0, 2);
        safe.todo[SAFE_NEAR].on = false;
        safe.chunk_us = 1000000;
        poll(&safe, 400, 40000, since, 2);
        assert_true(safe.todo[SAFE_FAR].on);
        assert_true(safe.todo[SAFE_FAR].from.at[LEVEL].due_us <= (int64_t)(since - 1) * 100);
        assert_int_equal(safe.todo[SAFE_FAR].to.at[LEVEL].due_us, 39900);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_marks_passed_is_looked_at_once_at_the_poll_after),
        cmocka_unit_test(marks_that_stand_still_are_safe_after_two_polls),
        cmocka_unit_test(a_writer_that_stays_open_costs_nothing_until_it_ends),
        cmocka_unit_test(what_is_far_behind_is_looked_at_in_parts),
        cmocka_unit_test(the_safe_marks_do_not_pass_a_job_that_was_found_and_not_claimed),
        cmocka_unit_test(a_look_that_failed_is_repeated_and_keeps_the_safe_marks),
        cmocka_unit_test(steps_that_are_too_many_only_make_looks_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
