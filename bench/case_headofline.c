/* headofline: one long job and many short ones, few slots. Nothing may wait for the long one but
 * its own slot. */
#include <string.h>
#include <time.h>

#include <stdatomic.h>

#include "bench/crew.h"
#include "bench/tables.h"

#define SLOTS    5
#define SHORT_N  49
#define LONG_MS  1000
#define SHORT_MS 20
#define MOST_MS  30000

struct line {
    atomic_int_least64_t begun_us;      /* of the first */
    atomic_int_least64_t short_done_us; /* of the last short one */
    atomic_int n_short;
};

static void work(void *data, struct task *task)
{
    struct line *line = data;
    bool is_long = memcmp(task_job(task)->payload, "long", 4) == 0;
    int64_t ms = is_long ? LONG_MS : SHORT_MS;
    int64_t none = 0;
    struct timespec rest = {.tv_sec = ms / MS_PER_S, .tv_nsec = ms % MS_PER_S * 1000000};

    atomic_compare_exchange_strong(&line->begun_us, &none, bench_now_us());
    while (nanosleep(&rest, &rest) != 0)
        ;
    if (!is_long && atomic_fetch_add(&line->n_short, 1) + 1 == SHORT_N)
        atomic_store(&line->short_done_us, bench_now_us());
}

static int measure(struct bench *b, struct series *all, struct series *shorts, struct pawl_err *err)
{
    struct line line = {0};
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    int rc = tables_clear(b, 0, err);

    options.threads = SLOTS;
    options.ahead = SLOTS;
    options.stop_after = SHORT_N + 1;
    options.handler = work;
    options.data = &line;
    if (rc == 0)
        rc = tables_exec(b->conn,
                         err,
                         "INSERT INTO pawl.job (queue, kind, payload)"
                         " SELECT '" BENCH_QUEUE "', '" BENCH_KIND "',"
                         "        CASE WHEN g = 0 THEN 'long' ELSE 'short' END::bytea"
                         " FROM generate_series(0, %d) AS g",
                         SHORT_N);
    if (rc == 0)
        rc = crew_start(&crew, &options, err);
    if (rc == 0)
        rc = crew_wait(b, &crew, MOST_MS, err);
    if (rc == 0) {
        series_add(all, (double)(crew.reached_us - line.begun_us) / US_PER_MS);
        series_add(shorts, (double)(line.short_done_us - line.begun_us) / US_PER_MS);
    }
    return rc;
}

int case_headofline(struct bench *b, struct pawl_err *err)
{
    /* The long one takes one slot, the others share what is left. */
    double ideal_shorts = (SHORT_N + SLOTS - 2) / (SLOTS - 1) * SHORT_MS; /* whole rounds */
    struct series ideal_all = {0};
    struct series ideal = {0};
    struct series all = {0};
    struct series shorts = {0};
    int rc = 0;

    for (int64_t i = 0; rc == 0 && i < b->options.rounds; i++) {
        rc = measure(b, &all, &shorts, err);
        series_add(&ideal_all, LONG_MS);
        series_add(&ideal, ideal_shorts);
    }
    if (rc < 0)
        return rc;
    bench_row_ratio(b, "all: ideal time / time", "ms", &ideal_all, &all, 0.9);
    bench_row_ratio(b, "the short ones: ideal time / time", "ms", &ideal, &shorts, 0.9);
    return 0;
}
