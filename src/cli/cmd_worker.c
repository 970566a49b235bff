/* pawl worker: who runs jobs, and what is wanted of those on streams. */
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include "base/clock.h"
#include "base/defer.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/workers.h"
#include "pg/sync.h"

#define RATE_UNIT_S 1000 /* rates are whole numbers of jobs in so many seconds */
#define RATE_MAX    1000000

static const struct out_column columns[] = {
    {"id", "WORKER", OUT_TEXT},
    {"name", "NAME", OUT_TEXT},
    {"via", "SERVER", OUT_TEXT},
    {"queues", "QUEUES", OUT_TEXT},
    {"kinds", "KINDS", OUT_TEXT},
    {"slots", "SLOTS", OUT_INT},
    {"running", "RUNNING", OUT_INT},
    {"ended", NULL, OUT_INT},
    {"rate_per_s", "RATE/S", OUT_TEXT},
    {"draining", "DRAINING", OUT_BOOL},
    {"started_at", "SINCE", OUT_TIME},
    {"beat_at", "SEEN", OUT_TIME},
    {"host", NULL, OUT_TEXT},
    {"version", NULL, OUT_TEXT},
};

static void show_worker(void *data, const struct worker_view *worker)
{
    struct out *out = data;

    out_text(out, worker->id);
    out_text(out, worker->name);
    out_text(out, worker->via);
    out_text(out, worker->queues);
    out_text(out, worker->kinds);
    out_int(out, worker->slots);
    out_int(out, worker->running);
    if (worker->running > 0)
        out_tone(out, TONE_BUSY);
    if (worker->ended >= 0)
        out_int(out, worker->ended);
    else
        out_null(out);
    out_text(out, worker->rate_per_s);
    out_int(out, worker->draining);
    if (worker->draining)
        out_tone(out, TONE_BAD);
    cell_time(out, worker->started_at);
    cell_time(out, worker->beat_at);
    out_text(out, worker->host);
    out_text(out, worker->version);
    out_row(out);
}

static int run_list(struct cli *cli, struct pawl_err *err)
{
    struct target target;
    struct out *out;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = cli_connect(cli, "pawl_reader", &conn, &target, err);

    if (rc < 0)
        return rc;
    out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));
    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (!cli->quiet)
        out_none(out, "no workers (pawl work --help, pawl serve --help)");
    rc = client_worker_list(conn, show_worker, out, err);
    rc = rc == 0 ? out_end(out, clock_wall_us(&clock_system), err)
                 : cli_denied(&target, "pawl_reader", err);
    out_free(out);
    return rc;
}

static void say_told(struct cli *cli, const char *worker, const struct worker_wish *wish)
{
    if (wish->drain)
        cli_note(cli, "worker %s finishes what it has and gets no more", worker);
    if (wish->credits > 0)
        cli_note(cli, "worker %s holds at most %d jobs at once", worker, (int)wish->credits);
    else if (wish->credits == 0)
        cli_note(cli, "worker %s holds as many jobs as it asked for", worker);
    if (wish->per_1000_s > 0)
        cli_note(cli,
                 "worker %s is given at most %g jobs in a second",
                 worker,
                 (double)wish->per_1000_s / RATE_UNIT_S);
    else if (wish->per_1000_s == 0)
        cli_note(cli, "worker %s is given jobs as fast as it ends them", worker);
}

static int ask(struct cli *cli, const struct worker_wish *wish, struct pawl_err *err)
{
    struct target target;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = cli_connect(cli, "pawl_server", &conn, &target, err);

    for (size_t i = 0; rc == 0 && i < cli->n_args; i++) {
        bool found;

        rc = client_worker_ask(conn, cli->args[i], wish, &found, err);
        if (rc < 0)
            return cli_denied(&target, "pawl_server", err);
        if (found)
            say_told(cli, cli->args[i], wish);
        else
            cli_note(cli,
                     "worker %s is on no server's stream at present; it is told when it comes",
                     cli->args[i]);
    }
    return rc;
}

static int run_drain(struct cli *cli, struct pawl_err *err)
{
    return ask(cli, &(struct worker_wish){.drain = true, .credits = -1, .per_1000_s = -1}, err);
}

struct limit_options {
    int64_t credits; /* -1: not given */
    const char *rate;
};

static void limit_defaults(void *data)
{
    struct limit_options *options = data;

    options->credits = -1;
}

static int
rate_read(struct cli *cli, const char *text, int64_t *ret_per_1000_s, struct pawl_err *err)
{
    char *end;
    double rate = strtod(text, &end) * RATE_UNIT_S;

    if (end == text || (strcmp(end, "") != 0 && strcmp(end, "/s") != 0) || !isfinite(rate) ||
        rate < 0 || rate > RATE_MAX * RATE_UNIT_S || (rate > 0 && rate < 1))
        return verb_usage(
            cli,
            err,
            "--rate \"%.40s\" is not 0, or a number of jobs per second from 0.001 to %d",
            text,
            RATE_MAX);
    *ret_per_1000_s = llround(rate);
    return 0;
}

static int run_limit(struct cli *cli, struct pawl_err *err)
{
    const struct limit_options *options = cli->options;
    struct worker_wish wish = {.credits = (int32_t)options->credits, .per_1000_s = -1};
    int rc = options->rate != NULL ? rate_read(cli, options->rate, &wish.per_1000_s, err) : 0;

    if (rc == 0 && options->rate == NULL && options->credits < 0)
        wish.credits = 0, wish.per_1000_s = 0; /* no limits */
    return rc == 0 ? ask(cli, &wish, err) : rc;
}

static const struct verb verb_worker_list = {
    .name = "list",
    .summary = "Show who runs jobs",
    .description =
        "Workers of `pawl work` and of programs with libpawl, and those on the streams of servers. What is shown of the "
        "latter is a few seconds old.",
    .run = run_list,
};

static const struct verb verb_worker_drain = {
    .name = "drain",
    .summary = "Let a worker finish what it has, and give it no more",
    .description =
        "For workers on the stream of a server, named by their ids. The worker is told, finishes, and closes its stream. "
        "The wish is kept in the database: also after a reconnect it gets nothing, until it starts anew under another id.",
    .args = "WORKER…",
    .min_args = 1,
    .max_args = VERB_ARGS_ANY,
    .run = run_drain,
};

static const struct option_spec limit_options[] = {
    {.name = "jobs",
     .letter = 'n',
     .kind = OPTION_INT,
     .offset = offsetof(struct limit_options, credits),
     .value = "N",
     .help = "Hold at most N jobs at once; 0 is what the worker asked for",
     .min = 0,
     .max = 10000},
    {.name = "rate",
     .letter = 'r',
     .kind = OPTION_TEXT,
     .offset = offsetof(struct limit_options, rate),
     .value = "N",
     .help = "Be given at most N jobs in a second, e.g. 10/s or 0.5; 0 is no limit"},
    {0},
};

static const struct verb verb_worker_limit = {
    .name = "limit",
    .summary = "Change how many jobs a worker may hold at once, and how fast it gets them",
    .description =
        "For workers on the stream of a server, named by their ids. Never more at once than the worker asked for; what it has, it "
        "keeps. The server keeps both limits, and tells the worker. What is not given stays as it is; without an option both limits go.",
    .args = "WORKER…",
    .min_args = 1,
    .max_args = VERB_ARGS_ANY,
    .options = limit_options,
    .defaults = limit_defaults,
    .options_size = sizeof(struct limit_options),
    .run = run_limit,
};

static const struct verb *const verbs[] = {
    &verb_worker_list,
    &verb_worker_drain,
    &verb_worker_limit,
    NULL,
};

static const struct example examples[] = {
    {"pawl worker list", "Who is there, and how busy."},
    {"pawl worker drain 6ad2e0c1-3d7f-4ab1-9f58-6c1c8f1f9a55", "Before its machine goes."},
    {"pawl worker limit -n 2 6ad2e0c1-3d7f-4ab1-9f58-6c1c8f1f9a55", "Two jobs at once, no more."},
    {"pawl worker limit --rate 5/s 6ad2e0c1-3d7f-4ab1-9f58-6c1c8f1f9a55",
     "Five jobs in a second, no more."},
    {NULL, NULL},
};

const struct verb verb_worker = {
    .name = "worker",
    .summary = "Look at workers, drain and limit them",
    .group = "Jobs",
    .examples = examples,
    .verbs = verbs,
};
