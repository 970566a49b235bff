/*
 * access: making, listing and revoking access tokens of the server. Blocking, on a connection of the caller's. The secret
 * itself is the caller's: what is stored is its hash.
 */
#ifndef CLIENT_ACCESS_H
#define CLIENT_ACCESS_H

#include <libpq-fe.h>

#include "base/err.h"
#include "store/access.h"

/* PAWL_EEXIST: one with this name is valid; PAWL_ELIMIT: there are too many. */
int client_access_create(PGconn *conn,
                         const struct access_new *access,
                         int64_t *ret_id,
                         struct pawl_err *err) MUST_CHECK;

typedef void (*access_view_fn)(void *data, const struct access_view *access);
/* all: also those that are not valid any more. */
int client_access_list(PGconn *conn, bool all, access_view_fn fn, void *data, struct pawl_err *err)
    MUST_CHECK;

/* By name or id. PAWL_ENOTFOUND: none that is valid. */
int client_access_revoke(PGconn *conn, const char *which, struct pawl_err *err) MUST_CHECK;

#endif
