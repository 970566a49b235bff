/* clock: the machine's clock, and one that tests move by hand. */
#include "base/clock.h"

#include <assert.h>
#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now); /* cannot fail: both ids exist on every Linux, and now is ours */
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

static int64_t system_mono_us(const struct clock *clock)
{
    (void)clock;
    return read_us(CLOCK_MONOTONIC);
}

static int64_t system_wall_us(const struct clock *clock)
{
    (void)clock;
    return read_us(CLOCK_REALTIME);
}

const struct clock clock_system = {.mono_us = system_mono_us, .wall_us = system_wall_us};

static int64_t fake_mono_us(const struct clock *clock)
{
    return ((const struct clock_fake *)clock)->mono_us;
}

static int64_t fake_wall_us(const struct clock *clock)
{
    return ((const struct clock_fake *)clock)->wall_us;
}

void clock_fake_init(struct clock_fake *fake, int64_t wall_us)
{
    *fake = (struct clock_fake){
        .clock = {.mono_us = fake_mono_us, .wall_us = fake_wall_us},
        .wall_us = wall_us,
    };
}

void clock_fake_advance(struct clock_fake *fake, int64_t us)
{
    assert(us >= 0); /* a steady clock never goes back; a test of a wall clock that does sets
                        wall_us itself */
    fake->mono_us += us;
    fake->wall_us += us;
}
