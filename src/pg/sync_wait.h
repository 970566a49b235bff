/* sync_wait: waiting for a connection's socket with a deadline, and receivers of notices, for sync.h alone. Signals do not
 * end a wait. */
#ifndef PG_SYNC_WAIT_H
#define PG_SYNC_WAIT_H

#include <stdint.h>

#include <libpq-fe.h>

/* The receiver of notices of connections made here: drops them. Its argument is not used. */
void sync_silent(void *data, const PGresult *notice);
/* The one that libpq gives to every connection; its argument is NULL. NULL: no memory. */
PQnoticeReceiver sync_usual_receiver(void);

/* The rest: 1 when it happened, 0 when until_us (monotonic) came first, -1 when the connection
 * is lost. */

/* POLLIN, POLLOUT or both, in poll(2)'s terms. */
int sync_wait_socket(PGconn *conn, short events, int64_t until_us);
/* Waits for bytes and lets libpq take them in. */
int sync_wait_input(PGconn *conn, int64_t until_us);
/* Hands everything to the kernel, taking in what the server sends meanwhile. */
int sync_flush(PGconn *conn, int64_t until_us);

#endif
