/*
 * cluster: Pawl's own private PostgreSQL: made on first use, started when needed, an ordinary cluster in every way.
 * Blocking; for the command line. Its home is a directory of mode 0700:
 *
 *     $PAWL_HOME, else $XDG_DATA_HOME/pawl, else ~/.local/share/pawl; for root /var/lib/pawl
 *       lock        held while somebody makes, starts, stops or destroys the cluster
 *       data/       the data directory (data.new while it is being made)
 *       server.log
 *       run/        the socket, unless the path is too long for one: then a directory below /tmp
 *
 * It listens on a unix socket only and lets in nobody but the owner of the directory (and root) by peer
 * authentication. PostgreSQL refuses to run as root: then it runs as the owner of the home, `postgres` for a new one.
 */
#ifndef PG_CLUSTER_H
#define PG_CLUSTER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

#define CLUSTER_USER     "pawl" /* the database user */
#define CLUSTER_DATABASE "pawl"

struct cluster {
    const char *home;    /* all in the arena given at the start */
    const char *data;
    const char *run;     /* the socket's directory */
    const char *log;
    const char *bindir;  /* NULL until a PostgreSQL was looked for */
    int major;           /* of the binaries in bindir */
    uid_t uid;           /* who the server runs as */
    gid_t gid;
};

enum cluster_state { CLUSTER_ABSENT, CLUSTER_STOPPED, CLUSTER_RUNNING };

/* Works out the paths; touches nothing. */
int cluster_locate(struct cluster *cluster, struct arena *arena, struct pawl_err *err) MUST_CHECK;

/* Makes it if absent, starts it if stopped, returns when it accepts connections. Safe when two do it at once.
 * ret_started (may be NULL): whether this call started it. */
int cluster_start(struct cluster *cluster, struct arena *arena, bool *ret_started, struct pawl_err *err) MUST_CHECK;

/* Clean ("fast") shutdown; 0 when it was not running. */
int cluster_stop(struct cluster *cluster, struct arena *arena, struct pawl_err *err) MUST_CHECK;

/* Stops it and removes everything it made, and nothing else. */
int cluster_destroy(struct cluster *cluster, struct arena *arena, struct pawl_err *err) MUST_CHECK;

int cluster_state(const struct cluster *cluster, enum cluster_state *ret_state, pid_t *ret_pid, struct pawl_err *err)
    MUST_CHECK;

/* "host=... dbname=pawl user=pawl", in the arena; NULL when out of memory. */
const char *cluster_conninfo(const struct cluster *cluster, struct arena *arena) MUST_CHECK;

#endif
