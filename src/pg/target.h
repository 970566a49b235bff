/*
 * target: which database to talk to. In this order: --db, PAWL_DATABASE_URL, the PG* variables that name a server,
 * and Pawl's own private cluster.
 */
#ifndef PG_TARGET_H
#define PG_TARGET_H

#include <stdbool.h>

#include "base/arena.h"

#define TARGET_KEYWORDS_MAX 32

enum target_source { TARGET_OPTION, TARGET_ENVIRONMENT, TARGET_PG_VARIABLES, TARGET_PRIVATE };

struct target {
    enum target_source source;
    /* For PQconnectStartParams: NULL-terminated, in the arena given at the start. */
    const char *keywords[TARGET_KEYWORDS_MAX];
    const char *values[TARGET_KEYWORDS_MAX];
    char shown[256]; /* where it goes, for messages: host, port, database, user; never the password */
};

/* Parses a URL or keyword string, adds our defaults (connect_timeout, keepalives, tcp_user_timeout,
 * application_name) where the string is silent. url NULL means: decide by environment. When nothing names a server,
 * source is TARGET_PRIVATE and the caller asks pg/cluster for the connection string and calls target_set. */
int target_resolve(struct target *target, struct arena *arena, const char *db_option, struct pawl_err *err)
    MUST_CHECK;

/* conninfo: a URL or keyword string. */
int target_set(struct target *target,
               struct arena *arena,
               enum target_source source,
               const char *conninfo,
               struct pawl_err *err) MUST_CHECK;

#endif
