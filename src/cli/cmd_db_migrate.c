/* pawl db migrate: brings the schema up to date, or shows what that would do. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "pg/sync.h"
#include "store/migrate.h"

struct migrate_options {
    bool dry_run;
};

struct migrating {
    struct cli *cli;
    bool dry_run;
    struct pawl_err err;
};

static void told(void *data, int version, const char *name, const char *sql)
{
    struct migrating *m = data;
    char line[256];
    int len = snprintf(line,
                       sizeof(line),
                       m->dry_run ? "-- migration %04d_%s\n" : "applying %04d_%s\n",
                       version,
                       name);

    if (m->err.code == 0)
        (void)!out_write(line, (size_t)len, &m->err);
    if (m->err.code == 0 && m->dry_run)
        (void)!out_write(sql, strlen(sql), &m->err);
}

static int run(struct cli *cli, struct pawl_err *err)
{
    const struct migrate_options *options = cli->options;
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct migrating m = {.cli = cli, .dry_run = options->dry_run};
    struct target target;
    int applied = 0;
    int rc = cli_target(cli, &target, NULL, err);

    if (rc == 0)
        rc = sync_connect(&target, &conn, err);
    if (rc == 0)
        rc = schema_migrate(conn, options->dry_run, told, &m, &applied, err);
    if (rc < 0)
        return rc;
    if (m.err.code < 0) {
        *err = m.err;
        return err->code;
    }
    if (applied == 0)
        cli_note(cli, "the schema of %s is up to date", target.shown);
    else if (options->dry_run)
        cli_note(cli,
                 "%d migration%s would be applied to %s",
                 applied,
                 applied == 1 ? "" : "s",
                 target.shown);
    else
        cli_note(
            cli, "%d migration%s applied to %s", applied, applied == 1 ? "" : "s", target.shown);
    return 0;
}

static const struct option_spec options[] = {
    {.name = "dry-run",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct migrate_options, dry_run),
     .help = "Change nothing; print the SQL that would be run"},
    {0},
};

static const struct example examples[] = {
    {"pawl db migrate --db postgres://app@db/app", "Prepare a database of yours."},
    {"pawl db migrate --dry-run | less", "Read it first."},
    {NULL, NULL},
};

const struct verb verb_db_migrate = {
    .name = "migrate",
    .summary = "Bring the schema up to date",
    .description =
        "Everything lives in the schema pawl. Migrations are applied one by one, each in a transaction and "
        "under a lock, so it is safe to run from several machines at once and while workers run. The private "
        "database is migrated without being asked.",
    .options = options,
    .options_size = sizeof(struct migrate_options),
    .examples = examples,
    .run = run,
};
