/* auth_internal: what auth.c (who may what) and auth_look.c (looking at the database, and calls that wait for it) share. */
#ifndef SERVE_API_AUTH_INTERNAL_H
#define SERVE_API_AUTH_INTERNAL_H

#include "base/list.h"
#include "pg/conn.h"
#include "serve/api/access.h"
#include "serve/api/auth.h"

#define AUTH_LOOK_MS      30000 /* without a notification */
#define AUTH_LOOK_DEAF_MS 1000
#define AUTH_WANTED_MS    1000 /* between two looks for tokens that are not known */
#define AUTH_WAITING_MAX  1024 /* calls that wait for such a look */
#define AUTH_BUCKETS      1024 /* addresses are counted in so many, by chance together */
#define AUTH_WRONG_BURST \
    20 /* wrong tokens of an address at once, for which the database is looked at … */
#define AUTH_WRONG_PER_S 1   /* … and steadily */
#define AUTH_CLIENTS_MAX 100 /* labels in the metrics; the others are one */

/* Why a call was refused. X(name, label) */
#define AUTH_REFUSALS(X)                                                     \
    X(MISSING, "missing") /* no token */                                     \
    X(WRONG, "wrong")     /* none that is known, or not any more */          \
    X(LIMITED, "limited") /* the same, and the database was not looked at */ \
    X(DENIED, "denied")   /* known, but may not */

#define AUTH_REFUSAL_ENUM(name, label) REFUSED_##name,

enum auth_refusal { AUTH_REFUSALS(AUTH_REFUSAL_ENUM) REFUSALS };

#undef AUTH_REFUSAL_ENUM

struct auth {
    struct auth_options options;
    struct conn *conn;
    struct access_table table;
    bool loaded;
    bool looking;    /* a look is under way */
    bool again;      /* something changed after it began */
    bool soon;       /* one is due: the timer runs for it */
    uint64_t look_n; /* looks begun */
    int64_t look_us; /* when the last one began */
    uv_timer_t timer;
    struct list waiting; /* struct waiter */
    size_t n_waiting;

    struct {
        double wrong; /* what is left */
        int64_t at_us;
    } buckets[AUTH_BUCKETS];

    uint64_t seed;
    int64_t logged_us;
    uint64_t refused[REFUSALS];
    uint64_t ended; /* open calls of tokens that are over */
    bool closing;
    int n_open;
    void (*closed)(void *data);
    void *closed_data;
};

/* auth_look.c */
int auth_look_init(struct auth *auth, struct pawl_err *err) MUST_CHECK;
void auth_look_close(struct auth *auth);
/* Holds a call whose token is not known until the next look, or ends it. */
void auth_wait(struct auth *auth, struct rpc_call *call, const unsigned char hash[ACCESS_HASH_LEN]);

/* auth.c */
void auth_refuse(struct auth *auth, struct rpc_call *call, enum auth_refusal why);
void auth_admit(struct auth *auth, struct rpc_call *call, struct access *access);

#endif
