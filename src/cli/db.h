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

/* A connection on a schema that this binary understands. ret_target may be NULL. */
int cli_connect(struct cli *cli, PGconn **ret_conn, struct target *ret_target, struct pawl_err *err)
    MUST_CHECK;

/* The two steps of cli_connect, for verbs that need what happens between them. */
int cli_open(struct cli *cli, const struct target *target, PGconn **ret_conn, struct pawl_err *err)
    MUST_CHECK;

#endif
