/* pawl job cancel, retry, wait: what people ask of single jobs. Only what pawl.h gives to everybody. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <pwd.h>

#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "pawl.h"

#define IDS_MAX 1000

struct wait_options {
    int64_t timeout_ms;
    bool timeout_set;
};

static int parse_id(const char *text, int64_t *ret_id, struct pawl_err *err)
{
    int rc = text_parse_int(text, 1, INT64_MAX, ret_id, err);

    return rc < 0 ? err_prefix(err, "job id") : 0;
}

static const char *who(void)
{
    const struct passwd *user = getpwuid(getuid());

    return user != NULL ? user->pw_name : NULL;
}

/* The ids that were named, all of them checked, and a connection. */
static int open_for(struct cli *cli,
                    int64_t *ids,
                    PGconn **ret_conn,
                    struct target *ret_target,
                    struct pawl_err *err)
{
    if (cli->n_args > IDS_MAX)
        return verb_usage(cli, err, "at most %d jobs at once", IDS_MAX);
    for (size_t i = 0; i < cli->n_args; i++) {
        int rc = parse_id(cli->args[i], &ids[i], err);

        if (rc < 0)
            return rc;
    }
    return cli_connect(cli, "pawl_server", ret_conn, ret_target, err);
}

static int run_cancel(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t ids[IDS_MAX];
    int rc = open_for(cli, ids, &conn, &target, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < cli->n_args; i++) {
        bool ended = false;

        rc = pawl_job_cancel(conn, ids[i], who(), &ended, err);
        if (rc == 0)
            cli_note(cli,
                     ended ? "job %lld is cancelled" : "job %lld runs and was told to end",
                     (long long)ids[i]);
    }
    return rc < 0 ? cli_denied(&target, "pawl_server", err) : 0;
}

static int run_retry(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    struct target target;
    int64_t ids[IDS_MAX];
    int rc = open_for(cli, ids, &conn, &target, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < cli->n_args; i++) {
        char text[32];
        int64_t id = 0;

        rc = pawl_job_retry(conn, ids[i], &id, err);
        if (rc == 0 && id != ids[i])
            cli_note(cli, "job %lld is enqueued again as %lld", (long long)ids[i], (long long)id);
        int len = snprintf(text, sizeof(text), "%lld\n", (long long)id);

        if (rc == 0)
            rc = out_write(text, (size_t)len, err);
    }
    return rc < 0 ? cli_denied(&target, "pawl_server", err) : 0;
}

/* What it came to, as the exit status says it too. */
static int tell_end(struct cli *cli, const struct pawl_job_info *info, struct pawl_err *err)
{
    static const struct out_column columns[] = {
        {"id", "job", OUT_INT}, {"state", "state", OUT_TEXT}, {"result", "result", OUT_BYTES}};
    struct out *out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    out_single(out);
    out_int(out, info->id);
    out_text(out, info->state);
    if (info->result != NULL)
        out_textn(out, info->result, info->result_len);
    else
        out_null(out);
    out_row(out);
    int rc = out_end(out, clock_wall_us(&clock_system), err);

    out_free(out);
    if (rc == 0 && strcmp(info->state, "done") != 0) {
        err_set(err, PAWL_EFAILED, "job %lld is %s", (long long)info->id, info->state);
        err_hint(err, "See why: pawl job show %lld", (long long)info->id);
        rc = PAWL_EFAILED;
    }
    return rc;
}

static int run_wait(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(cli_close)
    PGconn *conn = NULL;
    const struct wait_options *options = cli->options;
    struct pawl_job_info *info = NULL;
    struct target target;
    int64_t id = 0;
    int rc = parse_id(cli->args[0], &id, err);

    if (rc == 0)
        rc = cli_connect(cli, "pawl_reader", &conn, &target, err);
    if (rc < 0)
        return rc;
    rc = pawl_job_wait(conn, id, options->timeout_set ? options->timeout_ms : -1, &info, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_reader", err);
    rc = tell_end(cli, info, err);
    pawl_job_info_free(info);
    return rc;
}

static const struct option_spec wait_options[] = {
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .offset = offsetof(struct wait_options, timeout_ms),
     .set_offset = offsetof(struct wait_options, timeout_set),
     .value = "TIME",
     .help = "Wait at most this long: 90s, 5m, 1h30m (default: for ever)"},
    {0},
};

const struct verb verb_job_cancel = {
    .name = "cancel",
    .summary = "End jobs that should not go on",
    .description =
        "A job that waits is cancelled at once. One that runs is told, and is cancelled when its "
        "handler ends with anything but success; what it did by then is done.",
    .args = "ID…",
    .min_args = 1,
    .max_args = VERB_ARGS_ANY,
    .run = run_cancel,
};

const struct verb verb_job_retry = {
    .name = "retry",
    .summary = "Let jobs run now, or once more",
    .description =
        "A job that is parked, scheduled or waits for its next attempt is due at once, with its "
        "attempts counted from the beginning. One that failed or was cancelled is enqueued again, "
        "as a new job. Prints the id of the job that will run.",
    .args = "ID…",
    .min_args = 1,
    .max_args = VERB_ARGS_ANY,
    .run = run_retry,
};

const struct verb verb_job_wait = {
    .name = "wait",
    .summary = "Wait until a job is finished",
    .description =
        "Sleeps until the database says that the job has ended, then prints what it came to. Exits "
        "with 0 when it is done, with 1 when it failed or was cancelled, with 13 when it took "
        "longer than --timeout.",
    .args = "ID",
    .min_args = 1,
    .max_args = 1,
    .options = wait_options,
    .options_size = sizeof(struct wait_options),
    .run = run_wait,
};
