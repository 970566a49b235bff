/*
 * claim: where jobs are claimed. One claim is on the wire at a time, for as many jobs as there is
 * room for, from one queue by equality, the queues taking turns. The jobs are handed on only when
 * the claim's commit is known.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/coordinator_internal.h"
#include "store/statements.h"

#define CLAIM_DEADLINE_MS  10000
#define CLAIM_ERROR_MIN_MS 100
#define CLAIM_ERROR_MAX_MS 5000
#define UNSETTLED_MAX \
    8000 /* outcomes waiting for a slow database before no more work is taken on */
/* Jobs of a lane that are claimed together: at most so many, and not more than run in so long. */
#define TOGETHER_MAX      32
#define TOGETHER_US       (50 * US_PER_MS)
#define TOGETHER_FIRST    8 /* while it is not known how long they run */
#define SETTLE_SLOW_SHARE 3 /* a settle that takes a third of a lease is a database in trouble */

static void on_backoff_over(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows looks */
}

void coordinator_back_off(struct coordinator *c)
{
    if (c->backoff_ms < CLAIM_ERROR_MIN_MS)
        c->backoff_ms = CLAIM_ERROR_MIN_MS;
    uv_timer_start(&c->backoff_timer, on_backoff_over, (uint64_t)c->backoff_ms, 0);
    c->backoff_ms = c->backoff_ms * 2 < CLAIM_ERROR_MAX_MS ? c->backoff_ms * 2 : CLAIM_ERROR_MAX_MS;
}

void coordinator_on_started(void *data, struct run *run)
{
    struct coordinator *c = data;
    struct slot *slot = slot_of_run(run);

    if (run->job.timeout_ms > 0)
        slot->started_us = clock_mono_us(c->options.clock);
    slot->told = slot->overran = false; /* a machine comes by more than once */
    if (c->options.started != NULL)
        c->options.started(c->options.data, &run->job);
}

/* This process lacks what a start needs: the job goes back with its attempt, and so do those behind
 * it, for others to run. Nothing is claimed for a while. */
static void be_short(struct coordinator *c, struct slot *slot)
{
    int64_t ms = CLAIM_ERROR_MIN_MS;

    for (unsigned i = 1; i < c->slots.n_short && ms < CLAIM_ERROR_MAX_MS; i++)
        ms *= 2;
    if (ms > CLAIM_ERROR_MAX_MS)
        ms = CLAIM_ERROR_MAX_MS;
    uv_timer_start(&c->backoff_timer, on_backoff_over, (uint64_t)ms, 0);
    coordinator_release(c, slot);
    coordinator_release_buffered(c);
}

bool coordinator_on_not_started(void *data, struct run *run, struct pawl_err *err)
{
    struct coordinator *c = data;
    struct slot *slot = slot_of_run(run);

    if (hands_are_short(err)) {
        be_short(c, slot);
        return false;
    }
    log_error_err(c->options.log, "job_run", err, LOG_INT("job", run->job.id));
    coordinator_settle(
        c, slot, &(struct outcome){.kind = OUTCOME_RETRY, .error = err->message, .delay_ms = -1});
    coordinator_pass_lane(c, slot);
    return true;
}

void coordinator_dispatch(struct coordinator *c)
{
    size_t most = c->pulse.tuner.now;

    /* Hands have their full number of threads whatever we allow: runs that waited in them would be
     * started beyond it. */
    if (most == c->pulse.tuner.options.max)
        most += c->options.hands->queue_max;
    if (c->state == COORDINATOR_WORKING)
        slots_dispatch(&c->slots, most);
    c->pulse.window.full |= c->slots.n[SLOT_RUNNING] >= c->pulse.tuner.now;
}

/* Which of the answers is that of the claim: the turn's comes before it. */
static size_t claim_answer(const struct coordinator *c)
{
    return c->claiming.turn ? 1 : 0;
}

static int on_jobs(struct coordinator *c, struct claim *claim, const struct batch_end *end)
{
    PGresult *r = batch_take_result(end, claim_answer(c));

    if (claim_fill(claim, r, &c->slots) < 0) {
        /* They stay claimed in our name until the lease runs out. */
        log_error(c->options.log,
                  "job_claim",
                  LOG_INT("jobs", PQntuples(r)),
                  LOG_STR("why", "out of memory"));
        PQclear(r);
        claim_free(claim);
        coordinator_back_off(c);
        return PAWL_ENOMEM;
    }
    c->stats.claimed += claim->n_filled;
    lease_add(&c->lease, claim);
    for (size_t i = 0; i < claim->n_filled; i++) {
        if (c->claiming.probe != NULL && breaker_room(&c->pulse.breakers, c->claiming.probe) > 0)
            claim->slots[i].probe = breaker_probe(c->claiming.probe);
        claim->slots[i].run.source = c->claiming.queue;
    }
    for (size_t i = 0; i < claim->n_filled; i++) {
        struct slot *slot = &claim->slots[i];

        if (slot->run.place != SLOT_FREE) /* behind another, or seen to already */
            continue;
        if (coordinator_screen(c, slot))
            coordinator_pass_lane(c, slot);
        else
            slot_move(&c->slots, slot, SLOT_BUFFERED);
    }
    if (c->state == COORDINATOR_WORKING)
        waker_busy(&c->waker);
    if (c->state != COORDINATOR_WORKING || c->pulse.gate.closed)
        coordinator_release_buffered(c);
    else if (c->pulse.breakers.n_open > 0)
        coordinator_release_open(c);
    return 0;
}

/* The primary has committed it, and no standby has confirmed that: after a fail-over the jobs would be
 * free, and run a second time while they run here. So they are not started. They go back with their
 * attempt, by settles that are repeated until the database is known to have them. */
static void on_unconfirmed(struct coordinator *c, struct claim *claim, const struct batch_end *end)
{
    bool more;

    if (job_claim_count(end->results[claim_answer(c)], &more) == 0)
        claim_free(claim);
    else if (on_jobs(c, claim, end) == 0)
        coordinator_release_claim(c, claim);
    if (c->state != COORDINATOR_WORKING)
        return;
    c->stats.claim_errors++;
    log_warn_err(
        c->options.log, "job_claim", end->err, LOG_STR("queue", c->scans[c->claiming.queue].queue));
    coordinator_back_off(c);
}

static void on_claimed(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;
    struct claim *claim = c->claiming.claim;
    struct scan *scan = &c->scans[c->claiming.queue];

    c->claiming.claim = NULL;
    if (end->verdict != PG_VERDICT_OK) {
        /* Otherwise, if it was committed, its lease runs out and the sweeper finds it. */
        if (end->unconfirmed)
            on_unconfirmed(c, claim, end);
        else if (c->state == COORDINATOR_WORKING)
            coordinator_claim_failed(c, claim, end);
        else
            claim_free(claim);
        return;
    }
    bool more;
    const PGresult *r = end->results[claim_answer(c)];
    int n = job_claim_count(r, &more);

    c->backoff_ms = 0;
    if (c->claiming.turn) {
        bool in_time = claim_turn_row(end->results[0]);

        c->stats.missed_turns += !in_time;
        scan_turn(scan, in_time, clock_mono_us(c->options.clock));
    }
    c->stats.claims++;
    c->stats.empty_claims += n == 0 && !more;
    c->stats.short_claims += n < claim->asked.limit;
    latency_add(&c->stats.claim, end->took_us);
    /* Probes are looked for from the beginning and leave the mark of the others alone. */
    if (c->claiming.probe != NULL) {
        breaker_looked(c->claiming.probe, n > 0, c->n_scans, clock_mono_us(c->options.clock));
    } else {
        scan_claimed(scan,
                     r,
                     c->claiming.full,
                     claim->asked.limit,
                     end->took_us,
                     clock_mono_us(c->options.clock));
    }
    scan_succeeded(scan, COORDINATOR_CLAIM_MAX);
    /* A call that came while the claim was on the wire is about something we may not have seen. */
    if (c->claiming.called)
        scan_wake(scan);
    if (n == 0) {
        claim_free(claim);
        return;
    }
    bool last = n < claim->asked.limit;

    (void)on_jobs(c, claim, end);
    /* Not left to the end of the turn: the connection sends what is submitted here right after this
     * callback. As long as there are more the database works while these are handed out; but a job
     * that came alone should not wait for a question about others. */
    if (last)
        coordinator_dispatch(c);
    coordinator_pump(c);
}

static size_t count_kinds(const char *const *kinds)
{
    size_t n = 0;

    while (kinds[n] != NULL)
        n++;
    return n;
}

const char *const *coordinator_kinds(struct coordinator *c, const struct scan *scan, size_t *ret_n)
{
    const char *const *kinds =
        scan != NULL ? scan->kinds : c->options.hands->ops->kinds(c->options.hands);
    size_t n = scan != NULL ? scan->n_kinds : count_kinds(kinds);

    *ret_n = n;
    if (c->pulse.breakers.n_open == 0)
        return kinds;
    if (c->kinds_size < n) {
        const char **larger = realloc(c->kinds, n * sizeof(*larger));

        if (larger == NULL) {
            *ret_n = 0;
            return kinds;
        }
        c->kinds = larger;
        c->kinds_size = n;
    }
    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct breaker *b = breakers_find(&c->pulse.breakers, kinds[i]);

        if (b == NULL || b->state == BREAKER_CLOSED)
            c->kinds[(*ret_n)++] = kinds[i];
    }
    return c->kinds;
}

static void from_beginning(struct job_watermark from[JOB_PRIORITIES])
{
    for (size_t i = 0; i < JOB_PRIORITIES; i++)
        from[i] = (struct job_watermark){.due_us = INT64_MIN};
}

/* How many of a lane are claimed together. They are run one after the other, which they would be
 * anywhere; but somebody more urgent may come meanwhile, so they should not take long. */
static int32_t together(const struct coordinator *c, const struct scan *scan)
{
    const struct quantile *recent = &c->pulse.recent[c->pulse.recent[0].n == 0];
    int64_t took_us;

    /* Whether hands with several sources have room for the next of a lane when its turn comes, nobody knows. */
    if (c->options.hands->ops->room != NULL || !scan->mostly_lanes)
        return 1;
    if (recent->n == 0)
        return TOGETHER_FIRST;
    took_us = quantile_at(recent, 500);
    if (took_us * TOGETHER_MAX <= TOGETHER_US)
        return TOGETHER_MAX;
    return took_us < TOGETHER_US ? (int32_t)(TOGETHER_US / took_us) : 1;
}

/* Room for so many jobs becomes room for fewer lanes, but never for fewer than there are free hands. */
static void claim_together(struct coordinator *c, struct job_claim *asked, size_t room)
{
    size_t now = c->pulse.tuner.now;
    size_t at_work = c->slots.n[SLOT_RUNNING] + c->slots.n[SLOT_BUFFERED];
    size_t free_hands = now > at_work ? now - at_work : 0;

    room = room > c->slots.n[SLOT_BEHIND] ? room - c->slots.n[SLOT_BEHIND] : 0;
    if (room > COORDINATOR_CLAIM_MAX)
        room = COORDINATOR_CLAIM_MAX;
    if (room / (size_t)asked->together >= free_hands) {
        asked->limit = (int32_t)(room / (size_t)asked->together);
    } else if (free_hands < COORDINATOR_CLAIM_MAX) {
        asked->limit = (int32_t)free_hands;
        asked->together = room > free_hands ? (int32_t)(room / free_hands) : 1;
    } else {
        asked->limit = COORDINATOR_CLAIM_MAX;
        asked->together = 1;
    }
    if (asked->limit < 1)
        asked->limit = 1;
}

static bool add_turn(struct batch *batch, const char *queue)
{
    struct params *params = batch_add(batch, STMT(claim_turn));

    if (params != NULL)
        claim_turn_bind(params, queue);
    return params != NULL;
}

/* Where it starts, whether it looks for lanes, and how many of a lane may come together. */
static void start_from(struct coordinator *c,
                       struct scan *scan,
                       size_t room,
                       const struct breaker *probe,
                       int64_t now_us,
                       struct job_claim *asked)
{
    if (probe != NULL)
        from_beginning(asked->from);
    else
        c->claiming.full = scan_from(scan, now_us, asked->from);
    scan_lane_from(scan, probe != NULL || c->claiming.full, asked->lane_from);
    asked->lanes = probe != NULL || scan_with_lanes(scan, c->claiming.full, &asked->limit);
    asked->together =
        asked->lanes && probe == NULL && scan->again.most == 0 ? together(c, scan) : 1;
    if (asked->together > 1)
        claim_together(c, asked, room);
}

/* probe: the kind is the one of this breaker, and is looked for from the beginning; else NULL. */
static void send_claim(struct coordinator *c,
                       size_t queue,
                       size_t room,
                       const char *const *kinds,
                       size_t n_kinds,
                       struct breaker *probe)
{
    struct scan *scan = &c->scans[queue];
    int64_t now_us = clock_mono_us(c->options.clock);
    struct job_claim asked = {
        .queue = scan->queue,
        .kinds = kinds,
        .n_kinds = n_kinds,
        .limit = (int32_t)(room < COORDINATOR_CLAIM_MAX ? room : COORDINATOR_CLAIM_MAX),
        .token = uuid_random(),
        .worker = c->worker,
        .lease_ms = c->options.lease_ms,
    };
    struct batch *batch = batch_new(c->claim_conn);

    asked.limit = scan_most(scan, asked.limit);
    c->claiming = (struct claiming){.queue = queue, .probe = probe};
    if (probe != NULL ||
        (!scan_repeat(scan, &asked, &c->claiming.full) && !scan_strays(scan, &asked)))
        start_from(c, scan, room, probe, now_us, &asked);

    c->claiming.turn =
        probe == NULL && scan_takes_turn(scan, c->claiming.full, asked.limit, now_us);

    const struct stmt *stmt = asked.lanes ? STMT(job_claim_lanes) : STMT(job_claim);
    bool ready = batch != NULL && (!c->claiming.turn || add_turn(batch, scan->queue));
    struct params *params = ready ? batch_add(batch, stmt) : NULL;

    c->claiming.claim = params != NULL ? claim_new(&asked) : NULL;
    if (c->claiming.claim == NULL) {
        batch_free(batch);
        coordinator_back_off(c);
        return;
    }
    /* By our clock the lease begins before the database even hears of it: that errs on the safe
     * side. */
    c->claiming.claim->renewed_us = now_us;
    c->stats.full_scans += probe != NULL || c->claiming.full;
    job_claim_bind(params, &c->claiming.claim->asked);
    c->claiming.claim->asked.kinds = NULL; /* sent; the list may change now */
    c->claiming.claim->asked.n_kinds = 0;
    batch_submit(batch, CLAIM_DEADLINE_MS, on_claimed, c);
}

/* The next queue in turn that is not known to be empty. */
static bool pick_queue(struct coordinator *c, size_t *ret_queue)
{
    for (size_t i = 0; i < c->n_scans; i++) {
        size_t queue = (c->next_queue + i) % c->n_scans;

        if (coordinator_marks_ready(c, queue) && !c->scans[queue].empty &&
            !c->scans[queue].again.held) {
            c->next_queue = (queue + 1) % c->n_scans;
            *ret_queue = queue;
            return true;
        }
    }
    return false;
}

/* A kind that is probed, and the queue where it is its turn to be looked for. */
static struct breaker *pick_probe(struct coordinator *c, size_t *ret_queue)
{
    int64_t now_us = clock_mono_us(c->options.clock);
    size_t pos = 0;
    struct breaker *b;

    while ((b = breakers_next(&c->pulse.breakers, &pos)) != NULL) {
        if (breaker_room(&c->pulse.breakers, b) == 0 || now_us < b->look_us)
            continue;
        *ret_queue = b->next_queue % c->n_scans;
        if (c->scans[*ret_queue].again.held)
            continue;
        return b;
    }
    return NULL;
}

static bool claim_probe(struct coordinator *c, size_t room)
{
    size_t queue;
    struct breaker *b = pick_probe(c, &queue);

    if (b == NULL)
        return false;
    const char *const kind[] = {b->kind};
    size_t most = breaker_room(&c->pulse.breakers, b);

    send_claim(c, queue, most < room ? most : room, kind, 1, b);
    return true;
}

bool coordinator_all_empty(const struct coordinator *c)
{
    for (size_t i = 0; i < c->n_scans; i++) {
        if (!c->scans[i].empty)
            return false;
    }
    return true;
}

/* What the database still owes us must not grow, and must be paid before leases run out. */
static bool is_database_behind(const struct coordinator *c)
{
    int64_t slow_us = c->options.lease_ms * US_PER_MS / SETTLE_SLOW_SHARE;

    if (coordinator_unsettled(c) >= UNSETTLED_MAX)
        return true;
    return c->settle.since_us != 0 &&
           clock_mono_us(c->options.clock) - c->settle.since_us > slow_us;
}

/* Nothing more is found for now: the waker sees to it that we hear of what comes. Once per time that we run dry. */
static void rest(struct coordinator *c)
{
    if (c->idle || c->options.until_empty || coordinator_marks_loading(c))
        return;
    c->idle = true;
    waker_idle(&c->waker);
}

/* For hands whose room differs: the next source in turn with room that is not known to be empty. */
static void pump_sources(struct coordinator *c, size_t most)
{
    bool any_room = false;

    /* What was claimed is still to be handed out, and takes room. */
    if (c->slots.n[SLOT_BUFFERED] > 0)
        return;
    for (size_t i = 0; i < c->n_scans; i++) {
        size_t source = (c->next_queue + i) % c->n_scans;
        size_t room = c->options.hands->ops->room(c->options.hands, source);
        size_t n_kinds;

        any_room |= room > 0;
        if (room == 0 || !coordinator_marks_ready(c, source) || c->scans[source].empty ||
            c->scans[source].again.held)
            continue;
        c->next_queue = (source + 1) % c->n_scans;
        c->idle = false;
        const char *const *kinds = coordinator_kinds(c, &c->scans[source], &n_kinds);

        send_claim(c, source, room < most ? room : most, kinds, n_kinds, NULL);
        return;
    }
    /* Full: the next job that ends brings us back. */
    if (any_room)
        rest(c);
}

void coordinator_pump(struct coordinator *c)
{
    size_t most = c->pulse.tuner.now + c->options.prefetch;
    size_t busy = c->slots.n[SLOT_RUNNING] + c->slots.n[SLOT_BUFFERED] + c->slots.n_sticky;
    size_t queue;
    size_t n_kinds;

    if (c->state != COORDINATOR_WORKING || c->claiming.claim != NULL || c->pulse.gate.closed ||
        uv_is_active((uv_handle_t *)&c->backoff_timer))
        return;
    /* Full: the next job that ends brings us back. */
    if (busy >= most || (busy > 0 && most - busy < c->options.min_demand) || is_database_behind(c))
        return;
    if (c->options.hands->ops->room != NULL) {
        pump_sources(c, most - busy);
        return;
    }
    if (c->pulse.breakers.n_open > 0 && claim_probe(c, most - busy))
        return;
    const char *const *kinds = coordinator_kinds(c, NULL, &n_kinds);

    /* All kinds are left alone, so for us there is nothing; the pulse looks when one may be tried
     * again. */
    if (n_kinds == 0 && c->pulse.breakers.n_open > 0) {
        for (size_t i = 0; i < c->n_scans; i++)
            c->scans[i].empty = true;
        return;
    }
    if (pick_queue(c, &queue)) {
        c->idle = false;
        send_claim(c, queue, most - busy, kinds, n_kinds, NULL);
    } else {
        rest(c);
    }
}

void coordinator_look(void *data)
{
    struct coordinator *c = data;

    for (size_t i = 0; i < c->n_scans; i++) {
        scan_wake(&c->scans[i]);
        c->scans[i].want_below = true;
    }
    c->claiming.called = true;
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
    if (payload[0] == '!') {
        coordinator_on_cancelled(c, strtoll(payload + 1, NULL, 10));
        return;
    }
    if (payload[0] == '<') {
        coordinator_marks_put_back(c, payload + 1);
        return;
    }
    if (payload[0] == '#') {
        sweeper_now(&c->sweeper);
        return;
    }
    for (size_t i = 0; i < c->n_scans; i++) {
        if (strcmp(c->scans[i].queue, payload) != 0)
            continue;
        scan_called(&c->scans[i]);
        claiming_call(c, i);
        /* Many sleepers hear the same call; those who come a moment later find it answered. */
        if (c->idle && c->options.jitter_ms > 0)
            uv_timer_start(&c->backoff_timer,
                           on_backoff_over,
                           rand_below((uint64_t)c->options.jitter_ms + 1),
                           0);
        c->idle = false;
        c->stats.notify_wakeups++;
    }
    coordinator_pump(c); /* at once, as in on_claimed */
}
