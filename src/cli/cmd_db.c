/*
 * pawl db: the database as a whole, and Pawl's private PostgreSQL: start, stop, destroy. What needs
 * more is in cmd_db_status.c, cmd_db_psql.c and cmd_db_migrate.c.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmds.h"
#include "cli/db.h"

#define CONFIRMATION "destroy"

struct destroy_options {
    bool yes;
};

/* These verbs are about the private PostgreSQL whatever the environment says; --db beside them is a
 * mistake. */
static int private_cluster(struct cli *cli, struct cluster *cluster, struct pawl_err *err)
{
    if (cli->db)
        return verb_usage(
            cli, err, "%s is about Pawl's private PostgreSQL and takes no --db", cli->path);
    return cluster_locate(cluster, cli->arena, err);
}

static int run_start(struct cli *cli, struct pawl_err *err)
{
    struct cluster cluster;
    enum cluster_state state = CLUSTER_ABSENT;
    pid_t pid = 0;
    bool started = false;
    int rc = private_cluster(cli, &cluster, err);
    if (rc == 0)
        rc = cluster_state(&cluster, &state, NULL, err);
    if (rc < 0)
        return rc;
    if (state == CLUSTER_ABSENT)
        cli_note(cli, "making a private PostgreSQL in %s, once", cluster.home);
    rc = cluster_start(&cluster, cli->arena, &started, err);
    if (rc == 0)
        rc = cluster_state(&cluster, &state, &pid, err);
    if (rc < 0)
        return rc;
    cli_note(cli,
             "the private PostgreSQL in %s %s (pid %d)",
             cluster.home,
             started ? "was started" : "runs already",
             (int)pid);
    /* The same question that other commands ask themselves. */
    struct target target;
    struct pawl_err ignored;
    if (target_resolve(&target, cli->arena, NULL, &ignored) == 0 && target.source != TARGET_PRIVATE)
        cli_note(cli,
                 "but the environment names another database, which other commands use: %s",
                 target.shown);
    return 0;
}

static int run_stop(struct cli *cli, struct pawl_err *err)
{
    struct cluster cluster;
    enum cluster_state state = CLUSTER_ABSENT;
    int rc = private_cluster(cli, &cluster, err);
    if (rc == 0)
        rc = cluster_state(&cluster, &state, NULL, err);
    if (rc == 0)
        rc = cluster_stop(&cluster, cli->arena, err);
    if (rc < 0)
        return rc;
    if (state == CLUSTER_ABSENT)
        cli_note(cli, "there is no private PostgreSQL in %s", cluster.home);
    else
        cli_note(cli,
                 "the private PostgreSQL in %s %s",
                 cluster.home,
                 state == CLUSTER_RUNNING ? "was stopped" : "was not running");
    return 0;
}

static int confirm(struct cli *cli, const struct cluster *cluster, struct pawl_err *err)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        err_set(err,
                PAWL_EINVAL,
                "nobody is here to be asked whether %s may be deleted",
                cluster->home);
        return err_hint(err, "If it may: %s --yes.", cli->path);
    }
    fprintf(
        stderr,
        "This deletes the private PostgreSQL in %s with all its jobs and their history, for ever.\n"
        "Type " CONFIRMATION " to go on: ",
        cluster->home);
    fflush(stderr);
    char line[64] = "";
    if (!fgets(line, sizeof line, stdin))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, CONFIRMATION) != 0)
        return err_set(err, PAWL_EINTERRUPTED, "not confirmed; nothing was deleted");
    return 0;
}

static int run_destroy(struct cli *cli, struct pawl_err *err)
{
    const struct destroy_options *options = cli->options;
    struct cluster cluster;
    struct stat st;
    int rc = private_cluster(cli, &cluster, err);
    if (rc < 0)
        return rc;
    if (lstat(cluster.home, &st) < 0) {
        cli_note(cli, "there is no private PostgreSQL in %s", cluster.home);
        return 0;
    }
    if (!options->yes)
        rc = confirm(cli, &cluster, err);
    if (rc == 0)
        rc = cluster_destroy(&cluster, cli->arena, err);
    if (rc == 0)
        cli_note(cli, "the private PostgreSQL in %s was deleted", cluster.home);
    return rc;
}

static const struct verb verb_db_start = {
    .name = "start",
    .summary = "Start the private PostgreSQL",
    .description =
        "Makes it on first use. There is rarely a need to type this: without a database of "
        "your own every command starts it when it has to. It goes on running until it is stopped, "
        "also when you log out.",
    .run = run_start,
};

static const struct verb verb_db_stop = {
    .name = "stop",
    .summary = "Stop the private PostgreSQL",
    .description =
        "A clean shutdown: what was committed is on disk. Workers that are connected lose their "
        "connection and come back when it is started again. It is no mistake to stop it twice.",
    .run = run_stop,
};

static const struct option_spec destroy_options[] = {
    {.name = "yes",
     .letter = 'y',
     .kind = OPTION_FLAG,
     .offset = offsetof(struct destroy_options, yes),
     .help = "Do not ask"},
    {0},
};

static const struct verb verb_db_destroy = {
    .name = "destroy",
    .summary = "Delete the private PostgreSQL with all that is in it",
    .description =
        "Stops it and removes its data, log and socket, and nothing else. Asks before, unless "
        "--yes is given. A database of your own, named by --db, is never touched.",
    .options = destroy_options,
    .options_size = sizeof(struct destroy_options),
    .run = run_destroy,
};

static const struct verb *const verbs[] = {
    &verb_db_status,
    &verb_db_start,
    &verb_db_stop,
    &verb_db_psql,
    &verb_db_migrate,
    &verb_db_destroy,
    NULL,
};

static const struct example examples[] = {
    {"pawl db status", "Which database is used, and how it is."},
    {"pawl db psql -- -c 'SELECT * FROM pawl.queue'", "Ask it something in SQL."},
    {"pawl db stop", "Until the next command needs it."},
    {NULL, NULL},
};

const struct verb verb_db = {
    .name = "db",
    .summary = "Look after the database",
    .description =
        "Which database is used: the one of --db, else of PAWL_DATABASE_URL, else of PGHOST and the other "
        "variables of PostgreSQL, else a private PostgreSQL that Pawl makes and runs by itself.\n"
        "\n"
        "The private one lives in PAWL_HOME, else in the directory pawl below XDG_DATA_HOME or "
        "~/.local/share (for root /var/lib/pawl). It has no network port, and nobody but its owner and root gets in. "
        "PAWL_PG_BINDIR names the directory of PostgreSQL's programs if the newest installed is not wanted. When "
        "root starts it, it runs as PAWL_RUN_AS, else as postgres.",
    .group = "Database",
    .examples = examples,
    .verbs = verbs,
};
