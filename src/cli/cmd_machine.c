/* pawl machine: letting a machine go on from a step that an operator chooses. Only what pawl.h gives to everybody. */
#include "base/defer.h"
#include "base/text.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "pawl.h"

struct restart_options {
    const char *from;
    const char *state;
};

static int run_restart(struct cli *cli, struct pawl_err *err)
{
    static const struct out_column columns[] = {{"id", "JOB", OUT_INT}};
    const struct restart_options *options = cli->options;
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t id;
    int64_t new_id;

    if (text_parse_int(cli->args[0], 1, INT64_MAX, &id, NULL) < 0)
        return verb_usage(cli, err, "\"%s\" is not the id of a job", cli->args[0]);
    if (options->from == NULL)
        return verb_usage(cli, err, "say from which step: --from STEP");
    int rc = cli_connect(cli, "pawl_server", &conn, &target, err);

    if (rc < 0)
        return rc;
    rc = pawl_job_restart(conn, id, options->from, options->state, &new_id, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_server", err);
    if (new_id == id)
        cli_note(cli, "job %lld goes on with step %s", (long long)id, options->from);
    else
        cli_note(cli,
                 "job %lld is finished; job %lld goes on with step %s",
                 (long long)id,
                 (long long)new_id,
                 options->from);
    if (cli->output == OUT_TABLE)
        return 0;
    struct out *out = cli_out_new(cli, columns, 1);

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    out_single(out);
    out_int(out, new_id);
    out_row(out);
    rc = out_end(out, 0, err);
    out_free(out);
    return rc;
}

static const struct option_spec restart_options[] = {
    {.name = "from",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct restart_options, from),
     .value = "STEP",
     .help = "The step to go on with"},
    {.name = "state",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct restart_options, state),
     .value = "JSON",
     .help = "What that step finds as its state (default: what the last one left)"},
    {0},
};

static const struct example examples[] = {
    {"pawl machine restart 17 --from pay", "Job 17 goes on with its step pay, at once."},
    {NULL, NULL},
};

static const struct verb verb_machine_restart = {
    .name = "restart",
    .summary = "Let a machine go on from a step",
    .description =
        "A job that waits, is parked or is to be tried again goes on at once, with all its attempts. One that has failed or "
        "was cancelled goes on as a new job, with its payload, its state and its timeline. Not while it runs, and not when "
        "it is done.",
    .args = "JOB",
    .min_args = 1,
    .max_args = 1,
    .options = restart_options,
    .options_size = sizeof(struct restart_options),
    .examples = examples,
    .run = run_restart,
};

static const struct verb *const verbs[] = {
    &verb_machine_restart,
    NULL,
};

const struct verb verb_machine = {
    .name = "machine",
    .summary = "Let jobs of many steps go on",
    .group = "Jobs",
    .examples = examples,
    .verbs = verbs,
};
