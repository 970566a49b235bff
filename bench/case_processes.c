/* processes: four of them on one queue, against one. Nobody may run a job twice, and nobody may get
 * in another's way. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <math.h>
#include <poll.h>
#include <spawn.h>

#include "crew.h"
#include "tables.h"

#define PROCESSES    4
#define ARGS_MAX     16
#define READY_MS     20000
#define DRAIN_MOST_S 600
#define LINE_MAX_LEN 128

extern char **environ;

struct child {
    pid_t pid; /* 0: none */
    int to;    /* closed: go */
    int from;  /* "ready", then its report */
    char line[LINE_MAX_LEN];
    size_t len;
};

struct report {
    int64_t done;
    int64_t ended_us;
};

struct processes {
    struct series many;
    struct series one;
    struct series duplicates;
    struct series rollbacks;
};

/* In the child */

static int wait_for_go(struct pawl_err *err)
{
    char ignored;
    ssize_t n;

    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return err_set_errno(err, errno, "could not say that it is ready");
    while ((n = read(STDIN_FILENO, &ignored, 1)) != 0) {
        if (n < 0 && errno != EINTR)
            return err_set_errno(err, errno, "could not wait for the start");
    }
    return 0;
}

int bench_worker(const struct target *target,
                 struct arena *arena,
                 const char *db,
                 struct log *log,
                 struct pawl_err *err)
{
    struct target own;
    struct crew crew;
    char line[LINE_MAX_LEN];
    struct bench alone = {0}; /* no signals but the ones that kill */
    int rc = bench_target(&own, target, arena, db, err);

    if (rc == 0)
        rc = wait_for_go(err);
    if (rc < 0)
        return rc;
    struct crew_options options = crew_fast(&own, log);

    options.until_empty = true;
    rc = crew_start(&crew, &options, err);
    if (rc == 0)
        rc = crew_wait(&alone, &crew, DRAIN_MOST_S * MS_PER_S, err);
    if (rc < 0)
        return rc;
    int len = snprintf(
        line, sizeof(line), "%lld %lld\n", (long long)crew.n_settled, (long long)crew.reached_us);

    return write(STDOUT_FILENO, line, (size_t)len) == len
               ? 0
               : err_set_errno(err, errno, "could not write the report");
}

/* In the parent */

static int child_spawn(struct bench *b, struct child *child, struct pawl_err *err)
{
    char *argv[ARGS_MAX + 1] = {NULL};
    posix_spawn_file_actions_t actions;
    int in[2];
    int out[2];

    for (size_t i = 0; i < ARGS_MAX && b->options.worker_argv[i] != NULL; i++) {
        const char *arg = b->options.worker_argv[i];

        argv[i] = arena_strdup(b->options.arena, strcmp(arg, BENCH_WORKER_DB) == 0 ? b->db : arg);
        if (argv[i] == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    if (pipe2(in, O_CLOEXEC) < 0)
        return err_set_errno(err, errno, "could not make a pipe");
    if (pipe2(out, O_CLOEXEC) < 0) {
        close(in[0]);
        close(in[1]);
        return err_set_errno(err, errno, "could not make a pipe");
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    int errnum = posix_spawn(&child->pid, argv[0], &actions, NULL, argv, environ);

    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    child->to = in[1];
    child->from = out[0];
    child->len = 0;
    if (errnum == 0)
        return 0;
    child->pid = 0;
    return err_set_errno(err, errnum, "could not start %s", argv[0]);
}

static void child_go(struct child *child)
{
    if (child->to >= 0)
        close(child->to);
    child->to = -1;
}

/* Nothing of ours is left behind, however it went. */
static void child_end(struct child *child)
{
    child_go(child);
    if (child->from >= 0)
        close(child->from);
    child->from = -1;
    if (child->pid > 0) {
        kill(child->pid, SIGKILL); /* one that ended by itself does not notice */
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    child->pid = 0;
}

/* The next line it writes, without its end. */
static int child_line(
    struct bench *b, struct child *child, int64_t most_ms, char *ret_line, struct pawl_err *err)
{
    int64_t until_us = bench_now_us() + most_ms * US_PER_MS;
    char *end;

    while ((end = memchr(child->line, '\n', child->len)) == NULL) {
        struct pollfd fd = {.fd = child->from, .events = POLLIN};
        int rc = bench_go_on(b, err);

        if (rc < 0)
            return rc;
        if (bench_now_us() > until_us)
            return err_set(err, PAWL_ETIMEOUT, "a process said nothing for too long");
        if (poll(&fd, 1, 100) <= 0)
            continue;
        ssize_t n = read(child->from, child->line + child->len, sizeof(child->line) - child->len);

        if (n <= 0)
            return err_set(err, PAWL_EFAILED, "a process ended without a report");
        child->len += (size_t)n;
    }
    size_t len = (size_t)(end - child->line);

    memcpy(ret_line, child->line, len);
    ret_line[len] = '\0';
    child->len -= len + 1;
    memmove(child->line, end + 1, child->len);
    return 0;
}

static int
child_report(struct bench *b, struct child *child, struct report *sum, struct pawl_err *err)
{
    char line[LINE_MAX_LEN];
    char *rest;
    int rc = child_line(b, child, (int64_t)DRAIN_MOST_S * MS_PER_S, line, err);

    if (rc < 0)
        return rc;
    sum->done += strtoll(line, &rest, 10);
    int64_t ended_us = strtoll(rest, NULL, 10);

    if (ended_us > sum->ended_us)
        sum->ended_us = ended_us;
    return 0;
}

/* n processes drain what is there. */
static int
drain_with(struct bench *b, size_t n, struct report *ret_sum, int64_t *ret_us, struct pawl_err *err)
{
    struct child children[PROCESSES];
    struct report sum = {0};
    char line[LINE_MAX_LEN];
    int rc = 0;

    for (size_t i = 0; i < n; i++)
        children[i] = (struct child){.to = -1, .from = -1};
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = child_spawn(b, &children[i], err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = child_line(b, &children[i], READY_MS, line, err);
    int64_t begun_us = bench_now_us();

    for (size_t i = 0; i < n; i++)
        child_go(&children[i]);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = child_report(b, &children[i], &sum, err);
    for (size_t i = 0; i < n; i++)
        child_end(&children[i]);
    if (rc == 0) {
        *ret_sum = sum;
        *ret_us = sum.ended_us - begun_us;
    }
    return rc;
}

/* With history on, because it remembers how often each job ran. */
static int
count_duplicates(struct bench *b, const struct report *sum, int64_t *ret_n, struct pawl_err *err)
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
        *ret_n = sum->done - once;
    return rc;
}

static int measure(struct bench *b, void *data, bool against, struct pawl_err *err)
{
    struct processes *p = data;
    struct server_counts before;
    struct server_counts after;
    struct report sum;
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
        rc = drain_with(b, n, &sum, &took_us, err);
    if (rc == 0)
        rc = tables_counts(b, &after, err);
    if (rc == 0)
        rc = count_duplicates(b, &sum, &duplicates, err);
    if (rc < 0)
        return rc;
    double rate = (double)b->options.jobs * US_PER_S / (double)took_us;

    bench_note(b, "  %zu: %.0f jobs/s", n, rate);
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
    return 0;
}
