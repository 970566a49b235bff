/*
 * claim: where jobs are claimed. One claim is on the wire at a time, for as many jobs as there is
 * room for, from one queue by equality, the queues taking turns. The jobs are handed on only when
 * the claim's commit is known.
 */
#include <string.h>

#include "engine/coordinator_internal.h"
#include "store/statements.h"

#define CLAIM_DEADLINE_MS  10000
#define CLAIM_ERROR_MIN_MS 100
#define CLAIM_ERROR_MAX_MS 5000
#define UNSETTLED_MAX \
    8000 /* outcomes waiting for a slow database before no more work is taken on */
#define SETTLE_SLOW_SHARE 3 /* a settle that takes a third of a lease is a database in trouble */

static void on_backoff_over(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows looks */
}

static void back_off(struct coordinator *c)
{
    if (c->backoff_ms < CLAIM_ERROR_MIN_MS)
        c->backoff_ms = CLAIM_ERROR_MIN_MS;
    uv_timer_start(&c->backoff_timer, on_backoff_over, (uint64_t)c->backoff_ms, 0);
    c->backoff_ms = c->backoff_ms * 2 < CLAIM_ERROR_MAX_MS ? c->backoff_ms * 2 : CLAIM_ERROR_MAX_MS;
}

/* To the settle without having been run. */
static void give_back(struct coordinator *c, struct slot *slot, const struct outcome *outcome)
{
    list_remove(&slot->link);
    slot_finish(slot, outcome);
    settle_add(&c->settle, slot);
}

void coordinator_release_buffered(struct coordinator *c)
{
    while (!list_empty(&c->buffered)) {
        c->n_buffered--;
        give_back(c,
                  slot_of_link(c->buffered.next),
                  &(struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1});
    }
}

static void hand_out(struct coordinator *c, struct slot *slot)
{
    struct pawl_err err = {0};

    list_remove(&slot->link);
    c->n_buffered--;
    list_push(&c->running, &slot->link);
    c->n_running++;
    if (c->options.hands->ops->run(c->options.hands, &slot->run, &err) == 0) {
        if (c->options.started != NULL)
            c->options.started(c->options.data, &slot->run.job);
        return;
    }
    log_error_err(c->options.log, "job_run", &err, LOG_INT("job", slot->run.job.id));
    c->n_running--;
    give_back(
        c, slot, &(struct outcome){.kind = OUTCOME_RETRY, .error = err.message, .delay_ms = -1});
}

void coordinator_dispatch(struct coordinator *c)
{
    struct hands *hands = c->options.hands;
    size_t most = c->options.concurrency + hands->queue_max;
    bool any = false;

    while (c->state == COORDINATOR_WORKING && c->n_running < most && !list_empty(&c->buffered)) {
        hand_out(c, slot_of_link(c->buffered.next));
        any = true;
    }
    if (any && hands->ops->flush != NULL)
        hands->ops->flush(hands);
}

static void on_jobs(struct coordinator *c, struct claim *claim, const struct batch_end *end)
{
    PGresult *r = batch_take_result(end, 0);

    if (claim_fill(claim, r) < 0) {
        /* They stay claimed in our name until the lease runs out. */
        log_error(c->options.log,
                  "job_claim",
                  LOG_INT("jobs", PQntuples(r)),
                  LOG_STR("why", "out of memory"));
        PQclear(r);
        claim_free(claim);
        back_off(c);
        return;
    }
    c->stats.claimed += claim->n_slots;
    lease_add(&c->lease, claim);
    for (size_t i = 0; i < claim->n_slots; i++) {
        list_push(&c->buffered, &claim->slots[i].link);
        c->n_buffered++;
    }
    if (c->state == COORDINATOR_WORKING)
        waker_busy(&c->waker);
    else
        coordinator_release_buffered(c);
}

static void on_claim_error(struct coordinator *c, const struct batch_end *end)
{
    c->stats.claim_errors++;
    log_warn_err(
        c->options.log, "job_claim", end->err, LOG_STR("queue", c->scans[c->asking_queue].queue));
    back_off(c);
}

static void on_claimed(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct claim *claim = c->asking;
    struct scan *scan = &c->scans[c->asking_queue];

    c->asking = NULL;
    if (end->verdict != PG_VERDICT_OK) {
        /* Even if it was committed: nobody holds its token, so the lease runs out and the sweeper
         * finds it. */
        claim_free(claim);
        if (c->state == COORDINATOR_WORKING)
            on_claim_error(c, end);
        return;
    }
    int n = PQntuples(end->results[0]);

    c->backoff_ms = 0;
    c->stats.claims++;
    c->stats.empty_claims += n == 0;
    c->stats.short_claims += n < claim->asked.limit;
    latency_add(&c->stats.claim, end->took_us);
    /* A call that came while we were asking is about something we may not have seen. */
    scan_claimed(scan,
                 end->results[0],
                 c->asking_full,
                 claim->asked.limit,
                 end->took_us,
                 clock_mono_us(c->options.clock));
    if (c->called_while_asking)
        scan_wake(scan);
    if (n == 0) {
        claim_free(claim);
        return;
    }
    on_jobs(c, claim, end);
    /* Not left to the end of the turn, which first hands out what came: the connection sends what
     * is submitted here right after this callback, and the database works meanwhile. */
    coordinator_pump(c);
}

static size_t count_kinds(const char *const *kinds)
{
    size_t n = 0;

    while (kinds[n] != NULL)
        n++;
    return n;
}

static void ask(struct coordinator *c, size_t queue, size_t room)
{
    const char *const *kinds = c->options.hands->ops->kinds(c->options.hands);
    struct scan *scan = &c->scans[queue];
    int64_t now_us = clock_mono_us(c->options.clock);
    struct job_claim asked = {
        .queue = scan->queue,
        .kinds = kinds,
        .n_kinds = count_kinds(kinds),
        .limit = (int32_t)(room < COORDINATOR_CLAIM_MAX ? room : COORDINATOR_CLAIM_MAX),
        .token = uuid_random(),
        .worker = c->worker,
        .lease_ms = c->options.lease_ms,
    };
    struct batch *batch = batch_new(c->claim_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(job_claim)) : NULL;

    c->asking_full = scan_from(scan, now_us, asked.from);
    c->asking = params != NULL ? claim_new(&asked) : NULL;
    if (c->asking == NULL) {
        batch_free(batch);
        back_off(c);
        return;
    }
    /* By our clock the lease begins before the database even hears of it: that errs on the safe
     * side. */
    c->asking->renewed_us = now_us;
    c->asking_queue = queue;
    c->called_while_asking = false;
    c->stats.full_scans += c->asking_full;
    job_claim_bind(params, &c->asking->asked);
    batch_submit(batch, CLAIM_DEADLINE_MS, on_claimed, c);
}

/* The next queue in turn that is not known to be empty. */
static bool pick_queue(struct coordinator *c, size_t *ret_queue)
{
    for (size_t i = 0; i < c->options.n_queues; i++) {
        size_t queue = (c->next_queue + i) % c->options.n_queues;

        if (!c->scans[queue].empty) {
            c->next_queue = (queue + 1) % c->options.n_queues;
            *ret_queue = queue;
            return true;
        }
    }
    return false;
}

bool coordinator_all_empty(const struct coordinator *c)
{
    for (size_t i = 0; i < c->options.n_queues; i++) {
        if (!c->scans[i].empty)
            return false;
    }
    return true;
}

/* What the database still owes us must not grow, and must be paid before leases run out. */
static bool is_database_behind(const struct coordinator *c)
{
    int64_t slow_us = c->options.lease_ms * US_PER_MS / SETTLE_SLOW_SHARE;

    if (settle_pending(&c->settle) >= UNSETTLED_MAX)
        return true;
    return c->settle.since_us != 0 &&
           clock_mono_us(c->options.clock) - c->settle.since_us > slow_us;
}

void coordinator_pump(struct coordinator *c)
{
    size_t most = c->options.concurrency + c->options.prefetch;
    size_t busy = c->n_running + c->n_buffered;
    size_t queue;

    if (c->state != COORDINATOR_WORKING || c->asking != NULL ||
        uv_is_active((uv_handle_t *)&c->backoff_timer))
        return;
    /* Full: the next job that ends brings us back. */
    if (busy >= most || (busy > 0 && most - busy < c->options.min_demand) || is_database_behind(c))
        return;
    if (pick_queue(c, &queue)) {
        c->idle = false;
        ask(c, queue, most - busy);
    } else if (!c->idle && !c->options.until_empty) {
        /* Once per time that we run dry. */
        c->idle = true;
        waker_idle(&c->waker);
    }
}

void coordinator_look(void *data)
{
    struct coordinator *c = data;

    for (size_t i = 0; i < c->options.n_queues; i++)
        scan_wake(&c->scans[i]);
    c->called_while_asking = true;
    c->idle = false;
}

void coordinator_on_notify(void *data, const char *channel, const char *payload)
{
    struct coordinator *c = data;

    if (channel == NULL) {
        /* We may have missed some. */
        coordinator_look(c);
        return;
    }
    for (size_t i = 0; i < c->options.n_queues; i++) {
        if (strcmp(c->scans[i].queue, payload) != 0)
            continue;
        scan_wake(&c->scans[i]);
        c->called_while_asking |= c->asking != NULL && c->asking_queue == i;
        /* Many sleepers hear the same call; those who come a moment later find it answered. */
        if (c->idle && c->options.jitter_ms > 0)
            uv_timer_start(&c->backoff_timer,
                           on_backoff_over,
                           rand_below((uint64_t)c->options.jitter_ms + 1),
                           0);
        c->idle = false;
        c->stats.notify_wakeups++;
    }
}
