/* pawl lane: what runs and waits in lanes, and their limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include "base/clock.h"
#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/query.h"
#include "core/job.h"
#include "store/job.h"
#include "store/lane.h"
#include "store/statements.h"

#define LIST_MAX    1000   /* lanes; a rule is always shown */
#define COUNT_MAX   100000 /* jobs counted in a lane */
#define MEND_MOST   1000
#define RUNNING_MAX 100000
#define BURST_MAX   1000000

struct list_options {
    const char *queue;
};

struct set_options {
    int64_t max_running;
    int64_t burst;
    const char *rate;
    bool strict;
    bool hold;
    bool remove;
};

static const struct out_column columns[] = {
    {"queue", "QUEUE", OUT_TEXT},
    {"lane", "LANE", OUT_TEXT},
    {"rule", "RULE", OUT_BOOL},
    {"running", "RUNNING", OUT_INT},
    {"waiting", "WAITING", OUT_INT},
    {"max_running", "MAX", OUT_INT},
    {"rate_per_s", "RATE/S", OUT_TEXT},
    {"burst", "BURST", OUT_TEXT},
    {"strict", "STRICT", OUT_BOOL},
    {"hold", "HOLD", OUT_BOOL},
};

static void show_lane(struct out *out, const struct lane_view *lane)
{
    out_text(out, lane->queue);
    out_text(out, lane->lane);
    out_int(out, lane->rule);
    out_int(out, lane->running);
    if (lane->running > 0)
        out_tone(out, TONE_BUSY);
    out_int(out, lane->waiting);
    out_int(out, lane->max_running);
    out_text(out, lane->rate_per_s);
    out_text(out, lane->rate_per_s != NULL ? lane->burst : NULL);
    out_int(out, lane->strict);
    out_int(out, lane->hold);
    out_row(out);
}

static int run_list(struct cli *cli, struct pawl_err *err)
{
    const struct list_options *options = cli->options;
    struct target target;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    CLEANUP(query_end)
    struct query q;
    int rc = options->queue != NULL ? name_check("queue", options->queue, err) : 0;

    query_begin(&q, 0);
    if (rc == 0)
        rc = cli_connect(cli, "pawl_reader", &conn, &target, err);
    if (rc < 0)
        return rc;
    lane_list_bind(&q.params, options->queue, LIST_MAX, COUNT_MAX);
    rc = query_run(&q, conn, STMT(lane_list), err);
    if (rc < 0)
        return cli_denied(&target, "pawl_reader", err);
    struct out *out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (!cli->quiet)
        out_none(out, "nothing is in a lane, and there are no rules (pawl enqueue --lane)");
    for (int row = 0; row < query_rows(&q); row++) {
        struct lane_view lane;

        lane_list_row(q.result, row, &lane);
        show_lane(out, &lane);
    }
    rc = out_end(out, clock_wall_us(&clock_system), err);
    out_free(out);
    return rc;
}

/* A number of starts, with or without /s behind it; as text, because the database reads it. */
static int
rate_check(struct cli *cli, const char *text, char *ret_rate, size_t size, struct pawl_err *err)
{
    char *end;
    double rate = strtod(text, &end);

    if (end == text || (strcmp(end, "") != 0 && strcmp(end, "/s") != 0) || !isfinite(rate) ||
        rate <= 0)
        return verb_usage(cli, err, "--rate \"%.40s\" is not a number of starts per second", text);
    snprintf(ret_rate, size, "%.17g", rate);
    return 0;
}

/* The lanes that are there already get it at once, and not when a worker hears of it. */
static int mend(PGconn *conn, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    lanes_mend_bind(&q.params, MEND_MOST);
    return query_run(&q, conn, STMT(lanes_mend), err);
}

static int run_set(struct cli *cli, struct pawl_err *err)
{
    const struct set_options *options = cli->options;
    char rate[40] = "";
    struct lane_limits limits = {
        .queue = cli->args[0],
        .pattern = cli->args[1],
        .max_running = options->remove ? 0 : (int32_t)options->max_running,
        .rate_per_s = rate,
        .burst = (int32_t)options->burst,
        .strict = options->strict,
        .hold = options->hold,
    };
    struct target target;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    CLEANUP(query_end)
    struct query q;
    int rc = strcmp(limits.queue, "*") != 0 ? name_check("queue", limits.queue, err) : 0;

    query_begin(&q, 0);
    if (rc == 0 && options->rate != NULL)
        rc = rate_check(cli, options->rate, rate, sizeof(rate), err);
    if (rc == 0)
        rc = cli_connect(cli, "pawl_server", &conn, &target, err);
    if (rc < 0)
        return rc;
    lane_set_bind(&q.params, &limits);
    rc = query_run(&q, conn, STMT(lane_set), err);
    if (rc == 0)
        rc = mend(conn, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_server", err);
    cli_note(cli,
             options->remove ? "lanes %s of queue %s have no rule of their own any more"
                             : "lanes %s of queue %s have new limits",
             limits.pattern,
             limits.queue);
    return 0;
}

static void set_defaults(void *options)
{
    *(struct set_options *)options = (struct set_options){.max_running = 1, .burst = 1};
}

static const struct option_spec list_options[] = {
    {.name = "queue",
     .letter = 'Q',
     .kind = OPTION_TEXT,
     .offset = offsetof(struct list_options, queue),
     .value = "QUEUE",
     .help = "Lanes of this queue only"},
    {0},
};

#define SET(field) offsetof(struct set_options, field)

static const struct option_spec set_options[] = {
    {.name = "max",
     .kind = OPTION_INT,
     .offset = SET(max_running),
     .value = "N",
     .help = "At most N at a time (default 1)",
     .min = 1,
     .max = RUNNING_MAX},
    {.name = "rate",
     .kind = OPTION_TEXT,
     .offset = SET(rate),
     .value = "N/s",
     .help = "At most N starts per second (default: no limit)"},
    {.name = "burst",
     .kind = OPTION_INT,
     .offset = SET(burst),
     .value = "N",
     .help = "With --rate: so many at once after a pause (default 1)",
     .min = 1,
     .max = BURST_MAX},
    {.name = "strict",
     .kind = OPTION_FLAG,
     .offset = SET(strict),
     .help = "In the order of enqueueing, whatever their priorities and due times"},
    {.name = "hold",
     .kind = OPTION_FLAG,
     .offset = SET(hold),
     .help = "A job that is tried again keeps its place meanwhile (default: the next one goes on)"},
    {.name = "remove", .kind = OPTION_FLAG, .offset = SET(remove), .help = "Remove the rule"},
    {0},
};

static const struct verb verb_lane_list = {
    .name = "list",
    .summary = "Show rules, and lanes with jobs in them",
    .options = list_options,
    .options_size = sizeof(struct list_options),
    .run = run_list,
};

static const struct verb verb_lane_set = {
    .name = "set",
    .summary = "Set the limits of lanes",
    .description =
        "PATTERN is the name of a lane, with * for any text; QUEUE may be *. The longest pattern that fits a lane counts, "
        "those of its own queue before those of all. Without a rule a lane runs one job at a time.",
    .args = "QUEUE PATTERN",
    .min_args = 2,
    .max_args = 2,
    .options = set_options,
    .options_size = sizeof(struct set_options),
    .defaults = set_defaults,
    .run = run_set,
};

static const struct verb *const verbs[] = {&verb_lane_list, &verb_lane_set, NULL};

static const struct example examples[] = {
    {"pawl lane list", "What runs and waits in lanes."},
    {"pawl lane set mail 'customer:*' --max 3", "Three mails at a time for each customer."},
    {"pawl lane set '*' 'api:*' --rate 10/s --burst 20",
     "Calls of an API, no faster than it allows."},
    {NULL, NULL},
};

const struct verb verb_lane = {
    .name = "lane",
    .summary = "Look at lanes, and limit them",
    .group = "Jobs",
    .examples = examples,
    .verbs = verbs,
};
