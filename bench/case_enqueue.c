/* enqueue: many producers, one commit a job, while a coordinator is busy. Against the same INSERT
 * without a look at who sleeps, and so without any notification. */
#include <math.h>
#include <poll.h>

#include "crew.h"
#include "pg/sync.h"
#include "singles.h"
#include "tables.h"

#define PRODUCERS  64
#define MEASURE_MS 3000
#define WARM_MS    300 /* until the coordinator is at work and the caches are filled */

struct enqueue {
    bool draining; /* with a coordinator that takes the jobs out again; else with one that is marked
                      as awake */
    struct series pawl;
    struct series bare;
    struct series notified; /* wake-ups of the coordinator per second */
};

struct producers {
    PGconn *conns[PRODUCERS];
    struct pollfd fds[PRODUCERS];
};

static int
producers_open(struct bench *b, struct producers *p, bool notifying, struct pawl_err *err)
{
    for (size_t i = 0; i < PRODUCERS; i++) {
        int rc = single_connect(b, notifying, &p->conns[i], err);

        if (rc < 0)
            return rc;
        p->fds[i] = (struct pollfd){.fd = PQsocket(p->conns[i]), .events = POLLIN};
    }
    return 0;
}

static void producers_close(struct producers *p)
{
    for (size_t i = 0; i < PRODUCERS; i++)
        sync_close(&p->conns[i]);
}

/* The next one as soon as the last is committed, until the time is over. */
static int
pump(struct bench *b, struct producers *p, int64_t ms, double *ret_rate, struct pawl_err *err)
{
    int64_t begun_us = bench_now_us();
    int64_t until_us = begun_us + ms * US_PER_MS;
    int64_t n = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < PRODUCERS; i++)
        rc = single_send(p->conns[i], err);
    while (rc == 0 && bench_now_us() < until_us) {
        rc = bench_go_on(b, err);
        if (rc == 0 && poll(p->fds, PRODUCERS, 100) <= 0)
            continue;
        for (size_t i = 0; rc == 0 && i < PRODUCERS; i++) {
            if (p->fds[i].revents == 0)
                continue;
            if (PQconsumeInput(p->conns[i]) != 1)
                return tables_failed(p->conns[i], NULL, err);
            if (PQisBusy(p->conns[i]))
                continue;
            rc = single_finish(p->conns[i], err);
            if (rc == 0)
                rc = single_send(p->conns[i], err);
            n++;
        }
    }
    if (rc == 0)
        *ret_rate = (double)n * US_PER_S / (double)(bench_now_us() - begun_us);
    for (size_t i = 0; rc == 0 && i < PRODUCERS; i++)
        rc = single_finish(p->conns[i], err);
    return rc;
}

static int produce(struct bench *b, bool notifying, double *ret_rate, struct pawl_err *err)
{
    struct producers p = {0};
    double ignored;
    int rc = producers_open(b, &p, notifying, err);

    if (rc == 0)
        rc = pump(b, &p, WARM_MS, &ignored, err);
    if (rc == 0)
        rc = pump(b, &p, bench_ms(b, MEASURE_MS), ret_rate, err);
    producers_close(&p);
    return rc;
}

static int measure(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct enqueue *e = data;
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    struct pawl_err stop_err;
    double rate = BENCH_NONE;
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0 && e->draining)
        rc = crew_start(&crew, &options, err);
    else if (rc == 0)
        rc = tables_exec(b->conn,
                         err,
                         "INSERT INTO pawl.sleeper (queue, worker, asleep)"
                         " VALUES ('" BENCH_QUEUE "', gen_random_uuid(), false)");
    if (rc < 0)
        return rc;
    rc = produce(b, !against, &rate, err);
    if (e->draining && crew_stop(&crew, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = stop_err.code;
    }
    if (rc < 0)
        return rc;
    bench_note(b, "  %s: %.0f commits/s", against ? "bare INSERT" : "pawl", rate);
    series_add(against ? &e->bare : &e->pawl, rate);
    if (e->draining && !against)
        series_add(&e->notified,
                   (double)crew.stats.notify_wakeups * MS_PER_S /
                       (double)(bench_ms(b, MEASURE_MS) + WARM_MS));
    return 0;
}

int case_enqueue(struct bench *b, struct pawl_err *err)
{
    struct enqueue busy = {.draining = false};
    struct enqueue draining = {.draining = true};

    bench_note(b, "enqueue, coordinator awake");
    int rc = bench_pairs(b, measure, &busy, err);

    if (rc < 0)
        return rc;
    bench_row_ratio(b,
                    "64 connections, coordinator awake / bare INSERT",
                    "commits/s",
                    &busy.pawl,
                    &busy.bare,
                    0.9);
    bench_note(b, "enqueue, coordinator drains meanwhile");
    rc = bench_pairs(b, measure, &draining, err);
    if (rc < 0)
        return rc;
    bench_row_ratio(b,
                    "64 connections, coordinator drains / bare INSERT",
                    "commits/s",
                    &draining.pawl,
                    &draining.bare,
                    0.9);
    bench_row_limit(b, "notifications meanwhile", "/s", &draining.notified, NULL, BENCH_NONE);
    return 0;
}
