/*
 * db: how a verb gets to the database: the one that was named, or Pawl's own private cluster, made
 * and started if need be and migrated without being asked (it is ours).
 */
#ifndef CLI_DB_H
#define CLI_DB_H

#include <libpq-fe.h>

#include "cli/verb.h"
#include "pg/cluster.h"
#include "pg/target.h"

/* Where to connect to. ret_target lives in the cli's arena. ret_started (may be NULL): whether this
 * call started the private cluster. */
int cli_target(struct cli *cli, struct target *ret_target, bool *ret_started, struct pawl_err *err)
    MUST_CHECK;

/* A connection on a schema that this binary understands. role: what the user needs for the work
 * ahead, for the hint when that is refused. ret_target may be NULL. */
int cli_connect(struct cli *cli,
                const char *role,
                PGconn **ret_conn,
                struct target *ret_target,
                struct pawl_err *err) MUST_CHECK;

/* When the database refused a statement for want of rights, the hint becomes the GRANT that gives
 * them. Returns err->code. */
int cli_denied(const struct target *target, const char *role, struct pawl_err *err);

/* The two steps of cli_connect, for verbs that need what happens between them. */
int cli_open(struct cli *cli, const struct target *target, PGconn **ret_conn, struct pawl_err *err)
    MUST_CHECK;

/* For CLEANUP; NULL accepted. */
void cli_close(PGconn **conn);

/* A transaction around several calls of pawl.h. Rolling back cannot fail in a way that matters. */
int cli_begin(PGconn *conn, struct pawl_err *err) MUST_CHECK;
int cli_commit(PGconn *conn, struct pawl_err *err) MUST_CHECK;
void cli_rollback(PGconn *conn);

/* The target as pawl.h takes it: NULL where the environment says it all. */
const char *cli_conninfo(const struct target *target);

/* For a verb that started the private cluster for its own time only: stops it, whatever became of the verb. rc and err are the
 * verb's; an error of stopping is told only when there was none before. */
int cli_stop_private(struct cli *cli, int rc, struct pawl_err *err);

/* How to call this very program from here: its name when the shell would find it, else its path. */
void cli_how_to_call(char *ret_path, size_t size);

#endif
