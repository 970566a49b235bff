/*
 * hosts: the hosts of one target, for messages: what each is called, why each was not taken, and
 * whether one takes writes.
 */
#ifndef PG_HOSTS_H
#define PG_HOSTS_H

#include <stddef.h>

#include <libpq-fe.h>

#include "base/err.h"
#include "pg/target.h"

#define HOST_LABEL_MAX 300

/* "localhost:5432", or the socket's path, of the i-th host. */
void host_label(const struct target *target, size_t i, char label[HOST_LABEL_MAX]);

/* A server that has just been connected to says whether it takes writes: no statement is needed.
 * PAWL_EREADONLY. One that does not say (a pooler's) is believed to. */
int host_check_writable(const PGconn *conn, struct pawl_err *err) MUST_CHECK;
int host_err_standby(const char *label, struct pawl_err *err);

/* Why the hosts of one round were not taken. */
struct host_errors {
    struct pawl_err best; /* the one that says most; code 0: none yet */
    char text[sizeof(((struct pawl_err *)0)->detail)];
};

void host_errors_add(struct host_errors *errors, const char *label, const struct pawl_err *err);
/* As one error. With one host it is that host's, as it is. */
void host_errors_tell(const struct host_errors *errors, size_t n_hosts, struct pawl_err *ret_err);

#endif
