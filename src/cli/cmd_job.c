/* pawl job: listing jobs. `pawl job show` is in cmd_job_show.c. */
#include <stdio.h>

#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/inspect.h"
#include "pg/sync.h"

#define LIMIT_DEFAULT 20
#define LIMIT_MAX     10000

struct list_options {
    const char *queue;
    const char *kind;
    struct option_list states;
    int64_t limit;
    int64_t before;
};

static const struct out_column columns[] = {
    {"id", "JOB", OUT_INT},
    {"state", "STATE", OUT_TEXT},
    {"queue", "QUEUE", OUT_TEXT},
    {"kind", "KIND", OUT_TEXT},
    {"priority", NULL, OUT_INT},
    {"attempt", "ATTEMPT", OUT_INT},
    {"max_attempts", NULL, OUT_INT},
    {"created_at", "CREATED", OUT_TIME},
    {"due_at", "DUE", OUT_TIME},
    {"started_at", NULL, OUT_TIME},
    {"finished_at", "FINISHED", OUT_TIME},
    {"worker", NULL, OUT_TEXT},
    {"error", "ERROR", OUT_TEXT},
};

struct list_state {
    const struct cli *cli;
    struct out *out;
    int64_t now;
    int64_t last_id;
    int64_t n;
};

static enum out_tone tone(const char *state)
{
    enum job_state value;

    if (job_state_parse(state, &value) < 0)
        return TONE_PLAIN;
    switch (value) {
    case JOB_DONE:
        return TONE_GOOD;
    case JOB_FAILED:
    case JOB_PARKED:
        return TONE_BAD;
    case JOB_RUNNING:
    case JOB_RETRYING:
        return TONE_BUSY;
    case JOB_SCHEDULED:
    case JOB_WAITING:
    case JOB_CANCELLED:
        return TONE_DIM;
    case JOB_READY:
        return TONE_PLAIN;
    }
    return TONE_PLAIN;
}

static void show_row(void *data, const struct job_view *job)
{
    struct list_state *state = data;
    struct out *out = state->out;

    out_int(out, job->id);
    out_text(out, job->state);
    out_tone(out, tone(job->state));
    out_text(out, job->queue);
    out_text(out, job->kind);
    out_int(out, job->priority);
    out_int(out, job->attempt);
    out_int(out, job->max_attempts);
    out_int(out, job->created_at);
    out_int(out, job->due_at);
    cell_time(out, job->started_at);
    cell_time(out, job->finished_at);
    out_text(out, job->worker);
    cell_error(state->cli, out, job->error);
    out_row(out);
    state->now = job->now;
    state->last_id = job->id;
    state->n++;
}

static int check_states(struct cli *cli, const struct option_list *states, struct pawl_err *err)
{
#define STATE_TEXT(name, number, text, terminal) text,
    static const char *const known[] = {JOB_STATES(STATE_TEXT)};
#undef STATE_TEXT

    for (size_t i = 0; i < states->n; i++) {
        enum job_state state;

        if (job_state_parse(states->items[i], &state) == 0)
            continue;
        const char *meant = text_nearest(states->items[i], known, sizeof(known) / sizeof(*known));

        verb_usage(cli, err, "a job is never \"%s\"", states->items[i]);
        err_detail(
            err,
            "States are ready, scheduled, retrying, running, waiting, parked, done, failed and cancelled.");
        return meant != NULL ? err_hint(err, "Did you mean %s?", meant) : err->code;
    }
    return 0;
}

static bool is_filtered(const struct list_options *options)
{
    return options->queue != NULL || options->kind != NULL || options->states.n > 0 ||
           options->before != INT64_MAX;
}

static int run_list(struct cli *cli, struct pawl_err *err)
{
    const struct list_options *options = cli->options;
    struct list_state state = {.cli = cli, .now = clock_wall_us(&clock_system)};
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    int rc = check_states(cli, &options->states, err);

    if (rc == 0 && options->queue != NULL)
        rc = name_check("queue", options->queue, err);
    if (rc == 0 && options->kind != NULL)
        rc = kind_check(options->kind, err);
    if (rc == 0)
        rc = cli_connect(cli, "pawl_reader", &conn, &target, err);
    if (rc < 0)
        return rc;
    state.out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));
    if (state.out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (!cli->quiet)
        out_none(state.out, is_filtered(options) ? "no such jobs" : "no jobs");
    rc = client_job_list(conn,
                         &(struct job_list){
                             .queue = options->queue,
                             .kind = options->kind,
                             .states = options->states.items,
                             .n_states = options->states.n,
                             .before_id = options->before,
                             .limit = (int32_t)options->limit,
                         },
                         show_row,
                         &state,
                         err);
    rc = rc == 0 ? out_end(state.out, state.now, err) : cli_denied(&target, "pawl_reader", err);
    out_free(state.out);
    if (rc == 0 && state.n == options->limit) {
        cli_note(
            cli, "there may be more: --before %lld shows the next ones", (long long)state.last_id);
    }
    return rc;
}

static void list_defaults(void *data)
{
    struct list_options *options = data;

    options->limit = LIMIT_DEFAULT;
    options->before = INT64_MAX;
}

#define OPTION(k, field) .kind = (k), .offset = offsetof(struct list_options, field)

static const struct option_spec list_options[] = {
    {.name = "queue",
     .letter = 'Q',
     OPTION(OPTION_TEXT, queue),
     .value = "QUEUE",
     .help = "Only jobs of this queue"},
    {.name = "kind",
     .letter = 'k',
     OPTION(OPTION_TEXT, kind),
     .value = "KIND",
     .help = "Only jobs of this kind"},
    {.name = "state",
     .letter = 's',
     OPTION(OPTION_LIST, states),
     .value = "STATE",
     .help =
         "Only jobs in this state: ready, scheduled, retrying, running, waiting, parked, done, failed or cancelled. May be "
         "given more than once"},
    {.name = "limit",
     .letter = 'n',
     OPTION(OPTION_INT, limit),
     .value = "N",
     .help = "At most N jobs (default 20)",
     .min = 1,
     .max = LIMIT_MAX},
    {.name = "before",
     OPTION(OPTION_INT, before),
     .value = "ID",
     .help = "Only jobs with a smaller id: the next page",
     .min = 1,
     .max = INT64_MAX},
    {0},
};

static const struct verb verb_job_list = {
    .name = "list",
    .summary = "Show jobs, the newest first",
    .options = list_options,
    .options_size = sizeof(struct list_options),
    .defaults = list_defaults,
    .run = run_list,
};

static const struct verb *const verbs[] = {
    &verb_job_list,
    &verb_job_show,
    &verb_job_cancel,
    &verb_job_retry,
    &verb_job_wait,
    NULL,
};

static const struct example examples[] = {
    {"pawl job list --state failed", "What went wrong lately."},
    {"pawl job list --queue mail -n 100", "A hundred jobs of a queue."},
    {"pawl job show 17", "One job's whole story."},
    {"pawl job cancel 17 18", "End two jobs."},
    {"pawl job wait 17 --timeout 5m", "Until it is finished."},
    {NULL, NULL},
};

const struct verb verb_job = {
    .name = "job",
    .summary = "Look at jobs, end them, run them again",
    .group = "Jobs",
    .examples = examples,
    .verbs = verbs,
};
