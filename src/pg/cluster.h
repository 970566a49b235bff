/*
 * cluster: Pawl's own private PostgreSQL: made on first use, started when needed, an ordinary
 * cluster in every way. Blocking; for the command line, from its main thread. Its home is a
 * directory of mode 0700:
 *
 *     $PAWL_HOME, else $XDG_DATA_HOME/pawl, else ~/.local/share/pawl; for root /var/lib/pawl
 *       lock   held while somebody makes, starts, stops or destroys the cluster; marks it as ours
 *       data/  the data directory (data.new while it is being made or removed)
 *       log/   server.Mon.log ... server.Sun.log, a week in all; start.log: what the last start said
 *       run/   the socket, unless the path is too long for one: then a directory below /tmp
 *
 * It listens on a unix socket only and lets in nobody but the owner of the directory (and root) by
 * peer authentication. PostgreSQL refuses to run as root. When root calls, it runs as the owner of
 * an existing home; for a new one as $PAWL_RUN_AS, else `postgres`, else `nobody`. What root does
 * inside the home is done with the rights of that user, so nothing planted there can turn root
 * against the rest of the machine.
 *
 * $PAWL_PG_BINDIR names the programs to use; without it the newest PostgreSQL found is used for a
 * new cluster, and the one that made it for an existing one.
 */
#ifndef PG_CLUSTER_H
#define PG_CLUSTER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

#define CLUSTER_USER      "pawl" /* the database user */
#define CLUSTER_DATABASE  "pawl"
#define CLUSTER_PORT      "5432" /* only a part of the socket's name */
#define CLUSTER_MAJOR_MIN 15     /* the oldest PostgreSQL we work with */

struct cluster {
    const char *home; /* all in the arena given at the start */
    const char *data;
    const char *run;     /* the socket's directory */
    const char *log;     /* the directory of the server's logs */
    const char *bindir;  /* NULL until a PostgreSQL was looked for */
    int major;           /* of the binaries in bindir */
    const char *version; /* of the binaries in bindir, as they say it: "15.13"; NULL like bindir */
    uid_t uid;           /* who the server runs as */
    gid_t gid;
    const char *user; /* its name */
};

enum cluster_state { CLUSTER_ABSENT, CLUSTER_STOPPED, CLUSTER_RUNNING };

/* Works out paths and user; touches nothing. Refuses a home that belongs to somebody else or that
 * others may enter. */
int cluster_locate(struct cluster *cluster, struct arena *arena, struct pawl_err *err) MUST_CHECK;

/* Looks for the programs; fills in bindir, major and version. PAWL_EMISSING says what to install.
 */
int cluster_find(struct cluster *cluster, struct arena *arena, struct pawl_err *err) MUST_CHECK;

/* Makes it if absent, starts it if stopped, returns when it accepts connections. Safe when two do
 * it at once. ret_started (may be NULL): whether this call started it. */
int cluster_start(struct cluster *cluster,
                  struct arena *arena,
                  bool *ret_started,
                  struct pawl_err *err) MUST_CHECK;

/* Clean ("fast") shutdown; 0 when it was not running. Never kills: a server that does not end in
 * time is left alone with PAWL_ETIMEOUT. */
int cluster_stop(struct cluster *cluster, struct arena *arena, struct pawl_err *err) MUST_CHECK;

/* Stops it and removes everything it made, and nothing else; the home itself when that leaves it
 * empty. Refuses a home without our lock file. 0 when there was nothing. */
int cluster_destroy(struct cluster *cluster, struct arena *arena, struct pawl_err *err) MUST_CHECK;

/* ret_pid (may be NULL): the server's, 0 when it does not run. Running does not yet mean ready. */
int cluster_state(const struct cluster *cluster,
                  enum cluster_state *ret_state,
                  pid_t *ret_pid,
                  struct pawl_err *err) MUST_CHECK;

/* "absent", "stopped", "running". */
const char *cluster_state_name(enum cluster_state state);

/* "host=... port=5432 dbname=pawl user=pawl", in the arena; NULL when out of memory. */
const char *cluster_conninfo(const struct cluster *cluster, struct arena *arena) MUST_CHECK;

#endif
