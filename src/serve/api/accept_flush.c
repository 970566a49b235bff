/*
 * accept_flush: one flush: the statements that carry its jobs, and what their rows say. Calls are
 * taken in order; calls with plain jobs only go into one statement, the others into a second one,
 * and the rows are read by the same walk.
 */
#include <assert.h>
#include <string.h>

#include "serve/api/accept_internal.h"
#include "store/job_enqueue.h"
#include "store/statements.h"
#include "store/tx.h"

/* All jobs of a call go into one statement, so that they keep the order of the call. */
static bool is_plain(const struct accept_item *item)
{
    for (size_t i = 0; i < item->n; i++) {
        if (!job_new_is_plain(&item->jobs[i]) || item->steps[i] != NULL)
            return false;
    }
    return true;
}

/* The cheapest statement that can carry plain jobs. */
static struct params *add_plain(struct batch *batch, const struct pawl_job_new *jobs, size_t n)
{
    struct params *params;
    bool same = true;

    if (n == 1) {
        params = batch_add(batch, STMT(job_enqueue_one));
        if (params != NULL)
            job_enqueue_one_bind(params, jobs);
        return params;
    }
    for (size_t i = 1; same && i < n; i++)
        same = job_new_is_same(&jobs[0], &jobs[i]);
    params = batch_add(batch, same ? STMT(job_enqueue_same) : STMT(job_enqueue));
    if (params != NULL && same)
        job_enqueue_same_bind(params, jobs, n);
    else if (params != NULL)
        job_enqueue_bind(params, jobs, n);
    return params;
}

static bool fill_plain(struct flush *flush, struct batch *batch)
{
    struct accept *a = flush->accept;
    struct params *params = NULL;

    flush->n_plain = flush->n_rich = 0;
    for (size_t i = 0; i < flush->n; i++) {
        const struct accept_item *item = flush->items[i];
        bool plain = is_plain(item);

        for (size_t j = 0; j < item->n; j++) {
            if (plain)
                a->plain[flush->n_plain++] = item->jobs[j];
            else
                a->rich[flush->n_rich++] = item->jobs[j];
        }
    }
    if (flush->n_plain > 0 && add_plain(batch, a->plain, flush->n_plain) == NULL)
        return false;
    if (flush->n_rich > 0) {
        params = batch_add(batch, STMT(job_enqueue_options));
        if (params == NULL)
            return false;
        job_enqueue_options_bind(params, a->rich, flush->n_rich);
    }
    return true;
}

static bool fill_once(struct flush *flush, struct batch *batch)
{
    struct accept *a = flush->accept;
    struct params *params = batch_add(batch, STMT(tx_lock_timeout));
    size_t n = 0;
    size_t n_keys = 0;

    if (params == NULL)
        return false;
    tx_lock_timeout_bind(params, ACCEPT_LOCK_TIMEOUT);
    for (size_t i = 0; i < flush->n; i++) {
        const struct accept_item *item = flush->items[i];
        bool plain = is_plain(item);

        if (item->has_key) {
            a->key_list[n_keys] = item->key;
            a->request_list[n_keys++] = item->request;
        }
        for (size_t j = 0; j < item->n; j++, n++) {
            a->rich[n] = item->jobs[j];
            a->once[n] = item->has_key ? &item->key : NULL;
            a->steps[n] = item->steps[j];
            a->all_plain[n] = plain;
        }
    }
    flush->n_plain = 0;
    flush->n_rich = n;
    /* Sent also without keys, so that the jobs are always in the third result. */
    params = batch_add(batch, STMT(enqueue_key_take));
    if (params == NULL)
        return false;
    enqueue_key_take_bind(params, a->key_list, a->request_list, n_keys);
    params = batch_add(batch, STMT(job_enqueue_once));
    if (params == NULL)
        return false;
    job_enqueue_once_bind(params, a->rich, a->once, a->steps, a->all_plain, n);
    return true;
}

bool flush_start(struct flush *flush)
{
    struct batch *batch = batch_new(flush->accept->conn);

    if (batch == NULL)
        return false;
    if (!(flush->accept->options.once ? fill_once(flush, batch) : fill_plain(flush, batch))) {
        batch_free(batch);
        return false;
    }
    batch_submit(batch, ACCEPT_DEADLINE_MS, flush_ended, flush);
    return true;
}

/* ── what came of it ── */

static void read_plain(struct flush *flush, const struct batch_end *end)
{
    struct accept *a = flush->accept;
    const PGresult *plain = flush->n_plain > 0 ? end->results[0] : NULL;
    const PGresult *rich = flush->n_rich > 0 ? end->results[flush->n_plain > 0] : NULL;
    int64_t *rich_ids = a->ids + flush->n_plain;
    size_t at_plain = 0;
    size_t at_rich = 0;

    /* Somebody's trigger or rule on our table changed the number of rows: no row can be matched
     * to a job. */
    if ((plain != NULL && (size_t)PQntuples(plain) != flush->n_plain) ||
        (rich != NULL && (size_t)PQntuples(rich) != flush->n_rich))
        return;
    if (plain != NULL)
        job_enqueue_read(plain, a->ids, NULL);
    if (rich != NULL)
        job_enqueue_read(rich, rich_ids, a->existed);
    for (size_t i = 0; i < flush->n; i++) {
        struct accept_item *item = flush->items[i];

        /* The texts of a call that is gone are gone, but the fact that they were there is not. */
        bool from_plain = is_plain(item);

        for (size_t j = 0; j < item->n; j++) {
            item->ids[j] = from_plain ? a->ids[at_plain] : rich_ids[at_rich];
            item->existed[j] = !from_plain && a->existed[at_rich];
            at_plain += from_plain;
            at_rich += !from_plain;
            item->n_answers++;
        }
    }
}

/* Rows of one key stand together, so the last item that was found is nearly always the right
 * one. */
static struct accept_item *find_key(const struct flush *flush, const struct uuid *key, size_t *hint)
{
    for (size_t k = 0; k < flush->n; k++) {
        size_t i = (*hint + k) % flush->n;
        struct accept_item *item = flush->items[i];

        if (item->has_key && memcmp(&item->key, key, sizeof(*key)) == 0) {
            *hint = i;
            return item;
        }
    }
    return NULL;
}

static void read_once(struct flush *flush, const struct batch_end *end)
{
    const PGresult *rows = end->results[2];
    struct accept *a = flush->accept;
    size_t at = 0;
    size_t hint = 0;

    /* `ids` is first the table of where each job of the statement belongs. */
    memset(a->ids, 0, sizeof(a->ids));
    for (int row = 0; row < PQntuples(rows); row++) {
        struct job_once once;

        job_enqueue_once_row(rows, row, &once);
        if (!once.replay) {
            assert(once.i < flush->n_rich);
            a->ids[once.i] = once.id;
            a->existed[once.i] = once.existed;
            continue;
        }
        struct accept_item *item = find_key(flush, &once.key, &hint);

        if (item == NULL)
            continue;
        item->replayed = true;
        if (once.i >= item->n || memcmp(&once.request, &item->request, sizeof(once.request)) != 0) {
            item->mismatch = true;
            continue;
        }
        item->ids[once.i] = once.id;
        item->existed[once.i] = once.existed;
        item->n_answers++;
    }
    for (size_t i = 0; i < flush->n; i++) {
        struct accept_item *item = flush->items[i];

        for (size_t j = 0; j < item->n; j++, at++) {
            if (item->replayed || a->ids[at] == 0)
                continue;
            item->ids[j] = a->ids[at];
            item->existed[j] = a->existed[at];
            item->n_answers++;
        }
    }
}

void flush_read(struct flush *flush, const struct batch_end *end)
{
    if (flush->accept->options.once)
        read_once(flush, end);
    else
        read_plain(flush, end);
}
