/*
 * migrate: bringing a database's schema to what this binary knows, and refusing one it does not
 * understand. Blocking, on a connection of the caller's.
 */
#ifndef STORE_MIGRATE_H
#define STORE_MIGRATE_H

#include <stdbool.h>

#include <libpq-fe.h>

#include "base/err.h"

/* How a schema stands to this binary. */
struct schema_status {
    bool present; /* it has been migrated at least once */
    int version;  /* the newest that was applied; 0 when none */
    int known;    /* the newest this binary knows */
};

int schema_status(PGconn *conn, struct schema_status *ret_status, struct pawl_err *err) MUST_CHECK;

/* 0 when this binary may work with the schema; PAWL_ESCHEMA with what to do when it is missing,
 * older, newer, or was made from other files than ours. */
int schema_check(PGconn *conn, struct pawl_err *err) MUST_CHECK;

/* Told of each migration before it is applied (or would be, with dry_run). */
typedef void (*migrate_fn)(void *data, int version, const char *name, const char *sql);

/* Applies what is missing, each migration in a transaction of its own under an advisory lock, so
 * that any number of processes may try at once. ret_applied: how many this call applied (or would).
 */
int schema_migrate(PGconn *conn,
                   bool dry_run,
                   migrate_fn told,
                   void *data,
                   int *ret_applied,
                   struct pawl_err *err) MUST_CHECK;

#endif
