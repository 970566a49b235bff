/*
 * auth_look: looking at the database for access tokens: after a notification, when a call shows an
 * unknown token, and every half minute. Calls that wait for a look are on auth.waiting, each until
 * a look that began after the call came.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "serve/api/auth_internal.h"
#include "store/statements.h"

#define LOOK_DEADLINE_MS 5000

struct waiter {
    struct list link;
    struct auth *auth;
    struct rpc_call *call;
    uint64_t from_look; /* the first look that counts */
    unsigned char hash[ACCESS_HASH_LEN];
};

static void look(struct auth *auth);

static void waiter_free(struct waiter *waiter)
{
    list_remove(&waiter->link);
    waiter->auth->n_waiting--;
    free(waiter);
}

static void waiter_gone(struct rpc_call *call, void *data)
{
    (void)call;
    waiter_free(data);
}

static const struct rpc_call_ops waiter_ops = {.gone = waiter_gone};

/* Whether this address has used up its wrong tokens. Only the host counts, not the port. */
static bool is_limited(struct auth *auth, const char *address)
{
    const char *end = strrchr(address, ':');
    size_t len = end != NULL ? (size_t)(end - address) : strlen(address);
    uint64_t hash = auth->seed;
    int64_t now_us = clock_mono_us(&clock_system);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)address[i]) * 0x100000001b3ULL;
    hash ^= hash >> 29;
    double *wrong = &auth->buckets[hash % AUTH_BUCKETS].wrong;
    int64_t *at_us = &auth->buckets[hash % AUTH_BUCKETS].at_us;

    if (*at_us != 0)
        *wrong += (double)(now_us - *at_us) * AUTH_WRONG_PER_S / US_PER_S;
    if (*wrong > AUTH_WRONG_BURST)
        *wrong = AUTH_WRONG_BURST;
    *at_us = now_us;
    if (*wrong < 1)
        return true;
    *wrong -= 1;
    return false;
}

/* ── the timer ── */

static void over(void *data, struct access *access)
{
    struct auth *auth = data;
    size_t before = rpc_active(auth->options.rpc);

    log_info(auth->options.log, "access_over", LOG_STR("name", access->name));
    rpc_end_client(auth->options.rpc,
                   access,
                   RPC_UNAUTHENTICATED,
                   "the access token was revoked or has expired");
    auth->ended += before - rpc_active(auth->options.rpc);
}

static void on_timer(uv_timer_t *timer);

static bool is_deaf(const struct auth *auth)
{
    return auth->options.deaf || primary_pooled(auth->options.primary);
}

/* Starts the timer for the next look or the next token that expires, whichever is first. */
static void arm(struct auth *auth)
{
    int64_t now_us = clock_mono_us(&clock_system);
    int64_t every_ms = is_deaf(auth) ? AUTH_LOOK_DEAF_MS : AUTH_LOOK_MS;
    int64_t next_us = access_expire(&auth->table, now_us, over, auth);
    int64_t look_us = auth->look_us + (auth->soon ? (int64_t)AUTH_WANTED_MS : every_ms) * US_PER_MS;

    if (look_us < next_us)
        next_us = look_us;
    int64_t wait_ms = next_us > now_us ? (next_us - now_us) / US_PER_MS + 1 : 1;

    uv_timer_start(&auth->timer, on_timer, (uint64_t)wait_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct auth *auth = timer->data;
    int64_t now_us = clock_mono_us(&clock_system);
    int64_t every_ms = auth->soon      ? AUTH_WANTED_MS
                       : is_deaf(auth) ? AUTH_LOOK_DEAF_MS
                                       : AUTH_LOOK_MS;

    if (now_us - auth->look_us >= every_ms * US_PER_MS)
        look(auth);
    arm(auth);
}

/* ── a look ── */

/* The calls that waited for this look. */
static void answer_waiting(struct auth *auth, bool found_out)
{
    LIST_FOREACH_SAFE(link, after, &auth->waiting) {
        struct waiter *waiter = LIST_ENTRY(link, struct waiter, link);
        struct rpc_call *call = waiter->call;

        if (waiter->from_look > auth->look_n)
            continue;
        struct access *access = access_find(&auth->table, waiter->hash);

        waiter_free(waiter);
        if (access != NULL) {
            auth_admit(auth, call, access);
            rpc_proceed(call);
        } else if (found_out)
            auth_refuse(auth, call, REFUSED_WRONG);
        else
            rpc_end(call,
                    RPC_UNAVAILABLE,
                    "access tokens cannot be looked up: the database cannot be reached; try again");
    }
}

static void on_looked(void *data, const struct batch_end *end)
{
    struct auth *auth = data;
    bool found_out = end->verdict == PG_VERDICT_OK;

    auth->looking = false;
    if (found_out &&
        access_update(&auth->table, end->results[0], clock_mono_us(&clock_system), over, auth) < 0)
        log_warn(auth->options.log, "access_list", LOG_STR("error", "out of memory"));
    if (found_out)
        auth->loaded = true;
    else if (!auth->closing)
        log_warn_err(auth->options.log, "access_list", end->err, LOG_INT("tries", 1));
    answer_waiting(auth, found_out);
    if (auth->closing)
        return;
    if (auth->again)
        look(auth);
    arm(auth);
}

static void look(struct auth *auth)
{
    struct batch *batch = NULL;
    struct params *params;

    auth->again = auth->looking;
    if (auth->looking)
        return;
    auth->soon = false;
    auth->look_us = clock_mono_us(&clock_system);
    batch = batch_new(auth->conn);
    params = batch != NULL ? batch_add(batch, STMT(access_list)) : NULL;
    if (params == NULL) {
        batch_free(batch);
        return;
    }
    access_list_bind(params, false);
    auth->looking = true;
    auth->look_n++;
    batch_submit(batch, LOOK_DEADLINE_MS, on_looked, auth);
}

static void on_notify(void *data, const char *channel, const char *payload)
{
    (void)channel; /* NULL: a new connection, and notifications may be missing; handled the same */
    (void)payload;
    look(data);
}

void auth_wait(struct auth *auth, struct rpc_call *call, const unsigned char hash[ACCESS_HASH_LEN])
{
    struct waiter *waiter = NULL;

    if (is_limited(auth, rpc_call_peer(call)->address) || auth->n_waiting >= AUTH_WAITING_MAX) {
        auth_refuse(auth, call, REFUSED_LIMITED);
        return;
    }
    waiter = calloc(1, sizeof(*waiter));
    if (waiter == NULL) {
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory for the call");
        return;
    }
    waiter->auth = auth;
    waiter->call = call;
    waiter->from_look = auth->look_n + 1;
    memcpy(waiter->hash, hash, sizeof(waiter->hash));
    list_push(&auth->waiting, &waiter->link);
    auth->n_waiting++;
    rpc_hold(call, &waiter_ops, waiter);
    auth->soon = true;
    arm(auth);
}

/* ── beginning and end ── */

int auth_look_init(struct auth *auth, struct pawl_err *err)
{
    const struct auth_options *o = &auth->options;

    auth->conn = conn_new(o->loop,
                          &(struct conn_options){.target = o->target,
                                                 .name = "access",
                                                 .clock = &clock_system,
                                                 .log = o->log,
                                                 .unprepared = o->deaf,
                                                 .primary = o->primary,
                                                 .on_notify = on_notify,
                                                 .data = auth});
    if (auth->conn == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    uv_timer_init(o->loop, &auth->timer);
    auth->timer.data = auth;
    if (!o->deaf)
        conn_listen(auth->conn, STMT(listen_access));
    conn_start(auth->conn);
    look(auth);
    arm(auth);
    return 0;
}

static void part_closed(void *data)
{
    struct auth *auth = data;

    if (--auth->n_open > 0)
        return;
    void (*closed)(void *) = auth->closed;
    void *closed_data = auth->closed_data;

    access_table_deinit(&auth->table);
    free(auth);
    if (closed != NULL)
        closed(closed_data);
}

static void timer_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

/* No call is let in any more: without tokens nobody can be identified. */
static bool closed_guard(struct rpc_call *call, void *data)
{
    (void)data;
    rpc_end(call, RPC_UNAVAILABLE, "the server stops; connect again");
    return false;
}

void auth_look_close(struct auth *auth)
{
    auth->n_open = 2;
    rpc_set_guard(auth->options.rpc, closed_guard, NULL);
    uv_close((uv_handle_t *)&auth->timer, timer_closed);
    conn_close(auth->conn, part_closed, auth);
}
