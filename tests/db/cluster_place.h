/*
 * cluster_place: a directory for one home of the private PostgreSQL, and what the cluster tests do
 * with it. Functions fail the running test when they fail.
 */
#ifndef DB_CLUSTER_PLACE_H
#define DB_CLUSTER_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include <libpq-fe.h>

#include "pg/cluster.h"

struct place {
    char top[PATH_MAX]; /* others may enter it, so that what keeps them out is the home's own doing
                         */
    char home[PATH_MAX];
    struct arena arena;
    struct cluster cluster;
    struct pawl_err err;
};

/* Makes the directory and points PAWL_HOME to name in it. */
void place_init(struct place *place, const char *name);
/* Destroys the cluster and proves that nothing is left. */
void place_deinit(struct place *place);

/* rc is 0, or the test fails with what place->err says. */
void place_ok(const struct place *place, int rc);
void place_locate(struct place *place);
/* Whether this call started it. */
bool place_start(struct place *place);
void place_stop(struct place *place);
enum cluster_state place_state(struct place *place, pid_t *ret_pid);
PGconn *place_connect(struct place *place);

const char *place_path(struct place *place, const char *name);
/* mode is fopen's. The file belongs to the server's user, as everything in the home does. */
void place_write(struct place *place, const char *path, const char *mode, const char *text);
mode_t mode_of(const char *path);

void assert_query(struct place *place, const char *sql, const char *expected);
void assert_holds(const char *text, const char *part);
/* cluster_locate, and cluster_start if that works, fail with this code and a hint. */
void assert_start_fails(struct place *place, int code);

/* No variable of the caller's environment decides about a test. */
void place_clean_environment(void);

#endif
