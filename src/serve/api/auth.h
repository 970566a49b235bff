/*
 * auth: who calls, and what the client may do. Clients show an access token (`authorization: Bearer
 * pawl_…`); all valid tokens are in memory, so that no call costs a statement and a wrong token
 * costs only its hash. A notification tells of a change in the database; without one the server
 * looks every half minute. Open calls of a token that was revoked or has expired are ended.
 *
 *     rpc_guard ─► known ─► the handler, which asks auth_allows(call, scope, queue)
 *              └► not known ─► waits for one look at the database (at most one a second)
 *                              ─► as above, or UNAUTHENTICATED
 *
 * The wait is for a token that was made a moment ago. Health and reflection need no token. Loop's
 * thread only.
 */
#ifndef SERVE_API_AUTH_H
#define SERVE_API_AUTH_H

#include <stdbool.h>

#include <uv.h>

#include "base/log.h"
#include "pg/primary.h"
#include "pg/target.h"
#include "serve/http/http.h"
#include "serve/rpc/rpc.h"

/* X(name, number, text) */
#define AUTH_SCOPES(X)                                                      \
    X(AUTH_ENQUEUE, 1, "enqueue") /* Enqueue, Signal, Cancel */             \
    X(AUTH_WORK, 2, "work")       /* StreamJobs, Heartbeat, ReportResult */ \
    X(AUTH_READ, 4, "read")       /* GetJob, ListJobs, Stats, /metrics */   \
    X(AUTH_ADMIN, 8, "admin")     /* PauseQueue, ResumeQueue; and all others */

#define AUTH_SCOPE_ENUM(name, number, text) name = (number),

enum auth_scope { AUTH_SCOPES(AUTH_SCOPE_ENUM) };

#undef AUTH_SCOPE_ENUM

struct auth;

struct auth_options {
    uv_loop_t *loop;
    struct rpc *rpc;             /* borrowed; the auth becomes its guard */
    const struct target *target; /* borrowed */
    struct primary *primary;     /* borrowed; when it finds a pooler, deaf is implied */
    bool deaf;                   /* no LISTEN, no prepared statements: looks every second */
    struct log *log;             /* borrowed; may be NULL */
};

int auth_new(const struct auth_options *options,
             struct auth **ret_auth,
             struct pawl_err *err) MUST_CHECK;
/* When no call is open any more. `closed` runs when the auth is freed. */
void auth_close(struct auth *auth, void (*closed)(void *data), void *data);

/*
 * Whether the client of the call may do this in this queue (NULL: the queue is checked later, or
 * does not matter). False: the call was ended with PERMISSION_DENIED. auth NULL: every call is
 * allowed.
 */
bool auth_allows(struct auth *auth,
                 struct rpc_call *call,
                 enum auth_scope scope,
                 const char *queue);
/* Checks the queue alone, and does not end the call. */
bool auth_sees(const struct auth *auth, const struct rpc_call *call, const char *queue);
/* The client may see all queues. */
bool auth_sees_all(const struct auth *auth, const struct rpc_call *call);
/* The name of the client's token, or its address, to show to people. Lives as long as the call. */
const char *auth_client(const struct auth *auth, const struct rpc_call *call);
/* Counts jobs that the client enqueued, for the metrics. */
void auth_count_jobs(struct auth *auth, struct rpc_call *call, size_t jobs);

/* For plain HTTP. False: the request was answered with 401 or 403. */
bool auth_http_allows(struct auth *auth, struct http_exchange *exchange, enum auth_scope scope);

/* The tokens were read at least once. auth NULL: true. */
bool auth_ready(const struct auth *auth);

struct buf;
void auth_metrics(const struct auth *auth, struct buf *out);

#endif
