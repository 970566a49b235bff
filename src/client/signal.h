/*
 * signal: telling machines something, and letting one go on from another step. Blocking, on a
 * connection of the caller's, inside the caller's transaction or not. The connection's thread.
 */
#ifndef CLIENT_SIGNAL_H
#define CLIENT_SIGNAL_H

#include <libpq-fe.h>

#include "store/signal.h"

#define SIGNAL_PAYLOAD_MAX (1024 * 1024)
#define SIGNAL_KEY_MAX     1024

/* ret_sent: false when one with this name and key was sent to it before. PAWL_EINVAL, PAWL_ELIMIT;
 * PAWL_ENOTFOUND, PAWL_ESTATE: it is finished. */
int client_signal_send(PGconn *conn,
                       int64_t job_id,
                       const struct signal_new *signal,
                       bool *ret_sent,
                       struct pawl_err *err) MUST_CHECK;

/* To all live jobs that were enqueued with the correlation key. */
int client_signal_broadcast(PGconn *conn,
                            const char *correlation,
                            const struct signal_new *signal,
                            int64_t *ret_jobs,
                            struct pawl_err *err) MUST_CHECK;

/* At most SIGNAL_LIST_MAX; a call of fn for each. PAWL_ENOTFOUND: there is no such job. */
typedef void (*signal_view_fn)(void *data, const struct signal_view *signal);
int client_signal_list(
    PGconn *conn, int64_t job_id, signal_view_fn fn, void *data, struct pawl_err *err) MUST_CHECK;

/* state: JSON; NULL: as it was left. ret_id: of the job that goes on, a new one if this one is
 * finished. PAWL_ENOTFOUND, PAWL_ESTATE: it runs, or is done. */
int client_machine_restart(PGconn *conn,
                           int64_t job_id,
                           const char *step,
                           const char *state,
                           int64_t *ret_id,
                           struct pawl_err *err) MUST_CHECK;

#endif
