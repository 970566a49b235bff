/* db: from --db and the environment to a connection. */
#include "cli/db.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/enqueue.h"
#include "pg/sync.h"
#include "store/migrate.h"

int cli_target(struct cli *cli, struct target *ret_target, bool *ret_started, struct pawl_err *err)
{
    struct cluster cluster;
    bool started = false;
    int rc = target_resolve(ret_target, cli->arena, cli->db, err);

    if (rc < 0 || ret_target->source != TARGET_PRIVATE)
        goto out;
    rc = cluster_locate(&cluster, cli->arena, err);
    if (rc == 0)
        rc = cluster_start(&cluster, cli->arena, &started, err);
    if (rc < 0)
        goto out;
    if (started) {
        cli_note(
            cli, "started the private PostgreSQL in %s (stop it with: pawl db stop)", cluster.home);
    }
    const char *conninfo = cluster_conninfo(&cluster, cli->arena);

    if (conninfo == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    rc = target_set(ret_target, cli->arena, TARGET_PRIVATE, conninfo, err);
out:
    if (rc == 0 && ret_started != NULL)
        *ret_started = started;
    return rc;
}

static void quietly(void *data, int version, const char *name, const char *sql)
{
    const struct cli *cli = data;

    (void)sql;
    log_info(cli->log, "migrate", LOG_INT("version", version), LOG_STR("name", name));
}

int cli_open(struct cli *cli, const struct target *target, PGconn **ret_conn, struct pawl_err *err)
{
    PGconn *conn = NULL;
    int applied;
    int rc = sync_connect(target, &conn, err);

    if (rc == 0 && target->source == TARGET_PRIVATE)
        rc = schema_migrate(conn, false, quietly, cli, &applied, err);
    if (rc == 0)
        rc = schema_check(conn, err);
    if (rc < 0) {
        sync_close(&conn);
        return rc;
    }
    *ret_conn = conn;
    return 0;
}

int cli_denied(const struct target *target, const char *role, struct pawl_err *err)
{
    const char *user = target_value(target, "user");

    if (err->code != PAWL_EDENIED || strcmp(err->sqlstate, "42501") != 0)
        return err->code;
    return err_hint(err,
                    "Connect as another user, or have an administrator of the database run: "
                    "GRANT %s TO %s%s%s",
                    role,
                    user != NULL ? "\"" : "",
                    user != NULL ? user : "this user",
                    user != NULL ? "\"" : "");
}

int cli_connect(struct cli *cli,
                const char *role,
                PGconn **ret_conn,
                struct target *ret_target,
                struct pawl_err *err)
{
    struct target target;
    int rc = cli_target(cli, &target, NULL, err);

    if (rc == 0) {
        rc = cli_open(cli, &target, ret_conn, err);
        if (rc < 0)
            rc = cli_denied(&target, role, err);
    }
    if (rc == 0 && ret_target != NULL)
        *ret_target = target;
    return rc;
}

void cli_close(PGconn **conn)
{
    sync_close(conn);
}

int cli_begin(PGconn *conn, struct pawl_err *err)
{
    return client_begin(conn, err);
}

int cli_commit(PGconn *conn, struct pawl_err *err)
{
    return client_commit(conn, err);
}

void cli_rollback(PGconn *conn)
{
    client_rollback(conn);
}

const char *cli_conninfo(const struct target *target)
{
    return target->conninfo[0] != '\0' ? target->conninfo : NULL;
}

int cli_stop_private(struct cli *cli, int rc, struct pawl_err *err)
{
    struct cluster cluster;
    struct pawl_err stop_err;
    int stop_rc = cluster_locate(&cluster, cli->arena, &stop_err);

    if (stop_rc == 0)
        stop_rc = cluster_stop(&cluster, cli->arena, &stop_err);
    if (stop_rc == 0) {
        cli_note(cli, "the private PostgreSQL is stopped; the next command starts it again");
        return rc;
    }
    if (rc == 0) {
        *err = stop_err;
        rc = stop_rc;
    }
    return rc;
}

void cli_how_to_call(char *ret_path, size_t size)
{
    char exe[PATH_MAX];
    char here[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    size_t here_len;

    snprintf(ret_path, size, "pawl");
    if (len <= 0 || strncmp(exe, "/usr/", 5) == 0)
        return;
    exe[len] = '\0';
    if (getcwd(here, sizeof(here)) == NULL)
        return;
    here_len = strlen(here);
    if (strncmp(exe, here, here_len) == 0 && exe[here_len] == '/')
        snprintf(ret_path, size, "%s", exe + here_len + 1);
    else
        snprintf(ret_path, size, "%s", exe);
}
