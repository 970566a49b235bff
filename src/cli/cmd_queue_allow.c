/* pawl queue allow and disallow: which roles may enqueue into a queue, of those that may not into all. */
#include "base/defer.h"
#include "cli/cmds.h"
#include "cli/db.h"
#include "client/inspect.h"
#include "pg/sync.h"

static int run_allow(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    const char *queue = cli->args[0];
    const char *role = cli->args[1];
    bool member = false;
    int rc = name_check("queue", queue, err);

    if (rc == 0)
        rc = cli_connect(cli, "pawl_server", &conn, &target, err);
    if (rc < 0)
        return rc;
    rc = client_queue_allow(conn, queue, role, &member, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_server", err);
    cli_note(cli, "role %s may enqueue into %s", role, queue);
    if (!member)
        cli_note(cli, "once it is told so: GRANT pawl_enqueuer TO %s", role);
    return 0;
}

static int run_disallow(struct cli *cli, struct pawl_err *err)
{
    CLEANUP(sync_close)
    PGconn *conn = NULL;
    struct target target;
    const char *queue = cli->args[0];
    const char *role = cli->args[1];
    bool was = false;
    int rc = name_check("queue", queue, err);

    if (rc == 0)
        rc = cli_connect(cli, "pawl_server", &conn, &target, err);
    if (rc < 0)
        return rc;
    rc = client_queue_disallow(conn, queue, role, &was, err);
    if (rc < 0)
        return cli_denied(&target, "pawl_server", err);
    cli_note(cli,
             was ? "role %s may no longer enqueue into %s" : "role %s was not named for %s",
             role,
             queue);
    return 0;
}

const struct verb verb_queue_allow = {
    .name = "allow",
    .summary = "Let a role enqueue into a queue",
    .description =
        "For roles that are members of pawl_enqueuer: they may enqueue into the queues they are "
        "allowed here, and into no others. Members of pawl_producer need none of this.",
    .args = "QUEUE ROLE",
    .min_args = 2,
    .max_args = 2,
    .run = run_allow,
};

const struct verb verb_queue_disallow = {
    .name = "disallow",
    .summary = "Take that back",
    .args = "QUEUE ROLE",
    .min_args = 2,
    .max_args = 2,
    .run = run_disallow,
};
