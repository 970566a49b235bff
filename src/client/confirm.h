/*
 * confirm: statements whose commit is answered by success and lasts. With synchronous replication the
 * server ends the wait for a standby when it is asked to cancel, and then calls the commit a success with
 * a warning. Such a commit is known once a later one on the same connection was confirmed, because
 * the standby takes them in order; so one is made, and waited for. Blocking. The connection's thread.
 */
#ifndef CLIENT_CONFIRM_H
#define CLIENT_CONFIRM_H

#include "pg/sync.h"

#define CONFIRM_MS 10000 /* beyond the statement's own deadline */

/* As sync_exec. PAWL_EUNKNOWN when no standby has confirmed the commit in time. */
int confirm_exec(PGconn *conn,
                 const struct stmt *stmt,
                 const struct params *params,
                 PGresult **ret_result,
                 struct pawl_err *err) MUST_CHECK;

#endif
