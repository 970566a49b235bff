/* auth_internal: what auth.c (what a client may do) and auth_look.c (looks at the database, and
 * calls that wait for a look) share. */
#ifndef SERVE_API_AUTH_INTERNAL_H
#define SERVE_API_AUTH_INTERNAL_H

#include "base/list.h"
#include "pg/conn.h"
#include "serve/api/access.h"
#include "serve/api/auth.h"

#define AUTH_LOOK_MS      30000 /* between two looks without a notification */
#define AUTH_LOOK_DEAF_MS 1000
#define AUTH_WANTED_MS    1000 /* between two looks for unknown tokens */
#define AUTH_WAITING_MAX  1024 /* calls that wait for such a look */
#define AUTH_BUCKETS      1024 /* addresses are hashed into this many counters */
#define AUTH_WRONG_BURST \
    20 /* wrong tokens of an address at once that cause a look at the database */
#define AUTH_WRONG_PER_S 1 /* the same, steadily */
/* clients with labels of their own in the metrics; the others share one */
#define AUTH_CLIENTS_MAX 100

/* Why a call was refused. X(name, label) */
#define AUTH_REFUSALS(X)                                                            \
    X(MISSING, "missing") /* no token */                                            \
    X(WRONG, "wrong")     /* an unknown token, or one that is not valid any more */ \
    X(LIMITED, "limited") /* an unknown token, without a look at the database */    \
    X(DENIED, "denied")   /* a known token that does not allow the call */

#define AUTH_REFUSAL_ENUM(name, label) REFUSED_##name,

enum auth_refusal { AUTH_REFUSALS(AUTH_REFUSAL_ENUM) REFUSALS };

#undef AUTH_REFUSAL_ENUM

struct auth {
    struct auth_options options;
    struct conn *conn;
    struct access_table table;
    bool loaded;
    bool looking;    /* a look is under way */
    bool again;      /* tokens changed after the look began */
    bool soon;       /* a look is due: the timer runs for it */
    uint64_t look_n; /* looks begun */
    int64_t look_us; /* when the last one began */
    uv_timer_t timer;
    struct list waiting; /* struct waiter */
    size_t n_waiting;

    struct {
        double wrong; /* wrong tokens that are left */
        int64_t at_us;
    } buckets[AUTH_BUCKETS];

    uint64_t seed;
    int64_t logged_us;
    uint64_t refused[REFUSALS];
    uint64_t ended; /* open calls ended with their token */
    bool closing;
    int n_open;
    void (*closed)(void *data);
    void *closed_data;
};

/* auth_look.c */
int auth_look_init(struct auth *auth, struct pawl_err *err) MUST_CHECK;
void auth_look_close(struct auth *auth);
/* Holds a call with an unknown token until the next look, or ends it. */
void auth_wait(struct auth *auth, struct rpc_call *call, const unsigned char hash[ACCESS_HASH_LEN]);

/* auth.c */
void auth_refuse(struct auth *auth, struct rpc_call *call, enum auth_refusal why);
void auth_admit(struct auth *auth, struct rpc_call *call, struct access *access);

#endif
