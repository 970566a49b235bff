/* workers: who runs jobs, and what is wanted of them. On the caller's own connection; blocks. */
#ifndef CLIENT_WORKERS_H
#define CLIENT_WORKERS_H

#include <libpq-fe.h>

#include "store/worker.h"

typedef void (*worker_view_fn)(void *data, const struct worker_view *worker);

int client_worker_list(PGconn *conn, worker_view_fn fn, void *data, struct pawl_err *err)
    MUST_CHECK;

/* As worker_ask_bind. ret_found: its stream is open at some server, as far as is known. */
int client_worker_ask(PGconn *conn,
                      const char *worker,
                      const struct worker_wish *wish,
                      bool *ret_found,
                      struct pawl_err *err) MUST_CHECK;

#endif
