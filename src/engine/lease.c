/* lease: the heartbeat. */
#include "engine/lease.h"

#include <stdlib.h>
#include <string.h>

#include "store/claim.h"
#include "store/statements.h"

#define RENEWALS_PER_LEASE 3 /* two may fail before anything is lost */

static void on_timer(uv_timer_t *timer);

void lease_init(struct lease *lease, const struct lease_options *options)
{
    *lease = (struct lease){.options = *options};
    list_init(&lease->claims);
    uv_timer_init(options->loop, &lease->timer);
    lease->timer.data = lease;
}

void lease_start(struct lease *lease)
{
    uint64_t every_ms = (uint64_t)lease->options.lease_ms / RENEWALS_PER_LEASE;

    uv_timer_start(&lease->timer, on_timer, every_ms, every_ms);
}

void lease_add(struct lease *lease, struct claim *claim)
{
    list_push(&lease->claims, &claim->link);
    lease->n_claims++;
}

void lease_remove(struct lease *lease, struct claim *claim)
{
    list_remove(&claim->link);
    lease->n_claims--;
    claim_free(claim);
}

void lease_primary_moved(struct lease *lease)
{
    LIST_FOREACH(link, &lease->claims)
        LIST_ENTRY(link, struct claim, link)->left_to_lease = true;
}

void lease_deinit(struct lease *lease)
{
    while (!list_empty(&lease->claims))
        lease_remove(lease, LIST_ENTRY(lease->claims.next, struct claim, link));
}

static void lose(struct lease *lease, struct claim *claim, const char *why)
{
    char token[UUID_TEXT_LEN + 1];

    if (claim->lost)
        return;
    claim->lost = true;
    uuid_format(&claim->asked.token, token);
    log_warn(lease->options.log, "claim_lost", LOG_STR("claim", token), LOG_STR("why", why));
    lease->options.lost(lease->options.data, claim);
}

enum answer { ANSWER_LOST, ANSWER_LOCKED, ANSWER_RENEWED };

static enum answer answered(const PGresult *r, const struct uuid *token)
{
    for (int row = 0; row < PQntuples(r); row++) {
        struct uuid found = claim_renew_row(r, row);

        if (memcmp(found.bytes, token->bytes, sizeof(found.bytes)) == 0)
            return claim_renew_renewed(r, row) ? ANSWER_RENEWED : ANSWER_LOCKED;
    }
    return ANSWER_LOST;
}

/* Those whose end was asked for and that no notification told us of. */
static void hear_cancelled(struct lease *lease, const PGresult *r)
{
    for (int row = 0; row < PQntuples(r); row++) {
        const char *at = claim_renew_cancelled(r, row);

        while (at != NULL && *at != '\0') {
            char *end;
            int64_t id = strtoll(at, &end, 10);

            if (end == at)
                break;
            lease->options.cancelled(lease->options.data, id);
            at = *end == ',' ? end + 1 : end;
        }
    }
}

static void on_renewed(void *data, const struct batch_end *end)
{
    struct lease *lease = data;

    lease->renewing = false;
    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(
            lease->options.log, "claim_renew", end->err, LOG_INT("claims", lease->n_claims));
    /* Renewed by the primary is renewed: it decides who may take the jobs. After a fail-over the next renewal tells which
     * claims are left, as after any. */
    if (end->verdict != PG_VERDICT_OK && !end->unconfirmed)
        return;
    lease->options.stats->renewals++;
    latency_add(&lease->options.stats->renew, end->took_us);
    LIST_FOREACH_SAFE(link, after, &lease->claims) {
        struct claim *claim = LIST_ENTRY(link, struct claim, link);

        if (!claim->renewing)
            continue;
        enum answer answer = answered(end->results[0], &claim->asked.token);

        if (answer == ANSWER_RENEWED)
            claim->renewed_us = lease->sent_us;
        else if (answer == ANSWER_LOST &&
                 claim->n_unsent > 0) /* else its last settle may have ended it */
            lose(lease, claim, "the database no longer knows it");
    }
    hear_cancelled(lease, end->results[0]);
}

/* Claims that nothing has renewed for a whole lease. */
static void give_up_old(struct lease *lease, int64_t now_us)
{
    LIST_FOREACH_SAFE(link, after, &lease->claims) {
        struct claim *claim = LIST_ENTRY(link, struct claim, link);

        if (now_us - claim->renewed_us > lease->options.lease_ms * US_PER_MS)
            lose(lease, claim, "it could not be renewed in time");
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct lease *lease = timer->data;
    int64_t now_us = clock_mono_us(lease->options.clock);

    give_up_old(lease, now_us);
    if (lease->renewing)
        return;

    struct batch *batch = batch_new(lease->options.conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(claim_renew)) : NULL;
    struct uuid *tokens =
        params != NULL ? arena_new_array(params->arena, lease->n_claims + 1, struct uuid) : NULL;

    if (tokens == NULL) {
        batch_free(batch);
        return;
    }
    struct worker_beat beat = {0};
    size_t n = 0;

    LIST_FOREACH(link, &lease->claims) {
        struct claim *claim = LIST_ENTRY(link, struct claim, link);

        claim->renewing = !claim->lost;
        if (claim->renewing)
            tokens[n++] = claim->asked.token;
    }
    lease->options.beat(lease->options.data, &beat);
    claim_renew_bind(params, &lease->options.worker, tokens, n, lease->options.lease_ms, &beat);
    lease->renewing = true;
    lease->sent_us = now_us;
    /* Shorter than the pause: one that has to be cancelled is over before the next is due. */
    batch_submit(batch, lease->options.lease_ms / (RENEWALS_PER_LEASE + 1), on_renewed, lease);
}
