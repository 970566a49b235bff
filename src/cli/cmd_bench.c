/* pawl bench: measures this very binary on this very machine, and says what it compared with. Thin:
 * the measuring is in bench/. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <math.h>

#include "base/defer.h"
#include "base/json.h"
#include "base/text.h"
#include "bench/bench.h"
#include "cli/cmds.h"
#include "cli/db.h"

#define JOBS_DEFAULT   200000
#define QUICK_SHARE    10
#define ROUNDS_DEFAULT 3
#define FIGURES_MAX    (16 * 1024)

struct bench_cli_options {
    int64_t jobs;
    bool jobs_set;
    int64_t rounds;
    bool quick;
    bool strict;
    const char *worker;
};

/* For the signal handler, which gets no data of its own. */
static struct bench *running;

static void on_signal(int signum)
{
    (void)signum;
    if (running != NULL)
        bench_interrupt(running);
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};

    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        struct sigaction before;

        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

static void on_note(void *data, const char *text)
{
    cli_note(data, "%s", text);
}

/* Three digits that count, and no more. */
static void format_number(char *text, size_t size, double value, const char *unit)
{
    int digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;

    if (isnan(value))
        snprintf(text, size, "–");
    else
        snprintf(text, size, "%.*f%s%s", digits, value, unit[0] != '\0' ? " " : "", unit);
}

static void table_row(struct out *out, const struct bench_row *row)
{
    char text[64];

    out_text(out, row->name);
    out_text(out, row->what);
    format_number(text, sizeof(text), series_median(&row->measured), row->unit);
    out_text(out, text);
    format_number(text, sizeof(text), series_median(&row->against), row->unit);
    out_text(out, text);
    if (isnan(row->ratio))
        snprintf(text, sizeof(text), "–");
    else
        snprintf(text, sizeof(text), "%.2f", row->ratio);
    out_text(out, text);
    if (row->goal == GOAL_NONE) {
        out_text(out, "–");
        out_text(out, "");
    } else {
        snprintf(text,
                 sizeof(text),
                 "%s %g%s%s",
                 row->goal == GOAL_AT_LEAST ? "≥" : "≤",
                 row->target,
                 row->goal_on_ratio || row->unit[0] == '\0' ? "" : " ",
                 row->goal_on_ratio ? "" : row->unit);
        out_text(out, text);
        out_text(out, row->met ? "✓" : "✗");
        out_tone(out, row->met ? TONE_GOOD : TONE_BAD);
    }
    out_row(out);
}

/* A JSON value of its own; `text` is reused for the next. */
static void out_json(struct out *out, struct buf *text)
{
    out_textn(out, buf_str(text), text->len);
    buf_clear(text);
}

static void out_double(struct out *out, struct buf *text, double value)
{
    struct json_writer w;

    if (isnan(value)) {
        out_null(out);
        return;
    }
    json_init(&w, text);
    json_double(&w, value);
    out_json(out, text);
}

static void out_series(struct out *out, struct buf *text, const struct series *series)
{
    struct json_writer w;

    json_init(&w, text);
    json_array_begin(&w);
    for (size_t i = 0; i < series->n; i++)
        json_double(&w, series->values[i]);
    json_array_end(&w);
    out_json(out, text);
}

static void json_row(struct out *out, struct buf *text, const struct bench_row *row)
{
    out_text(out, row->name);
    out_text(out, row->what);
    out_text(out, row->unit);
    out_double(out, text, series_median(&row->measured));
    out_double(out, text, series_median(&row->against));
    out_double(out, text, row->ratio);
    out_text(out,
             row->goal == GOAL_NONE       ? NULL
             : row->goal == GOAL_AT_LEAST ? "at_least"
                                          : "at_most");
    out_double(out, text, row->target);
    if (row->goal == GOAL_NONE)
        out_null(out);
    else
        out_int(out, row->met);
    out_series(out, text, &row->measured);
    out_series(out, text, &row->against);
    out_row(out);
}

static const struct out_column table_columns[] = {
    {"case", "CASE", OUT_TEXT},
    {"what", "WHAT", OUT_TEXT},
    {"measured", "MEASURED", OUT_TEXT},
    {"against", "AGAINST", OUT_TEXT},
    {"ratio", "RATIO", OUT_TEXT},
    {"target", "TARGET", OUT_TEXT},
    {"met", "OK", OUT_TEXT},
};

static const struct out_column json_columns[] = {
    {"case", NULL, OUT_TEXT},
    {"what", NULL, OUT_TEXT},
    {"unit", NULL, OUT_TEXT},
    {"measured", NULL, OUT_BYTES},
    {"against", NULL, OUT_BYTES},
    {"ratio", NULL, OUT_BYTES},
    {"goal", NULL, OUT_TEXT},
    {"target", NULL, OUT_BYTES},
    {"met", NULL, OUT_BOOL},
    {"measured_rounds", NULL, OUT_BYTES},
    {"against_rounds", NULL, OUT_BYTES},
};

static int show(struct cli *cli, const struct bench *b, struct pawl_err *err)
{
    CLEANUP(buf_deinit)
    struct buf text;
    bool table = cli->output == OUT_TABLE;
    struct out *out =
        table ? cli_out_new(cli, table_columns, sizeof(table_columns) / sizeof(*table_columns))
              : cli_out_new(cli, json_columns, sizeof(json_columns) / sizeof(*json_columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    buf_init(&text, FIGURES_MAX);
    for (size_t i = 0; i < b->n_rows; i++) {
        if (table)
            table_row(out, &b->rows[i]);
        else
            json_row(out, &text, &b->rows[i]);
    }
    int rc = out_end(out, clock_wall_us(&clock_system), err);

    out_free(out);
    return rc;
}

static int check_goals(const struct bench *b, struct pawl_err *err)
{
    size_t missed = 0;

    for (size_t i = 0; i < b->n_rows; i++)
        missed += !b->rows[i].met;
    return missed == 0 ? 0 : err_set(err, PAWL_EFAILED, "%zu targets were not reached", missed);
}

static int run_cases(struct cli *cli, const struct target *target, struct pawl_err *err)
{
    const struct bench_cli_options *options = cli->options;
    struct bench *b = arena_new(cli->arena, struct bench);
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *worker_argv[] = {
        self, "bench", "--worker", BENCH_WORKER_DB, cli->db != NULL ? "--db" : NULL, cli->db, NULL};

    if (b == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    self[len > 0 ? len : 0] = '\0';
    int rc = bench_open(b,
                        &(struct bench_options){
                            .target = target,
                            .arena = cli->arena,
                            .log = cli->log,
                            .jobs = options->jobs_set ? options->jobs
                                    : options->quick  ? JOBS_DEFAULT / QUICK_SHARE
                                                      : JOBS_DEFAULT,
                            .rounds = options->rounds,
                            .quick = options->quick,
                            .note = on_note,
                            .data = cli,
                            .worker_argv = worker_argv,
                        },
                        err);

    if (rc < 0)
        return rc;
    running = b;
    catch_signals();
    rc = bench_run(b, cli->args, err);
    bench_close(
        b); /* before running = NULL: a second signal must not end the process before this does */
    running = NULL;
    if (b->n_rows > 0) {
        struct pawl_err show_err;
        int show_rc = show(cli, b, &show_err);

        if (rc == 0 && show_rc < 0) {
            *err = show_err;
            rc = show_rc;
        }
    }
    if (rc == 0 && options->strict)
        rc = check_goals(b, err);
    return rc;
}

static int run(struct cli *cli, struct pawl_err *err)
{
    const struct bench_cli_options *options = cli->options;
    const char *unknown = bench_unknown(cli->args);
    struct target target;

    if (unknown != NULL)
        return verb_usage(cli, err, "there is no case %s", unknown);
    int rc = cli_target(cli, &target, NULL, err);

    if (rc < 0)
        return rc;
    if (options->worker != NULL)
        return bench_worker(&target, cli->arena, options->worker, cli->log, err);
    return run_cases(cli, &target, err);
}

static void defaults(void *data)
{
    struct bench_cli_options *options = data;

    options->jobs = JOBS_DEFAULT;
    options->rounds = ROUNDS_DEFAULT;
}

#define OPTION(k, field) .kind = (k), .offset = offsetof(struct bench_cli_options, field)

static const struct option_spec options[] = {
    {.name = "jobs",
     OPTION(OPTION_INT, jobs),
     .set_offset = offsetof(struct bench_cli_options, jobs_set),
     .value = "N",
     .help =
         "Drain N jobs in one measurement; everything else that counts jobs grows with it (default 200000)",
     .min = 100,
     .max = 10 * 1000 * 1000},
    {.name = "rounds",
     OPTION(OPTION_INT, rounds),
     .value = "N",
     .help = "Measure each pair N times; the median counts (default 3)",
     .min = 1,
     .max = BENCH_ROUNDS_MAX},
    {.name = "quick",
     OPTION(OPTION_FLAG, quick),
     .help = "A tenth of the jobs and of the time: to see that it works, not how fast"},
    {.name = "strict",
     OPTION(OPTION_FLAG, strict),
     .help = "Exit status 1 when a target is not reached"},
    {.name = "worker",
     OPTION(OPTION_TEXT, worker),
     .value = "DATABASE",
     .help = "Be one of the processes of the case processes",
     .hidden = true},
    {0},
};

static const struct example examples[] = {
    {"pawl bench", "All cases; some minutes."},
    {"pawl bench drain wake", "Two of them."},
    {"pawl bench --quick -o json", "A quick look, for a program; all figures are in it."},
    {NULL, NULL},
};

const struct verb verb_bench = {
    .name = "bench",
    .summary = "Measure how fast pawl is on this machine",
    .group = "Database",
    .args = "[CASE...]",
    .max_args = VERB_ARGS_ANY,
    .description =
        "Measures the engine in a database of its own, which is dropped at the end, and compares each figure with what the "
        "same statements reach without the engine, or with the same work under easier conditions. Both are measured in turn, "
        "so that a busy machine blurs the figures more than the ratios.\n\n"
        "drain: a full queue, against a bare loop of claim and delete. backlog: the first jobs of a long queue. xmin: while "
        "an open transaction holds back vacuum. future: behind more urgent jobs that are due tomorrow. processes: four "
        "processes against one. enqueue: 64 connections, one commit a job. wake: from commit to handler, asleep before. "
        "idle: what a process costs that has nothing to do. headofline: short jobs behind a long one. library: what libpawl adds to COPY, to one INSERT and to the engine. "
        "machines: steps, children and signals against plain jobs. sweep: jobs of dead workers until they are back. lanes: a hot lane in the way, and many lanes. "
        "serve: jobs and producers by `pawl serve`, against a coordinator in the process and against connections. workers: a thousand of them on one server. beside: a worker next to clients that behave badly.",
    .options = options,
    .options_size = sizeof(struct bench_cli_options),
    .defaults = defaults,
    .examples = examples,
    .run = run,
};
