/* pawl kind: how jobs of a kind are tried again, and what becomes of those that are not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/defer.h"
#include "base/text.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/inspect.h"
#include "pg/sync.h"

static const char *const retries[] = {"exponential", "quadratic", "table", NULL};
static const char *const endings[] = {"failed", "parked", NULL};

struct set_options {
    int retry;
    bool retry_set;
    int64_t base_ms;
    int64_t cap_ms;
    const char *table;
    int exhausted;
    bool exhausted_set;
};

static const struct out_column columns[] = {
    {"kind", "KIND", OUT_TEXT},
    {"retry", "RETRY", OUT_TEXT},
    {"base", "BASE", OUT_DURATION},
    {"cap", "CAP", OUT_DURATION},
    {"table_ms", "TABLE (MS)", OUT_TEXT},
    {"exhausted", "WHEN EXHAUSTED", OUT_TEXT},
};

static void show_kind(void *data, const struct kind_view *kind)
{
    struct out *out = data;

    out_text(out, kind->name);
    out_text(out, kind->retry);
    out_int(out, (int64_t)kind->base_ms * US_PER_MS);
    out_int(out, (int64_t)kind->cap_ms * US_PER_MS);
    out_text(out, kind->table_ms);
    out_text(out, kind->park ? "parked" : "failed");
    out_row(out);
}

static int run_list(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    int rc = cli_connect(cli, "pawl_reader", &conn, &target, err);

    if (rc < 0)
        return rc;
    struct out *out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    out_none(out, "all kinds have the defaults: exponential from 1 s to 1 h, then failed");
    rc = client_kind_list(conn, show_kind, out, err);
    rc = rc == 0 ? out_end(out, clock_wall_us(&clock_system), err)
                 : cli_denied(&target, "pawl_reader", err);
    out_free(out);
    return rc;
}

/* "1s,5s,1m" */
static int
parse_table(struct cli *cli, const char *text, struct kind_set *set, struct pawl_err *err)
{
    char *rest = arena_strdup(cli->arena, text);
    const char *part;

    if (rest == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    while ((part = strsep(&rest, ",")) != NULL) {
        int64_t ms;
        int rc = text_parse_duration(part, &ms, err);

        if (rc < 0)
            return err_prefix(err, "--table");
        if (set->n_table == KIND_TABLE_MAX)
            return verb_usage(cli, err, "--table takes at most %d delays", KIND_TABLE_MAX);
        if (ms > INT32_MAX)
            return verb_usage(cli, err, "--table: %s is longer than 24 days", part);
        set->table_ms[set->n_table++] = (int32_t)ms;
    }
    return 0;
}

static int run_set(struct cli *cli, struct pawl_err *err)
{
    const struct set_options *options = cli->options;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    struct kind_set set = {
        .name = cli->args[0],
        .retry = options->retry_set ? retries[options->retry] : NULL,
        .base_ms = (int32_t)options->base_ms,
        .cap_ms = (int32_t)options->cap_ms,
        .park = (int16_t)(options->exhausted_set ? options->exhausted : KIND_AS_IT_IS),
    };
    int rc = name_check("kind", set.name, err);

    if (rc == 0 && options->table != NULL)
        rc = parse_table(cli, options->table, &set, err);
    if (rc == 0 && (options->base_ms > INT32_MAX || options->cap_ms > INT32_MAX))
        rc = verb_usage(cli, err, "--base and --cap go up to 24 days");
    if (rc == 0 && options->base_ms > 0 && options->cap_ms > 0 &&
        options->base_ms > options->cap_ms)
        rc = verb_usage(cli, err, "--base is longer than --cap");
    if (rc == 0 && set.n_table > 0 && set.retry == NULL)
        set.retry = "table";
    if (rc == 0)
        rc = cli_connect(cli, "pawl_server", &conn, &target, err);
    if (rc < 0)
        return rc;
    rc = client_kind_set(conn, &set, err);
    /* Everything else was checked above; whether it has a table already, only the database knows. */
    if (rc == PAWL_EINVAL && set.n_table == 0 && set.retry != NULL &&
        strcmp(set.retry, "table") == 0)
        return verb_usage(cli, err, "--retry table needs --table with the delays");
    if (rc < 0)
        return cli_denied(&target, "pawl_server", err);
    cli_note(cli, "kind %s is set; failures from now on follow it", set.name);
    return 0;
}

#define OPTION(k, field) .kind = (k), .offset = offsetof(struct set_options, field)

static const struct option_spec set_options[] = {
    {.name = "retry",
     OPTION(OPTION_CHOICE, retry),
     .set_offset = offsetof(struct set_options, retry_set),
     .value = "HOW",
     .choices = retries,
     .help =
         "How the delay grows: doubling (exponential), with the square of the attempt (quadratic), or as "
         "--table says"},
    {.name = "base",
     OPTION(OPTION_DURATION, base_ms),
     .value = "TIME",
     .help = "The first delay (default 1s)"},
    {.name = "cap",
     OPTION(OPTION_DURATION, cap_ms),
     .value = "TIME",
     .help = "The longest delay (default 1h)"},
    {.name = "table",
     OPTION(OPTION_TEXT, table),
     .value = "TIMES",
     .help =
         "The delays one by one: 1s,10s,5m. The last is used for all further attempts. Kept when --retry says "
         "otherwise later"},
    {.name = "exhausted",
     OPTION(OPTION_CHOICE, exhausted),
     .set_offset = offsetof(struct set_options, exhausted_set),
     .value = "STATE",
     .choices = endings,
     .help =
         "What becomes of a job that is not tried again: failed, or parked to wait for an operator (default: "
         "failed)"},
    {0},
};

static const struct verb verb_kind_list = {
    .name = "list",
    .summary = "Show the kinds that have settings of their own",
    .run = run_list,
};

static const struct verb verb_kind_set = {
    .name = "set",
    .summary = "Change how jobs of a kind are tried again",
    .description =
        "Only what is given changes. It holds for failures from now on, of jobs old and new. A handler that asks "
        "for a delay of its own gets that.",
    .args = "KIND",
    .min_args = 1,
    .max_args = 1,
    .options = set_options,
    .options_size = sizeof(struct set_options),
    .run = run_set,
};

static const struct verb *const verbs[] = {&verb_kind_list, &verb_kind_set, NULL};

static const struct example examples[] = {
    {"pawl kind set mail --base 10s --cap 10m", "Be gentle with a mail server."},
    {"pawl kind set bill --table 1s,1m,1h --exhausted parked",
     "Three fixed delays; then somebody must look."},
    {"pawl kind list", "What is set."},
    {NULL, NULL},
};

const struct verb verb_kind = {
    .name = "kind",
    .summary = "Set how jobs of a kind are tried again",
    .group = "Jobs",
    .examples = examples,
    .verbs = verbs,
};
