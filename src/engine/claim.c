/*
 * claim: where jobs are claimed. One claim is on the wire at a time, for as many jobs as there are
 * free slots, from one queue by equality, the queues taking turns. The jobs are handed on only when
 * the claim's commit is known.
 */
#include <stdlib.h>

#include "engine/coordinator_internal.h"
#include "store/statements.h"

#define CLAIM_DEADLINE_MS  10000
#define CLAIM_MAX          500 /* jobs in one claim: bounds memory and the time its locks are held */
#define CLAIM_ERROR_MIN_MS 200
#define CLAIM_ERROR_MAX_MS 5000
#define UNSETTLED_MAX \
    4000 /* outcomes waiting for a slow database before we stop taking on more \
          */

static void on_poll_timer(uv_timer_t *timer)
{
    coordinator_pump(timer->data);
}

static void sleep_for(struct coordinator *c, int64_t ms)
{
    uv_timer_start(&c->poll_timer, on_poll_timer, (uint64_t)ms, 0);
}

void coordinator_look_again(struct coordinator *c)
{
    c->n_empty = 0;
    c->look_again = c->asking != NULL;
    c->sleep_ms = c->options.poll_ms;
}

static int by_urgency(const void *left, const void *right)
{
    const struct slot *a = *(struct slot *const *)left;
    const struct slot *b = *(struct slot *const *)right;

    if (a->run.job.priority != b->run.job.priority)
        return a->run.job.priority > b->run.job.priority ? -1 : 1;
    return a->run.job.id < b->run.job.id ? -1 : 1;
}

/* To the hands, or straight to the settle when we are stopping or the hands cannot. */
static void hand_out(struct coordinator *c, struct slot *slot)
{
    struct pawl_err err = {0};
    struct outcome outcome = {.kind = OUTCOME_RELEASE, .delay_ms = -1};

    if (c->state == COORDINATOR_WORKING) {
        list_push(&c->running, &slot->link);
        c->n_running++;
        if (c->options.hands->ops->run(c->options.hands, &slot->run, &err) == 0) {
            if (c->options.started != NULL)
                c->options.started(c->options.data, &slot->run.job);
            return;
        }
        log_error_err(c->options.log, "job_run", &err, LOG_INT("job", slot->run.job.id));
        list_remove(&slot->link);
        c->n_running--;
        outcome.kind = OUTCOME_RETRY;
        outcome.error = err.message;
    }
    slot_finish(slot, &outcome);
    settle_add(&c->settle, slot);
}

static void on_jobs(struct coordinator *c, struct claim *claim, const PGresult *r)
{
    struct slot *slots[CLAIM_MAX];
    size_t n = 0;

    for (int row = 0; row < PQntuples(r); row++) {
        struct job job;

        job_claim_row(r, row, &claim->asked, &job);
        slots[n] = slot_new(claim, &job);
        if (slots[n] == NULL) {
            /* No memory for it: it stays claimed in our name until the lease runs out. */
            log_error(c->options.log,
                      "job_claim",
                      LOG_INT("job", job.id),
                      LOG_STR("why", "out of memory"));
            continue;
        }
        n++;
    }
    c->stats.claimed += n;
    claim->n_slots = n;
    /* One without a slot is never sent, so no settle ends the claim and the sweeper still finds it.
     */
    claim->n_unsent = (size_t)PQntuples(r);
    if (n == 0) {
        free(claim);
        return;
    }
    lease_add(&c->lease, claim);
    qsort(slots, n, sizeof(*slots), by_urgency);
    for (size_t i = 0; i < n; i++)
        hand_out(c, slots[i]);
}

static void on_claim_error(struct coordinator *c, const struct batch_end *end)
{
    c->stats.claim_errors++;
    log_warn_err(
        c->options.log, "job_claim", end->err, LOG_STR("queue", c->options.queues[c->next_queue]));
    if (c->sleep_ms < CLAIM_ERROR_MIN_MS)
        c->sleep_ms = CLAIM_ERROR_MIN_MS;
    sleep_for(c, c->sleep_ms);
    c->sleep_ms = c->sleep_ms * 2 < CLAIM_ERROR_MAX_MS ? c->sleep_ms * 2 : CLAIM_ERROR_MAX_MS;
}

static void on_claimed(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct claim *claim = c->asking;

    c->asking = NULL;
    if (end->verdict != PG_VERDICT_OK) {
        /* Even if it was committed: nobody holds its token, so the lease runs out and the sweeper
         * finds it. */
        free(claim);
        if (c->state == COORDINATOR_WORKING)
            on_claim_error(c, end);
        coordinator_check_end(c);
        return;
    }
    c->stats.claims++;
    c->next_queue = (c->next_queue + 1) % c->options.n_queues;
    if (PQntuples(end->results[0]) == 0) {
        c->stats.empty_claims++;
        c->n_empty = c->look_again ? 0 : c->n_empty + 1;
        c->look_again = false;
        free(claim);
    } else {
        coordinator_look_again(c);
        on_jobs(c, claim, end->results[0]);
    }
    coordinator_pump(c);
    coordinator_check_end(c);
}

static size_t count_kinds(const char *const *kinds)
{
    size_t n = 0;

    while (kinds[n] != NULL)
        n++;
    return n;
}

static void ask(struct coordinator *c, size_t free_slots)
{
    const char *const *kinds = c->options.hands->ops->kinds(c->options.hands);
    struct claim *claim = calloc(1, sizeof(*claim));
    struct batch *batch = batch_new(c->claim_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_claim)) : NULL;

    if (claim == NULL || params == NULL) {
        free(claim);
        batch_free(batch);
        sleep_for(c, CLAIM_ERROR_MIN_MS);
        return;
    }
    list_init(&claim->link);
    claim->asked = (struct job_claim){
        .queue = c->options.queues[c->next_queue],
        .kinds = kinds,
        .n_kinds = count_kinds(kinds),
        .limit = (int32_t)(free_slots < CLAIM_MAX ? free_slots : CLAIM_MAX),
        .token = uuid_random(),
        .worker = c->worker,
        .lease_ms = c->options.lease_ms,
    };
    /* By our clock the lease begins before the database even hears of it: that errs on the safe
     * side. */
    claim->renewed_us = clock_mono_us(c->options.clock);
    job_claim_bind(params, &claim->asked);
    c->asking = claim;
    batch_submit(batch, CLAIM_DEADLINE_MS, on_claimed, c);
}

void coordinator_pump(struct coordinator *c)
{
    if (c->state != COORDINATOR_WORKING || c->asking != NULL ||
        uv_is_active((uv_handle_t *)&c->poll_timer))
        return;
    /* Full: the next job that ends wakes us. */
    if (c->n_running >= c->options.concurrency || settle_pending(&c->settle) >= UNSETTLED_MAX)
        return;
    if (c->n_empty < c->options.n_queues) {
        ask(c, c->options.concurrency - c->n_running);
        return;
    }
    /* A whole round without work. */
    if (c->options.until_empty) {
        coordinator_check_end(c);
        return;
    }
    c->n_empty = 0;
    sleep_for(c, c->sleep_ms);
    c->sleep_ms =
        c->sleep_ms * 2 < c->options.poll_max_ms ? c->sleep_ms * 2 : c->options.poll_max_ms;
}
