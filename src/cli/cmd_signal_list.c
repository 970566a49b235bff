/* pawl signal list: the inbox of a machine. */
#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/signal.h"

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
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t id;

    if (text_parse_int(cli->args[0], 1, INT64_MAX, &id, NULL) < 0)
        return verb_usage(cli, err, "\"%s\" is not the id of a job", cli->args[0]);
    int rc = cli_connect(cli, "pawl_reader", &conn, &target, err);
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

const struct verb verb_signal_list = {
    .name = "list",
    .summary = "Show the inbox of a machine",
    .description = "Signals that are not consumed, and those that are but have a key.",
    .args = "JOB",
    .min_args = 1,
    .max_args = 1,
    .run = run_list,
};
