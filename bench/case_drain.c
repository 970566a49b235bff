/* drain: a full queue, handlers that do nothing, one process. Against the floor. */
#include <math.h>

#include "bench/crew.h"
#include "bench/floor.h"
#include "bench/tables.h"

#define KEEP_DEFAULT_DAYS 7

struct drain {
    int keep_days;
    struct series engine; /* jobs/s */
    struct series bare;
    struct series tx;  /* commits per job */
    struct series wal; /* bytes per job */
    struct series wal_bare;
    struct series cpu; /* µs of this process per job */
    struct series cpu_bare;
    struct series server; /* the same of the server's sessions; 0 when the server is elsewhere */
    struct series server_bare;
};

static int measure(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct drain *d = data;
    int64_t jobs = b->options.jobs;
    struct server_counts before;
    struct server_counts after;
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    double rate = BENCH_NONE;
    int rc = tables_clear(b, d->keep_days, err);

    if (rc == 0)
        rc = tables_fill(b, jobs, PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0)
        rc = tables_counts(b, &before, err);
    int64_t cpu_us = crew_cpu_us();

    options.stop_after = jobs;
    if (rc == 0 && against)
        rc = floor_drain(b, jobs, COORDINATOR_CLAIM_MAX, &rate, err);
    else if (rc == 0)
        rc = crew_drain(b, &crew, &options, &rate, err);
    cpu_us = crew_cpu_us() - cpu_us;
    if (rc == 0)
        rc = tables_counts(b, &after, err);
    if (rc < 0)
        return rc;
    double n = (double)jobs;

    bench_note(b, "  %s: %.0f jobs/s", against ? "floor" : "pawl", rate);
    series_add(against ? &d->bare : &d->engine, rate);
    series_add(against ? &d->wal_bare : &d->wal, (double)(after.wal_bytes - before.wal_bytes) / n);
    series_add(against ? &d->cpu_bare : &d->cpu, (double)cpu_us / n);
    series_add(against ? &d->server_bare : &d->server, (double)(after.cpu_us - before.cpu_us) / n);
    if (!against)
        series_add(&d->tx, (double)(after.commits - before.commits) / n);
    return 0;
}

int case_drain(struct bench *b, struct pawl_err *err)
{
    struct drain off = {.keep_days = 0};
    struct drain on = {.keep_days = KEEP_DEFAULT_DAYS};

    bench_note(b, "drain %lld jobs, history off", (long long)b->options.jobs);
    int rc = bench_pairs(b, measure, &off, err);

    if (rc < 0)
        return rc;
    bench_row_ratio(b, "no-op jobs, history off / floor", "jobs/s", &off.engine, &off.bare, 0.8);
    bench_note(b, "drain %lld jobs, history on", (long long)b->options.jobs);
    rc = bench_pairs(b, measure, &on, err);
    if (rc < 0)
        return rc;
    bench_row_ratio(b, "no-op jobs, history on / floor", "jobs/s", &on.engine, &on.bare, 0.6);
    bench_row_limit(b, "transactions per job", "tx", &off.tx, NULL, 0.05);
    bench_row_limit(
        b, "WAL per job, history off / floor", "B", &off.wal, &off.wal_bare, BENCH_NONE);
    bench_row_limit(b, "WAL per job, history on / floor", "B", &on.wal, &on.wal_bare, BENCH_NONE);
    bench_row_limit(b, "client CPU per job / floor", "µs", &off.cpu, &off.cpu_bare, BENCH_NONE);
    bench_row_limit(b,
                    "server CPU per job, history off / floor",
                    "µs",
                    &off.server,
                    &off.server_bare,
                    BENCH_NONE);
    bench_row_limit(
        b, "server CPU per job, history on / floor", "µs", &on.server, &on.server_bare, BENCH_NONE);
    return 0;
}
