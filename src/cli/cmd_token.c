/* pawl token: who may call the server, and what. The secret is shown once; what is stored is its hash. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/defer.h"
#include "cli/cells.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/access.h"
#include "pg/sync.h"
#include "serve/api/auth.h"
#include "serve/api/secret.h"

#define ROLE "pawl_server"

struct create_options {
    struct option_list scopes;
    struct option_list queues;
    int64_t expires_ms;
};

static int check_scopes(struct cli *cli, const struct option_list *scopes, struct pawl_err *err)
{
    for (size_t i = 0; i < scopes->n; i++) {
        bool known = false;

#define SCOPE(name, number, text) known = known || strcmp(scopes->items[i], text) == 0;
        AUTH_SCOPES(SCOPE)
#undef SCOPE
        if (!known)
            return verb_usage(cli,
                              err,
                              "--scope is one of enqueue, work, read and admin, not %s",
                              scopes->items[i]);
    }
    return scopes->n > 0 ? 0 : verb_usage(cli, err, "say with --scope what it is for");
}

/* Alone on standard output, so that a script can put it where it belongs. */
static int show_secret(struct cli *cli, int64_t id, const char *secret, struct pawl_err *err)
{
    static const struct out_column columns[] = {
        {"id", "ID", OUT_INT},
        {"name", "NAME", OUT_TEXT},
        {"token", "TOKEN", OUT_TEXT},
    };

    if (cli->output == OUT_TABLE) {
        char line[SECRET_TEXT_LEN + 2];
        int len = snprintf(line, sizeof(line), "%s\n", secret);

        cli_note(cli, "this is the only time the token is shown; what is stored is its hash");
        return out_write(line, (size_t)len, err);
    }
    struct out *out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    out_single(out);
    out_int(out, id);
    out_text(out, cli->args[0]);
    out_text(out, secret);
    out_row(out);
    int rc = out_end(out, clock_wall_us(&clock_system), err);

    out_free(out);
    return rc;
}

static int run_create(struct cli *cli, struct pawl_err *err)
{
    const struct create_options *options = cli->options;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    char secret[SECRET_TEXT_LEN + 1];
    unsigned char hash[ACCESS_HASH_LEN];
    int64_t id = 0;
    int rc = check_scopes(cli, &options->scopes, err);

    if (rc == 0)
        rc = cli_connect(cli, ROLE, &conn, &target, err);
    if (rc < 0)
        return rc;
    secret_make(secret);
    if (!secret_hash(secret, strlen(secret), hash))
        return err_set(err, PAWL_EFAILED, "could not make a token");
    rc = client_access_create(conn,
                              &(struct access_new){
                                  .name = cli->args[0],
                                  .hash = {(const char *)hash, sizeof(hash)},
                                  .scopes = options->scopes.items,
                                  .n_scopes = options->scopes.n,
                                  .queues = options->queues.items,
                                  .n_queues = options->queues.n,
                                  .expires_ms = options->expires_ms,
                              },
                              &id,
                              err);
    return rc < 0 ? cli_denied(&target, ROLE, err) : show_secret(cli, id, secret, err);
}

struct list_options {
    bool all;
};

static const struct out_column columns[] = {
    {"id", "ID", OUT_INT},
    {"name", "NAME", OUT_TEXT},
    {"scopes", "SCOPES", OUT_TEXT},
    {"queues", "QUEUES", OUT_TEXT},
    {"state", "STATE", OUT_TEXT},
    {"created_at", "CREATED", OUT_TIME},
    {"created_by", "BY", OUT_TEXT},
    {"expires_at", "EXPIRES", OUT_TIME},
    {"revoked_at", NULL, OUT_TIME},
};

static void show_access(void *data, const struct access_view *access)
{
    struct out *out = data;
    bool expired = access->expires_at != 0 && access->expires_at <= access->now;

    out_int(out, access->id);
    out_text(out, access->name);
    out_text(out, access->scopes);
    out_text(out, access->queues[0] != '\0' ? access->queues : "*");
    out_text(out, access->revoked_at != 0 ? "revoked" : expired ? "expired" : "valid");
    out_tone(out, access->revoked_at != 0 || expired ? TONE_DIM : TONE_GOOD);
    cell_time(out, access->created_at);
    out_text(out, access->created_by);
    cell_time(out, access->expires_at);
    cell_time(out, access->revoked_at);
    out_row(out);
}

static int run_list(struct cli *cli, struct pawl_err *err)
{
    const struct list_options *options = cli->options;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    int rc = cli_connect(cli, ROLE, &conn, &target, err);

    if (rc < 0)
        return rc;
    struct out *out = cli_out_new(cli, columns, sizeof(columns) / sizeof(*columns));

    if (out == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (!cli->quiet)
        out_none(out, "no access tokens; pawl token create makes one");
    rc = client_access_list(conn, options->all, show_access, out, err);
    rc = rc == 0 ? out_end(out, clock_wall_us(&clock_system), err) : cli_denied(&target, ROLE, err);
    out_free(out);
    return rc;
}

static int run_revoke(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    int rc = cli_connect(cli, ROLE, &conn, &target, err);

    for (size_t i = 0; rc == 0 && i < cli->n_args; i++) {
        rc = client_access_revoke(conn, cli->args[i], err);
        if (rc < 0)
            return cli_denied(&target, ROLE, err);
        cli_note(
            cli, "access token %s is revoked; its open calls end within a second", cli->args[i]);
    }
    return rc;
}

#define OPTION(k, field) .kind = (k), .offset = offsetof(struct create_options, field)

static const struct option_spec create_options[] = {
    {.name = "scope",
     .letter = 's',
     OPTION(OPTION_LIST, scopes),
     .value = "SCOPE",
     .help =
         "What it is for: enqueue (also signal and cancel), work (get jobs and report them), read (look at jobs, "
         "queues and metrics) or admin (pause queues, and all of the others). May be given more than once"},
    {.name = "queue",
     OPTION(OPTION_LIST, queues),
     .value = "QUEUE",
     .help =
         "Only for this queue, or with a * at the end for all whose names begin like that. May be given more than "
         "once (default: all queues)"},
    {.name = "expires",
     OPTION(OPTION_DURATION, expires_ms),
     .value = "TIME",
     .help = "Valid for so long (default: until it is revoked)"},
    {0},
};

static const struct example create_examples[] = {
    {"pawl token create shop --scope enqueue --queue orders", "For a producer of one queue."},
    {"pawl token create worker-1 --scope work --expires 90d", "For a worker, three months."},
    {"pawl token create prometheus --scope read", "For whoever reads the metrics."},
    {NULL, NULL},
};

static const struct verb verb_token_create = {
    .name = "create",
    .summary = "Make an access token",
    .description =
        "The token is written to standard output, once: only its hash is stored. Clients send it with each call, in the "
        "header authorization: Bearer TOKEN. Servers know it at once.\n\n"
        "To change what a client may, make a second token, give it to the client, and revoke the first.",
    .args = "NAME",
    .min_args = 1,
    .max_args = 1,
    .options = create_options,
    .options_size = sizeof(struct create_options),
    .examples = create_examples,
    .run = run_create,
};

static const struct option_spec list_options[] = {
    {.name = "all",
     .letter = 'a',
     .kind = OPTION_FLAG,
     .offset = offsetof(struct list_options, all),
     .help = "Also those that are revoked or expired; they are kept for three months"},
    {0},
};

static const struct verb verb_token_list = {
    .name = "list",
    .summary = "Show access tokens, without their secrets",
    .options = list_options,
    .options_size = sizeof(struct list_options),
    .run = run_list,
};

static const struct verb verb_token_revoke = {
    .name = "revoke",
    .summary = "End an access token",
    .description =
        "By name or id. Servers hear of it at once: calls with it are refused, and open streams end.",
    .args = "NAME...",
    .min_args = 1,
    .max_args = VERB_ARGS_ANY,
    .run = run_revoke,
};

static const struct verb *const verbs[] = {
    &verb_token_create, &verb_token_list, &verb_token_revoke, NULL};

const struct verb verb_token = {
    .name = "token",
    .summary = "Access tokens: who may call the server, and what",
    .group = "Jobs",
    .verbs = verbs,
};
