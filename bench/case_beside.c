/* beside: what others notice of a client that behaves badly: how long jobs take from their commit to a worker of the same server, alone
 * and beside it. */
#include <stdio.h>

#include "bench/arrivals.h"
#include "bench/gang.h"
#include "bench/rogue.h"
#include "bench/served.h"
#include "bench/tables.h"

#define SINGLES        500
#define ROGUE_JOBS     2000 /* for one that takes jobs and does not read them */
#define FALL_ASLEEP_MS 500

struct beside {
    struct served served;
    struct single single;
    struct arrivals arrivals;
    enum rogue_kind kind;
    struct series p50;
    struct series p99;
    struct series p50_alone;
    struct series p99_alone;
};

static int measure(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct beside *beside = data;
    struct rogue rogue;
    int rc = 0;

    if (!against)
        rc = rogue_start(b, &rogue, &beside->served.address, beside->kind, err);
    if (rc < 0)
        return rc;
    bench_sleep_ms(b, FALL_ASLEEP_MS);
    rc = arrivals_measure(b, &beside->arrivals, &beside->single, err);
    if (!against) {
        rogue_stop(&rogue);
        bench_note(b,
                   "  %s: %zu connections, %zu KiB",
                   rogue_what(beside->kind),
                   (size_t)atomic_load(&rogue.n_connections),
                   (size_t)atomic_load(&rogue.n_written) / 1024);
    }
    if (rc < 0)
        return rc;
    series_add(against ? &beside->p50_alone : &beside->p50,
               arrivals_percentile(&beside->arrivals, 50));
    series_add(against ? &beside->p99_alone : &beside->p99,
               arrivals_percentile(&beside->arrivals, 99));
    return 0;
}

static int measure_all(struct bench *b, struct beside *beside, struct pawl_err *err)
{
    char what[96];
    int rc = 0;

    for (int kind = 0; rc == 0 && kind < N_ROGUES; kind++) {
        beside->kind = (enum rogue_kind)kind;
        beside->p50 = beside->p99 = beside->p50_alone = beside->p99_alone = (struct series){0};
        rc = bench_pairs(b, measure, beside, err);
        if (rc < 0)
            break;
        snprintf(what, sizeof(what), "commit to worker beside %s, p50", rogue_what(beside->kind));
        bench_row_ratio(b, what, "ms", &beside->p50, &beside->p50_alone, BENCH_NONE);
        snprintf(what, sizeof(what), "commit to worker beside %s, p99", rogue_what(beside->kind));
        bench_row_ratio_most(b, what, "ms", &beside->p99, &beside->p99_alone, 2);
    }
    return rc;
}

static int with_worker(struct bench *b, struct beside *beside, struct pawl_err *err)
{
    struct pawl_err stop_err;
    struct gang gang;
    int rc = gang_start(b,
                        &gang,
                        &(struct gang_options){.server = &beside->served.address,
                                               .log = b->options.log,
                                               .workers = 1,
                                               .concurrency = 1,
                                               .started = arrivals_note,
                                               .data = &beside->arrivals},
                        err);

    if (rc < 0)
        return rc;
    rc = measure_all(b, beside, err);
    if (gang_stop(&gang, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = err->code;
    }
    return rc;
}

int case_beside(struct bench *b, struct pawl_err *err)
{
    struct beside beside = {.served = {.from = -1}};
    size_t n = b->options.quick ? SINGLES / 10 : SINGLES;

    bench_note(b, "beside: %zu single jobs, alone and beside a bad client", n);
    int rc = arrivals_init(&beside.arrivals, n, err);

    if (rc == 0)
        rc = served_prepare(b, 0, err);
    if (rc == 0)
        rc = tables_exec(b->conn,
                         err,
                         "INSERT INTO pawl.job (queue, kind, payload)"
                         " SELECT '" ROGUE_QUEUE "', '" BENCH_KIND
                         "', convert_to(repeat('1', 2000), 'UTF8')"
                         " FROM generate_series(1, %d)",
                         ROGUE_JOBS);
    if (rc == 0)
        rc = single_init(&beside.single, b, err);
    if (rc == 0)
        rc = served_start(b, &beside.served, err);
    if (rc == 0)
        rc = with_worker(b, &beside, err);
    single_deinit(&beside.single);
    rc = served_finish(&beside.served, rc, err);
    arrivals_deinit(&beside.arrivals);
    return rc;
}
