/*
 * clock: where time comes from, so that tests can bring their own. Local clocks only make a process act
 * sooner or later; what is due, expired or owned is decided by the database's clock.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define MS_PER_S  1000
#define US_PER_MS 1000
#define US_PER_S  1000000

struct clock {
    int64_t (*mono_us)(
        const struct clock *clock); /* never goes back; for durations and deadlines */
    int64_t (*wall_us)(const struct clock *clock); /* since 1970 in UTC; for showing */
};

/* The machine's clock. */
extern const struct clock clock_system;

/* A clock that stands still until it is moved. */
struct clock_fake {
    struct clock clock; /* first, so that a pointer to it is a pointer to a clock */
    int64_t mono_us;
    int64_t wall_us;
};

void clock_fake_init(struct clock_fake *fake, int64_t wall_us);
void clock_fake_advance(struct clock_fake *fake, int64_t us);

static inline int64_t clock_mono_us(const struct clock *clock)
{
    return clock->mono_us(clock);
}

static inline int64_t clock_wall_us(const struct clock *clock)
{
    return clock->wall_us(clock);
}

#endif
