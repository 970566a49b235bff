/* backlog, xmin, future: what else is in the table must not matter to those who claim from it.
 * Against the same work without it. */
#include <stdio.h>

#include <math.h>

#include "base/defer.h"
#include "bench/crew.h"
#include "bench/tables.h"
#include "pg/sync.h"

#define PRIORITY_URGENT 9
#define BACKLOG_TIMES   5

struct pair {
    struct series with;
    struct series without;
};

static void add(struct bench *b, struct pair *pair, bool against, double rate, const char *with)
{
    bench_note(b, "  %s %s: %.0f jobs/s", against ? "without" : "with", with, rate);
    series_add(against ? &pair->without : &pair->with, rate);
}

/* The first n jobs of a table that is ready. */
static int drain_first(struct bench *b, int64_t n, double *ret_rate, struct pawl_err *err)
{
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);

    options.stop_after = n;
    return crew_drain(b, &crew, &options, ret_rate, err);
}

/* So few jobs are gone in a tenth of a second: several times, and the median of these counts. */
static int measure_backlog(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    int64_t few = bench_jobs(b, 0.05);
    int64_t many = bench_jobs(b, 5);
    struct series rates = {0};
    int rc = 0;

    for (int i = 0; rc == 0 && i < BACKLOG_TIMES; i++) {
        double rate = BENCH_NONE;

        if (i == 0 || against) {
            rc = tables_clear(b, 0, err);
            if (rc == 0)
                rc = tables_fill(b, against ? few : few + many, PAWL_PRIORITY_DEFAULT, false, err);
        }
        if (rc == 0)
            rc = tables_tidy(b, err);
        if (rc == 0)
            rc = drain_first(b, few, &rate, err);
        series_add(&rates, rate);
    }
    if (rc == 0)
        add(b, data, against, series_median(&rates), "a backlog");
    return rc;
}

int case_backlog(struct bench *b, struct pawl_err *err)
{
    struct pair pair = {0};
    char what[96];
    int rc = bench_pairs(b, measure_backlog, &pair, err);

    snprintf(what,
             sizeof(what),
             "first %lld jobs, %lld behind / none behind",
             (long long)bench_jobs(b, 0.05),
             (long long)bench_jobs(b, 5));
    if (rc == 0)
        bench_row_ratio(b, what, "jobs/s", &pair.with, &pair.without, 0.9);
    return rc;
}

/* A transaction that has seen the database as it was before the dead rows died. */
static int hold_snapshot(struct bench *b, PGconn **ret_conn, struct pawl_err *err)
{
    PGconn *conn = NULL;
    int64_t ignored;
    int rc = sync_connect(&b->target, &conn, err);

    if (rc == 0)
        rc = tables_exec(conn, err, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    if (rc == 0)
        rc = tables_number(conn, &ignored, err, "SELECT count(*) FROM pawl.worker");
    if (rc < 0)
        sync_close(&conn);
    else
        *ret_conn = conn;
    return rc;
}

/* Three times as many in a row, and the last third counts: it comes after the dead rows of the two
 * before, which nothing may tidy away. */
static int measure_xmin(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *holder = NULL;
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    double rate = BENCH_NONE;
    int rc = tables_clear(b, 0, err);

    options.time_after = 2 * b->options.jobs;
    options.stop_after = 3 * b->options.jobs;
    if (rc == 0)
        rc = tables_fill(b, options.stop_after, PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0 && !against)
        rc = hold_snapshot(b, &holder, err);
    if (rc == 0)
        rc = crew_drain(b, &crew, &options, &rate, err);
    if (rc == 0)
        add(b, data, against, rate, "vacuum held back");
    return rc;
}

int case_xmin(struct bench *b, struct pawl_err *err)
{
    struct pair pair = {0};
    char what[96];
    int rc = bench_pairs(b, measure_xmin, &pair, err);

    snprintf(what,
             sizeof(what),
             "after %lld dead rows, vacuum held back / free",
             (long long)b->options.jobs * 2);
    if (rc == 0)
        bench_row_ratio(b, what, "jobs/s", &pair.with, &pair.without, 0.95);
    return rc;
}

static int measure_future(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    int64_t due = bench_jobs(b, 0.5);
    double rate = BENCH_NONE;
    int rc = tables_clear(b, 0, err);

    if (rc == 0 && !against)
        rc = tables_fill(b, bench_jobs(b, 5), PRIORITY_URGENT, true, err);
    if (rc == 0)
        rc = tables_fill(b, due, PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0)
        rc = drain_first(b, due, &rate, err);
    if (rc == 0)
        add(b, data, against, rate, "jobs for tomorrow");
    return rc;
}

int case_future(struct bench *b, struct pawl_err *err)
{
    struct pair pair = {0};
    char what[96];
    int rc = bench_pairs(b, measure_future, &pair, err);

    snprintf(what,
             sizeof(what),
             "%lld more urgent jobs for tomorrow / none",
             (long long)bench_jobs(b, 5));
    if (rc == 0)
        bench_row_ratio(b, what, "jobs/s", &pair.with, &pair.without, 0.95);
    return rc;
}
