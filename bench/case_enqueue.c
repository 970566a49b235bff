/* enqueue: many producers, one commit a job, while a coordinator is busy. Against the same INSERT
 * without a look at who sleeps, and so without any notification.
 *
 * What a commit costs here varies by more than what is to be found, from second to second: so the
 * two take turns often, on the same connections, in the same table, beside the same coordinator, and
 * each turn is compared with its neighbour only. */
#include <math.h>

#include "bench/crew.h"
#include "bench/singles.h"
#include "bench/tables.h"

#define PRODUCERS  64
#define PAIRS      9
#define MEASURE_MS 1000
#define WARM_MS    300 /* until the coordinator is at work and the caches are filled */
/* Nobody calls the coordinator about a bare INSERT, and without work it would leave the machine to
 * the producers: so it looks by itself, for both sides. */
#define LOOK_MS 2

struct enqueue {
    struct crew *crew; /* takes the jobs out again; NULL: somebody is only marked as awake */
    struct producers producers;
    struct series pawl;
    struct series bare;
    struct series notified; /* notifications heard by the coordinator, per second */
};

static uint64_t notifications(const struct enqueue *e)
{
    struct crew_view view = {0};

    if (e->crew != NULL)
        crew_look(e->crew, &view);
    return view.stats.notify_wakeups;
}

static int measure(struct bench *b, struct enqueue *e, bool bare, struct pawl_err *err)
{
    int64_t ms = bench_ms(b, MEASURE_MS);
    uint64_t before = notifications(e);
    double rate = BENCH_NONE;
    int rc = producers_pump(b, &e->producers, bare, ms, &rate, err);

    if (rc < 0)
        return rc;
    series_add(bare ? &e->bare : &e->pawl, rate);
    if (!bare)
        series_add(&e->notified, (double)(notifications(e) - before) * MS_PER_S / (double)ms);
    return 0;
}

/* The one that comes first takes turns too: the table grows meanwhile. */
static int take_turns(struct bench *b, struct enqueue *e, struct pawl_err *err)
{
    double ignored;
    int rc = producers_init(&e->producers, b, PRODUCERS, err);

    for (int i = 0; rc == 0 && i < 2; i++)
        rc = producers_pump(b, &e->producers, i == 0, WARM_MS, &ignored, err);
    /* As autovacuum leaves it after fifty marks. Until then PostgreSQL takes the table for one of ten
     * pages, and the look at who sleeps costs more. */
    if (rc == 0)
        rc = tables_exec(b->conn, err, "ANALYZE pawl.sleeper");
    for (int pair = 0; rc == 0 && pair < PAIRS; pair++) {
        rc = measure(b, e, pair % 2 == 0, err);
        if (rc == 0)
            rc = measure(b, e, pair % 2 != 0, err);
        if (rc == 0)
            bench_note(b,
                       "  pawl %.0f, bare INSERT %.0f commits/s",
                       e->pawl.values[pair],
                       e->bare.values[pair]);
    }
    producers_deinit(&e->producers);
    return rc;
}

static int prepare(struct bench *b, struct pawl_err *err)
{
    int rc = tables_clear(b, 0, err);

    return rc == 0 ? tables_tidy(b, err) : rc;
}

static int with_mark(struct bench *b, struct pawl_err *err)
{
    struct enqueue e = {0};
    int rc = prepare(b, err);

    bench_note(b, "enqueue, coordinator awake");
    if (rc == 0)
        rc = tables_exec(b->conn,
                         err,
                         "INSERT INTO pawl.sleeper (queue, worker, asleep)"
                         " VALUES ('" BENCH_QUEUE "', gen_random_uuid(), false)");
    if (rc == 0)
        rc = take_turns(b, &e, err);
    if (rc == 0)
        bench_row_ratio(b,
                        "64 connections, coordinator awake / bare INSERT",
                        "commits/s",
                        &e.pawl,
                        &e.bare,
                        0.9);
    return rc;
}

static int with_crew(struct bench *b, struct pawl_err *err)
{
    struct crew crew;
    struct enqueue e = {.crew = &crew};
    struct crew_options options = crew_fast(&b->target, b->options.log);
    struct pawl_err stop_err;
    int rc = prepare(b, err);

    bench_note(b, "enqueue, coordinator drains meanwhile");
    options.look_ms = LOOK_MS;
    if (rc == 0)
        rc = crew_start(&crew, &options, err);
    if (rc < 0)
        return rc;
    rc = take_turns(b, &e, err);
    if (crew_stop(&crew, &stop_err) < 0 && rc == 0) {
        *err = stop_err;
        rc = stop_err.code;
    }
    if (rc < 0)
        return rc;
    bench_row_ratio(
        b, "64 connections, coordinator drains / bare INSERT", "commits/s", &e.pawl, &e.bare, 0.9);
    bench_row_limit(b, "notifications meanwhile", "/s", &e.notified, NULL, BENCH_NONE);
    return 0;
}

int case_enqueue(struct bench *b, struct pawl_err *err)
{
    int rc = with_mark(b, err);

    return rc == 0 ? with_crew(b, err) : rc;
}
