/*
 * bench: how fast is it, and fast compared with what? Every figure is measured side by side with
 * something that does the same without the engine (or without the difficulty), in one run: the two
 * alternate, and the median of the rounds counts. So a busy machine blurs the figures, but hardly
 * the ratios.
 *
 * It works in a database of its own on the server it is given, made at the start and dropped at the
 * end. One thread, but for bench_interrupt. SQL may stand in C literals here: what is measured
 * against is not a part of the product.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "pg/target.h"

#define BENCH_ROUNDS_MAX 32
#define BENCH_ROWS_MAX   128
#define BENCH_DB_LEN     48
#define BENCH_NONE       ((double)NAN) /* no number */
#define BENCH_QUEUE      "bench"
#define BENCH_KIND       "noop"

struct bench_options {
    const struct target *target; /* the server; borrowed like all pointers here */
    struct arena *arena;
    struct log *log;
    int64_t jobs;   /* how many to drain; everything else is scaled with it */
    int64_t rounds; /* of each pair; the median counts */
    bool quick;     /* what takes its time by the clock takes a tenth of it */
    void (*note)(void *data, const char *text); /* what happens at the moment, for people */
    void *data;
    const char *const *worker_argv; /* starts a process that calls bench_worker; BENCH_WORKER_DB in
                                       it stands for the database's name */
};

#define BENCH_WORKER_DB "@db"

/* Figures of the rounds, in order. */
struct series {
    double values[BENCH_ROUNDS_MAX];
    size_t n;
};

void series_add(struct series *series, double value);
double series_median(const struct series *series); /* BENCH_NONE when empty */

enum bench_goal { GOAL_NONE, GOAL_AT_LEAST, GOAL_AT_MOST };

/* One line of the report. Numbers that do not apply are BENCH_NONE. */
struct bench_row {
    const char *name; /* of the case */
    char what[96];
    const char *unit; /* of measured and against */
    struct series measured;
    struct series against; /* empty: compared with nothing */
    double ratio;          /* median of the rounds' measured / against */
    enum bench_goal goal;
    bool goal_on_ratio; /* else on the median of `measured` */
    double target;
    bool met; /* true without a goal */
};

struct bench {
    struct bench_options options;
    struct target target;  /* its own database */
    char db[BENCH_DB_LEN]; /* its name */
    PGconn *admin;         /* on the server's own database: looks on without being counted */
    PGconn *conn;          /* on ours: fills and cleans tables */
    PGcancel *cancel;      /* of conn: for bench_interrupt */
    bool can_checkpoint;
    volatile sig_atomic_t interrupted;
    const char *current; /* the case that runs */
    struct bench_row rows[BENCH_ROWS_MAX];
    size_t n_rows;
};

/* Connects and makes the database. bench_close drops it, whatever happened. */
int bench_open(struct bench *b,
               const struct bench_options *options,
               struct pawl_err *err) MUST_CHECK;
void bench_close(struct bench *b);

/* Runs the cases named, NULL-terminated, or all when there is none. */
int bench_run(struct bench *b, const char *const *names, struct pawl_err *err) MUST_CHECK;

/* The first that is no case, or NULL. */
const char *bench_unknown(const char *const *names);
/* NULL-terminated. */
const char *const *bench_names(void);

/* Ends the run soon. May be called from a signal handler. */
void bench_interrupt(struct bench *b);

/* The same server, another database. */
int bench_target(struct target *ret_target,
                 const struct target *server,
                 struct arena *arena,
                 const char *db,
                 struct pawl_err *err) MUST_CHECK;

/* What a child process of the case `processes` does: drains the queue and reports on its standard
 * output how far it is, until its standard input ends. */
int bench_worker(const struct target *target,
                 struct arena *arena,
                 const char *db,
                 struct log *log,
                 struct pawl_err *err) MUST_CHECK;

/* For the cases */

int bench_go_on(const struct bench *b, struct pawl_err *err) MUST_CHECK; /* PAWL_EINTERRUPTED */
void bench_note(struct bench *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
int64_t bench_now_us(void);
/* Not longer than until the next signal. */
void bench_sleep_ms(const struct bench *b, int64_t ms);
/* `full` scaled down by --quick, by the ratio of --jobs to its default where it counts jobs. */
int64_t bench_ms(const struct bench *b, int64_t full);
int64_t bench_jobs(const struct bench *b, double share_of_jobs);

/* Lines of the report. */
/* measured / against per round must be at least target; BENCH_NONE: just shown. */
void bench_row_ratio(struct bench *b,
                     const char *what,
                     const char *unit,
                     const struct series *measured,
                     const struct series *against,
                     double target);
/* … must be at most target. */
void bench_row_ratio_most(struct bench *b,
                          const char *what,
                          const char *unit,
                          const struct series *measured,
                          const struct series *against,
                          double target);
/* The median must be at most target; BENCH_NONE: just shown. against may be NULL. */
void bench_row_limit(struct bench *b,
                     const char *what,
                     const char *unit,
                     const struct series *measured,
                     const struct series *against,
                     double target);

/* One measurement of one side of a pair: figures are added to what `data` points to. */
typedef int (*bench_fn)(struct bench *b, void *data, bool against, struct pawl_err *err);
/* `rounds` times both sides, the one that comes first taking turns. */
int bench_pairs(struct bench *b, bench_fn fn, void *data, struct pawl_err *err) MUST_CHECK;

int case_drain(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_backlog(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_xmin(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_future(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_processes(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_enqueue(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_wake(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_idle(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_headofline(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_library(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_machines(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_sweep(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_lanes(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_serve(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_beside(struct bench *b, struct pawl_err *err) MUST_CHECK;
int case_workers(struct bench *b, struct pawl_err *err) MUST_CHECK;

#endif
