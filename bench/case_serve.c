/* serve: what the server costs: jobs by the stream and outcomes by calls, against a coordinator in the process; from commit to worker;
 * producers by calls against as many connections. The server is a process of its own, of this binary. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/arrivals.h"
#include "bench/callers.h"
#include "bench/crew.h"
#include "bench/gang.h"
#include "bench/served.h"
#include "bench/singles.h"
#include "bench/tables.h"
#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/pawl/v1/pawl.pb-c.h"

#define WAIT_MOST_MS   (10 * 60 * 1000)
#define SINGLES        1000
#define FALL_ASLEEP_MS 1500
#define PRODUCERS      256
#define PRODUCE_MS     3000
#define SPARE          30 /* connections that are not for producers */
#define UNARY_MS       2000

/* --- drain --- */

struct drain {
    struct series remote; /* jobs/s */
    struct series local;
    struct series tx;  /* commits per job */
    struct series cpu; /* µs of the worker's process per job */
    struct series cpu_local;
    struct series cpu_server; /* µs of the server's process per job */
    struct series batch;      /* outcomes in a call */
};

static int drain_remotely(struct bench *b, struct drain *d, double *ret_rate, struct pawl_err *err)
{
    struct served served;
    struct gang gang;
    int64_t jobs = b->options.jobs;
    int rc = served_start(b, &served, err);
    int64_t server_us = rc == 0 ? served_cpu_us(&served) : 0;

    if (rc == 0)
        rc = gang_start(b,
                        &gang,
                        &(struct gang_options){.server = &served.address,
                                               .log = b->options.log,
                                               .workers = 1,
                                               .concurrency = CREW_THREADS,
                                               .prefetch = CREW_AHEAD,
                                               .threads = CREW_THREADS,
                                               .stop_after = jobs},
                        err);
    if (rc == 0)
        rc = gang_wait(b, &gang, WAIT_MOST_MS, err);
    if (rc == 0) {
        *ret_rate = gang_rate(&gang);
        series_add(&d->cpu_server, (double)(served_cpu_us(&served) - server_us) / (double)jobs);
        series_add(&d->batch, (double)jobs / (double)gang.n_reports);
    }
    return served_finish(&served, rc, err);
}

static int measure_drain(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct drain *d = data;
    double jobs = (double)b->options.jobs;
    struct server_counts before;
    struct server_counts after;
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    double rate = BENCH_NONE;
    int rc = served_prepare(b, b->options.jobs, err);

    if (rc == 0)
        rc = tables_counts(b, &before, err);
    int64_t cpu_us = crew_cpu_us();

    options.stop_after = b->options.jobs;
    if (rc == 0)
        rc =
            against ? crew_drain(b, &crew, &options, &rate, err) : drain_remotely(b, d, &rate, err);
    cpu_us = crew_cpu_us() - cpu_us;
    if (rc == 0)
        rc = tables_counts(b, &after, err);
    if (rc < 0)
        return rc;
    bench_note(b, "  %s: %.0f jobs/s", against ? "in the process" : "by the server", rate);
    series_add(against ? &d->local : &d->remote, rate);
    series_add(against ? &d->cpu_local : &d->cpu, (double)cpu_us / jobs);
    if (!against)
        series_add(&d->tx, (double)(after.commits - before.commits) / jobs);
    return 0;
}

static int drain(struct bench *b, struct pawl_err *err)
{
    struct drain d = {0};

    bench_note(b, "serve: drain %lld jobs by one remote worker", (long long)b->options.jobs);
    int rc = bench_pairs(b, measure_drain, &d, err);

    if (rc < 0)
        return rc;
    bench_row_ratio(
        b, "no-op jobs, one remote worker / in the process", "jobs/s", &d.remote, &d.local, 0.6);
    bench_row_limit(b, "transactions per job, end to end", "tx", &d.tx, NULL, 0.1);
    bench_row_limit(
        b, "worker's CPU per job / in the process", "µs", &d.cpu, &d.cpu_local, BENCH_NONE);
    bench_row_limit(b, "server's CPU per job", "µs", &d.cpu_server, NULL, BENCH_NONE);
    bench_row_limit(b, "outcomes in a call", "", &d.batch, NULL, BENCH_NONE);
    return 0;
}

/* --- from commit to worker --- */

static int latency(struct bench *b, struct pawl_err *err)
{
    size_t n = b->options.quick ? SINGLES / 10 : SINGLES;
    struct arrivals a = {0};
    struct single single = {0};
    struct served served;
    struct gang gang;
    struct pawl_err stop_err;
    struct series p50 = {0};
    struct series p99 = {0};

    bench_note(b, "serve: %zu single jobs to a worker that sleeps", n);
    int rc = arrivals_init(&a, n, err);

    if (rc == 0)
        rc = served_prepare(b, 0, err);
    if (rc == 0)
        rc = served_start(b, &served, err);
    else
        served = (struct served){.from = -1};
    if (rc == 0)
        rc = single_init(&single, b, err);
    if (rc == 0)
        rc = gang_start(b,
                        &gang,
                        &(struct gang_options){.server = &served.address,
                                               .log = b->options.log,
                                               .workers = 1,
                                               .concurrency = 1,
                                               .started = arrivals_note,
                                               .data = &a},
                        err);
    if (rc == 0) {
        bench_sleep_ms(b, FALL_ASLEEP_MS);
        rc = arrivals_measure(b, &a, &single, err);
        if (gang_stop(&gang, &stop_err) < 0 && rc == 0) {
            *err = stop_err;
            rc = err->code;
        }
    }
    single_deinit(&single);
    rc = served_finish(&served, rc, err);
    if (rc == 0) {
        series_add(&p50, arrivals_percentile(&a, 50));
        series_add(&p99, arrivals_percentile(&a, 99));
        bench_row_limit(b, "commit to worker, asleep, p50", "ms", &p50, NULL, 1.2);
        bench_row_limit(b, "commit to worker, asleep, p99", "ms", &p99, NULL, 4);
    }
    arrivals_deinit(&a);
    return rc;
}

/* --- producers --- */

struct produce {
    struct producers connections;
    struct served served;
    struct series calls;
    struct series commits;
};

static int measure_produce(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct produce *p = data;
    Pawl__V1__EnqueueRequest request;
    Pawl__V1__NewJob job;
    Pawl__V1__NewJob *jobs[] = {&job};
    double rate = BENCH_NONE;
    int rc;

    pawl__v1__enqueue_request__init(&request);
    pawl__v1__new_job__init(&job);
    job.queue = (char *)(uintptr_t)BENCH_QUEUE;
    job.kind = (char *)(uintptr_t)BENCH_KIND;
    job.payload = (ProtobufCBinaryData){2, (uint8_t *)(uintptr_t) "{}"};
    request.jobs = jobs;
    request.n_jobs = 1;
    if (against)
        rc = producers_pump(b, &p->connections, false, bench_ms(b, PRODUCE_MS), &rate, err);
    else
        rc = callers_run(
            b,
            &(struct callers_options){.server = &p->served.address,
                                      .connections = PRODUCERS,
                                      .at_once = 1,
                                      .path = "/pawl.v1.JobService/Enqueue",
                                      .request = &request.base,
                                      .response = &pawl__v1__enqueue_response__descriptor,
                                      .ms = bench_ms(b, PRODUCE_MS)},
            &rate,
            err);
    if (rc < 0)
        return rc;
    bench_note(b, "  %s: %.0f jobs/s", against ? "connections" : "calls", rate);
    series_add(against ? &p->commits : &p->calls, rate);
    return 0;
}

static int produce(struct bench *b, struct pawl_err *err)
{
    struct produce p = {.served = {.from = -1}};
    int64_t most = 0;
    char what[96];

    bench_note(b, "serve: %d producers", PRODUCERS);
    int rc = served_prepare(b, 0, err);

    if (rc == 0)
        rc = tables_number(b->conn, &most, err, "SELECT current_setting('max_connections')::int");
    size_t n = most - SPARE < PRODUCERS ? (size_t)(most - SPARE) : PRODUCERS;

    if (rc == 0)
        rc = served_start(b, &p.served, err);
    if (rc == 0)
        rc = producers_init(&p.connections, b, n, err);
    if (rc == 0)
        rc = bench_pairs(b, measure_produce, &p, err);
    producers_deinit(&p.connections);
    rc = served_finish(&p.served, rc, err);
    if (rc < 0)
        return rc;
    snprintf(what, sizeof(what), "256 producers by Enqueue / %zu connections", n);
    bench_row_ratio(b, what, "jobs/s", &p.calls, &p.commits, 3);
    return 0;
}

/* --- what a call costs --- */

static int unary(struct bench *b, struct pawl_err *err)
{
    static const size_t at_once[] = {1, 32};
    static const char *const names[] = {"server's CPU a call, one at a time",
                                        "server's CPU a call, 32 at once"};
    Grpc__Health__V1__HealthCheckRequest request;
    struct served served;

    bench_note(b, "serve: unary calls");
    grpc__health__v1__health_check_request__init(&request);
    int rc = served_prepare(b, 0, err);

    if (rc < 0)
        return rc;
    rc = served_start(b, &served, err);
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        struct series cpu = {0};
        int64_t ms = bench_ms(b, UNARY_MS);
        int64_t cpu_us = served_cpu_us(&served);
        double rate = 1;

        rc = callers_run(b,
                         &(struct callers_options){
                             .server = &served.address,
                             .connections = 1,
                             .at_once = at_once[i],
                             .path = "/grpc.health.v1.Health/Check",
                             .request = &request.base,
                             .response = &grpc__health__v1__health_check_response__descriptor,
                             .ms = ms},
                         &rate,
                         err);
        series_add(&cpu,
                   (double)(served_cpu_us(&served) - cpu_us) / (rate * (double)ms / MS_PER_S));
        if (rc == 0)
            bench_row_limit(b, names[i], "µs", &cpu, NULL, BENCH_NONE);
    }
    return served_finish(&served, rc, err);
}

int case_serve(struct bench *b, struct pawl_err *err)
{
    static int (*const parts[])(struct bench * b,
                                struct pawl_err * err) = {drain, latency, produce, unary};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(*parts); i++)
        rc = parts[i](b, err);
    return rc;
}
