/* workers: a thousand of them on one server: what they cost asleep, and whether they are in each other's way at work. */
#include <stdio.h>

#include <math.h>

#include "bench/gang.h"
#include "bench/served.h"
#include "bench/tables.h"

#define WAIT_MOST_MS (10 * 60 * 1000)
#define MANY         1000
#define FEW          8
#define CREDITS      32 /* of each */
#define IDLE_MS      15000

static struct gang_options crowd(struct bench *b, const struct served *served, size_t workers)
{
    return (struct gang_options){.server = &served->address,
                                 .log = b->options.log,
                                 .workers = workers,
                                 .concurrency = CREDITS};
}

static int commits(struct bench *b, int64_t *ret_n, struct pawl_err *err)
{
    return tables_number(
        b->admin,
        ret_n,
        err,
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '%s'",
        b->db);
}

/* A session tells what it did up to ten seconds late: what is counted here is what was done in a time as long as this, a
 * little earlier. */
static int idle(struct bench *b, struct pawl_err *err)
{
    struct served served;
    struct gang gang;
    struct series rate = {0};
    struct series memory = {0};
    struct series cpu = {0};
    struct pawl_err stop_err;
    int64_t before = 0;
    int64_t after = 0;

    bench_note(b, "workers: %d workers that sleep", MANY);
    int rc = served_prepare(b, 0, err);

    if (rc < 0)
        return rc;
    rc = served_start(b, &served, err);
    struct gang_options options = crowd(b, &served, MANY);

    if (rc == 0)
        rc = gang_start(b, &gang, &options, err);
    if (rc < 0)
        return served_finish(&served, rc, err);
    bench_sleep_ms(b, bench_ms(b, IDLE_MS));
    rc = commits(b, &before, err);
    int64_t begun_us = bench_now_us();
    int64_t cpu_us = served_cpu_us(&served);

    bench_sleep_ms(b, bench_ms(b, IDLE_MS));
    if (rc == 0)
        rc = commits(b, &after, err);
    double seconds = (double)(bench_now_us() - begun_us) / US_PER_S;

    series_add(&rate, (double)(after - before) / seconds);
    series_add(&cpu, (double)(served_cpu_us(&served) - cpu_us) / US_PER_MS / seconds);
    series_add(&memory, (double)served_rss_kb(&served) / 1024);
    if (gang_stop(&gang, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = err->code;
    }
    rc = served_finish(&served, rc, err);
    if (rc < 0)
        return rc;
    bench_row_limit(b, "transactions with 1000 workers asleep", "/s", &rate, NULL, 2);
    bench_row_limit(b, "server's memory with 1000 workers asleep", "MB", &memory, NULL, 50);
    bench_row_limit(b, "server's CPU with 1000 workers asleep", "ms/s", &cpu, NULL, BENCH_NONE);
    return 0;
}

struct crowds {
    struct series many;
    struct series few;
    struct series memory;
};

static int measure_crowd(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct crowds *c = data;
    struct served served;
    struct gang gang;
    int64_t jobs = b->options.jobs;
    int rc = served_prepare(b, jobs, err);

    if (rc == 0)
        rc = tables_exec(
            b->conn, err, "UPDATE pawl.queue SET paused_at = now() WHERE name = '" BENCH_QUEUE "'");
    if (rc < 0)
        return rc;
    rc = served_start(b, &served, err);
    struct gang_options options = crowd(b, &served, against ? FEW : MANY);

    /* All are connected before the first job comes, and the clock runs when a tenth is done. */
    options.stop_after = jobs;
    options.time_after = jobs / 10;
    if (rc == 0)
        rc = gang_start(b, &gang, &options, err);
    if (rc < 0)
        return served_finish(&served, rc, err);
    rc = tables_exec(b->conn,
                     err,
                     "UPDATE pawl.queue SET paused_at = NULL WHERE name = '" BENCH_QUEUE "';"
                     "SELECT pg_notify('pawl', '" BENCH_QUEUE "')");
    struct pawl_err wait_err;
    int wait_rc = gang_wait(b, &gang, WAIT_MOST_MS, &wait_err);

    if (rc == 0 && wait_rc < 0) {
        *err = wait_err;
        rc = wait_rc;
    }
    if (rc == 0) {
        series_add(against ? &c->few : &c->many, gang_rate(&gang));
        if (!against)
            series_add(&c->memory, (double)served_rss_kb(&served) / 1024);
        bench_note(b, "  %d workers: %.0f jobs/s", against ? FEW : MANY, gang_rate(&gang));
    }
    return served_finish(&served, rc, err);
}

static int crowds(struct bench *b, struct pawl_err *err)
{
    struct crowds c = {0};

    bench_note(b, "workers: %d workers against %d", MANY, FEW);
    int rc = bench_pairs(b, measure_crowd, &c, err);

    if (rc < 0)
        return rc;
    bench_row_ratio(b, "no-op jobs, 1000 workers / 8", "jobs/s", &c.many, &c.few, 0.8);
    bench_row_limit(b, "server's memory with 1000 workers at work", "MB", &c.memory, NULL, 50);
    return 0;
}

int case_workers(struct bench *b, struct pawl_err *err)
{
    int rc = idle(b, err);

    return rc == 0 ? crowds(b, err) : rc;
}
