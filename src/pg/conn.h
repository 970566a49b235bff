/*
 * conn: one connection to PostgreSQL on a libuv loop. It never blocks, keeps several transactions
 * in flight (pipeline mode), reconnects by itself, and tells every caller exactly once how its
 * batch ended.
 *
 * A batch is one transaction: its statements are sent together with one sync behind them, and its
 * callback runs only when the sync has come back, because a result is not a commit. Batches on one
 * connection run in the order they were submitted, but for one that must be sent a second time (a
 * statement to be prepared anew, a cancel meant for another): those behind it may have run by then.
 * What depends on order belongs into one batch. A batch that was submitted while the connection is
 * down waits for it until its deadline.
 *
 * Rules
 *  - All calls and callbacks happen on the loop's thread.
 *  - A callback never runs inside the call that submitted the batch.
 *  - After batch_submit the batch belongs to the connection, which frees it after its callback.
 *  - What the connection loses in flight ends as PG_VERDICT_UNKNOWN, unless the server had said
 *    before that it failed; what had not been sent to its end waits for the next connection.
 *  - Every callback may submit batches and may close the connection. A batch that was made must be
 *    submitted or freed before the connection is closed; one that a callback submits while it closes
 *    ends as PG_VERDICT_CONNECTION.
 *  - A server that does not take writes is left, and the next host is tried (pg/primary.h).
 *  - Looking up a host name blocks the loop, inside libpq: prefer addresses or sockets.
 */
#ifndef PG_CONN_H
#define PG_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "pg/params.h"
#include "pg/primary.h"
#include "pg/sqlstate.h"
#include "pg/stmt.h"
#include "pg/target.h"

#define BATCH_CALLS_MAX 8 /* statements in one transaction */

enum conn_state {
    CONN_IDLE,       /* conn_start has not been called */
    CONN_CONNECTING, /* PQconnectPoll under way */
    CONN_READY,      /* batches flow */
    CONN_WAITING,    /* down; the back-off timer runs */
    CONN_CLOSING,    /* conn_close was called; handles are being closed */
};

struct conn;

struct conn_options {
    const struct target *target; /* borrowed; outlives the connection */
    const char *name;            /* borrowed; "claim", "settle": for the log */
    const struct clock *clock;   /* borrowed */
    struct log *log;             /* borrowed; may be NULL */
    bool unprepared;             /* never prepare: for poolers in transaction mode */
    /* Borrowed; shared by all connections of the process, and outlives them. NULL: only standbys are
     * refused. */
    struct primary *primary;
    /* Borrowed; may be NULL. Settings of the session, $1: for this transaction only. Sent first on every connection; unprepared,
     * where the next transaction may be in another session, in front of every batch. Not counted. */
    const struct stmt *session;
    size_t queue_max;           /* batches at most, open, waiting or in flight; 0 means 64 */
    int64_t connect_timeout_ms; /* for each host of the target; 0 means 5000 */
    int64_t
        backoff_min_ms; /* ceiling of the first pause (full jitter: 1 ms up to it); 0 means 100 */
    int64_t backoff_max_ms; /* ceiling of all; a connection that lasted longer was healthy. 0 means
                               5000 */
    /* Borrowed; counts the statements that are sent: the LISTEN too, and one that is sent a second time
     * twice; a Parse in front of one is a part of it. May be NULL. */
    uint64_t *n_statements;
    /* CONN_READY (err NULL) when it came up; CONN_WAITING when it went down and after every attempt
     * that failed, err says why. Not called any more after conn_close. May be NULL. */
    void (*on_state)(void *data, enum conn_state state, const struct pawl_err *err);
    /* A notification, or (with channel NULL) "you may have missed some: look once", after every
     * (re)LISTEN. */
    void (*on_notify)(void *data, const char *channel, const char *payload);
    void *data; /* for both */
};

/* NULL when there is no memory. loop and options' pointers are borrowed. */
struct conn *conn_new(uv_loop_t *loop, const struct conn_options *options) MUST_CHECK;

/* Begins to connect. */
void conn_start(struct conn *conn);

/* Closes at the next loop turn, in whatever state: batches that were sent end as UNKNOWN, the
 * others as CONNECTION; then the connection is freed and `closed` runs (may be NULL). Run the loop
 * until it has been called. It waits for a cancel request under way, which blocks a thread for as
 * long as keepalives and tcp_user_timeout allow. */
void conn_close(struct conn *conn, void (*closed)(void *data), void *data);

enum conn_state conn_state(const struct conn *conn);
/* Batches that were submitted and not yet called back. */
size_t conn_pending(const struct conn *conn);

/* `listen` is a LISTEN statement without parameters; it is sent on every new connection before
 * anything else. Call before conn_start. */
void conn_listen(struct conn *conn, const struct stmt *listen);

/* How a batch ended. results[i] belongs to the i-th statement and lives until the callback returns;
 * they are there with PG_VERDICT_OK, and when it is unconfirmed. err is NULL with PG_VERDICT_OK.
 * unconfirmed goes with PG_VERDICT_UNKNOWN: the primary has committed it, and no synchronous standby
 * has confirmed it. It is known once a later commit that wrote something was confirmed. */
struct batch_end {
    enum pg_verdict verdict;
    bool unconfirmed;
    const struct pawl_err *err;
    PGresult *const *results;
    size_t n_results;
    int64_t took_us; /* from sending to the sync */
};

typedef void (*batch_fn)(void *data, const struct batch_end *end);

/* From inside the callback: the i-th result becomes the caller's (PQclear it), and end->results[i] is NULL from then on. Saves
 * copying what is large. */
PGresult *batch_take_result(const struct batch_end *end, size_t i) MUST_CHECK;

struct batch;

/* NULL when there is no memory or the connection's queue is full: that is back-pressure, try later.
 */
struct batch *batch_new(struct conn *conn) MUST_CHECK;
void batch_free(struct batch *batch); /* only for one that was never submitted */

/* Adds a statement and gives its parameters to be filled in; NULL when the batch is full. */
struct params *batch_add(struct batch *batch, const struct stmt *stmt) MUST_CHECK;

/* Only for the connection that is up now: if that is lost before the batch was sent, it ends as
 * CONNECTION instead of waiting for the next. */
void batch_here_only(struct batch *batch);

/* deadline_ms from now, waiting for the connection included. A batch past its deadline is cancelled
 * at the server, once those before it on this connection have ended, and ends as RETRY with
 * PAWL_ETIMEOUT (cancelled), OK (it was faster than the cancel), CONNECTION with PAWL_ETIMEOUT
 * (never sent) or UNKNOWN (no answer even to the cancel within 2 s: the connection is dropped). A
 * statement that must be prepared anew is, once, without the caller noticing. PG_VERDICT_REPREPARE
 * is never given to a callback. */
void batch_submit(struct batch *batch, int64_t deadline_ms, batch_fn fn, void *data);

#endif
