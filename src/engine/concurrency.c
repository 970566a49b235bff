/*
 * concurrency: how many jobs run at a time: set by hand, found by the tuner (engine/tuner.h), or raised on trial. Fewer only
 * means that less is started from now on.
 */
#include "engine/coordinator_internal.h"

#define WINDOW_MS  5000
#define ROLLOUT_MS (10LL * 60 * MS_PER_S)

static void window_clear(struct window *window, int64_t now_us)
{
    window->since_us = now_us;
    window->runs = window->errors = 0;
    window->full = false;
    quantile_clear(&window->took);
}

/* The tuner holds another number than before. */
static void
on_concurrency(struct coordinator *c, size_t before, enum tuner_reason reason, bool went_back)
{
    const struct window *w = &c->pulse.window;
    size_t now = c->pulse.tuner.now;

    log_at(c->options.log,
           went_back ? LOG_WARN : LOG_INFO,
           went_back ? "rollout_back" : "concurrency",
           LOG_INT("from", before),
           LOG_INT("to", now),
           LOG_STR("why", tuner_reason_text(reason)),
           LOG_INT("runs", w->runs),
           LOG_INT("errors", w->errors),
           LOG_INT("p95_us", quantile_at(&w->took, 950)),
           LOG_INT("memory_percent",
                   c->pulse.memory.limit_bytes > 0 ? memory_percent(&c->pulse.memory) : -1));
    if (now == before)
        return;
    c->stats.concurrency_changes++;
    /* The hands would start what waits in them. */
    if (now < before && c->options.hands->queue_max > 0)
        coordinator_recall(c);
}

static void begin_rollout(struct coordinator *c, size_t concurrency, int64_t watch_ms)
{
    size_t before = c->pulse.tuner.now;

    c->pulse.rollout_due = false;
    tuner_rollout(&c->pulse.tuner, concurrency, watch_ms * US_PER_MS);
    on_concurrency(c, before, TUNER_ROLLOUT, false);
    window_clear(&c->pulse.window, clock_mono_us(c->options.clock));
}

static int64_t rollout_ms(const struct coordinator *c, int64_t asked_ms)
{
    if (asked_ms > 0)
        return asked_ms;
    return c->options.rollout_ms > 0 ? c->options.rollout_ms : ROLLOUT_MS;
}

void coordinator_tune(struct coordinator *c, int64_t now_us)
{
    struct pulse *p = &c->pulse;
    struct window *w = &p->window;
    int64_t window_ms = c->options.window_ms > 0 ? c->options.window_ms : WINDOW_MS;
    size_t before = p->tuner.now;

    if (now_us - w->since_us < window_ms * US_PER_MS)
        return;
    struct tuner_verdict verdict = tuner_observe(
        &p->tuner,
        &(struct tuner_sample){
            .took_us = now_us - w->since_us,
            .runs = w->runs,
            .errors = w->errors,
            .p95_us = quantile_at(&w->took, 950),
            .full = w->full,
            .memory_percent = p->memory.limit_bytes > 0 ? memory_percent(&p->memory) : -1,
        });

    if (verdict.wait)
        return;
    c->stats.rollbacks += verdict.went_back;
    if (verdict.reason != TUNER_STAYS)
        on_concurrency(c, before, verdict.reason, verdict.went_back);
    window_clear(w, now_us);
    if (p->rollout_due && p->tuner.healthy)
        begin_rollout(c, c->options.rollout, rollout_ms(c, 0));
}

static int check_concurrency(const struct coordinator *c, size_t concurrency, struct pawl_err *err)
{
    if (concurrency >= 1 && concurrency <= c->pulse.tuner.options.max)
        return 0;
    err_set(err,
            PAWL_EINVAL,
            "concurrency %zu is not between 1 and %zu",
            concurrency,
            c->pulse.tuner.options.max);
    return err_hint(err, "The most that is possible is fixed when the worker is made.");
}

int coordinator_set_concurrency(struct coordinator *c, size_t concurrency, struct pawl_err *err)
{
    size_t before = c->pulse.tuner.now;
    int rc = check_concurrency(c, concurrency, err);

    if (rc < 0)
        return rc;
    c->pulse.rollout_due = false; /* whoever sets it by hand knows better */
    tuner_set(&c->pulse.tuner, concurrency);
    on_concurrency(c, before, TUNER_SET, false);
    window_clear(&c->pulse.window, clock_mono_us(c->options.clock));
    return 0;
}

int coordinator_rollout(struct coordinator *c,
                        size_t concurrency,
                        int64_t watch_ms,
                        struct pawl_err *err)
{
    int rc = check_concurrency(c, concurrency, err);

    if (rc == 0)
        begin_rollout(c, concurrency, rollout_ms(c, watch_ms));
    return rc;
}
