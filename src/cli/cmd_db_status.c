/* pawl db status: which database is used and how it is. Starts nothing, changes nothing. */
#include <string.h>

#include "base/clock.h"
#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "pg/sync.h"
#include "store/migrate.h"

/* The private ones are null for a database of the user's own; a connection string there may hold a
 * password. */
static const struct out_column columns[] = {
    {"database", "database", OUT_TEXT},
    {"private", "private", OUT_BOOL},
    {"state", "state", OUT_TEXT},
    {"server_version", "version", OUT_TEXT},
    {"schema", "schema", OUT_TEXT},
    {"schema_version", NULL, OUT_INT},
    {"pid", "pid", OUT_INT},
    {"home", "home", OUT_TEXT},
    {"data_directory", "data", OUT_TEXT},
    {"socket_directory", "socket", OUT_TEXT},
    {"log_directory", "log", OUT_TEXT},
    {"user", "runs as", OUT_TEXT},
    {"conninfo", "conninfo", OUT_TEXT},
};

struct status {
    struct target target;
    bool is_private;
    struct cluster cluster;
    enum cluster_state state;
    pid_t pid;
    const char *conninfo;
    const char *server_version; /* NULL: not known */
    bool schema_known;
    struct schema_status schema;
};

static const char *schema_text(const struct status *status)
{
    if (!status->schema_known)
        return NULL;
    if (!status->schema.present)
        return "missing";
    if (status->schema.version < status->schema.known)
        return "older than this pawl";
    return status->schema.version > status->schema.known ? "newer than this pawl" : "up to date";
}

static int look_inside(struct cli *cli, struct status *status, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    int rc = sync_connect(&status->target, &conn, err);
    if (rc < 0)
        return rc;
    const char *version = PQparameterStatus(conn, "server_version");
    if (version)
        status->server_version = arena_strndup(cli->arena, version, strcspn(version, " "));
    rc = schema_status(conn, &status->schema, err);
    status->schema_known = rc == 0;
    return rc;
}

static int look_at_private(struct cli *cli, struct status *status, struct pawl_err *err)
{
    int rc = cluster_locate(&status->cluster, cli->arena, err);
    if (rc == 0)
        rc = cluster_state(&status->cluster, &status->state, &status->pid, err);
    if (rc < 0)
        return rc;
    status->conninfo = cluster_conninfo(&status->cluster, cli->arena);
    if (!status->conninfo)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    rc = target_set(&status->target, cli->arena, TARGET_PRIVATE, status->conninfo, err);
    if (rc < 0 || status->state == CLUSTER_RUNNING)
        return rc;
    struct pawl_err not_installed; /* which is no failure of status */
    if (cluster_find(&status->cluster, cli->arena, &not_installed) == 0)
        status->server_version = status->cluster.version;
    return 0;
}

static int show(struct cli *cli, const struct status *status, struct pawl_err *err)
{
    struct out *out = cli_out_new(cli, columns, sizeof columns / sizeof *columns);
    if (!out)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    const struct cluster *cluster = &status->cluster; /* all NULL when it is not private */
    out_single(out);
    out_text(out, status->target.shown);
    out_int(out, status->is_private);
    out_text(out, cluster_state_name(status->state));
    out_tone(out, status->state == CLUSTER_RUNNING ? TONE_GOOD : TONE_DIM);
    out_text(out, status->server_version);
    out_text(out, schema_text(status));
    if (status->schema_known)
        out_int(out, status->schema.version);
    else
        out_null(out);
    if (status->pid > 0)
        out_int(out, status->pid);
    else
        out_null(out);
    out_text(out, cluster->home);
    out_text(out, cluster->data);
    out_text(out, cluster->run);
    out_text(out, cluster->log);
    out_text(out, cluster->user);
    out_text(out, status->conninfo);
    out_row(out);
    int rc = out_end(out, clock_wall_us(&clock_system), err);
    out_free(out);
    return rc;
}

static int run(struct cli *cli, struct pawl_err *err)
{
    struct status status = {.state = CLUSTER_RUNNING};
    int rc = target_resolve(&status.target, cli->arena, cli->db, err);
    if (rc < 0)
        return rc;
    status.is_private = status.target.source == TARGET_PRIVATE;
    if (status.is_private)
        rc = look_at_private(cli, &status, err);
    if (rc == 0 && status.state == CLUSTER_RUNNING)
        rc = look_inside(cli, &status, err);
    return rc < 0 ? rc : show(cli, &status, err);
}

static const struct example examples[] = {
    {"pawl db status", "Which database is used, and how it is."},
    {"psql \"$(pawl db status -o json | jq -r .conninfo)\"", "The private one, with other tools."},
    {NULL, NULL},
};

const struct verb verb_db_status = {
    .name = "status",
    .summary = "Show which database is used and how it is",
    .description =
        "Starts nothing and changes nothing. The private PostgreSQL is absent until a command "
        "needs it. A database that was named but cannot be reached is an error.",
    .examples = examples,
    .run = run,
};
