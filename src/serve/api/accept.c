/* accept: the line of calls that wait, gathering calls into flushes, and what follows when a
 * flush fails. */
#include "serve/api/accept.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/api/accept_internal.h"
#include "store/statements.h"

/* ── one call ── */

struct accept_item *accept_item_new(size_t n)
{
    size_t each =
        sizeof(struct pawl_job_new) + sizeof(int64_t) + sizeof(const char *) + 2 * sizeof(bool);

    assert(n > 0 && n <= ACCEPT_JOBS_MAX);
    struct accept_item *item = calloc(1, sizeof(*item) + n * each);

    if (item == NULL)
        return NULL;
    item->n = n;
    item->jobs = (struct pawl_job_new *)(item + 1);
    item->ids = (int64_t *)(item->jobs + n);
    item->steps = (const char **)(item->ids + n);
    item->existed = (bool *)(item->steps + n);
    list_init(&item->link);
    return item;
}

static void accept_item_destroy(struct accept_item *item)
{
    free(item);
}

void accept_item_free(struct accept_item *item)
{
    if (item == NULL)
        return;
    assert(item->accept == NULL);
    accept_item_destroy(item);
}

struct pawl_job_new *accept_item_jobs(struct accept_item *item)
{
    return item->jobs;
}

const char **accept_item_steps(struct accept_item *item)
{
    return item->steps;
}

void accept_item_key(struct accept_item *item, const struct uuid *key, const struct uuid *request)
{
    item->has_key = true;
    item->key = *key;
    item->request = *request;
}

void accept_item_counted(struct accept_item *item,
                         void (*fn)(struct rpc_call *call, size_t jobs, void *data),
                         void *data)
{
    item->counted = fn;
    item->counted_data = data;
}

/* Ends the call, unless its client is gone, and frees the item. */
PRINTF_LIKE(3, 4)

static void accept_item_fail(struct accept_item *item, enum rpc_status status, const char *fmt, ...)
{
    char message[RPC_MESSAGE_MAX];
    struct rpc_call *call = item->call;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    bool unknown = item->uncertain && !item->mismatch;
    bool unconfirmed = item->unconfirmed;
    bool keyed = item->has_key;

    if (unknown)
        item->accept->stats.unknown++;
    accept_item_destroy(item);
    if (call != NULL && unknown)
        rpc_end_unknown(
            call,
            RPC_UNAVAILABLE,
            "%s%s",
            unconfirmed ? "no synchronous standby of the database has confirmed the commit: the "
                          "jobs are accepted, but a fail-over may lose them"
                        : "the connection to the database was lost during the commit: the jobs "
                          "may have been accepted or not",
            keyed ? ". Repeat the call with the same idempotency_key"
                  : ", and without an idempotency_key a repetition may accept them twice");
    else if (call != NULL)
        rpc_end(call, status, "%s", message);
}

static void accept_item_reply(struct accept_item *item)
{
    struct accept *a = item->accept;
    struct rpc_call *call = item->call;
    Pawl__V1__EnqueueResponse response = PAWL__V1__ENQUEUE_RESPONSE__INIT;
    size_t new = 0;

    for (size_t i = 0; i < item->n; i++) {
        pawl__v1__accepted__init(&a->accepted[i]);
        a->accepted[i].job_id = item->ids[i];
        a->accepted[i].existed = item->existed[i];
        a->accepted_list[i] = &a->accepted[i];
        new += !item->existed[i] && !item->replayed;
    }
    response.accepted = a->accepted_list;
    response.n_accepted = item->n;
    a->stats.calls++;
    a->stats.jobs += new;
    a->stats.replays += item->replayed;
    if (call != NULL && item->counted != NULL)
        item->counted(call, new, item->counted_data);
    accept_item_destroy(item);
    if (call != NULL)
        rpc_reply(call, &response.base);
}

/* ── the line ── */

static void leave(struct accept *accept, struct accept_item *item)
{
    list_remove(&item->link);
    accept->stats.waiting--;
    accept->stats.waiting_bytes -= item->bytes;
}

static void item_gone(struct rpc_call *call, void *data)
{
    struct accept_item *item = data;

    (void)call;
    item->call = NULL;
    if (list_empty(&item->link))
        return; /* in a flush, whose end counts it */
    leave(item->accept, item);
    accept_item_destroy(item);
}

static const struct rpc_call_ops item_ops = {.gone = item_gone};

/* Puts the item first in line again. */
static void accept_requeue(struct accept *accept, struct accept_item *item)
{
    if (item->call == NULL) {
        accept_item_destroy(item);
        return;
    }
    item->n_answers = 0;
    item->replayed = item->mismatch = false;
    list_unshift(&accept->waiting, &item->link);
    accept->stats.waiting++;
    accept->stats.waiting_bytes += item->bytes;
}

static void accept_send(struct accept *accept);

static void on_before(uv_prepare_t *handle)
{
    accept_send(handle->data);
}

static void on_after(uv_check_t *handle)
{
    accept_send(handle->data);
}

void accept_add(struct accept *accept, struct rpc_call *call, struct accept_item *item)
{
    size_t bytes = sizeof(*item) + item->n * sizeof(struct pawl_job_new);

    for (size_t i = 0; i < item->n; i++)
        bytes += job_new_bytes(&item->jobs[i]);
    if (accept->closing || accept->stats.waiting >= ACCEPT_WAITING_MAX ||
        accept->stats.waiting_bytes + bytes > ACCEPT_WAITING_BYTES_MAX) {
        accept->stats.refused++;
        accept_item_free(item);
        if (accept->closing)
            rpc_end(call, RPC_UNAVAILABLE, "the server stops; connect again");
        else
            rpc_end(call,
                    RPC_RESOURCE_EXHAUSTED,
                    "too many calls wait for the database; nothing was accepted, try again later");
        return;
    }
    item->accept = accept;
    item->call = call;
    item->bytes = bytes;
    list_push(&accept->waiting, &item->link);
    accept->stats.waiting++;
    accept->stats.waiting_bytes += bytes;
    rpc_hold(call, &item_ops, item);
    /* The flush starts later: calls that arrive in this turn of the loop join it. */
    uv_prepare_start(&accept->before, on_before);
    uv_check_start(&accept->after, on_after);
}

/* ── flushes ── */

/* Moves calls from the line into the flush, as many as fit. Calls that were refused together are
 * not mixed with others; a call whose key is in another flush waits for that flush to end. */
static void gather(struct accept *accept, struct flush *flush)
{
    size_t most = 0;
    size_t jobs = 0;
    size_t bytes = 0;

    flush->n = 0;
    LIST_FOREACH_SAFE(link, after, &accept->waiting) {
        struct accept_item *item = LIST_ENTRY(link, struct accept_item, link);

        if (flush->n == 0)
            most = item->most;
        if (item->most != most || (most > 0 && flush->n == most) ||
            jobs + item->n > ACCEPT_JOBS_MAX ||
            (flush->n > 0 && bytes + item->bytes > ACCEPT_BYTES_MAX))
            break;
        if (item->has_key && (map_get(&accept->keys, &item->key, sizeof(item->key)) != NULL ||
                              map_put(&accept->keys, &item->key, sizeof(item->key), item) < 0))
            continue;
        leave(accept, item);
        flush->items[flush->n++] = item;
        jobs += item->n;
        bytes += item->bytes;
    }
}

/* Frees the keys of the flush for other calls. The items stay. */
static void flush_release(struct flush *flush)
{
    for (size_t i = 0; i < flush->n; i++) {
        if (flush->items[i]->has_key)
            (void)map_remove(
                &flush->accept->keys, &flush->items[i]->key, sizeof(flush->items[i]->key));
    }
    flush->busy = false;
}

/* Sends calls that wait, as far as flushes are free. */
static void accept_send(struct accept *accept)
{
    uv_prepare_stop(&accept->before);
    uv_check_stop(&accept->after);
    for (size_t i = 0; i < ACCEPT_FLUSHES_MAX && !list_empty(&accept->waiting); i++) {
        struct flush *flush = &accept->flushes[i];

        if (flush->busy)
            continue;
        gather(accept, flush);
        if (flush->n == 0)
            return;
        flush->busy = flush_start(flush);
        if (flush->busy)
            continue;
        flush_release(flush);
        for (size_t k = 0; k < flush->n; k++)
            accept_item_fail(flush->items[k],
                             RPC_RESOURCE_EXHAUSTED,
                             "no memory for the transaction; nothing was accepted");
    }
}

static void committed(struct flush *flush, const struct batch_end *end)
{
    flush->accept->stats.commits++;
    flush_read(flush, end);
    for (size_t i = 0; i < flush->n; i++) {
        struct accept_item *item = flush->items[i];

        if (item->mismatch)
            accept_item_fail(item,
                             RPC_INVALID_ARGUMENT,
                             "idempotency_key: it was used before, for other jobs; a key is for "
                             "retries of one and the same call");
        else if (item->n_answers == item->n)
            accept_item_reply(item);
        else {
            struct rpc_call *call = item->call;

            accept_item_destroy(item);
            if (call != NULL)
                rpc_end_unknown(call,
                                RPC_INTERNAL,
                                "the jobs were stored, but the database did not say their ids");
        }
    }
}

/* The database objects to the data that was sent, not to the server or to the moment. */
static bool is_about_the_jobs(const struct batch_end *end)
{
    int code = end->err->code;

    if (end->verdict == PG_VERDICT_RETRY)
        return code == PAWL_ERETRY;
    return end->verdict == PG_VERDICT_PERMANENT && code != PAWL_ESCHEMA && code != PAWL_EDENIED &&
           code != PAWL_EAUTH && code != PAWL_EREADONLY && code != PAWL_ENOMEM &&
           code != PAWL_EFULL;
}

/* One item is to blame: the two halves are sent separately. */
static void split(struct flush *flush)
{
    flush->accept->stats.splits++;
    for (size_t i = flush->n; i > 0; i--) {
        flush->items[i - 1]->most = (flush->n + 1) / 2;
        accept_requeue(flush->accept, flush->items[i - 1]);
    }
}

/* The item that is to blame. */
static void refuse(struct accept_item *item, const struct batch_end *end)
{
    const struct pawl_err *err = end->err;
    struct rpc_call *call = item->call;

    /* An uncertain item may wait for a lock of its own earlier transaction, which PostgreSQL has
     * not yet ended. */
    if (strcmp(err->sqlstate, "55P03") == 0 && !item->uncertain)
        accept_item_fail(item,
                         RPC_ABORTED,
                         "a transaction that is still open holds a key of this call; this call "
                         "accepted nothing%s",
                         item->has_key
                             ? ", but an earlier one with the same idempotency_key may be "
                               "about to. Repeat it with the same key"
                             : "; try again");
    else if (end->verdict == PG_VERDICT_RETRY && ++item->tries < ACCEPT_TRIES_MAX)
        accept_requeue(item->accept, item);
    else if (end->verdict == PG_VERDICT_RETRY)
        accept_item_fail(item,
                         RPC_ABORTED,
                         "could not enqueue: %s; nothing was accepted, try again",
                         err->message);
    else if (item->uncertain)
        accept_item_fail(item, RPC_UNAVAILABLE, "%s", err->message);
    else {
        accept_item_destroy(item);
        if (call != NULL)
            rpc_end_err(call, err);
    }
}

static void give_up(struct accept_item *item, const struct pawl_err *err)
{
    bool full = err->code == PAWL_EFULL || err->code == PAWL_ENOMEM;

    accept_item_fail(item,
                     full ? RPC_RESOURCE_EXHAUSTED : RPC_UNAVAILABLE,
                     "could not enqueue: %s; nothing was accepted, try again later%s%s",
                     err->message,
                     err->hint[0] ? ". Hint: " : "",
                     err->hint);
}

/* Ends all items for a reason that is not theirs. When the database cannot be reached, the calls
 * in line end, too. */
static void give_up_all(struct flush *flush, const struct batch_end *end)
{
    struct accept *accept = flush->accept;

    for (size_t i = 0; i < flush->n; i++)
        give_up(flush->items[i], end->err);
    while (end->verdict == PG_VERDICT_CONNECTION && !list_empty(&accept->waiting)) {
        struct accept_item *item = LIST_ENTRY(accept->waiting.next, struct accept_item, link);

        leave(accept, item);
        give_up(item, end->err);
    }
}

/* Items that can be sent again are; the other calls are told that the end is unknown. */
static void lost(struct flush *flush, bool unknown, bool unconfirmed)
{
    struct accept *accept = flush->accept;

    for (size_t i = flush->n; i > 0; i--) {
        struct accept_item *item = flush->items[i - 1];

        item->uncertain |= unknown;
        item->unconfirmed |= unconfirmed;
        if ((!unknown || item->has_key) && !accept->closing && ++item->tries < ACCEPT_TRIES_MAX) {
            accept_requeue(accept, item);
            continue;
        }
        accept_item_fail(
            item,
            RPC_UNAVAILABLE,
            "the connection to the database was lost; nothing was accepted, try again");
    }
}

void flush_ended(void *data, const struct batch_end *end)
{
    struct flush *flush = data;
    struct accept *accept = flush->accept;
    bool alone = flush->n == 1;

    flush_release(flush);
    accept->options.flushed(accept->options.data, end);
    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(accept->options.log, "job_enqueue", end->err, LOG_INT("calls", flush->n));
    if (end->verdict == PG_VERDICT_OK)
        committed(flush, end);
    else if (end->verdict == PG_VERDICT_UNKNOWN)
        lost(flush, true, end->unconfirmed);
    else if (end->verdict == PG_VERDICT_RETRY && end->err->code == PAWL_ECONN)
        lost(flush, false, false);
    else if (!accept->closing && is_about_the_jobs(end) && !alone)
        split(flush);
    else if (!accept->closing && is_about_the_jobs(end))
        refuse(flush->items[0], end);
    else
        give_up_all(flush, end);
    flush->n = 0;
    if (!accept->closing)
        accept_send(accept);
}

/* ── beginning and end ── */

struct accept *accept_new(const struct accept_options *options)
{
    struct accept *accept = calloc(1, sizeof(*accept));

    if (accept == NULL)
        return NULL;
    accept->options = *options;
    accept->conn = conn_new(options->loop,
                            &(struct conn_options){.target = options->target,
                                                   .name = options->name,
                                                   .clock = &clock_system,
                                                   .log = options->log,
                                                   .unprepared = options->unprepared,
                                                   .primary = options->primary,
                                                   .session = STMT(session)});
    if (accept->conn == NULL) {
        free(accept);
        return NULL;
    }
    list_init(&accept->waiting);
    map_init(&accept->keys, ACCEPT_FLUSHES_MAX * ACCEPT_JOBS_MAX);
    for (size_t i = 0; i < ACCEPT_FLUSHES_MAX; i++)
        accept->flushes[i].accept = accept;
    uv_prepare_init(options->loop, &accept->before);
    uv_check_init(options->loop, &accept->after);
    accept->before.data = accept->after.data = accept;
    conn_start(accept->conn);
    return accept;
}

static void part_closed(void *data)
{
    struct accept *accept = data;

    if (--accept->n_open > 0)
        return;
    void (*closed)(void *) = accept->closed;
    void *closed_data = accept->closed_data;

    map_deinit(&accept->keys);
    free(accept);
    if (closed != NULL)
        closed(closed_data);
}

static void handle_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

void accept_close(struct accept *accept, void (*closed)(void *data), void *data)
{
    struct list *link;

    accept->closing = true;
    accept->closed = closed;
    accept->closed_data = data;
    accept->n_open = 3;
    while ((link = accept->waiting.next) != &accept->waiting) {
        struct accept_item *item = LIST_ENTRY(link, struct accept_item, link);

        leave(accept, item);
        accept_item_fail(item, RPC_UNAVAILABLE, "the server stops; nothing was accepted");
    }
    uv_close((uv_handle_t *)&accept->before, handle_closed);
    uv_close((uv_handle_t *)&accept->after, handle_closed);
    conn_close(accept->conn, part_closed, accept);
}

const struct accept_stats *accept_stats(const struct accept *accept)
{
    return &accept->stats;
}

bool accept_ready(const struct accept *accept)
{
    return conn_state(accept->conn) == CONN_READY;
}
