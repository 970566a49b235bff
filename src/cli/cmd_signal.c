/* pawl signal: telling machines something. Only what pawl.h gives to everybody. */
#include "base/defer.h"
#include "base/text.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "pawl.h"

struct send_options {
    const char *key;
};

static const char *payload(const struct cli *cli)
{
    return cli->n_args > 2 ? cli->args[2] : NULL;
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
    const struct send_options *options = cli->options;
    const char *name = cli->args[1];
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t id;
    bool sent;

    if (text_parse_int(cli->args[0], 1, INT64_MAX, &id, NULL) < 0)
        return verb_usage(cli, err, "\"%s\" is not the id of a job", cli->args[0]);
    int rc = cli_connect(cli, "pawl_producer", &conn, &target, err);

    if (rc < 0)
        return rc;
    rc = pawl_job_signal(conn, id, name, payload(cli), options->key, &sent, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_producer", err);
    if (sent)
        cli_note(cli, "signal %s is in the inbox of job %lld", name, (long long)id);
    else
        cli_note(cli,
                 "job %lld got signal %s with this key before; nothing was done",
                 (long long)id,
                 name);
    return tell(cli, columns, id, name, sent, err);
}

static int run_broadcast(struct cli *cli, struct pawl_err *err)
{
    static const struct out_column columns[] = {
        {"jobs", "jobs", OUT_INT}, {"name", "name", OUT_TEXT}, {"sent", "sent", OUT_BOOL}};
    const struct send_options *options = cli->options;
    const char *name = cli->args[1];
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t jobs;
    int rc = cli_connect(cli, "pawl_producer", &conn, &target, err);

    if (rc < 0)
        return rc;
    rc = pawl_signal_all(conn, cli->args[0], name, payload(cli), options->key, &jobs, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_producer", err);
    cli_note(cli,
             "signal %s is in the inboxes of %lld job%s",
             name,
             (long long)jobs,
             jobs == 1 ? "" : "s");
    return tell(cli, columns, jobs, name, jobs > 0, err);
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
        "the job waits for it now, later or never. An inbox holds 10000 signals and 8 MiB; one that is full refuses more "
        "(exit status 9).",
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
