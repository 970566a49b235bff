/*
 * lanes: what they cost to those in them, against the drain of plain jobs by as many workers; and
 * to those who are not, with the siblings of a running lane in front of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdatomic.h>

#include "base/defer.h"
#include "bench/crew.h"
#include "bench/tables.h"
#include "core/machine.h"
#include "store/job.h"
#include "store/statements.h"

#define WORKERS       8
#define LANES_SHARE   0.05
#define LANES_MAX     10000
#define AHEAD_SHARE   20 /* of the lanes, claimed by each worker: together less than half of them */
#define CROWD_SHARE   0.5
#define CLAIMS        100
#define CLAIM_LIMIT   100
#define LOOK_MS       10
#define DRAIN_MOST_MS (5 * 60 * 1000)
#define LEASE_MS      60000
#define ARENA_MAX     (256 * 1024)

/* ── many lanes, many workers ── */

struct lanes {
    int64_t n_lanes;
    atomic_int inside[LANES_MAX]; /* jobs that run in each */
    atomic_int_least64_t overlaps;
    struct series in_lanes; /* jobs/s */
    struct series plain;
    struct series rollbacks;
    struct series overlapping;
};

static void run_in_lane(void *data, struct task *task)
{
    struct lanes *lanes = data;
    const char *lane = task_job(task)->lane;
    size_t at = lane != NULL ? (size_t)strtoul(lane + 1, NULL, 10) % LANES_MAX : 0;

    if (lane == NULL)
        return;
    if (atomic_fetch_add(&lanes->inside[at], 1) != 0)
        atomic_fetch_add(&lanes->overlaps, 1);
    atomic_fetch_sub(&lanes->inside[at], 1);
}

static int64_t settled_by(struct crew *crews, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        struct crew_view view;

        crew_look(&crews[i], &view);
        sum += view.n_settled;
    }
    return sum;
}

/* All crews at once, until n jobs are settled. */
static int drain_by_all(
    struct bench *b, struct lanes *lanes, int64_t n, double *ret_rate, struct pawl_err *err)
{
    AUTO_FREE struct crew *crews = calloc(WORKERS, sizeof(*crews));
    struct crew_options options = crew_fast(&b->target, b->options.log);
    struct pawl_err stop_err;
    size_t n_crews = 0;
    int rc = crews != NULL ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");
    int64_t began_us = bench_now_us();
    int64_t left;

    options.threads = 1;
    options.ahead = (size_t)(lanes->n_lanes / AHEAD_SHARE) + 1;
    options.handler = run_in_lane;
    options.data = lanes;
    while (rc == 0 && n_crews < WORKERS) {
        rc = crew_start(&crews[n_crews], &options, err);
        n_crews += rc == 0;
    }
    while (rc == 0 && (left = n - settled_by(crews, n_crews)) > 0) {
        rc = bench_go_on(b, err);
        if (rc == 0 && bench_now_us() - began_us > DRAIN_MOST_MS * US_PER_MS)
            rc = err_set(err, PAWL_ETIMEOUT, "%lld jobs were left over", (long long)left);
        bench_sleep_ms(b, LOOK_MS);
    }
    *ret_rate = (double)n * US_PER_S / (double)(bench_now_us() - began_us);
    for (size_t i = 0; i < n_crews; i++) {
        if (crew_stop(&crews[i], &stop_err) < 0 && rc == 0) {
            *err = stop_err;
            rc = stop_err.code;
        }
    }
    return rc;
}

static int measure_drain(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct lanes *lanes = data;
    int64_t n = b->options.jobs;
    struct server_counts before;
    struct server_counts after;
    double rate = BENCH_NONE;
    int rc = tables_clear(b, 0, err);

    atomic_store(&lanes->overlaps, 0);
    if (rc == 0)
        rc = tables_exec(b->conn, err, "TRUNCATE pawl.lane");
    if (rc == 0 && against)
        rc = tables_fill(b, n, PAWL_PRIORITY_DEFAULT, false, err);
    else if (rc == 0)
        rc = tables_exec(b->conn,
                         err,
                         "INSERT INTO pawl.job (queue, kind, payload, priority, due_at, lane)"
                         " SELECT '" BENCH_QUEUE "', '" BENCH_KIND "', '{}', 4,"
                         "  now() - interval '1 minute' + g * interval '1 microsecond',"
                         "  'l' || g %% %lld FROM generate_series(1, %lld) AS g",
                         (long long)lanes->n_lanes,
                         (long long)n);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0)
        rc = tables_counts(b, &before, err);
    if (rc == 0)
        rc = drain_by_all(b, lanes, n, &rate, err);
    if (rc == 0)
        rc = tables_counts(b, &after, err);
    if (rc < 0)
        return rc;
    bench_note(b, "  %s: %.0f jobs/s", against ? "plain" : "in lanes", rate);
    series_add(against ? &lanes->plain : &lanes->in_lanes, rate);
    if (!against) {
        series_add(&lanes->rollbacks, (double)(after.rollbacks - before.rollbacks));
        series_add(&lanes->overlapping, (double)atomic_load(&lanes->overlaps));
    }
    return 0;
}

/* ── a hot lane in front of others ── */

struct crowd {
    struct series hot;   /* µs a claim */
    struct series clean; /* the same without the lane */
    struct series moved; /* µs for each sibling, once */
};

/* One claim; where the next one starts goes on from it, as the engine's does. */
static int claim_some(
    struct bench *b, struct job_claim *asked, int *ret_n, bool *ret_more, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    struct params p;

    asked->token = uuid_random();
    arena_init(&arena, ARENA_MAX);
    params_init(&p, &arena);
    job_claim_bind(&p, asked);
    if (p.failed)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    PGresult *r = PQexecPrepared(b->conn, "claim", p.n, p.values, p.lengths, p.formats, 1);
    int rc = PQresultStatus(r) == PGRES_TUPLES_OK ? 0 : tables_failed(b->conn, r, err);

    if (rc == 0) {
        *ret_n = job_claim_count(r, ret_more);
        for (int i = 0; i < *ret_n + *ret_more; i++) {
            struct job_watermark *mark = job_claim_in_lane(r, i) ? asked->lane_from : asked->from;
            int64_t due_us = job_claim_due(r, i);

            mark += job_claim_priority(r, i);
            if (due_us > mark->due_us)
                *mark = (struct job_watermark){.due_us = due_us, .id = job_claim_id(r, i)};
        }
    }
    PQclear(r);
    return rc;
}

static int
claims(struct bench *b, struct crowd *crowd, bool clean, int64_t siblings, struct pawl_err *err)
{
    static const char *const kinds[] = {BENCH_KIND};
    struct job_claim asked = {
        .queue = BENCH_QUEUE,
        .kinds = kinds,
        .n_kinds = 1,
        .limit = CLAIM_LIMIT,
        .worker = uuid_random(),
        .lease_ms = LEASE_MS,
        .lanes = true,
    };
    struct series some = {0};
    int64_t began_us = bench_now_us();
    int n = 0;
    bool more = false;
    int rc = 0;

    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        asked.from[i].due_us = asked.lane_from[i].due_us = INT64_MIN;
    /* Until the first of the others comes. */
    while (rc == 0 && n == 0)
        rc = claim_some(b, &asked, &n, &more, err);
    if (rc == 0 && !clean)
        series_add(&crowd->moved, (double)(bench_now_us() - began_us) / (double)siblings);
    for (int i = 0; rc == 0 && i < CLAIMS; i++) {
        began_us = bench_now_us();
        rc = claim_some(b, &asked, &n, &more, err);
        if (rc == 0 && n != CLAIM_LIMIT)
            rc = err_set(err, PAWL_ESTATE, "a claim found %d jobs", n);
        if (i % 4 == 0)
            series_add(&some, (double)(bench_now_us() - began_us));
    }
    if (rc == 0)
        series_add(clean ? &crowd->clean : &crowd->hot, series_median(&some));
    return rc;
}

static int measure_crowd(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    int64_t n = bench_jobs(b, CROWD_SHARE);
    int64_t others = n > (CLAIMS + 1) * CLAIM_LIMIT ? n : (CLAIMS + 1) * CLAIM_LIMIT;
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = tables_exec(b->conn, err, "TRUNCATE pawl.lane");
    if (rc == 0 && !against)
        rc = tables_exec(b->conn,
                         err,
                         "INSERT INTO pawl.job (queue, kind, payload, priority, due_at, lane)"
                         " SELECT '" BENCH_QUEUE "', '" BENCH_KIND "', '{}', 4,"
                         "  now() - interval '1 hour' + g * interval '1 microsecond', 'hot'"
                         " FROM generate_series(1, %lld) AS g;"
                         "UPDATE pawl.job SET token = gen_random_uuid()"
                         " WHERE id = (SELECT min(id) FROM pawl.job);"
                         "INSERT INTO pawl.lane (queue, name, holders)"
                         " SELECT '" BENCH_QUEUE "', 'hot', ARRAY[min(id)] FROM pawl.job",
                         (long long)n);
    if (rc == 0)
        rc = tables_fill(b, others, PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0)
        rc = tables_session(b->conn, err);
    if (rc == 0)
        rc = tables_prepare(b->conn, "claim", STMT(job_claim_lanes)->sql, err);
    if (rc == 0)
        rc = claims(b, data, against, n, err);
    if (rc == 0)
        rc = tables_exec(b->conn, err, "DEALLOCATE claim; RESET ALL");
    return rc;
}

int case_lanes(struct bench *b, struct pawl_err *err)
{
    AUTO_FREE struct lanes *lanes = calloc(1, sizeof(*lanes));
    struct crowd crowd = {0};
    struct series ratio = {0};

    if (lanes == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    lanes->n_lanes = bench_jobs(b, LANES_SHARE);
    if (lanes->n_lanes > LANES_MAX)
        lanes->n_lanes = LANES_MAX;
    bench_note(
        b, "%lld siblings of a running lane in front", (long long)bench_jobs(b, CROWD_SHARE));
    int rc = bench_pairs(b, measure_crowd, &crowd, err);

    for (size_t i = 0; rc == 0 && i < crowd.hot.n && i < crowd.clean.n; i++)
        series_add(&ratio, crowd.hot.values[i] / crowd.clean.values[i]);
    if (rc == 0) {
        bench_row_limit(b, "claim behind a hot lane / without it", "×", &ratio, NULL, 1.5);
        bench_row_limit(
            b, "claim of 100 behind a hot lane", "µs", &crowd.hot, &crowd.clean, BENCH_NONE);
        bench_row_limit(b, "moving a sibling behind, once", "µs", &crowd.moved, NULL, BENCH_NONE);
        bench_note(
            b, "%lld jobs in %lld lanes", (long long)b->options.jobs, (long long)lanes->n_lanes);
        rc = bench_pairs(b, measure_drain, lanes, err);
    }
    if (rc < 0)
        return rc;
    bench_row_ratio(
        b, "jobs in lanes, 8 workers / plain", "jobs/s", &lanes->in_lanes, &lanes->plain, 0.5);
    bench_row_limit(b, "rollbacks meanwhile", "tx", &lanes->rollbacks, NULL, 0);
    bench_row_limit(b, "jobs that overlapped in a lane", "jobs", &lanes->overlapping, NULL, 0);
    return 0;
}
