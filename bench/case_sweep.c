/*
 * sweep: how long the jobs of dead workers take to come back. By the statements alone, among a million
 * other jobs against an empty table; and by a worker that claims and settles meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/crew.h"
#include "bench/tables.h"
#include "engine/sweep.h"
#include "pg/result.h"
#include "store/statements.h"

#define EXPIRED       5000
#define RUN_JOBS      "500" /* SWEEP_JOBS_MAX */
#define OTHERS_SHARE  5     /* a million */
#define CLAIM_JOBS    1000
#define MANY_SHARE    0.5 /* 100 000 */
#define MANY_CLAIM    2000
#define DRAINED_SHARE 5
#define LOOK_MS       50
#define MOST_MS       120000

struct sweeps {
    struct series crowded; /* ms */
    struct series alone;
    struct series crowded_cpu; /* ms of the server's processor */
    struct series alone_cpu;
};

/* What this session has used of the processor; BENCH_NONE when the server is elsewhere. */
static double session_cpu_ms(const PGconn *conn)
{
    char path[64];
    char text[100] = "";
    char *end;

    snprintf(path, sizeof(path), "/proc/%d/schedstat", PQbackendPID(conn));
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return BENCH_NONE;
    if (fgets(text, sizeof(text), f) == NULL)
        text[0] = '\0';
    fclose(f);
    int64_t ns = strtoll(text, &end, 10);

    return end != text ? (double)ns / 1e6 : BENCH_NONE;
}

/* Claims of this size each, whose workers are dead. */
static int with_dead(struct bench *b, int64_t n, int64_t each, struct pawl_err *err)
{
    return tables_exec(b->conn,
                       err,
                       "INSERT INTO pawl.claim (token, worker, lease_until, job_ids)"
                       " SELECT gen_random_uuid(), gen_random_uuid(), now() - interval '1 h', '{}'"
                       "  FROM generate_series(1, %lld);"
                       "WITH mine AS (INSERT INTO pawl.job (queue, kind, payload, token, attempt)"
                       "  SELECT '" BENCH_QUEUE "', '" BENCH_KIND "', '{}', c.token, 1"
                       "  FROM pawl.claim AS c, generate_series(1, %lld) RETURNING id, token)"
                       "UPDATE pawl.claim AS c SET job_ids = m.ids"
                       " FROM (SELECT token, array_agg(id) AS ids FROM mine GROUP BY token) AS m"
                       " WHERE c.token = m.token",
                       (long long)(n / each),
                       (long long)each);
}

/* Runs until nothing is left, as a worker sends them. */
static int sweep_all(struct bench *b, double *ret_ms, int *ret_runs, struct pawl_err *err)
{
    const char *const values[] = {RUN_JOBS, NULL, "0"};
    bool more = true;
    int64_t took_us = 0;
    int rc = tables_prepare(b->conn, "sweep", STMT(claim_sweep)->sql, err);

    *ret_runs = 0;
    while (rc == 0 && more) {
        int64_t began_us = bench_now_us();
        PGresult *r = PQexecPrepared(b->conn, "sweep", 3, values, NULL, NULL, 1);
        bool lanes;

        took_us += bench_now_us() - began_us;
        ++*ret_runs;
        if (PQresultStatus(r) != PGRES_TUPLES_OK)
            rc = tables_failed(b->conn, r, err);
        else
            claim_sweep_said(r, &lanes, &more);
        PQclear(r);
    }
    *ret_ms = (double)took_us / US_PER_MS;
    if (rc == 0)
        rc = tables_exec(b->conn, err, "DEALLOCATE sweep");
    return rc;
}

static int measure(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct sweeps *s = data;
    double ms = BENCH_NONE;
    double cpu_ms = BENCH_NONE;
    int runs = 0;
    int rc = tables_clear(b, 0, err);

    if (rc == 0 && !against)
        rc = tables_fill(b, bench_jobs(b, OTHERS_SHARE), PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = with_dead(b, EXPIRED, CLAIM_JOBS, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0) {
        cpu_ms = session_cpu_ms(b->conn);
        rc = sweep_all(b, &ms, &runs, err);
        cpu_ms = session_cpu_ms(b->conn) - cpu_ms;
    }
    series_add(against ? &s->alone : &s->crowded, ms);
    series_add(against ? &s->alone_cpu : &s->crowded_cpu, cpu_ms);
    bench_note(b,
               "  %s: %.1f ms, %.1f ms of CPU, in %d runs",
               against ? "alone" : "among others",
               ms,
               cpu_ms,
               runs);
    return rc;
}

/* Until no claim of the dead is left; how many jobs the crew settled meanwhile. */
static int
wait_back(struct bench *b, struct crew *crew, double *ret_s, double *ret_rate, struct pawl_err *err)
{
    int64_t began_us = bench_now_us();
    int64_t left = 1;
    struct crew_view view;
    int rc = 0;

    while (rc == 0 && left > 0) {
        bench_sleep_ms(b, LOOK_MS);
        rc = bench_go_on(b, err);
        if (rc == 0 && bench_now_us() - began_us > MOST_MS * US_PER_MS)
            rc = err_set(err, PAWL_ETIMEOUT, "the jobs of the dead did not come back");
        if (rc == 0)
            rc = tables_number(
                b->conn, &left, err, "SELECT count(*) FROM pawl.claim WHERE lease_until < now()");
    }
    *ret_s = (double)(bench_now_us() - began_us) / 1e6;
    crew_look(crew, &view);
    *ret_rate = (double)view.n_settled / *ret_s;
    return rc;
}

static int
measure_many(struct bench *b, struct series *back, struct series *rate, struct pawl_err *err)
{
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    struct pawl_err stop_err;
    double s = BENCH_NONE;
    double per_s = BENCH_NONE;
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = tables_fill(b, bench_jobs(b, DRAINED_SHARE), PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = with_dead(b, bench_jobs(b, MANY_SHARE), MANY_CLAIM, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0)
        rc = crew_start(&crew, &options, err);
    if (rc < 0)
        return rc;
    rc = wait_back(b, &crew, &s, &per_s, err);
    if (crew_stop(&crew, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = stop_err.code;
    }
    series_add(back, s);
    series_add(rate, per_s);
    bench_note(b, "  back after %.1f s, %.0f others settled a second", s, per_s);
    return rc;
}

int case_sweep(struct bench *b, struct pawl_err *err)
{
    struct sweeps s = {0};
    struct series back = {0};
    struct series rate = {0};

    bench_note(b, "sweeps of %d jobs among %lld", EXPIRED, (long long)bench_jobs(b, OTHERS_SHARE));
    int rc = tables_session(b->conn, err);

    if (rc == 0)
        rc = bench_pairs(b, measure, &s, err);
    bench_note(b, "%lld jobs of the dead beside a worker", (long long)bench_jobs(b, MANY_SHARE));
    for (int64_t i = 0; rc == 0 && i < b->options.rounds; i++)
        rc = measure_many(b, &back, &rate, err);
    if (rc < 0)
        return rc;
    bench_row_limit(
        b, "5000 back, among 1 M / alone, server time", "ms", &s.crowded, &s.alone, 200);
    bench_row_limit(b,
                    "5000 back, among 1 M / alone, server CPU",
                    "ms",
                    &s.crowded_cpu,
                    &s.alone_cpu,
                    BENCH_NONE);
    bench_row_limit(b, "100 000 back beside a busy worker", "s", &back, NULL, 30);
    bench_row_limit(b, "others settled meanwhile", "1/s", &rate, NULL, BENCH_NONE);
    return 0;
}
