/*
 * primary: which server is the primary, as far as one process knows. All connections of the process
 * share it (conn_options.primary), so all are on one timeline of one database system.
 *
 *  - Every new connection asks the server about itself before anything of a caller is sent on it
 *    (identity.c). A standby, an older timeline and another database system are refused, and the
 *    next host is tried. A newer timeline is taken, and all connections on an older one are dropped
 *    at once.
 *  - Once a second primary_tick looks for silence. When nothing was heard for a while one connection
 *    asks again. When an answer is overdue, or a connection is down, the other hosts are looked at
 *    in the background (scout.c); so a primary that was paused is left as soon as its standby is
 *    promoted.
 *  - A pooler that gives every transaction another session is noticed (pooler.c).
 *
 * Another database system is accepted after a restart of the process only. Where the server does
 * not let us ask (some managed services), only standbys are refused. Loop thread only; it has no
 * handles and no memory of its own.
 */
#ifndef PG_PRIMARY_H
#define PG_PRIMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "pg/stmt.h"

struct conn;

enum pooler {
    POOLER_NONE, /* or not known yet */
    POOLER_SESSION,
    POOLER_TRANSACTION, /* for certain: nothing is prepared, and LISTEN is not trusted */
};

struct primary {
    const struct stmt *identity; /* borrowed: server_identity */
    struct log *log;             /* borrowed; may be NULL */
    struct list conns;           /* struct conn.kin, but no scouts */

    bool known;       /* a primary was seen: system, timeline and host are set */
    int64_t system;   /* its system identifier */
    int64_t timeline; /* the newest that was seen */
    size_t host;      /* of the target's hosts, where that was */
    bool mute;        /* the server refuses to tell about itself */
    enum pooler pooler;

    struct conn *scout; /* looks at a host in the background; NULL: none */
    size_t scout_host;  /* which is next */
    int64_t scouted_us; /* steady clock: when the last one was sent */
    int64_t probed_us;  /* and when a silent connection was asked last */
};

void primary_init(struct primary *primary, const struct stmt *identity, struct log *log);

/* For one that ends before its connections: those that are still closing go on without it. */
void primary_deinit(struct primary *primary);

/* About once a second. */
void primary_tick(struct primary *primary);

/* A pooler in transaction mode was found: notifications do not arrive, so queues must be polled. */
bool primary_pooled(const struct primary *primary);

#endif
