/* idle: what a process costs that has nothing to do.
 *
 * Counted is what the process sends, on all its connections, by the connections themselves: neither
 * more nor less. The server's count of commits in the database has autovacuum's and everybody
 * else's in it, and a session adds its own up to ten seconds late. */
#include <math.h>

#include "bench/crew.h"
#include "bench/tables.h"

#define FALL_ASLEEP_MS 3000 /* the looks that follow the mark are over by then */
#define IDLE_MS        15000 /* everything that is done at intervals is done in it: polls and sweeps */
#define IDLE_QUICK_MS  5000 /* the polls only */

/* While the crew sleeps. */
static void observe(struct bench *b, struct crew *crew, struct series *rate, struct series *cpu)
{
    struct crew_view before;
    struct crew_view after;

    crew_look(crew, &before);
    int64_t begun_us = bench_now_us();
    int64_t cpu_us = crew_cpu_us();

    bench_sleep_ms(b, b->options.quick ? IDLE_QUICK_MS : IDLE_MS);
    cpu_us = crew_cpu_us() - cpu_us;
    crew_look(crew, &after);
    double seconds = (double)(bench_now_us() - begun_us) / US_PER_S;

    series_add(rate, (double)(after.stats.statements - before.stats.statements) / seconds);
    series_add(cpu, (double)cpu_us / US_PER_MS / seconds);
}

int case_idle(struct bench *b, struct pawl_err *err)
{
    struct series rate = {0};
    struct series cpu = {0};
    struct crew crew;
    struct crew_options options = crew_fast(&b->target, b->options.log);
    int rc = tables_clear(b, 0, err);

    if (rc == 0)
        rc = crew_start(&crew, &options, err);
    if (rc < 0)
        return rc;
    bench_sleep_ms(b, FALL_ASLEEP_MS);
    observe(b, &crew, &rate, &cpu);
    rc = crew_stop(&crew, err);
    if (rc == 0)
        rc = bench_go_on(b, err);
    if (rc < 0)
        return rc;
    bench_row_limit(b, "statements per second, asleep", "/s", &rate, NULL, 1);
    bench_row_limit(b, "CPU of the process, asleep", "ms/s", &cpu, NULL, 2);
    return 0;
}
