/*
 * away: jobs between servers: jobs whose workers left (held_put), jobs that workers bring along
 * (held_take), and reports of jobs that another server claimed (job_held, then the coordinator's
 * settle). One transaction is under way at a time, and work that comes meanwhile shares the next: a
 * thousand workers that come over at once cost a few transactions.
 */
#include <stdlib.h>

#include "serve/dispatch/dispatch_internal.h"
#include "store/statements.h"

#define RETRY_MS  200
#define BATCH_MAX 5000 /* jobs in one statement, unless a single worker brings more */

static void on_retry(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows sends it again */
}

void away_take(struct dispatch *d, struct take *take)
{
    list_push(&d->takes, &take->link);
}

void away_look_up(struct dispatch *d, struct lookup *lookup)
{
    list_push(&d->lookups, &lookup->link);
}

/* ── jobs whose workers left ── */

static int64_t left_ms(const struct dispatch *d, const struct stream_run *run)
{
    int64_t gone_ms = (dispatch_now_us() - run->seen_us) / US_PER_MS;
    int64_t lease_ms = d->options.lease_ms;

    return gone_ms < lease_ms ? lease_ms - gone_ms : 0;
}

/* When a leaving run is written to pawl.held, by the steady clock. Not at once: the worker may
 * come back, or say that the job never arrived. A run whose lease is over is due now. */
static int64_t due_us(const struct dispatch *d, const struct stream_run *run)
{
    int64_t share_us = d->options.lease_ms * US_PER_MS / LINGER_SHARE;

    if (d->draining)
        return 0;
    return run->left_us + (share_us < LINGER_MAX_US ? share_us : LINGER_MAX_US);
}

static void on_lingered(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows sends it */
}

/* Whether the first leaving run is due, and so whether any is; otherwise the timer is set for
 * it. */
static bool any_due(struct dispatch *d)
{
    const struct list *leaving = &d->streams.leaving;
    int64_t wait_us;

    if (list_empty(leaving))
        return false;
    wait_us = due_us(d, LIST_ENTRY(leaving->next, struct stream_run, link)) - dispatch_now_us();
    if (wait_us <= 0)
        return true;
    if (!uv_is_active((uv_handle_t *)&d->linger))
        uv_timer_start(&d->linger, on_lingered, (uint64_t)(wait_us / US_PER_MS) + 1, 0);
    return false;
}

static bool add_leaving(struct dispatch *d, struct batch *batch)
{
    struct params *params = batch_add(batch, STMT(held_put));
    struct arena *arena = params != NULL ? params->arena : NULL;
    int64_t *ids = arena != NULL ? arena_new_array(arena, RUNNING_MAX, int64_t) : NULL;
    int64_t *ms = arena != NULL ? arena_new_array(arena, RUNNING_MAX, int64_t) : NULL;
    struct uuid *tokens = arena != NULL ? arena_new_array(arena, RUNNING_MAX, struct uuid) : NULL;
    const char **workers = arena != NULL ? arena_new_array(arena, RUNNING_MAX, const char *) : NULL;
    int64_t now_us = dispatch_now_us();
    size_t n = 0;

    if (ids == NULL || ms == NULL || tokens == NULL || workers == NULL)
        return false;
    LIST_FOREACH(link, &d->streams.leaving) {
        struct stream_run *run = LIST_ENTRY(link, struct stream_run, link);

        if (n == RUNNING_MAX || due_us(d, run) > now_us)
            break;
        ids[n] = run->job_id;
        ms[n] = left_ms(d, run);
        tokens[n] = run->run->job.token;
        workers[n] = run->worker != NULL ? run->worker : "unknown";
        run->on_its_way = true;
        run->kept = false;
        n++;
    }
    held_put_bind(params, ids, tokens, workers, ms, n);
    return true;
}

/* pawl.held has a lease for these runs that is not over: the rest of the lease here, or one that
 * another server gave the worker. */
static void mark_kept(struct dispatch *d, const PGresult *r)
{
    for (int row = 0; row < PQntuples(r); row++) {
        int64_t id = held_put_row(r, row);
        struct stream_run *run = streams_find(&d->streams, id < 0 ? -id : id);

        if (run == NULL || !run->on_its_way)
            continue;
        run->kept = id > 0;
        if (id < 0) { /* another transaction has the row: the run stays on the list */
            run->on_its_way = false;
            uv_timer_start(&d->retry, on_retry, RETRY_MS, 0);
        }
    }
}

/* Only runs that are still on the list: others were reported meanwhile and may be freed. r NULL:
 * not committed. */
static void on_put(struct dispatch *d, const PGresult *r)
{
    if (r != NULL)
        mark_kept(d, r);
    LIST_FOREACH_SAFE(link, after, &d->streams.leaving) {
        struct stream_run *run = LIST_ENTRY(link, struct stream_run, link);

        if (!run->on_its_way)
            continue;
        run->on_its_way = false;
        if (r == NULL)
            continue;
        struct run *theirs = run->run;

        d->counters.jobs_left++;
        if (run->kept)
            streams_left(&d->streams, run);
        else
            streams_lost(&d->streams, run);
        coordinator_let_go(d->coordinator, theirs);
    }
    dispatch_check_drained(d);
}

/* ── jobs that workers bring along ── */

static bool add_takes(struct dispatch *d, struct batch *batch)
{
    struct params *params = batch_add(batch, STMT(held_take));
    struct held_job *jobs;
    size_t n = 0;

    if (params == NULL)
        return false;
    while (!list_empty(&d->takes)) {
        struct take *take = LIST_ENTRY(d->takes.next, struct take, link);

        if (n > 0 && n + take->n > BATCH_MAX)
            break;
        n += take->n;
        list_remove(&take->link);
        list_push(&d->sent_takes, &take->link);
    }
    jobs = arena_new_array(params->arena, n > 0 ? n : 1, struct held_job);
    if (jobs == NULL)
        return false;
    n = 0;
    LIST_FOREACH(link, &d->sent_takes) {
        struct take *take = LIST_ENTRY(link, struct take, link);

        for (size_t i = 0; i < take->n; i++) {
            take->answers[i] = TAKE_LOST;
            jobs[n++] = take->jobs[i];
        }
    }
    held_take_bind(params, jobs, n, d->options.lease_ms);
    return true;
}

static void mark_taken(struct dispatch *d, const PGresult *r)
{
    for (int row = 0; row < PQntuples(r); row++) {
        size_t item;
        bool cancelled;

        held_take_row(r, row, &item, &cancelled);
        LIST_FOREACH(link, &d->sent_takes) {
            struct take *take = LIST_ENTRY(link, struct take, link);

            if (item < take->n) {
                take->answers[item] = cancelled ? TAKE_CANCELLED : TAKE_HELD;
                break;
            }
            item -= take->n;
        }
    }
}

static void end_takes(struct dispatch *d, bool known)
{
    while (!list_empty(&d->sent_takes)) {
        struct take *take = LIST_ENTRY(d->sent_takes.next, struct take, link);

        list_remove(&take->link);
        if (take->done != NULL)
            take->done(take, known);
        take_free(take);
    }
}

/* ── reports of jobs that another server claimed ── */

static bool add_lookups(struct dispatch *d, struct batch *batch)
{
    struct params *held = batch_add(batch, STMT(job_held));
    struct params *reported = batch_add(batch, STMT(job_reported));
    struct held_job *jobs =
        held != NULL ? arena_new_array(held->arena, BATCH_MAX, struct held_job) : NULL;
    size_t n = 0;

    /* A report is answered as settled only when that commit is confirmed. */
    if (jobs == NULL || reported == NULL || batch_add(batch, STMT(tx_confirm)) == NULL)
        return false;
    while (n < BATCH_MAX && !list_empty(&d->lookups)) {
        struct lookup *lookup = LIST_ENTRY(d->lookups.next, struct lookup, link);

        jobs[n++] = lookup->job;
        list_remove(&lookup->link);
        list_push(&d->sent_lookups, &lookup->link);
    }
    job_held_bind(held, jobs, n);
    job_reported_bind(reported, jobs, n);
    return true;
}

struct found {
    struct run *run;
    struct job_reported reported;
};

/* The coordinator adopts the rows of job_held. False: no memory, handled as a database that did
 * not answer. */
static bool adopt(struct dispatch *d, const struct batch_end *end, size_t at, struct found *found)
{
    const PGresult *r = end->results[at];
    int n = PQntuples(r);
    size_t *items = calloc((size_t)n + 1, sizeof(*items));
    struct claim *claim = NULL;

    for (int row = 0; items != NULL && row < n; row++)
        items[row] = job_held_item(r, row);
    if (items != NULL && n > 0) {
        PGresult *taken = batch_take_result(end, at);

        claim = coordinator_adopt(d->coordinator, taken);
        if (claim == NULL)
            PQclear(taken);
    }
    for (int row = 0; claim != NULL && row < n; row++)
        found[items[row]].run = coordinator_adopted(claim, (size_t)row);
    free(items);
    return n == 0 || claim != NULL;
}

static void end_lookups(struct dispatch *d, const struct batch_end *end, size_t at)
{
    size_t n = 0;
    bool known = end != NULL;
    struct found *found;

    LIST_FOREACH(link, &d->sent_lookups) {
        (void)link;
        n++;
    }
    found = calloc(n + 1, sizeof(*found));
    known = known && found != NULL && adopt(d, end, at, found);
    for (int row = 0; known && row < PQntuples(end->results[at + 1]); row++) {
        struct job_reported reported;
        size_t item;

        job_reported_row(end->results[at + 1], row, &item, &reported);
        found[item].reported = reported;
    }
    for (size_t i = 0; !list_empty(&d->sent_lookups); i++) {
        struct lookup *lookup = LIST_ENTRY(d->sent_lookups.next, struct lookup, link);

        list_remove(&lookup->link);
        if (known && found[i].run != NULL)
            report_found(d, lookup, found[i].run);
        else
            report_not_found(d, lookup, known ? &found[i].reported : NULL);
        free(lookup);
    }
    free(found);
}

/* ── the transaction ── */

static void on_ended(void *data, const struct batch_end *end)
{
    struct dispatch *d = data;
    bool ok = end->verdict == PG_VERDICT_OK;
    size_t at = 0;
    size_t take_at;

    at += d->leaving_sent;
    take_at = at;
    at += d->takes_sent;
    d->busy = false;
    if (!ok) {
        log_warn_err(
            d->options.log, "held_take", end->err, LOG_STR("then", "those who wait are told"));
        uv_timer_start(&d->retry, on_retry, RETRY_MS, 0);
    }
    if (d->leaving_sent) {
        d->leaving_sent = false;
        on_put(d, ok ? end->results[0] : NULL);
    }
    if (d->takes_sent) {
        d->takes_sent = false;
        if (ok)
            mark_taken(d, end->results[take_at]);
        end_takes(d, ok);
    }
    if (d->lookups_sent) {
        d->lookups_sent = false;
        end_lookups(d, ok ? end : NULL, at);
    }
}

static bool fill(struct dispatch *d, struct batch *batch)
{
    d->leaving_sent = any_due(d);
    d->takes_sent = !list_empty(&d->takes);
    d->lookups_sent = !list_empty(&d->lookups);
    return (!d->leaving_sent || add_leaving(d, batch)) && (!d->takes_sent || add_takes(d, batch)) &&
           (!d->lookups_sent || add_lookups(d, batch));
}

void away_turn(struct dispatch *d)
{
    struct batch *batch;

    if (d->busy || uv_is_active((uv_handle_t *)&d->retry))
        return;
    if (list_empty(&d->takes) && list_empty(&d->lookups) && !any_due(d))
        return;
    batch = batch_new(d->conn);
    if (batch == NULL || !fill(d, batch)) {
        /* No memory: calls that wait are told, leaving runs wait on. */
        batch_free(batch);
        d->leaving_sent = d->takes_sent = d->lookups_sent = false;
        end_takes(d, false);
        end_lookups(d, NULL, 0);
        uv_timer_start(&d->retry, on_retry, RETRY_MS, 0);
        return;
    }
    d->busy = true;
    batch_submit(batch, DISPATCH_DEADLINE_MS, on_ended, d);
}

void away_deinit(struct dispatch *d)
{
    list_splice(&d->sent_takes, &d->takes);
    LIST_FOREACH_SAFE(link, after, &d->sent_takes) {
        take_free(LIST_ENTRY(link, struct take, link));
    }
    list_splice(&d->sent_lookups, &d->lookups);
    LIST_FOREACH_SAFE(at, next, &d->sent_lookups) {
        free(LIST_ENTRY(at, struct lookup, link));
    }
}
