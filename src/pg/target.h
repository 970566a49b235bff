/*
 * target: which database to talk to. In this order: --db, PAWL_DATABASE_URL, the PG* variables that
 * name a server, and Pawl's own private cluster. A variable that is set but empty counts as not
 * set; an empty --db is an error.
 *
 * Our defaults win over what a service file says about the same thing (connect_timeout, keepalives,
 * tcp_user_timeout), because libpq reads service files last; the connection string itself wins over
 * both.
 */
#ifndef PG_TARGET_H
#define PG_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

#define TARGET_KEYWORDS_MAX 32

enum target_source {
    TARGET_OPTION,
    TARGET_ENVIRONMENT,
    TARGET_PG_VARIABLES,
    TARGET_PRIVATE,
    TARGET_CALLER, /* a program that links the library */
};

struct target {
    enum target_source source;
    /* For PQconnectStartParams: NULL-terminated, in the arena given at the start. */
    const char *keywords[TARGET_KEYWORDS_MAX];
    const char *values[TARGET_KEYWORDS_MAX];
    const char
        *conninfo;   /* as it was given, in the same arena; empty: the environment has it all */
    char shown[256]; /* where it goes, for messages: host, port, database, user; never the password
                      */
};

/* Parses a URL or keyword string, adds our defaults (connect_timeout, keepalives, tcp_user_timeout,
 * application_name) where the string is silent. db_option NULL means: decide by environment. When
 * nothing names a server, source is TARGET_PRIVATE and the caller asks pg/cluster for the
 * connection string and calls target_set. */
int target_resolve(struct target *target,
                   struct arena *arena,
                   const char *db_option,
                   struct pawl_err *err) MUST_CHECK;

/* conninfo: a URL or keyword string. Passwords in it appear in no message. Connect with
 * expand_dbname 0. */
int target_set(struct target *target,
               struct arena *arena,
               enum target_source source,
               const char *conninfo,
               struct pawl_err *err) MUST_CHECK;

/* What the target says about a libpq keyword, or NULL when it leaves it to libpq. */
const char *target_value(const struct target *target, const char *keyword);

/* libpq moves to the next of several hosts when one refuses, but without its own blocking connect
 * not when one is silent. So whoever polls by himself gives each host an attempt and a deadline of
 * its own: target_host makes the target for the i-th of target_hosts. With one host it is a plain
 * copy. */
size_t target_hosts(const struct target *target);
int target_host(const struct target *target,
                size_t i,
                struct arena *arena,
                struct target *ret_target,
                struct pawl_err *err) MUST_CHECK;

#endif
