/* breaker: when it opens, how long, what a probe decides. Time is a number here. */
#include "engine/breaker.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/defer.h"
#include "check.h"

#define S ((int64_t)US_PER_S)

static const struct breaker_options options = {
    .percent = 50,
    .window_ms = 10000,
    .min_runs = 4,
    .open_ms = 1000,
    .open_max_ms = 3000,
    .probes = 2,
};

#define AUTO_BREAKERS        \
    CLEANUP(breakers_deinit) \
    struct breakers

static enum breaker_change
say(struct breakers *all, enum breaker_report report, unsigned probe, int64_t now_us)
{
    struct breaker *b = NULL;

    return breakers_report(all, "k", report, probe, now_us, &b);
}

static void expect(struct breakers *all, enum breaker_report report, int n, int64_t now_us)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(say(all, report, 0, now_us), BREAKER_UNCHANGED);
}

/* Four errors of four, at the given time. */
static struct breaker *open_one(struct breakers *all, int64_t now_us)
{
    expect(all, BREAKER_ERROR, 3, now_us);
    assert_int_equal(say(all, BREAKER_ERROR, 0, now_us), BREAKER_OPENED);
    return breakers_find(all, "k");
}

static void it_opens_at_the_rate_and_not_before(void **state)
{
    AUTO_BREAKERS all;

    (void)state;
    breakers_init(&all, &options);
    expect(&all, BREAKER_FINE, 3, S);
    expect(&all, BREAKER_ERROR, 2, S); /* 2 of 5 */
    assert_int_equal(say(&all, BREAKER_ERROR, 0, S), BREAKER_OPENED);
    assert_int_equal(breakers_find(&all, "k")->state, BREAKER_OPEN);
    assert_int_equal(all.n_open, 1);
    assert_null(breakers_find(&all, "other"));
}

static void a_few_runs_decide_nothing(void **state)
{
    AUTO_BREAKERS all;

    (void)state;
    breakers_init(&all, &options);
    expect(&all, BREAKER_ERROR, 3, S);
    assert_int_equal(breakers_find(&all, "k")->state, BREAKER_CLOSED);
}

static void what_was_not_run_does_not_count(void **state)
{
    AUTO_BREAKERS all;

    (void)state;
    breakers_init(&all, &options);
    expect(&all, BREAKER_NOTHING, 100, S);
    assert_null(breakers_find(&all, "k"));
    expect(&all, BREAKER_ERROR, 3, S);
    expect(&all, BREAKER_NOTHING, 100, S);
    assert_int_equal(say(&all, BREAKER_ERROR, 0, S), BREAKER_OPENED);
}

static void old_errors_are_forgotten(void **state)
{
    AUTO_BREAKERS all;
    uint64_t runs, errors;

    (void)state;
    breakers_init(&all, &options);
    expect(&all, BREAKER_ERROR, 3, S);
    breaker_window(&all, breakers_find(&all, "k"), 9 * S, &runs, &errors);
    assert_int_equal(errors, 3);
    expect(&all, BREAKER_ERROR, 1, 12 * S); /* the fourth, but the three are gone */
    breaker_window(&all, breakers_find(&all, "k"), 12 * S, &runs, &errors);
    assert_int_equal(runs, 1);
    assert_int_equal(errors, 1);
}

static void it_is_half_open_when_its_time_is_over(void **state)
{
    AUTO_BREAKERS all;

    (void)state;
    breakers_init(&all, &options);
    struct breaker *b = open_one(&all, 10 * S);

    assert_int_equal(breaker_room(&all, b), 0);
    assert_int_equal(breaker_tick(b, 11 * S - 1), BREAKER_UNCHANGED);
    assert_int_equal(breaker_tick(b, 11 * S), BREAKER_HALVED);
    assert_int_equal(breaker_tick(b, 12 * S), BREAKER_UNCHANGED);
    assert_int_equal(breaker_room(&all, b), 2);
    assert_int_equal(all.n_open, 1);
}

static void all_probes_must_go_well(void **state)
{
    AUTO_BREAKERS all;

    (void)state;
    breakers_init(&all, &options);
    struct breaker *b = open_one(&all, 10 * S);

    breaker_tick(b, 11 * S);
    unsigned one = breaker_probe(b);

    assert_int_equal(breaker_room(&all, b), 1);
    unsigned two = breaker_probe(b);

    assert_int_equal(breaker_room(&all, b), 0);
    assert_int_equal(say(&all, BREAKER_FINE, one, 12 * S), BREAKER_UNCHANGED);
    assert_int_equal(breaker_room(&all, b), 0); /* the other one is still out */
    assert_int_equal(say(&all, BREAKER_FINE, two, 12 * S), BREAKER_MENDED);
    assert_int_equal(b->state, BREAKER_CLOSED);
    assert_int_equal(all.n_open, 0);
    expect(&all, BREAKER_ERROR, 3, 12 * S); /* the errors from before are forgiven */
}

static void a_probe_that_fails_opens_for_longer_up_to_the_cap(void **state)
{
    AUTO_BREAKERS all;
    static const int64_t expected_ms[] = {2000, 3000, 3000};
    int64_t now_us = 10 * S;

    (void)state;
    breakers_init(&all, &options);
    struct breaker *b = open_one(&all, now_us);

    for (size_t i = 0; i < LEN(expected_ms); i++) {
        now_us = b->until_us;
        assert_int_equal(breaker_tick(b, now_us), BREAKER_HALVED);
        assert_int_equal(say(&all, BREAKER_ERROR, breaker_probe(b), now_us), BREAKER_OPENED);
        assert_int_equal(b->until_us - now_us, expected_ms[i] * US_PER_MS);
    }
    assert_int_equal(all.n_open, 1);
    /* Once it was closed, it begins with the short time again. */
    breaker_tick(b, b->until_us);
    assert_int_equal(say(&all, BREAKER_FINE, breaker_probe(b), now_us), BREAKER_UNCHANGED);
    assert_int_equal(say(&all, BREAKER_FINE, breaker_probe(b), now_us), BREAKER_MENDED);
    open_one(&all, now_us);
    assert_int_equal(b->open_ms, 1000);
}

static void a_probe_that_was_not_run_can_be_had_again(void **state)
{
    AUTO_BREAKERS all;

    (void)state;
    breakers_init(&all, &options);
    struct breaker *b = open_one(&all, 10 * S);

    breaker_tick(b, 11 * S);
    unsigned probe = breaker_probe(b);

    breaker_probe(b);
    assert_int_equal(say(&all, BREAKER_NOTHING, probe, 11 * S), BREAKER_UNCHANGED);
    assert_int_equal(breaker_room(&all, b), 1);
}

/* Runs that began before it opened, and probes of an earlier round, decide nothing. */
static void only_probes_of_this_round_count(void **state)
{
    AUTO_BREAKERS all;

    (void)state;
    breakers_init(&all, &options);
    struct breaker *b = open_one(&all, 10 * S);

    expect(&all, BREAKER_FINE, 10, 10 * S);
    breaker_tick(b, 11 * S);
    unsigned late = breaker_probe(b);

    assert_int_equal(say(&all, BREAKER_ERROR, breaker_probe(b), 11 * S), BREAKER_OPENED);
    assert_int_equal(say(&all, BREAKER_ERROR, late, 11 * S), BREAKER_UNCHANGED);
    breaker_tick(b, 13 * S);
    expect(&all, BREAKER_ERROR, 5, 13 * S);
    assert_int_equal(say(&all, BREAKER_ERROR, late, 13 * S), BREAKER_UNCHANGED);
    assert_int_equal(breaker_room(&all, b), 2);
    assert_int_equal(b->state, BREAKER_HALF);
}

static void nothing_to_probe_with_is_looked_for_less_and_less_often(void **state)
{
    AUTO_BREAKERS all;
    static const int64_t waits_ms[] = {1000, 2000, 4000, 5000, 5000};

    (void)state;
    breakers_init(&all, &options);
    struct breaker *b = open_one(&all, 10 * S);

    breaker_tick(b, 11 * S);
    for (size_t i = 0; i < LEN(waits_ms); i++) {
        int64_t now_us = b->look_us;

        breaker_looked(b, false, 3, now_us);
        breaker_looked(b, false, 3, now_us);
        assert_int_equal(b->look_us, now_us); /* one queue is left */
        breaker_looked(b, false, 3, now_us);
        assert_int_equal(b->look_us - now_us, waits_ms[i] * US_PER_MS);
    }
    assert_int_equal(b->next_queue, 15);
    breaker_looked(b, true, 3, 0);
    for (int i = 0; i < 3; i++)
        breaker_looked(b, false, 3, 0);
    assert_int_equal(b->look_us, BREAKER_LOOK_MS * US_PER_MS);
}

static void kinds_beyond_the_maximum_go_without(void **state)
{
    AUTO_BREAKERS all;
    struct breaker *b = NULL;
    char kind[16];

    (void)state;
    breakers_init(&all, &options);
    for (int i = 0; i <= BREAKERS_MAX; i++) {
        snprintf(kind, sizeof(kind), "k%d", i);
        breakers_report(&all, kind, BREAKER_FINE, 0, S, &b);
    }
    assert_null(breakers_find(&all, kind));
    b = NULL;
    assert_int_equal(breakers_report(&all, kind, BREAKER_ERROR, 0, S, &b), BREAKER_UNCHANGED);
    assert_null(b);
    assert_non_null(breakers_find(&all, "k0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_opens_at_the_rate_and_not_before),
        cmocka_unit_test(a_few_runs_decide_nothing),
        cmocka_unit_test(what_was_not_run_does_not_count),
        cmocka_unit_test(old_errors_are_forgotten),
        cmocka_unit_test(it_is_half_open_when_its_time_is_over),
        cmocka_unit_test(all_probes_must_go_well),
        cmocka_unit_test(a_probe_that_fails_opens_for_longer_up_to_the_cap),
        cmocka_unit_test(a_probe_that_was_not_run_can_be_had_again),
        cmocka_unit_test(only_probes_of_this_round_count),
        cmocka_unit_test(nothing_to_probe_with_is_looked_for_less_and_less_often),
        cmocka_unit_test(kinds_beyond_the_maximum_go_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
