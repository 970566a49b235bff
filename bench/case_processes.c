/* processes: four of them on one queue, against one. Nobody may run a job twice, and nobody may get
 * in another's way.
 *
 * Only the drain is timed. The queue is paused until all are connected, have claimed in vain and
 * sleep; the clock runs from its resumption, which calls them, until the last job is settled. Four
 * starts and four ends on a small machine would weigh more than what is to be compared. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <math.h>
#include <poll.h>

#include "base/defer.h"
#include "bench/child.h"
#include "bench/crew.h"
#include "bench/tables.h"
#include "pg/sync.h"
#include "store/queue.h"
#include "store/statements.h"

#define PROCESSES        4
#define READY_MS         20000
#define DRAIN_MOST_S     600
#define LOOK_MS          20 /* how often a process says how far it is; nothing is timed by it */
#define RESUME_BYTES_MAX 4096

struct processes {
    struct series many;
    struct series one;
    struct series cpu; /* µs of the server per job */
    struct series cpu_one;
    struct series duplicates;
    struct series rollbacks;
};

/* In the child */

static int say(struct pawl_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

static int say(struct pawl_err *err, const char *fmt, ...)
{
    char line[CHILD_LINE_MAX];
    va_list ap;

    va_start(ap, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    return write(STDOUT_FILENO, line, (size_t)len) == len
               ? 0
               : err_set_errno(err, errno, "could not write the report");
}

/* The parent closes our standard input when all is done; so does its death. */
static int report_until_told(struct crew *crew, struct pawl_err *err)
{
    struct pollfd told = {.fd = STDIN_FILENO, .events = POLLIN};
    int64_t reported = 0;
    bool ready = false;
    int rc = 0;

    while (rc == 0 && poll(&told, 1, LOOK_MS) <= 0) {
        struct crew_view view;

        crew_look(crew, &view);
        if (!ready && view.stats.empty_claims > 0) {
            ready = true;
            rc = say(err, "ready\n");
        }
        if (rc == 0 && view.n_settled != reported) {
            reported = view.n_settled;
            rc = say(err, "%lld %lld\n", (long long)view.n_settled, (long long)view.last_us);
        }
    }
    return rc;
}

int bench_worker(const struct target *target,
                 struct arena *arena,
                 const char *db,
                 struct log *log,
                 struct pawl_err *err)
{
    struct target own;
    struct crew crew;
    struct pawl_err ignored;
    int rc = bench_target(&own, target, arena, db, err);

    if (rc < 0)
        return rc;
    struct crew_options options = crew_fast(&own, log);

    options.time_last = true;
    rc = crew_start(&crew, &options, err);
    if (rc < 0)
        return rc;
    rc = report_until_told(&crew, err);
    if (rc < 0) {
        (void)!crew_stop(&crew, &ignored);
        return rc;
    }
    rc = crew_stop(&crew, err);
    return rc < 0 ? rc
                  : say(err, "%lld %lld\n", (long long)crew.n_settled, (long long)crew.last_us);
}

/* In the parent */

static bool is_ready(const struct child *children, size_t n, int64_t jobs)
{
    size_t i = 0;

    (void)jobs;
    while (i < n && children[i].ready)
        i++;
    return i == n;
}

static bool is_drained(const struct child *children, size_t n, int64_t jobs)
{
    int64_t settled = 0;

    for (size_t i = 0; i < n; i++)
        settled += children[i].n_settled;
    return settled >= jobs;
}

static bool is_over(const struct child *children, size_t n, int64_t jobs)
{
    size_t i = 0;

    (void)jobs;
    while (i < n && children[i].over)
        i++;
    return i == n;
}

typedef bool (*children_fn)(const struct child *children, size_t n, int64_t jobs);

/* Listens to them until it is so. */
static int listen_until(struct bench *b,
                        struct child *children,
                        size_t n,
                        children_fn is_so,
                        int64_t most_ms,
                        struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + most_ms * US_PER_MS;
    int rc = 0;

    while (rc == 0 && !is_so(children, n, b->options.jobs)) {
        struct pollfd fds[PROCESSES];

        rc = bench_go_on(b, err);
        if (rc == 0 && bench_now_us() > until_us)
            rc = err_set(err, PAWL_ETIMEOUT, "the processes said nothing for too long");
        for (size_t i = 0; i < n; i++)
            fds[i] =
                (struct pollfd){.fd = children[i].over ? -1 : children[i].from, .events = POLLIN};
        if (rc < 0 || poll(fds, (nfds_t)n, 100) <= 0)
            continue;
        for (size_t i = 0; rc == 0 && i < n; i++) {
            if (fds[i].revents != 0)
                rc = child_read(&children[i], err);
        }
    }
    return rc;
}

/* Until all sleep and say so, for otherwise the call would not reach them. The mark of a worker
 * whose row is not there yet may be taken away again, so both must be. */
static int wait_asleep(struct bench *b, size_t n, struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + READY_MS * US_PER_MS;
    int64_t asleep = 0;
    int rc = 0;

    while (rc == 0 && asleep != (int64_t)n) {
        rc = tables_number(b->conn,
                           &asleep,
                           err,
                           "SELECT least((SELECT count(*) FROM pawl.sleeper WHERE asleep),"
                           "             (SELECT count(*) FROM pawl.worker))");
        if (rc == 0)
            rc = bench_go_on(b, err);
        if (rc == 0 && asleep != (int64_t)n && bench_now_us() > until_us)
            rc = err_set(err, PAWL_ETIMEOUT, "the processes did not fall asleep");
        if (rc == 0 && asleep != (int64_t)n)
            bench_sleep_ms(b, 10);
    }
    return rc;
}

static int pause_queue(struct bench *b, struct pawl_err *err)
{
    return tables_exec(
        b->conn, err, "UPDATE pawl.queue SET paused_at = now() WHERE name = '" BENCH_QUEUE "'");
}

static int resume_queue(struct bench *b, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    struct params params;

    arena_init(&arena, RESUME_BYTES_MAX);
    params_init(&params, &arena);
    queue_resume_bind(&params, BENCH_QUEUE);
    return sync_exec(b->conn, STMT(queue_resume), &params, NULL, err);
}

static int time_drain(
    struct bench *b, struct child *children, size_t n, int64_t *ret_begun_us, struct pawl_err *err)
{
    int rc = listen_until(b, children, n, is_ready, READY_MS, err);

    if (rc == 0)
        rc = wait_asleep(b, n, err);
    *ret_begun_us = bench_now_us();
    if (rc == 0)
        rc = resume_queue(b, err);
    if (rc == 0)
        rc = listen_until(b, children, n, is_drained, (int64_t)DRAIN_MOST_S * MS_PER_S, err);
    for (size_t i = 0; i < n; i++)
        child_tell(&children[i]);
    if (rc == 0)
        rc = listen_until(b, children, n, is_over, READY_MS, err);
    return rc;
}

/* n processes drain what is there. */
static int
drain_with(struct bench *b, size_t n, int64_t *ret_done, int64_t *ret_us, struct pawl_err *err)
{
    struct child children[PROCESSES];
    int64_t begun_us = 0;
    int64_t last_us = 0;
    int64_t done = 0;
    int rc = pause_queue(b, err);

    for (size_t i = 0; i < n; i++)
        children[i] = (struct child){.to = -1, .from = -1};
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = child_spawn(b, &children[i], err);
    if (rc == 0)
        rc = time_drain(b, children, n, &begun_us, err);
    for (size_t i = 0; i < n; i++) {
        if (!child_end(&children[i]) && rc == 0)
            rc = err_set(err, PAWL_EFAILED, "a process failed");
        done += children[i].n_settled;
        if (children[i].last_us > last_us)
            last_us = children[i].last_us;
    }
    if (rc == 0) {
        *ret_done = done;
        *ret_us = last_us - begun_us;
    }
    return rc;
}

/* With history on, because it remembers how often each job ran. */
static int count_duplicates(struct bench *b, int64_t done, int64_t *ret_n, struct pawl_err *err)
{
    int64_t left = 0;
    int64_t once = 0;
    int rc = tables_number(b->conn, &left, err, "SELECT count(*) FROM pawl.job");

    if (rc == 0)
        rc = tables_number(
            b->conn, &once, err, "SELECT count(DISTINCT id) FROM pawl.history WHERE attempt = 1");
    if (rc == 0 && left > 0)
        rc = err_set(err, PAWL_EFAILED, "%lld jobs were left", (long long)left);
    if (rc == 0)
        *ret_n = done - once;
    return rc;
}

static int measure(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct processes *p = data;
    struct server_counts before;
    struct server_counts after;
    int64_t done = 0;
    int64_t took_us = 1;
    int64_t duplicates = 0;
    size_t n = against ? 1 : PROCESSES;
    int rc = tables_clear(b, 1, err);

    if (rc == 0)
        rc = tables_exec(b->conn, err, "SELECT pawl.history_maintain()");
    if (rc == 0)
        rc = tables_fill(b, b->options.jobs, PAWL_PRIORITY_DEFAULT, false, err);
    if (rc == 0)
        rc = tables_tidy(b, err);
    if (rc == 0)
        rc = tables_counts(b, &before, err);
    if (rc == 0)
        rc = drain_with(b, n, &done, &took_us, err);
    if (rc == 0)
        rc = tables_counts(b, &after, err);
    if (rc == 0)
        rc = count_duplicates(b, done, &duplicates, err);
    if (rc < 0)
        return rc;
    double rate = (double)b->options.jobs * US_PER_S / (double)took_us;
    double cpu_us = (double)(after.cpu_us - before.cpu_us) / (double)b->options.jobs;

    bench_note(b, "  %zu: %.0f jobs/s, %.1f µs of the server", n, rate, cpu_us);
    series_add(against ? &p->cpu_one : &p->cpu, cpu_us);
    series_add(against ? &p->one : &p->many, rate);
    if (!against) {
        series_add(&p->duplicates, (double)duplicates);
        series_add(&p->rollbacks, (double)(after.rollbacks - before.rollbacks));
    }
    return 0;
}

static void keep_largest(struct series *series)
{
    double largest = 0;

    for (size_t i = 0; i < series->n; i++)
        largest = fmax(largest, series->values[i]);
    *series = (struct series){.values = {largest}, .n = 1};
}

int case_processes(struct bench *b, struct pawl_err *err)
{
    struct processes p = {0};
    int rc = bench_pairs(b, measure, &p, err);

    if (rc < 0)
        return rc;
    /* Once is too often: the worst round counts, not the median. */
    keep_largest(&p.duplicates);
    keep_largest(&p.rollbacks);
    bench_row_ratio(b, "4 processes on one queue / 1", "jobs/s", &p.many, &p.one, 0.85);
    bench_row_limit(b, "jobs run twice", "", &p.duplicates, NULL, 0);
    bench_row_limit(b, "transactions rolled back", "", &p.rollbacks, NULL, 0);
    bench_row_limit(b, "server CPU per job, 4 processes / 1", "µs", &p.cpu, &p.cpu_one, BENCH_NONE);
    return 0;
}
