/* auth: the guard in front of all calls, the scopes and queues of a token, and metrics by
 * client. */
#include "serve/api/auth.h"

#include <stdlib.h>
#include <string.h>

#include <strings.h>

#include "base/buf.h"
#include "base/rand.h"
#include "serve/api/auth_internal.h"
#include "serve/api/secret.h"
#include "serve/metrics.h"

#define BEARER       "Bearer "
#define LOG_EVERY_US ((int64_t)1 * US_PER_S)

static const char *scope_text(enum auth_scope scope)
{
    switch (scope) {
#define SCOPE(name, number, text) \
    case name:                    \
        return text;
        AUTH_SCOPES(SCOPE)
#undef SCOPE
    }
    return "";
}

/* ── who calls ── */

void auth_admit(struct auth *auth, struct rpc_call *call, struct access *access)
{
    (void)auth;
    access->calls++;
    rpc_call_set_client(call, access);
}

void auth_refuse(struct auth *auth, struct rpc_call *call, enum auth_refusal why)
{
    int64_t now_us = clock_mono_us(&clock_system);

    auth->refused[why]++;
    /* At most one line a second is logged; the metrics count the rest. */
    if (now_us - auth->logged_us >= LOG_EVERY_US) {
        auth->logged_us = now_us;
        log_warn(auth->options.log,
                 "auth_refused",
                 LOG_STR("client", rpc_call_peer(call)->address),
                 LOG_STR("method", rpc_call_path(call)),
                 LOG_STR("why", why == REFUSED_MISSING ? "no token" : "not a valid token"));
    }
    if (why == REFUSED_MISSING)
        rpc_end(call,
                RPC_UNAUTHENTICATED,
                "this server asks for an access token: send the metadata `authorization: Bearer "
                "TOKEN`; `pawl token create` makes one");
    else
        rpc_end(call,
                RPC_UNAUTHENTICATED,
                "the access token is not valid: unknown, expired or revoked");
}

/* The token behind `Bearer `, or NULL. */
static const char *bearer(const char *header)
{
    if (header == NULL || strncasecmp(header, BEARER, sizeof(BEARER) - 1) != 0)
        return NULL;
    header += sizeof(BEARER) - 1;
    return header + strspn(header, " ");
}

static bool guard(struct rpc_call *call, void *data)
{
    struct auth *auth = data;
    const char *token = bearer(rpc_call_authorization(call));
    unsigned char hash[ACCESS_HASH_LEN];

    /* Health is for load balancers, and reflection shows only what is public. */
    if (strncmp(rpc_call_path(call), "/grpc.", 6) == 0)
        return true;
    if (token == NULL || token[0] == '\0') {
        auth_refuse(auth, call, REFUSED_MISSING);
        return false;
    }
    if (!secret_hash(token, strlen(token), hash)) {
        auth_refuse(auth, call, REFUSED_WRONG);
        return false;
    }
    struct access *access = access_find(&auth->table, hash);

    if (access != NULL && access->expires_us > clock_mono_us(&clock_system)) {
        auth_admit(auth, call, access);
        return true;
    }
    auth_wait(auth, call, hash);
    return false;
}

/* ── what they may ── */

static bool has_scope(const struct access *access, enum auth_scope scope)
{
    return (access->scopes & ((unsigned)scope | AUTH_ADMIN)) != 0;
}

bool auth_allows(struct auth *auth, struct rpc_call *call, enum auth_scope scope, const char *queue)
{
    struct access *access = auth != NULL ? rpc_call_client(call) : NULL;

    if (auth == NULL)
        return true;
    if (access != NULL && has_scope(access, scope) && (queue == NULL || access_sees(access, queue)))
        return true;
    auth->refused[REFUSED_DENIED]++;
    if (access == NULL) {
        rpc_end(call, RPC_UNAUTHENTICATED, "the call came without an access token");
        return false;
    }
    access->denied++;
    if (!has_scope(access, scope))
        rpc_end(call,
                RPC_PERMISSION_DENIED,
                "the access token %s has no scope \"%s\"",
                access->name,
                scope_text(scope));
    else
        rpc_end(call,
                RPC_PERMISSION_DENIED,
                "the access token %s is not for the queue \"%s\"",
                access->name,
                queue);
    return false;
}

bool auth_sees(const struct auth *auth, const struct rpc_call *call, const char *queue)
{
    const struct access *access = auth != NULL ? rpc_call_client(call) : NULL;

    return auth == NULL || (access != NULL && access_sees(access, queue));
}

bool auth_sees_all(const struct auth *auth, const struct rpc_call *call)
{
    const struct access *access = auth != NULL ? rpc_call_client(call) : NULL;

    return auth == NULL || (access != NULL && access->n_queues == 0);
}

const char *auth_client(const struct auth *auth, const struct rpc_call *call)
{
    const struct access *access = auth != NULL ? rpc_call_client(call) : NULL;

    return access != NULL ? access->name : rpc_call_peer(call)->address;
}

void auth_count_jobs(struct auth *auth, struct rpc_call *call, size_t jobs)
{
    struct access *access = auth != NULL ? rpc_call_client(call) : NULL;

    if (access != NULL)
        access->jobs += jobs;
}

bool auth_http_allows(struct auth *auth, struct http_exchange *exchange, enum auth_scope scope)
{
    const char *token = bearer(http_header(exchange, "authorization"));
    unsigned char hash[ACCESS_HASH_LEN];
    struct access *access = NULL;

    if (auth == NULL)
        return true;
    if (token != NULL && secret_hash(token, strlen(token), hash))
        access = access_find(&auth->table, hash);
    if (access != NULL && access->expires_us <= clock_mono_us(&clock_system))
        access = NULL;
    if (access != NULL && has_scope(access, scope) && access->n_queues == 0) {
        access->calls++;
        return true;
    }
    if (access != NULL) {
        auth->refused[REFUSED_DENIED]++;
        access->denied++;
        http_reply_text(exchange,
                        403,
                        "this needs an access token with the scope %s for all queues",
                        scope_text(scope));
        return false;
    }
    auth->refused[token == NULL ? REFUSED_MISSING : REFUSED_WRONG]++;
    http_reply_header(exchange, "www-authenticate", "Bearer");
    http_reply_text(exchange, 401, "this needs an access token: authorization: Bearer TOKEN");
    return false;
}

bool auth_ready(const struct auth *auth)
{
    return auth == NULL || auth->loaded;
}

/* ── numbers ── */

static void client_metric(
    const struct auth *auth, struct buf *out, const char *name, const char *help, size_t offset)
{
    const struct access *access;
    uint64_t others = 0;
    size_t pos = 0;
    size_t n = 0;

    metrics_family(out, name, "counter", help);
    while ((access = map_next(&auth->table.by_hash, &pos, NULL, NULL)) != NULL) {
        uint64_t value = *(const uint64_t *)(const void *)((const char *)access + offset);
        const struct metrics_label labels[] = {{"client", access->name}, {NULL, NULL}};

        if (n++ < AUTH_CLIENTS_MAX)
            metrics_int(out, name, labels, (int64_t)value);
        else
            others += value;
    }
    if (n > AUTH_CLIENTS_MAX) {
        const struct metrics_label labels[] = {{"client", "(others)"}, {NULL, NULL}};

        metrics_int(out, name, labels, (int64_t)others);
    }
}

void auth_metrics(const struct auth *auth, struct buf *out)
{
    static const char *const names[REFUSALS] = {
#define NAME(name, label) label,
        AUTH_REFUSALS(NAME)
#undef NAME
    };

    if (auth == NULL)
        return;
    metrics_family(out, "pawl_auth_refused_total", "counter", "Calls refused for want of rights.");
    for (size_t i = 0; i < REFUSALS; i++) {
        const struct metrics_label labels[] = {{"why", names[i]}, {NULL, NULL}};

        metrics_int(out, "pawl_auth_refused_total", labels, (int64_t)auth->refused[i]);
    }
    metrics_counter(
        out, "pawl_auth_ended_total", "Open calls ended with their token.", auth->ended);
    metrics_gauge(
        out, "pawl_auth_tokens", "Access tokens that are valid.", (int64_t)auth->table.by_hash.n);
    client_metric(auth,
                  out,
                  "pawl_client_calls_total",
                  "Calls by access token.",
                  offsetof(struct access, calls));
    client_metric(auth,
                  out,
                  "pawl_client_denied_total",
                  "Calls that an access token did not allow.",
                  offsetof(struct access, denied));
    client_metric(auth,
                  out,
                  "pawl_client_jobs_total",
                  "Jobs accepted by access token.",
                  offsetof(struct access, jobs));
}

/* ── beginning and end ── */

int auth_new(const struct auth_options *options, struct auth **ret_auth, struct pawl_err *err)
{
    struct auth *auth = calloc(1, sizeof(*auth));

    if (auth == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    auth->options = *options;
    auth->seed = rand_u64();
    for (size_t i = 0; i < AUTH_BUCKETS; i++)
        auth->buckets[i].wrong = AUTH_WRONG_BURST;
    list_init(&auth->waiting);
    access_table_init(&auth->table);
    int rc = auth_look_init(auth, err);

    if (rc < 0) {
        access_table_deinit(&auth->table);
        free(auth);
        return rc;
    }
    rpc_set_guard(options->rpc, guard, auth);
    *ret_auth = auth;
    return 0;
}

void auth_close(struct auth *auth, void (*closed)(void *data), void *data)
{
    auth->closing = true;
    auth->closed = closed;
    auth->closed_data = data;
    auth_look_close(auth);
}
