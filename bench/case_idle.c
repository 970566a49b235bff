/* idle: what a process costs that has nothing to do. */
#include <math.h>

#include "crew.h"
#include "tables.h"

#define FALL_ASLEEP_MS \
    3000 /* the looks that follow the mark are over by then, and counted by the server */
#define IDLE_MS 5000
#define WINDOWS 3 /* the median: autovacuum's own transactions count too, and come in bursts */

static int commits(struct bench *b, int64_t *ret_n, struct pawl_err *err)
{
    return tables_number(b->admin,
                         ret_n,
                         err,
                         "SELECT xact_commit FROM pg_stat_database WHERE datname = '%s'",
                         b->db);
}

/* While the crew sleeps. b->conn keeps still; autovacuum does not. */
static int observe(struct bench *b, struct series *rate, struct series *cpu, struct pawl_err *err)
{
    int64_t before;
    int64_t after;
    int64_t begun_us = bench_now_us();
    int64_t cpu_us = crew_cpu_us();
    int rc = commits(b, &before, err);

    if (rc == 0)
        bench_sleep_ms(b, IDLE_MS);
    if (rc == 0)
        rc = commits(b, &after, err);
    if (rc < 0)
        return rc;
    double seconds = (double)(bench_now_us() - begun_us) / US_PER_S;

    series_add(rate, (double)(after - before) / seconds);
    series_add(cpu, (double)(crew_cpu_us() - cpu_us) / US_PER_MS / seconds);
    return 0;
}

int case_idle(struct bench *b, struct pawl_err *err)
{
    struct series rate = {0};
    struct series cpu = {0};
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    struct pawl_err ignored;
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = crew_start(&crew, &options, err);
    if (rc < 0)
        return rc;
    bench_sleep_ms(b, FALL_ASLEEP_MS);
    for (int i = 0; rc == 0 && i < WINDOWS; i++)
        rc = observe(b, &rate, &cpu, err);
    if (rc < 0)
        (void)!crew_stop(&crew, &ignored);
    else
        rc = crew_stop(&crew, err);
    if (rc == 0)
        rc = bench_go_on(b, err);
    if (rc < 0)
        return rc;
    bench_row_limit(b, "statements per second, asleep", "/s", &rate, NULL, 1);
    bench_row_limit(b, "CPU of the process, asleep", "ms/s", &cpu, NULL, 2);
    return 0;
}
