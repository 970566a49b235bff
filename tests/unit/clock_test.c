/* clock: the machine's moves forward, the fake one only when it is told to. */
#include "base/clock.h"

#include <time.h>

#include "check.h"

static void the_steady_clock_never_goes_back(void **state)
{
    int64_t last = clock_mono_us(&clock_system);

    (void)state;
    assert_true(last > 0);
    for (int i = 0; i < 10000; i++) {
        int64_t now = clock_mono_us(&clock_system);
        assert_true(now >= last);
        last = now;
    }
}

static void the_wall_clock_is_microseconds_since_1970(void **state)
{
    int64_t before = (int64_t)time(NULL) - 1; /* time() may lag a tick behind */
    int64_t now = clock_wall_us(&clock_system);
    int64_t after = (int64_t)time(NULL) + 1;

    (void)state;
    assert_true(now >= before * US_PER_S);
    assert_true(now <= (after + 1) * US_PER_S);
}

static void the_fake_clock_stands_still_until_moved(void **state)
{
    struct clock_fake fake;
    const struct clock *clock = &fake.clock;

    (void)state;
    clock_fake_init(&fake, 1700000000000000);
    int64_t start = clock_mono_us(clock);
    assert_int_equal(clock_mono_us(clock), start);
    assert_int_equal(clock_wall_us(clock), 1700000000000000);
    clock_fake_advance(&fake, 5 * US_PER_S);
    assert_int_equal(clock_mono_us(clock), start + 5 * US_PER_S);
    assert_int_equal(clock_wall_us(clock), 1700000005000000);
    clock_fake_advance(&fake, 0);
    assert_int_equal(clock_mono_us(clock), start + 5 * US_PER_S);
}

static void a_fake_wall_clock_may_be_set_back_alone(void **state)
{
    struct clock_fake fake;

    (void)state;
    clock_fake_init(&fake, 100);
    clock_fake_advance(&fake, 10);
    int64_t mono = clock_mono_us(&fake.clock);
    fake.wall_us = -50;
    assert_int_equal(clock_wall_us(&fake.clock), -50);
    assert_int_equal(clock_mono_us(&fake.clock), mono);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steady_clock_never_goes_back),
        cmocka_unit_test(the_wall_clock_is_microseconds_since_1970),
        cmocka_unit_test(the_fake_clock_stands_still_until_moved),
        cmocka_unit_test(a_fake_wall_clock_may_be_set_back_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
