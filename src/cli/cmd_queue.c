/* pawl queue: what is in the queues, and holding one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pwd.h>

#include "base/clock.h"
#include "base/defer.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/inspect.h"
#include "pg/sync.h"

#define COUNT_DEFAULT 100000 /* jobs counted per queue; a second's work at most */

struct queue_options {
    int64_t count_max;
};

static void list_defaults(void *options)
{
    ((struct queue_options *)options)->count_max = COUNT_DEFAULT;
}

static const struct out_column columns[] = {
    {"queue", "QUEUE", OUT_TEXT},
    {"ready", "READY", OUT_INT},
    {"running", "RUNNING", OUT_INT},
    {"scheduled", "SCHEDULED", OUT_INT},
    {"retrying", "RETRYING", OUT_INT},
    {"parked", "PARKED", OUT_INT},
    {"oldest_due_at", "OLDEST READY", OUT_TIME},
    {"paused", "PAUSED", OUT_BOOL},
    {"paused_at", NULL, OUT_TIME},
    {"paused_by", "BY", OUT_TEXT},
    {"keep_days", "KEEP DAYS", OUT_INT},
    {"capped", NULL, OUT_BOOL},
};

struct list_state {
    struct out *out;
    bool capped;
};

static void show_queue(void *data, const struct queue_view *queue)
{
    struct list_state *state = data;
    struct out *out = state->out;

    out_text(out, queue->name);
    out_int(out, queue->ready);
    out_int(out, queue->running);
    if (queue->running > 0)
        out_tone(out, TONE_BUSY);
    out_int(out, queue->scheduled);
    out_int(out, queue->retrying);
    out_int(out, queue->parked);
    if (queue->parked > 0)
        out_tone(out, TONE_BAD);
    cell_time(out, queue->oldest_due_at);
    out_int(out, queue->paused_at != 0);
    if (queue->paused_at != 0)
        out_tone(out, TONE_BAD);
    cell_time(out, queue->paused_at);
    out_text(out, queue->paused_by);
    out_int(out, queue->keep_days);
    out_int(out, queue->capped);
    out_row(out);
    state->capped |= queue->capped;
}

static int run_list(struct cli *cli, struct pawl_err *err)
{
    const struct queue_options *options = cli->options;
    struct list_state state = {0};
    struct target target;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = cli_connect(cli, "pawl_reader", &conn, &target, err);

    if (rc < 0)
        return rc;
    state.out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));
    if (state.out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (!cli->quiet)
        out_none(state.out,
                 "no queues yet: a queue appears with its first job (pawl enqueue --help)");
    rc = client_queue_list(conn, options->count_max, show_queue, &state, err);
    rc = rc == 0 ? out_end(state.out, clock_wall_us(&clock_system), err)
                 : cli_denied(&target, "pawl_reader", err);
    out_free(state.out);
    if (state.capped) {
        cli_note(cli,
                 "a queue has more jobs than were counted; counting stopped at %lld (see --count)",
                 (long long)options->count_max);
    }
    return rc;
}

/* Who is asking, for those who wonder later why a queue stands still. */
static const char *who(void)
{
    const struct passwd *user = getpwuid(getuid());

    return user != NULL ? user->pw_name : "unknown";
}

struct change_options {
    bool all;
};

/* What to change: the queues that were named, or all. Every name is checked before anything is changed. */
static int open_for_change(struct cli *cli,
                           PGconn **ret_conn,
                           struct target *ret_target,
                           const char *const **ret_queues,
                           struct pawl_err *err)
{
    static const char *const all[] = {QUEUE_ALL, NULL};
    const struct change_options *options = cli->options;

    if (options->all == (cli->n_args > 0))
        return verb_usage(cli, err, "name the queues, or say --all");
    for (size_t i = 0; i < cli->n_args; i++) {
        int rc = name_check("queue", cli->args[i], err);

        if (rc < 0)
            return rc;
    }
    *ret_queues = options->all ? all : cli->args;
    return cli_connect(cli, "pawl_server", ret_conn, ret_target, err);
}

static void note_queue(const struct cli *cli, const char *queue, const char *one, const char *all)
{
    if (strcmp(queue, QUEUE_ALL) == 0)
        cli_note(cli, "all queues %s", all);
    else
        cli_note(cli, "queue %s %s", queue, one);
}

static int run_pause(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    const char *const *queues;
    int rc = open_for_change(cli, &conn, &target, &queues, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && queues[i] != NULL; i++) {
        rc = client_queue_pause(conn, queues[i], who(), err);
        if (rc == 0)
            note_queue(cli,
                       queues[i],
                       "is paused; jobs that run go on",
                       "are paused; jobs that run go on");
    }
    return rc < 0 ? cli_denied(&target, "pawl_server", err) : 0;
}

static int run_resume(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    const char *const *queues;
    int rc = open_for_change(cli, &conn, &target, &queues, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && queues[i] != NULL; i++) {
        bool was_paused;

        rc = client_queue_resume(conn, queues[i], &was_paused, err);
        if (rc == 0 && was_paused)
            note_queue(cli, queues[i], "goes on", "go on, unless they are paused by name");
        else if (rc == 0)
            note_queue(cli, queues[i], "was not paused", "were not paused together");
    }
    return rc < 0 ? cli_denied(&target, "pawl_server", err) : 0;
}

static const struct option_spec change_options[] = {
    {.name = "all",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct change_options, all),
     .help = "All queues, present and to come, beside what is set for each (shown as *)"},
    {0},
};

static const struct option_spec list_options[] = {
    {
        .name = "count",
        .kind = OPTION_INT,
        .offset = offsetof(struct queue_options, count_max),
        .value = "N",
        .help = "Count at most N jobs of each queue (default 100000)",
        .min = 1,
        .max = INT64_MAX,
    },
    {0},
};

static const struct verb verb_queue_list = {
    .name = "list",
    .summary = "Show the queues and what is in them",
    .options = list_options,
    .options_size = sizeof(struct queue_options),
    .defaults = list_defaults,
    .run = run_list,
};

static const struct verb verb_queue_pause = {
    .name = "pause",
    .summary = "Stop taking jobs from a queue",
    .description =
        "The next claim of every worker sees it. Jobs that run go on, and enqueueing goes on. "
        "The pause is kept in the database, so it outlives every worker.",
    .args = "[QUEUE…]",
    .max_args = VERB_ARGS_ANY,
    .options = change_options,
    .options_size = sizeof(struct change_options),
    .run = run_pause,
};

static const struct verb verb_queue_resume = {
    .name = "resume",
    .summary = "Take jobs from a paused queue again",
    .args = "[QUEUE…]",
    .max_args = VERB_ARGS_ANY,
    .options = change_options,
    .options_size = sizeof(struct change_options),
    .run = run_resume,
};

static const struct verb *const verbs[] = {
    &verb_queue_list,
    &verb_queue_pause,
    &verb_queue_resume,
    &verb_queue_allow,
    &verb_queue_disallow,
    NULL,
};

static const struct example examples[] = {
    {"pawl queue list", "What waits and what runs."},
    {"pawl queue pause mail images", "Hold two queues, for a deployment perhaps."},
    {"pawl queue pause --all", "Hold everything."},
    {NULL, NULL},
};

const struct verb verb_queue = {
    .name = "queue",
    .summary = "Look at queues, pause and resume them",
    .group = "Jobs",
    .examples = examples,
    .verbs = verbs,
};
