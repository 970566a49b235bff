/* settle: gathering outcomes into statements, and what to do when one fails. */
#include "engine/settle.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/statements.h"

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 2000
#define TRIES_MAX    2 /* as it is, then as a failure; after that the lease has to sort it out */

static void flush(struct settle *settle);

static void on_retry(uv_timer_t *timer)
{
    flush(timer->data);
}

void settle_init(struct settle *settle, const struct settle_options *options)
{
    *settle = (struct settle){.options = *options, .retry_ms = RETRY_MIN_MS};
    list_init(&settle->waiting);
    uv_timer_init(options->loop, &settle->retry);
    settle->retry.data = settle;
}

void settle_deinit(struct settle *settle)
{
    while (!list_empty(&settle->waiting))
        slot_free(slot_of_link(settle->waiting.next));
    for (size_t i = 0; i < settle->n_flying; i++)
        slot_free(settle->flying[i]);
    settle->n_waiting = settle->n_flying = 0;
}

/* Moves what fits into one statement from waiting to flying, and fills in the tokens of the claims
 * it ends. */
static size_t gather(struct settle *settle, struct uuid *ended)
{
    size_t most = settle->alone ? 1 : SETTLE_BATCH_MAX;
    size_t bytes = 0;
    size_t n = 0;
    size_t n_ended = 0;

    while (n < most && !list_empty(&settle->waiting)) {
        struct slot *slot = slot_of_link(settle->waiting.next);

        bytes += slot->item.outcome.result_len;
        if (n > 0 && bytes > SETTLE_BYTES_MAX)
            break;
        list_remove(&slot->link);
        settle->flying[n++] = slot;
        assert(slot->claim->n_unsent > 0);
        if (--slot->claim->n_unsent == 0)
            ended[n_ended++] = slot->claim->asked.token;
    }
    settle->n_waiting -= n;
    settle->n_flying = n;
    return n_ended;
}

/* A flush that had no effect, or none that we know of: everything waits again, in the order it was.
 */
static void ungather(struct settle *settle, bool resent)
{
    while (settle->n_flying > 0) {
        struct slot *slot = settle->flying[--settle->n_flying];

        slot->claim->n_unsent++;
        slot->resent |= resent;
        list_unshift(&settle->waiting, &slot->link);
        settle->n_waiting++;
    }
}

static void on_committed(struct settle *settle, const PGresult *r)
{
    struct slot *flying[SETTLE_BATCH_MAX];
    size_t n = settle->n_flying;

    /* The callbacks below may fill `flying` anew. */
    memcpy(flying, settle->flying, n * sizeof(*flying));
    settle->n_flying = 0;
    settle->retry_ms = RETRY_MIN_MS;
    for (int row = 0; row < PQntuples(r); row++) {
        size_t i;
        const char *state;

        job_settle_row(r, row, &i, &state);
        assert(i < n && flying[i] != NULL);
        settle->options.settled(settle->options.data, flying[i], state);
        flying[i] = NULL;
    }
    /* What is missing from the answer was no longer ours. */
    for (size_t i = 0; i < n; i++) {
        if (flying[i] != NULL)
            settle->options.settled(settle->options.data, flying[i], NULL);
    }
    if (settle->n_waiting == 0)
        settle->alone = false;
}

/* The database refuses this outcome as it is, and would again: the job fails with that as its
 * error. */
static void on_refused(struct settle *settle, const struct pawl_err *err)
{
    struct slot *slot = slot_of_link(settle->waiting.next);
    char error[1200];

    log_error_err(settle->options.log,
                  "job_settle",
                  err,
                  LOG_INT("job", slot->item.id),
                  LOG_INT("try", slot->tries));
    if (++slot->tries < TRIES_MAX) {
        snprintf(error, sizeof(error), "the outcome could not be stored: %s", err->message);
        slot_finish(slot,
                    &(struct outcome){
                        .kind = OUTCOME_FAIL,
                        .error = error,
                        .delay_ms = -1,
                        .run_us = slot->item.outcome.run_us,
                    });
        return;
    }
    /* Given up. It is never sent, so no settle ends its claim: once the other jobs of the claim are
     * over nothing renews it, the lease runs out and the sweeper takes the job back. */
    list_remove(&slot->link);
    settle->n_waiting--;
    settle->options.settled(settle->options.data, slot, NULL);
}

static void on_flushed(void *data, const struct batch_end *end)
{
    struct settle *settle = data;

    if (end->verdict == PG_VERDICT_OK) {
        on_committed(settle, end->results[0]);
        flush(settle);
        return;
    }
    bool single = settle->n_flying == 1;

    ungather(settle, end->verdict == PG_VERDICT_UNKNOWN);
    if (end->verdict == PG_VERDICT_PERMANENT && end->err->code != PAWL_ESCHEMA &&
        end->err->code != PAWL_EREADONLY && end->err->code != PAWL_EDENIED) {
        if (single)
            on_refused(settle, end->err);
        settle->alone = true;
        flush(settle);
        return;
    }
    log_warn_err(
        settle->options.log, "job_settle", end->err, LOG_INT("waiting", settle->n_waiting));
    uv_timer_start(&settle->retry, on_retry, (uint64_t)settle->retry_ms, 0);
    settle->retry_ms = settle->retry_ms * 2 < RETRY_MAX_MS ? settle->retry_ms * 2 : RETRY_MAX_MS;
}

static void flush(struct settle *settle)
{
    const struct job_settle *items[SETTLE_BATCH_MAX];
    struct uuid ended[SETTLE_BATCH_MAX];

    if (settle->n_flying > 0 || settle->n_waiting == 0 ||
        uv_is_active((uv_handle_t *)&settle->retry))
        return;

    struct batch *batch = batch_new(settle->options.conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_settle)) : NULL;

    if (params == NULL) {
        /* Full or out of memory: back-pressure. Look again shortly. */
        batch_free(batch);
        uv_timer_start(&settle->retry, on_retry, RETRY_MIN_MS, 0);
        return;
    }
    size_t n_ended = gather(settle, ended);

    for (size_t i = 0; i < settle->n_flying; i++)
        items[i] = &settle->flying[i]->item;
    job_settle_bind(params, items, settle->n_flying, settle->options.worker, ended, n_ended);
    batch_submit(batch, SETTLE_DEADLINE_MS, on_flushed, settle);
}

void settle_add(struct settle *settle, struct slot *slot)
{
    list_push(&settle->waiting, &slot->link);
    settle->n_waiting++;
    flush(settle);
}
