/* tuner: the climb, the fall and the rollout. */
#include "engine/tuner.h"

#include "base/clock.h"

#define AGEING  50 /* the best p95 fades by one part in so many with each window */
#define STEP    8  /* a step is one part in so many */
#define SHARE   4  /* it must bring a quarter of what it would if throughput were proportional */
#define KEEP_OF 3  /* a fall leaves two parts of three */

const char *tuner_reason_text(enum tuner_reason reason)
{
#define TUNER_REASON_TEXT(name, text) text,
    static const char *const texts[] = {TUNER_REASONS(TUNER_REASON_TEXT)};
#undef TUNER_REASON_TEXT

    return texts[reason];
}

static size_t within(const struct tuner *t, size_t n)
{
    if (n > t->options.max)
        return t->options.max;
    return n > 0 ? n : 1;
}

void tuner_init(struct tuner *t, const struct tuner_options *options)
{
    *t = (struct tuner){.options = *options, .doubling = true};
    if (t->options.memory_percent == 0)
        t->options.memory_percent = TUNER_MEMORY_PERCENT;
    if (t->options.error_percent == 0)
        t->options.error_percent = TUNER_ERROR_PERCENT;
    if (t->options.latency_percent == 0)
        t->options.latency_percent = TUNER_LATENCY_PERCENT;
    if (t->options.min == 0 || t->options.min > t->options.max)
        t->options.min = t->options.max;
    t->now = within(t, options->start);
}

static void forget_climb(struct tuner *t)
{
    t->climbing = false;
    t->doubling = false;
    t->hold = 0;
}

void tuner_set(struct tuner *t, size_t concurrency)
{
    forget_climb(t);
    t->watching = false;
    t->now = within(t, concurrency);
}

void tuner_rollout(struct tuner *t, size_t concurrency, int64_t watch_us)
{
    size_t back = t->watching ? t->back : t->now;

    tuner_set(t, concurrency);
    t->watching = true;
    t->back = back;
    t->left_us = watch_us;
}

static bool is_slower(const struct tuner *t, int64_t p95_us, int64_t than_us)
{
    return than_us > 0 && p95_us - than_us > TUNER_LATENCY_US &&
           p95_us > than_us / 100 * t->options.latency_percent;
}

static bool has_errors(const struct tuner *t, const struct tuner_sample *s)
{
    return s->errors * 100 > s->runs * (uint64_t)t->options.error_percent;
}

static struct tuner_verdict stay(const struct tuner *t)
{
    return (struct tuner_verdict){.concurrency = t->now, .reason = TUNER_STAYS};
}

static struct tuner_verdict move_to(struct tuner *t, size_t n, enum tuner_reason reason)
{
    n = within(t, n > t->options.min ? n : t->options.min);
    if (n == t->now)
        return stay(t);
    t->now = n;
    return (struct tuner_verdict){.concurrency = n, .reason = reason};
}

static struct tuner_verdict fall(struct tuner *t, enum tuner_reason reason)
{
    size_t third = t->now / KEEP_OF;

    forget_climb(t);
    t->hold = TUNER_HOLD;
    return move_to(t, t->now - (third > 0 ? third : 1), reason);
}

/* The best of late. At the minimum nothing can be won by going lower, so what is there is the measure. */
static void note_p95(struct tuner *t, int64_t p95_us)
{
    t->best_p95_us += t->best_p95_us / AGEING;
    if (t->best_p95_us == 0 || p95_us < t->best_p95_us || t->now <= t->options.min)
        t->best_p95_us = p95_us;
}

static struct tuner_verdict climb(struct tuner *t, double rate)
{
    size_t step = t->doubling ? t->now : t->now / STEP;

    if (t->hold > 0) {
        t->hold--;
        return stay(t);
    }
    if (t->now >= t->options.max)
        return stay(t);
    t->former = t->now;
    t->former_rate = rate;
    t->climbing = true;
    return move_to(t, t->now + (step > 0 ? step : 1), TUNER_GAINS);
}

static struct tuner_verdict judge_climb(struct tuner *t, double rate)
{
    double more = (double)(t->now - t->former) / (double)t->former / SHARE;

    t->climbing = false;
    if (rate >= t->former_rate * (1.0 + more))
        return climb(t, rate);
    t->doubling = false;
    t->hold = TUNER_HOLD;
    return move_to(t, t->former, TUNER_NO_GAIN);
}

static struct tuner_verdict judge_dynamic(struct tuner *t, const struct tuner_sample *s)
{
    double rate = (double)s->runs * US_PER_S / (double)(s->took_us > 0 ? s->took_us : 1);

    if (has_errors(t, s))
        return fall(t, TUNER_ERRORS);
    if (is_slower(t, s->p95_us, t->best_p95_us) && t->now > t->options.min)
        return fall(t, TUNER_LATENCY);
    note_p95(t, s->p95_us);
    if (!s->full) {
        /* Without demand throughput says nothing about the slots. */
        t->climbing = false;
        return stay(t);
    }
    return t->climbing ? judge_climb(t, rate) : climb(t, rate);
}

static struct tuner_verdict go_back(struct tuner *t, enum tuner_reason reason)
{
    t->watching = false;
    t->now = within(t, t->back);
    return (struct tuner_verdict){.concurrency = t->now, .reason = reason, .went_back = true};
}

static struct tuner_verdict judge_rollout(struct tuner *t, const struct tuner_sample *s, bool few)
{
    bool over = s->took_us >= t->left_us;

    if (few && !over)
        return (struct tuner_verdict){.concurrency = t->now, .reason = TUNER_STAYS, .wait = true};
    if (!few && has_errors(t, s))
        return go_back(t, TUNER_ERRORS);
    if (!few && is_slower(t, s->p95_us, t->before_p95_us))
        return go_back(t, TUNER_LATENCY);
    t->left_us -= s->took_us;
    if (!over)
        return stay(t);
    t->watching = false;
    return (struct tuner_verdict){.concurrency = t->now, .reason = TUNER_KEPT};
}

struct tuner_verdict tuner_observe(struct tuner *t, const struct tuner_sample *s)
{
    bool few = s->runs < TUNER_RUNS_MIN;

    /* Memory does not wait for runs to end. */
    if (s->memory_percent > t->options.memory_percent) {
        t->healthy = false;
        if (t->watching)
            return go_back(t, TUNER_MEMORY);
        return t->options.min < t->options.max ? fall(t, TUNER_MEMORY) : stay(t);
    }
    if (t->watching)
        return judge_rollout(t, s, few);
    if (few)
        return (struct tuner_verdict){.concurrency = t->now, .reason = TUNER_STAYS, .wait = true};
    t->healthy = !has_errors(t, s);
    t->before_p95_us = s->p95_us;
    return t->options.min < t->options.max ? judge_dynamic(t, s) : stay(t);
}
