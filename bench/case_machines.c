/*
 * machines: what steps, signals and children cost. Steps and children against the drain of as many
 * plain jobs, a signal by the clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>
#include <poll.h>
#include <stdatomic.h>

#include "base/defer.h"
#include "bench/crew.h"
#include "bench/tables.h"
#include "core/machine.h"

#define STEPS          10
#define MACHINES_SHARE 0.1 /* of --jobs: 20 000 */
#define KIDS_SHARE     0.05
#define SIGNALS        300
#define FALL_ASLEEP_MS 1500
#define ARRIVE_MOST_MS 10000

struct machines {
    struct series steps; /* steps/s */
    struct series plain; /* jobs/s */
    struct series trips; /* commits per step */
    struct series cpu;   /* µs of the server per step */
    struct series cpu_plain;
};

/* Ten steps that do nothing; the state is their number. */
static void run_step(void *data, struct task *task)
{
    static const char *const names[] = {"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"};
    const struct machine *machine = task_job(task)->machine;
    int at = machine != NULL && machine->step != NULL ? machine->step[1] - '0' : 0;

    (void)data;
    if (at + 1 == STEPS)
        return; /* done */
    task_go_on(task,
               OUTCOME_NEXT,
               &(struct going_on){.step = names[at], .state = names[at], .state_len = 2},
               0);
}

static int scene(struct bench *b, int64_t n, struct pawl_err *err)
{
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = tables_exec(b->conn, err, "TRUNCATE pawl.signal, pawl.child, pawl.lane");
    if (rc == 0)
        rc = tables_fill(b, n, PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    return rc;
}

static int measure_steps(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct machines *m = data;
    int64_t n = against ? b->options.jobs : bench_jobs(b, MACHINES_SHARE);
    struct server_counts before;
    struct server_counts after;
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    double rate = BENCH_NONE;
    int rc = scene(b, n, err);

    if (rc == 0)
        rc = tables_counts(b, &before, err);
    options.stop_after = n;
    if (!against)
        options.handler = run_step;
    if (rc == 0)
        rc = crew_drain(b, &crew, &options, &rate, err);
    if (rc == 0)
        rc = tables_counts(b, &after, err);
    if (rc < 0)
        return rc;
    series_add(against ? &m->cpu_plain : &m->cpu,
               (double)(after.cpu_us - before.cpu_us) / ((double)n * (against ? 1 : STEPS)));
    if (against) {
        series_add(&m->plain, rate);
    } else {
        series_add(&m->steps, rate * STEPS);
        series_add(&m->trips,
                   (double)(after.commits - before.commits) / ((double)n * (double)STEPS));
    }
    bench_note(
        b, "  %s: %.0f a second", against ? "plain jobs" : "steps", against ? rate : rate * STEPS);
    return 0;
}

/* ── children ── */

struct families {
    size_t n;
    struct child_new *children;
    struct series
        joined; /* children/s, from the commit that made them to the end of their parent */
    struct series spawned; /* ms from connecting to that commit */
    struct series plain;
};

/* The first job spawns, its children do nothing, the join ends it. */
static void run_family(void *data, struct task *task)
{
    const struct families *families = data;
    const struct job *job = task_job(task);

    if (job->machine != NULL || job->payload_len != 1)
        return;
    task_go_on(task,
               OUTCOME_SPAWN,
               &(struct going_on){
                   .step = "sum", .children = families->children, .n_children = families->n},
               -1);
}

static int measure_children(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct families *f = data;
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    double rate = BENCH_NONE;
    int rc = scene(b, against ? (int64_t)f->n : 1, err);

    options.stop_after = (int64_t)f->n;
    if (!against) {
        options.handler = run_family;
        options.data = f;
        options.stop_after += 2; /* the parent's spawn, and its end */
        options.time_after = 1;
        if (rc == 0)
            rc = tables_exec(b->conn, err, "UPDATE pawl.job SET payload = '1'");
    }
    int64_t before_us = bench_now_us();

    if (rc == 0)
        rc = crew_drain(b, &crew, &options, &rate, err);
    if (rc == 0)
        series_add(against ? &f->plain : &f->joined, rate);
    if (rc == 0 && !against)
        series_add(&f->spawned, (double)(crew.begun_us - before_us) / US_PER_MS);
    bench_note(b, "  %s: %.0f a second", against ? "plain jobs" : "children", rate);
    return rc;
}

static int children(struct bench *b, struct pawl_err *err)
{
    struct families f = {.n = (size_t)bench_jobs(b, KIDS_SHARE)};
    AUTO_FREE struct child_new *kids = calloc(f.n, sizeof(*kids));

    if (kids == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    f.children = kids;
    for (size_t i = 0; i < f.n; i++)
        kids[i] = (struct child_new){.queue = BENCH_QUEUE,
                                     .kind = BENCH_KIND,
                                     .payload = "{}",
                                     .payload_len = 2,
                                     .priority = PAWL_PRIORITY_DEFAULT,
                                     .max_attempts = 1};
    bench_note(b, "%zu children of one parent", f.n);
    int rc = bench_pairs(b, measure_children, &f, err);

    if (rc < 0)
        return rc;
    bench_row_ratio(
        b, "children joining one parent / plain jobs", "jobs/s", &f.joined, &f.plain, 0.5);
    bench_row_limit(b, "connecting, and spawning them", "ms", &f.spawned, NULL, BENCH_NONE);
    return 0;
}

/* ── signals ── */

struct waits {
    atomic_int_least64_t woken_us; /* 0: not since the last signal */
};

/* Waits for the next one, in turns, so that each is consumed. */
static void run_wait(void *data, struct task *task)
{
    struct waits *waits = data;
    const struct machine *machine = task_job(task)->machine;
    bool even = machine != NULL && machine->step != NULL && machine->step[0] == 'a';

    atomic_store(&waits->woken_us, bench_now_us());
    task_go_on(
        task, OUTCOME_AWAIT, &(struct going_on){.step = even ? "b" : "a", .awaits = "go"}, -1);
}

static int wait_woken(struct bench *b, struct waits *waits, int64_t *ret_us, struct pawl_err *err)
{
    int64_t began_us = bench_now_us();
    int64_t woken_us;

    while ((woken_us = atomic_load(&waits->woken_us)) == 0) {
        int rc = bench_go_on(b, err);

        if (rc < 0)
            return rc;
        if (bench_now_us() - began_us > ARRIVE_MOST_MS * US_PER_MS)
            return err_set(err, PAWL_ETIMEOUT, "a machine was not woken in time");
        (void)poll(NULL, 0, 1); /* the handler's clock counts */
    }
    *ret_us = woken_us;
    return 0;
}

/* Until it waits again: a signal that comes before is none to an idle machine. */
static int wait_parked(struct bench *b, struct pawl_err *err)
{
    for (;;) {
        int64_t n = 0;
        int rc = tables_number(
            b->conn,
            &n,
            err,
            "SELECT count(*) FROM pawl.job WHERE waits_for = 'signal' AND token IS NULL");

        if (rc < 0 || n == 1)
            return rc;
        rc = bench_go_on(b, err);
        if (rc < 0)
            return rc;
        bench_sleep_ms(b, 1);
    }
}

static int
send_signals(struct bench *b, struct waits *waits, struct series *ret_ms, struct pawl_err *err)
{
    AUTO_FREE double *all = calloc(SIGNALS, sizeof(*all));
    int64_t job = 0;
    size_t n = (size_t)bench_ms(b, SIGNALS);
    struct series some = {0};
    int rc = all != NULL ? tables_number(b->conn, &job, err, "SELECT id FROM pawl.job")
                         : err_set(err, PAWL_ENOMEM, "out of memory");

    bench_sleep_ms(b, FALL_ASLEEP_MS);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        int64_t woken_us = 0;

        rc = wait_parked(b, err);
        bench_sleep_ms(b, 5);
        atomic_store(&waits->woken_us, 0);
        if (rc == 0)
            rc = tables_exec(b->conn, err, "SELECT pawl.signal(%lld, 'go')", (long long)job);
        int64_t sent_us = bench_now_us();

        if (rc == 0)
            rc = wait_woken(b, waits, &woken_us, err);
        all[i] = fmax(0, (double)(woken_us - sent_us) / US_PER_MS);
    }
    /* Medians of groups, of which the report shows the median. */
    for (size_t i = 0; rc == 0 && i < n; i++) {
        series_add(&some, all[i]);
        if (some.n == BENCH_ROUNDS_MAX / 2 || i + 1 == n) {
            series_add(ret_ms, series_median(&some));
            some.n = 0;
        }
    }
    return rc;
}

static int signals(struct bench *b, struct pawl_err *err)
{
    struct waits waits = {0};
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    struct series ms = {0};
    struct pawl_err stop_err;

    bench_note(b, "a machine that waits for signals");
    int rc = scene(b, 1, err);

    options.handler = run_wait;
    options.data = &waits;
    if (rc == 0)
        rc = crew_start(&crew, &options, err);
    if (rc < 0)
        return rc;
    rc = send_signals(b, &waits, &ms, err);
    if (crew_stop(&crew, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = stop_err.code;
    }
    if (rc == 0)
        bench_row_limit(b, "signal's commit to the step, idle, p50", "ms", &ms, NULL, 1.5);
    return rc;
}

int case_machines(struct bench *b, struct pawl_err *err)
{
    struct machines m = {0};

    bench_note(b, "%lld machines of %d steps", (long long)bench_jobs(b, MACHINES_SHARE), STEPS);
    int rc = bench_pairs(b, measure_steps, &m, err);

    if (rc == 0) {
        bench_row_ratio(b, "steps of machines / plain jobs", "1/s", &m.steps, &m.plain, 0.6);
        bench_row_limit(b, "transactions per step", "tx", &m.trips, NULL, 0.1);
        bench_row_limit(
            b, "server CPU per step / per plain job", "µs", &m.cpu, &m.cpu_plain, BENCH_NONE);
        rc = children(b, err);
    }
    if (rc == 0)
        rc = signals(b, err);
    return rc;
}
