/* tuner: it climbs while that pays, falls for three reasons, and a rollout is kept or taken back. */
#include "engine/tuner.h"

#include "base/clock.h"
#include "check.h"

#define WINDOW_US ((int64_t)5 * US_PER_S)

static struct tuner dynamic(size_t start, size_t min, size_t max)
{
    struct tuner t;

    tuner_init(&t, &(struct tuner_options){.start = start, .min = min, .max = max});
    return t;
}

/* A window in which all went well and all slots were in use. */
static struct tuner_sample fine(uint64_t runs)
{
    return (struct tuner_sample){
        .took_us = WINDOW_US, .runs = runs, .p95_us = 10000, .full = true, .memory_percent = 30};
}

static struct tuner_verdict see(struct tuner *t, struct tuner_sample sample)
{
    return tuner_observe(t, &sample);
}

static void it_climbs_to_where_throughput_no_longer_gains(void **state)
{
    struct tuner t = dynamic(1, 1, 64);
    size_t peak = 0;

    (void)state;
    /* A resource that serves eight at a time: 100 runs in a window for each up to there. */
    for (int i = 0; i < 40; i++) {
        struct tuner_verdict v = see(&t, fine(100 * (t.now < 8 ? t.now : 8)));

        peak = v.concurrency > peak ? v.concurrency : peak;
    }
    assert_int_equal(peak, 16); /* 1, 2, 4, 8, and one try too many */
    assert_in_range(t.now, 8, 9);
}

static void a_step_without_a_gain_is_taken_back_and_not_tried_again_soon(void **state)
{
    struct tuner t = dynamic(4, 1, 64);

    (void)state;
    assert_int_equal(see(&t, fine(100)).concurrency, 8);
    struct tuner_verdict v = see(&t, fine(101));

    assert_int_equal(v.concurrency, 4);
    assert_int_equal(v.reason, TUNER_NO_GAIN);
    for (int i = 0; i < TUNER_HOLD; i++)
        assert_int_equal(see(&t, fine(100)).concurrency, 4);
    assert_int_equal(see(&t, fine(100)).concurrency, 5); /* then by a small step */
}

static void it_never_leaves_its_bounds(void **state)
{
    struct tuner t = dynamic(3, 2, 5);

    (void)state;
    for (uint64_t runs = 100; runs < 1000000; runs *= 2)
        assert_in_range(see(&t, fine(runs)).concurrency, 2, 5);
    assert_int_equal(t.now, 5);
    for (int i = 0; i < 20; i++) {
        struct tuner_sample bad = fine(100);

        bad.errors = 100;
        assert_in_range(see(&t, bad).concurrency, 2, 5);
    }
    assert_int_equal(t.now, 2);
    tuner_set(&t, 100);
    assert_int_equal(t.now, 5);
    tuner_set(&t, 0);
    assert_int_equal(t.now, 1);
}

static void it_falls_for_memory_errors_and_time(void **state)
{
    static const struct {
        struct tuner_sample sample;
        enum tuner_reason reason;
    } cases[] = {
        {{.memory_percent = 81}, TUNER_MEMORY}, /* whether or not runs ended */
        {{.runs = 100, .errors = 6, .p95_us = 10000, .memory_percent = -1}, TUNER_ERRORS},
        {{.runs = 100, .p95_us = 30000, .memory_percent = 80}, TUNER_LATENCY},
    };

    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct tuner t = dynamic(30, 1, 60);
        struct tuner_sample sample = cases[i].sample;

        t.doubling = false;
        see(&t, fine(100));
        tuner_set(&t, 30);
        sample.took_us = WINDOW_US;
        sample.full = true;
        struct tuner_verdict v = see(&t, sample);

        assert_int_equal(v.reason, cases[i].reason);
        assert_int_equal(v.concurrency, 20);
        /* And it does not climb again at once. */
        assert_int_equal(see(&t, fine(100)).concurrency, 20);
    }
}

static void at_the_thresholds_it_stays(void **state)
{
    struct tuner t = dynamic(10, 1, 10);
    struct tuner_sample sample = fine(100);

    (void)state;
    see(&t, sample);
    sample.errors = 5;
    sample.memory_percent = 80;
    sample.p95_us = 19000;
    assert_int_equal(see(&t, sample).concurrency, 10);
}

/* Twice of nothing is nothing: 20 µs in place of 5 is no reason. */
static void a_small_delay_is_noise(void **state)
{
    struct tuner t = dynamic(10, 1, 10);
    struct tuner_sample sample = fine(100);

    (void)state;
    sample.p95_us = 5;
    see(&t, sample);
    sample.p95_us = 4000;
    assert_int_equal(see(&t, sample).concurrency, 10);
}

static void it_does_not_climb_without_demand(void **state)
{
    struct tuner t = dynamic(4, 1, 64);
    struct tuner_sample sample = fine(100);

    (void)state;
    sample.full = false;
    for (int i = 0; i < 5; i++)
        assert_int_equal(see(&t, sample).concurrency, 4);
}

static void too_few_runs_are_waited_for(void **state)
{
    struct tuner t = dynamic(4, 1, 64);

    (void)state;
    assert_true(see(&t, fine(TUNER_RUNS_MIN - 1)).wait);
    assert_int_equal(t.now, 4);
    assert_false(see(&t, fine(TUNER_RUNS_MIN)).wait);
}

static void a_load_that_is_slower_by_nature_gets_a_new_measure(void **state)
{
    struct tuner t = dynamic(10, 1, 10);
    struct tuner_sample sample = fine(100);
    int falls = 0;

    (void)state;
    see(&t, sample);
    sample.p95_us = 1000000;
    for (int i = 0; i < 200; i++)
        falls += see(&t, sample).reason == TUNER_LATENCY;
    assert_true(falls > 0); /* first it takes it for a sign of trouble */
    assert_true(falls < 20);
    assert_int_not_equal(see(&t, sample).reason, TUNER_LATENCY);
    assert_in_range(t.best_p95_us, 900000, 1100000);
}

static void a_fixed_number_is_left_alone(void **state)
{
    struct tuner t = dynamic(4, 0, 8);
    struct tuner_sample bad = fine(100);

    (void)state;
    bad.errors = 100;
    bad.memory_percent = 99;
    assert_int_equal(see(&t, bad).concurrency, 4);
    assert_false(t.healthy);
    assert_int_equal(see(&t, fine(1000)).concurrency, 4);
    assert_true(t.healthy);
}

static void a_rollout_that_goes_well_is_kept(void **state)
{
    struct tuner t = dynamic(2, 0, 8);

    (void)state;
    see(&t, fine(100));
    tuner_rollout(&t, 6, 3 * WINDOW_US);
    assert_int_equal(t.now, 6);
    assert_int_equal(see(&t, fine(100)).reason, TUNER_STAYS);
    assert_true(see(&t, fine(5)).wait);
    assert_int_equal(see(&t, fine(100)).reason, TUNER_STAYS);
    struct tuner_verdict v = see(&t, fine(100));

    assert_int_equal(v.reason, TUNER_KEPT);
    assert_int_equal(v.concurrency, 6);
    assert_false(v.went_back);
    /* From then on nobody watches. */
    struct tuner_sample bad = fine(100);

    bad.errors = 50;
    assert_int_equal(see(&t, bad).concurrency, 6);
}

static void a_rollout_goes_back_for_errors_memory_and_time(void **state)
{
    (void)state;
    for (enum tuner_reason reason = TUNER_MEMORY; reason <= TUNER_LATENCY; reason++) {
        struct tuner t = dynamic(2, 0, 8);
        struct tuner_sample bad = fine(100);

        see(&t, fine(100));
        tuner_rollout(&t, 6, 3 * WINDOW_US);
        see(&t, fine(100));
        bad.memory_percent = reason == TUNER_MEMORY ? 81 : 80;
        bad.errors = reason == TUNER_ERRORS ? 6 : 5;
        bad.p95_us = reason == TUNER_LATENCY ? 25000 : 10000;
        struct tuner_verdict v = see(&t, bad);

        assert_int_equal(v.reason, reason);
        assert_int_equal(v.concurrency, 2);
        assert_true(v.went_back);
        assert_int_equal(see(&t, fine(100)).concurrency, 2);
    }
}

/* A rollout on top of one goes back to where the first began; setting by hand ends it. */
static void a_rollout_can_be_replaced(void **state)
{
    struct tuner t = dynamic(2, 0, 8);
    struct tuner_sample bad = fine(100);

    (void)state;
    bad.errors = 100;
    tuner_rollout(&t, 4, WINDOW_US * 9);
    tuner_rollout(&t, 8, WINDOW_US * 9);
    assert_int_equal(see(&t, bad).concurrency, 2);
    tuner_rollout(&t, 4, WINDOW_US * 9);
    tuner_set(&t, 5);
    assert_int_equal(see(&t, bad).concurrency, 5);
}

static void without_runs_a_rollout_is_kept_when_its_time_is_over(void **state)
{
    struct tuner t = dynamic(2, 0, 8);
    struct tuner_sample quiet = {.took_us = WINDOW_US, .memory_percent = -1};

    (void)state;
    tuner_rollout(&t, 4, 2 * WINDOW_US);
    assert_true(see(&t, quiet).wait);
    quiet.took_us = 2 * WINDOW_US;
    assert_int_equal(see(&t, quiet).reason, TUNER_KEPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_climbs_to_where_throughput_no_longer_gains),
        cmocka_unit_test(a_step_without_a_gain_is_taken_back_and_not_tried_again_soon),
        cmocka_unit_test(it_never_leaves_its_bounds),
        cmocka_unit_test(it_falls_for_memory_errors_and_time),
        cmocka_unit_test(at_the_thresholds_it_stays),
        cmocka_unit_test(a_small_delay_is_noise),
        cmocka_unit_test(it_does_not_climb_without_demand),
        cmocka_unit_test(too_few_runs_are_waited_for),
        cmocka_unit_test(a_load_that_is_slower_by_nature_gets_a_new_measure),
        cmocka_unit_test(a_fixed_number_is_left_alone),
        cmocka_unit_test(a_rollout_that_goes_well_is_kept),
        cmocka_unit_test(a_rollout_goes_back_for_errors_memory_and_time),
        cmocka_unit_test(a_rollout_can_be_replaced),
        cmocka_unit_test(without_runs_a_rollout_is_kept_when_its_time_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
