/* pawl signal: telling machines something, and looking into their inboxes. */
#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/signal.h"
#include "core/job.h"
#include "pg/sync.h"

struct send_options {
    const char *key;
};

static int read_id(struct cli *cli, int64_t *ret_id, struct pawl_err *err)
{
    if (text_parse_int(cli->args[0], 1, INT64_MAX, ret_id, NULL) < 0)
        return verb_usage(cli, err, "\"%s\" is not the id of a job", cli->args[0]);
    return 0;
}

static struct signal_new read_signal(const struct cli *cli)
{
    const struct send_options *options = cli->options;

    return (struct signal_new){
        .name = cli->args[1],
        .payload = cli->n_args > 2 ? cli->args[2] : "{}",
        .key = options->key,
    };
}

/* One object for programs; people get the note. */
static int tell(struct cli *cli,
                const struct out_column *columns,
                int64_t first,
                const char *name,
                int64_t last,
                struct pawl_err *err)
{
    if (cli->output == OUT_TABLE)
        return 0;
    struct out *out = cli_out_new(cli, columns, 3);

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    out_single(out);
    out_int(out, first);
    out_text(out, name);
    out_int(out, last);
    out_row(out);
    int rc = out_end(out, 0, err);

    out_free(out);
    return rc;
}

static int run_send(struct cli *cli, struct pawl_err *err)
{
    static const struct out_column columns[] = {
        {"job", "job", OUT_INT}, {"name", "name", OUT_TEXT}, {"sent", "sent", OUT_BOOL}};
    struct signal_new signal = read_signal(cli);
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t id;
    bool sent;
    int rc = read_id(cli, &id, err);

    if (rc == 0)
        rc = cli_connect(cli, "pawl_producer", &conn, &target, err);
    if (rc < 0)
        return rc;
    rc = client_signal_send(conn, id, &signal, &sent, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_producer", err);
    if (sent)
        cli_note(cli, "signal %s is in the inbox of job %lld", signal.name, (long long)id);
    else
        cli_note(cli,
                 "job %lld got signal %s with this key before; nothing was done",
                 (long long)id,
                 signal.name);
    return tell(cli, columns, id, signal.name, sent, err);
}

static int run_broadcast(struct cli *cli, struct pawl_err *err)
{
    static const struct out_column columns[] = {
        {"jobs", "jobs", OUT_INT}, {"name", "name", OUT_TEXT}, {"sent", "sent", OUT_BOOL}};
    struct signal_new signal = read_signal(cli);
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t jobs;
    int rc = cli_connect(cli, "pawl_producer", &conn, &target, err);

    if (rc < 0)
        return rc;
    rc = client_signal_broadcast(conn, cli->args[0], &signal, &jobs, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_producer", err);
    cli_note(cli,
             "signal %s is in the inboxes of %lld job%s",
             signal.name,
             (long long)jobs,
             jobs == 1 ? "" : "s");
    return tell(cli, columns, jobs, signal.name, jobs > 0, err);
}

static const struct out_column list_columns[] = {
    {"id", "SIGNAL", OUT_INT},
    {"name", "NAME", OUT_TEXT},
    {"key", "KEY", OUT_TEXT},
    {"sent_at", "SENT", OUT_TIME},
    {"shown", "SHOWN", OUT_BOOL},
    {"consumed", "CONSUMED", OUT_BOOL},
    {"payload", "PAYLOAD", OUT_BYTES},
};

struct list_state {
    struct out *out;
    int64_t now;
    int64_t n;
};

static void show_signal(void *data, const struct signal_view *signal)
{
    struct list_state *state = data;
    struct out *out = state->out;

    out_int(out, signal->id);
    out_text(out, signal->name);
    out_text(out, signal->key);
    out_int(out, signal->sent_at);
    out_int(out, signal->shown);
    out_int(out, signal->consumed);
    out_tone(out, signal->consumed ? TONE_DIM : TONE_PLAIN);
    out_text(out, signal->payload);
    out_row(out);
    state->now = signal->now;
    state->n++;
}

static int run_list(struct cli *cli, struct pawl_err *err)
{
    struct list_state state = {.now = clock_wall_us(&clock_system)};
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t id;
    int rc = read_id(cli, &id, err);

    if (rc == 0)
        rc = cli_connect(cli, "pawl_reader", &conn, &target, err);
    if (rc < 0)
        return rc;
    state.out = cli_out_new(cli, list_columns, sizeof(list_columns) / sizeof(*list_columns));
    if (state.out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (!cli->quiet)
        out_none(state.out, "no signals");
    rc = client_signal_list(conn, id, show_signal, &state, err);
    rc = rc == 0 ? out_end(state.out, state.now, err) : cli_denied(&target, "pawl_reader", err);
    out_free(state.out);
    if (rc == 0 && state.n == SIGNAL_LIST_MAX)
        cli_note(cli, "there may be more: the first %d are shown", SIGNAL_LIST_MAX);
    return rc;
}

static const struct option_spec send_options[] = {
    {.name = "key",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct send_options, key),
     .value = "KEY",
     .help = "Send it once: a second signal of this name with the same key changes nothing, until "
             "the machine ends"},
    {0},
};

static const struct example send_examples[] = {
    {"pawl signal send 17 paid '{\"amount\":25}'", "Job 17 goes on, if it waits for that."},
    {"pawl signal send 17 paid --key tx-4711", "Safe to repeat."},
    {NULL, NULL},
};

static const struct verb verb_signal_send = {
    .name = "send",
    .summary = "Tell a machine something",
    .description =
        "Puts a signal into the inbox of a live job. It is kept until a step of the job has seen it and gone on, whether "
        "the job waits for it now, later or never.",
    .args = "JOB NAME [JSON]",
    .min_args = 2,
    .max_args = 3,
    .options = send_options,
    .options_size = sizeof(struct send_options),
    .examples = send_examples,
    .run = run_send,
};

static const struct verb verb_signal_broadcast = {
    .name = "broadcast",
    .summary = "Tell all machines with a correlation key something",
    .args = "CORRELATION NAME [JSON]",
    .min_args = 2,
    .max_args = 3,
    .options = send_options,
    .options_size = sizeof(struct send_options),
    .run = run_broadcast,
};

static const struct verb verb_signal_list = {
    .name = "list",
    .summary = "Show the inbox of a machine",
    .description = "Signals that are not consumed, and those that are but have a key.",
    .args = "JOB",
    .min_args = 1,
    .max_args = 1,
    .run = run_list,
};

static const struct verb *const verbs[] = {
    &verb_signal_send,
    &verb_signal_list,
    &verb_signal_broadcast,
    NULL,
};

const struct verb verb_signal = {
    .name = "signal",
    .summary = "Tell machines something, and look into their inboxes",
    .group = "Jobs",
    .examples = send_examples,
    .verbs = verbs,
};
