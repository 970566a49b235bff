/*
 * pulse: how a worker looks after itself, once a second: is there memory for more, which kinds are left alone,
 * does any job run far beyond its time, and what was lately. How many jobs run at a time: concurrency.c. None of it
 * touches a job that runs.
 */
#include <string.h>

#include "engine/coordinator_internal.h"

#define PULSE_MS        1000
#define OVERRUN_MS      10000 /* longer than hands take to end a run that they can end */
#define RECENT_US       (60LL * US_PER_S)
#define REMIND_US       (60LL * US_PER_S) /* how often a closed gate is mentioned */
#define BEATS_PER_STALL 4
#define SECONDS_PER_MIN 60
#define RATE_WINDOW_US  (5LL * US_PER_S)

static int64_t now_of(const struct coordinator *c)
{
    return clock_mono_us(c->options.clock);
}

void coordinator_recall(struct coordinator *c)
{
    coordinator_release_buffered(c);
    slots_recall(&c->slots);
}

/* ---- memory */

static void log_memory(struct coordinator *c, const char *event)
{
    const struct memory_sample *m = &c->pulse.memory;

    log_warn(c->options.log,
             event,
             LOG_INT("percent", memory_percent(m)),
             LOG_INT("used", m->used_bytes),
             LOG_INT("limit", m->limit_bytes),
             LOG_INT("rss", m->rss_bytes),
             LOG_STR("of", memory_source_text(m->source)),
             LOG_INT("running", c->slots.n[SLOT_RUNNING]));
}

static int read_memory(struct coordinator *c, struct pawl_err *err)
{
    if (c->options.memory_read != NULL)
        return c->options.memory_read(c->options.memory_data, &c->pulse.memory, err);
    return memory_read(&memory_roots_system, &c->pulse.memory, err);
}

static void check_memory(struct coordinator *c, int64_t now_us)
{
    struct pulse *p = &c->pulse;
    struct pawl_err err = {0};

    if (read_memory(c, &err) < 0) {
        /* A gate that cannot see stays as it is. */
        if (!p->unreadable)
            log_warn_err(c->options.log, "memory_read", &err, LOG_BOOL("closed", p->gate.closed));
        p->unreadable = true;
        return;
    }
    p->unreadable = false;
    switch (memory_gate_sample(&p->gate, &p->memory)) {
    case MEMORY_CLOSED:
        c->stats.memory_closings++;
        p->closed_us = p->reminded_us = now_us;
        log_memory(c, "memory_closed");
        /* What was not started goes to a worker that has room for it. */
        coordinator_recall(c);
        break;
    case MEMORY_OPENED:
        p->closed_us = 0;
        log_memory(c, "memory_opened");
        break;
    case MEMORY_UNCHANGED:
        if (p->gate.closed && now_us - p->reminded_us >= REMIND_US) {
            p->reminded_us = now_us;
            log_memory(c, "memory_closed");
        }
        break;
    }
}

/* ---- breakers */

static void log_breaker(struct coordinator *c, const struct breaker *b, int64_t now_us)
{
    uint64_t runs;
    uint64_t errors;

    breaker_window(&c->pulse.breakers, b, now_us, &runs, &errors);
    log_at(c->options.log,
           b->state == BREAKER_OPEN ? LOG_WARN : LOG_INFO,
           "breaker",
           LOG_STR("kind", b->kind),
           LOG_STR("state", breaker_state_text(b->state)),
           LOG_INT("errors", errors),
           LOG_INT("runs", runs),
           LOG_INT("open_ms", b->state == BREAKER_OPEN ? b->open_ms : 0));
}

static void on_breaker(struct coordinator *c, struct breaker *b, enum breaker_change change)
{
    log_breaker(c, b, now_of(c));
    switch (change) {
    case BREAKER_OPENED:
        c->stats.breaker_openings++;
        coordinator_release_open(c);
        break;
    case BREAKER_MENDED:
        /* The marks went past its jobs while it was left out. */
        for (size_t i = 0; i < c->n_scans; i++)
            c->scans[i].want_full = true;
        coordinator_look(c);
        break;
    case BREAKER_HALVED:
    case BREAKER_UNCHANGED:
        break;
    }
}

static void tick_breakers(struct coordinator *c, int64_t now_us)
{
    size_t pos = 0;
    struct breaker *b;

    while (c->pulse.breakers.n_open > 0 && (b = breakers_next(&c->pulse.breakers, &pos)) != NULL) {
        enum breaker_change change = breaker_tick(b, now_us);

        if (change != BREAKER_UNCHANGED)
            on_breaker(c, b, change);
    }
}

bool coordinator_may_start(const struct coordinator *c, const struct slot *slot)
{
    const struct breaker *b;

    if (c->pulse.gate.closed)
        return false;
    if (c->pulse.breakers.n_open == 0)
        return true;
    b = breakers_find(&c->pulse.breakers, slot->run.job.kind);
    return b == NULL || b->state == BREAKER_CLOSED ||
           (b->state == BREAKER_HALF && slot->probe == b->round);
}

static enum breaker_report
report_of(const struct coordinator *c, const struct slot *slot, const struct outcome *outcome)
{
    /* Ended because we said so: that tells nothing about its kind. */
    if (slot->claim->lost || slot->told || c->state != COORDINATOR_WORKING)
        return BREAKER_NOTHING;
    switch (outcome->kind) {
    case OUTCOME_RETRY:
    case OUTCOME_FAIL:
        return BREAKER_ERROR;
    case OUTCOME_SNOOZE:
    case OUTCOME_CANCEL:
    case OUTCOME_RELEASE:
    case OUTCOME_WAIT_ON:
        return BREAKER_NOTHING;
    default:
        /* Its handler works well, also when it says no (reject) or is not at its end. */
        return BREAKER_FINE;
    }
}

static void tell_breaker(struct coordinator *c, struct slot *slot, enum breaker_report report)
{
    unsigned probe = slot->probe;
    struct breaker *b = NULL;

    slot->probe = 0; /* told once */
    enum breaker_change change =
        breakers_report(&c->pulse.breakers, slot->run.job.kind, report, probe, now_of(c), &b);

    if (change != BREAKER_UNCHANGED)
        on_breaker(c, b, change);
}

/* Not left to the settle: until its answer comes, a kind that fails fast could burn many attempts. */
void coordinator_note_finished(struct coordinator *c,
                               struct slot *slot,
                               const struct outcome *outcome)
{
    if (c->pulse.breakers.options.percent > 0)
        tell_breaker(c, slot, report_of(c, slot, outcome));
}

/* ---- what was, lately */

static void note_run(struct coordinator *c, const struct slot *slot)
{
    struct pulse *p = &c->pulse;
    int64_t run_us = slot->item.outcome.run_us;
    bool error =
        slot->item.outcome.kind == OUTCOME_RETRY || slot->item.outcome.kind == OUTCOME_FAIL;

    p->window.runs++;
    p->window.errors += error;
    p->rate_runs++;
    quantile_add(&p->window.took, run_us);
    quantile_add(&p->recent[0], run_us);
    c->stats.errors_transient += slot->item.outcome.kind == OUTCOME_RETRY;
    c->stats.errors_permanent += slot->item.outcome.kind == OUTCOME_FAIL;
    c->stats.errors_business += slot->item.outcome.kind == OUTCOME_REJECT;
}

void coordinator_note_settled(struct coordinator *c, struct slot *slot, const char *state)
{
    bool was_run = slot->item.outcome.kind != OUTCOME_RELEASE;

    if (was_run && state != NULL &&
        (slot->item.outcome.kind == OUTCOME_DONE || strcmp(state, "cancelled") != 0))
        note_run(c, slot);
    /* A probe that was never run. */
    if (slot->probe != 0)
        tell_breaker(c, slot, BREAKER_NOTHING);
}

static void rotate(struct pulse *p, int64_t now_us)
{
    if (now_us - p->recent_us >= RECENT_US) {
        p->recent[1] = p->recent[0];
        quantile_clear(&p->recent[0]);
        p->recent_us = now_us;
    }
    if (now_us - p->rate_us >= RATE_WINDOW_US) {
        p->runs_per_minute =
            (int64_t)p->rate_runs * SECONDS_PER_MIN * US_PER_S / (now_us - p->rate_us);
        p->rate_runs = 0;
        p->rate_us = now_us;
    }
}

void coordinator_gauges(const struct coordinator *c, struct coordinator_gauges *ret_gauges)
{
    const struct pulse *p = &c->pulse;
    struct quantile recent = p->recent[0];

    quantile_merge(&recent, &p->recent[1]);
    *ret_gauges = (struct coordinator_gauges){
        .concurrency = (int64_t)p->tuner.now,
        .running = (int64_t)c->slots.n[SLOT_RUNNING],
        .buffered = (int64_t)(c->slots.n[SLOT_BUFFERED] + c->slots.n[SLOT_BEHIND]),
        .unsettled = (int64_t)coordinator_unsettled(c),
        .runs_per_minute = p->runs_per_minute,
        .run_p50_us = quantile_at(&recent, 500),
        .run_p95_us = quantile_at(&recent, 950),
        .run_p99_us = quantile_at(&recent, 990),
        .claim_p99_us = quantile_at(&c->stats.claim.spread, 990),
        .settle_p99_us = quantile_at(&c->stats.settle.spread, 990),
        .memory_bytes = p->memory.used_bytes,
        .memory_limit_bytes = p->memory.limit_bytes,
        .memory_rss_bytes = p->memory.rss_bytes,
        .memory_closed_ms = p->gate.closed ? (now_of(c) - p->closed_us) / US_PER_MS + 1 : 0,
        .breakers_open = (int64_t)p->breakers.n_open,
    };
}

/* ---- the pulse itself */

static void check_overruns(struct coordinator *c, int64_t now_us)
{
    int64_t more_ms = c->options.overrun_ms > 0 ? c->options.overrun_ms : OVERRUN_MS;

    LIST_FOREACH(link, &c->slots.at[SLOT_RUNNING]) {
        struct slot *slot = slot_of_link(link);
        const struct job *job = &slot->run.job;
        int64_t ran_ms = (now_us - slot->started_us) / US_PER_MS;

        if (job->timeout_ms == 0 || slot->overran || ran_ms <= job->timeout_ms + more_ms)
            continue;
        slot->overran = true;
        c->stats.overruns++;
        log_error(c->options.log,
                  "job_overrun",
                  LOG_INT("job", job->id),
                  LOG_STR("kind", job->kind),
                  LOG_INT("timeout_ms", job->timeout_ms),
                  LOG_INT("ran_ms", ran_ms),
                  LOG_STR("then", "its slot is taken until it ends"));
    }
}

static void on_pulse(uv_timer_t *timer)
{
    struct coordinator *c = timer->data;
    int64_t now_us = now_of(c);

    if (c->pulse.watch != NULL)
        c->stats.stalls = watch_stalls(c->pulse.watch);
    primary_tick(c->options.primary);
    /* Behind a pooler a connection may outlive its primary. */
    coordinator_note_timeline(c);
    if (primary_pooled(c->options.primary))
        waker_deafen(&c->waker);
    check_overruns(c, now_us);
    rotate(&c->pulse, now_us);
    if (c->state != COORDINATOR_WORKING)
        return;
    check_memory(c, now_us);
    tick_breakers(c, now_us);
    coordinator_tune(c, now_us);
}

void coordinator_pulse_init(struct coordinator *c)
{
    const struct coordinator_options *o = &c->options;
    struct pulse *p = &c->pulse;
    size_t max = o->max_concurrency > o->concurrency ? o->max_concurrency : o->concurrency;

    if (o->rollout > max)
        max = o->rollout;
    uv_timer_init(c->loop, &p->timer);
    p->timer.data = c;
    p->gate = (struct memory_gate){.group_percent = o->memory_percent,
                                   .machine_percent = o->memory_machine_percent};
    p->rollout_due = o->rollout > 0 && o->rollout != o->concurrency;
    p->recent_us = p->rate_us = p->window.since_us = now_of(c);
    breakers_init(&p->breakers, &o->breaker);
    tuner_init(
        &p->tuner,
        &(struct tuner_options){.start = o->concurrency, .min = o->min_concurrency, .max = max});
}

void coordinator_pulse_start(struct coordinator *c)
{
    const struct coordinator_options *o = &c->options;
    int64_t every_ms = o->pulse_ms > 0 ? o->pulse_ms : PULSE_MS;
    struct pawl_err err = {0};

    /* The loop must turn often enough not to look stuck. */
    if (o->stall_ms > 0) {
        if (every_ms > o->stall_ms / BEATS_PER_STALL)
            every_ms = o->stall_ms / BEATS_PER_STALL > 0 ? o->stall_ms / BEATS_PER_STALL : 1;
        c->pulse.watch = watch_new(o->stall_ms, c->name, o->clock, o->log, &err);
        if (c->pulse.watch == NULL)
            log_warn_err(o->log, "watch", &err, LOG_STR("worker", c->name));
    }
    /* Before the first claim: a worker may start where memory is tight already. */
    check_memory(c, now_of(c));
    uv_timer_start(&c->pulse.timer, on_pulse, (uint64_t)every_ms, (uint64_t)every_ms);
}

void coordinator_pulse_stop(struct coordinator *c)
{
    watch_free(c->pulse.watch);
    c->pulse.watch = NULL;
}

void coordinator_pulse_deinit(struct coordinator *c)
{
    breakers_deinit(&c->pulse.breakers);
}
