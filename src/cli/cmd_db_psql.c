/* pawl db psql: PostgreSQL's own prompt on the database that pawl uses. Becomes psql. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"

#define CONNINFO_MAX (64 * 1024)

/* Everybody can read the arguments of a process: what is secret goes through the environment, or is
 * asked for. */
static bool is_secret(const char *keyword)
{
    return strcmp(keyword, "password") == 0 || strcmp(keyword, "sslpassword") == 0;
}

static void conninfo_append(struct buf *out, const char *keyword, const char *value)
{
    buf_printf(out, "%s%s='", out->len > 0 ? " " : "", keyword);
    for (const char *c = value; *c; c++) {
        if (*c == '\'' || *c == '\\')
            buf_putc(out, '\\');
        buf_putc(out, *c);
    }
    buf_putc(out, '\'');
}

/* The psql that fits the server if there is one, else whatever the shell would find. */
static const char *psql_path(struct cli *cli)
{
    struct cluster cluster;
    struct pawl_err ignored;
    if (cluster_locate(&cluster, cli->arena, &ignored) == 0 &&
        cluster_find(&cluster, cli->arena, &ignored) == 0) {
        const char *path = arena_printf(cli->arena, "%s/psql", cluster.bindir);
        if (path && access(path, X_OK) == 0)
            return path;
    }
    return "psql";
}

static int run(struct cli *cli, struct pawl_err *err)
{
    struct target target;
    int rc = cli_target(cli, &target, NULL, err);
    if (rc < 0)
        return rc;
    CLEANUP(buf_deinit)
    struct buf conninfo;
    buf_init(&conninfo, CONNINFO_MAX);
    for (size_t i = 0; target.keywords[i]; i++) {
        const char *keyword = target.keywords[i];
        const char *value = target.values[i];
        if (!value || !*value)
            continue;
        if (!is_secret(keyword))
            conninfo_append(&conninfo, keyword, value);
        else if (strcmp(keyword, "password") == 0 && setenv("PGPASSWORD", value, 1) < 0)
            return err_set_errno(err, errno, "could not hand the password to psql");
    }
    const char **argv = arena_new_array(cli->arena, cli->n_args + 4, const char *);
    if (!argv || conninfo.failed)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    size_t n = 0;
    argv[n++] = psql_path(cli);
    argv[n++] = "--dbname";
    argv[n++] = buf_str(&conninfo);
    for (size_t i = 0; i < cli->n_args; i++)
        argv[n++] = cli->args[i];
    argv[n] = NULL;

    fflush(NULL);
    signal(SIGPIPE, SIG_DFL); /* as psql expects to find it */
    /* execvp takes char *const * for historical reasons and changes nothing. */
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int errnum = errno;
    signal(SIGPIPE, SIG_IGN);
    if (errnum != ENOENT)
        return err_set_errno(err, errnum, "could not run %s", argv[0]);
    err_set(err, PAWL_EMISSING, "psql is not installed");
    return err_hint(
        err, "Install the Debian package postgresql-client: apt-get install postgresql-client.");
}

static const struct example examples[] = {
    {"pawl db psql", "A prompt."},
    {"pawl db psql -- -c 'SELECT * FROM pawl.queue'", "One statement."},
    {"pawl db psql -- -f report.sql --csv", "What follows -- is for psql, see psql(1)."},
    {NULL, NULL},
};

const struct verb verb_db_psql = {
    .name = "psql",
    .summary = "Open psql on the database that is used",
    .args = "[-- ARGUMENT…]",
    .max_args = VERB_ARGS_ANY,
    .description =
        "Runs PostgreSQL's own client on the database that other commands would use, and starts the "
        "private one if need be. Its exit status is that of psql. A password is never shown among the "
        "arguments.",
    .examples = examples,
    .run = run,
};
