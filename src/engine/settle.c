/* settle: gathering outcomes into statements, and what to do when one fails. */
#include "engine/settle.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/settle_aside.h"
#include "engine/settle_riders.h"
#include "store/statements.h"

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 2000
#define CHILD_BYTES  64 /* of a child beside its payload */
/* As it is, then as a failure, then the job is parked; after that the lease has to sort it out. */
#define REFUSED_FAIL 1
#define REFUSED_PARK 2

static void on_retry(uv_timer_t *timer)
{
    settle_flush(timer->data);
}

void settle_init(struct settle *settle, const struct settle_options *options)
{
    memset(settle, 0, sizeof(*settle));
    settle->options = *options;
    settle->retry_ms = RETRY_MIN_MS;
    uv_timer_init(options->loop, &settle->retry);
    settle->retry.data = settle;
    settle_aside_init(settle);
}

static size_t outcome_bytes(const struct outcome *outcome)
{
    size_t bytes = outcome->result_len;

    if (outcome->on != NULL) {
        bytes += outcome->on->state_len;
        for (size_t i = 0; i < outcome->on->n_children; i++)
            bytes += CHILD_BYTES + outcome->on->children[i].payload_len;
    }
    return bytes;
}

/* ---- carriers */

typedef void (*row_fn)(const PGresult *r, int row, struct job_settled *ret_settled);

/* How outcomes of one sort are sent, and what their answer means. */
struct carrier {
    enum stmt_id stmt;
    bool (*takes)(const struct slot *slot);
    /* Puts what it carries in the order that the statement wants. */
    void (*arrange)(struct settle *settle, struct cargo *cargo);
    void (*bind)(struct params *params,
                 const struct job_settle *const *items,
                 size_t n,
                 const char *worker,
                 const struct uuid *ended,
                 size_t n_ended);
    void (*read)(struct settle *settle, struct cargo *cargo, const PGresult *r, row_fn row);
    row_fn row;
    bool ends_claims; /* of which no job is left: the last statement that can does */
    bool sends_again; /* what the answer does not name may have moved: job_settle knows */
};

static bool goes_on(const struct job_settle *item)
{
    return item->outcome.kind >= OUTCOME_NEXT;
}

/* The slot is the coordinator's again. */
static void hand_back(struct settle *settle, const struct job_settle **item, const char *state)
{
    struct slot *slot = slot_of_item(*item);

    *item = NULL;
    settle->options.settled(settle->options.data, slot, state);
}

/* What a machine is now. */
static const char *state_after(const struct outcome *outcome)
{
    if (outcome->kind != OUTCOME_NEXT)
        return "waiting";
    return outcome->delay_ms > 0 ? "scheduled" : "ready";
}

static void
on_settled(struct settle *settle, struct cargo *cargo, const struct job_settled *settled)
{
    const struct job_settle **item = &cargo->items[settled->item];
    struct slot *slot = slot_of_item(*item);

    slot->run.job.tid = settled->tid;
    if (slot->item.sticky) {
        *item = NULL;
        settle->options.went_on(settle->options.data, slot, settled->cancelled);
        return;
    }
    settle->options.due(settle->options.data, slot, settled->due_ms);
    hand_back(
        settle, item, settled->state != NULL ? settled->state : state_after(&(*item)->outcome));
}

static void read_rows(struct settle *settle, struct cargo *cargo, const PGresult *r, row_fn row_of)
{
    for (int row = 0; row < PQntuples(r); row++) {
        struct job_settled settled;

        row_of(r, row, &settled);
        on_settled(settle, cargo, &settled);
    }
}

static bool takes_any(const struct slot *slot)
{
    (void)slot;
    return true;
}

/* Machines that go on behind the others. */
static void arrange_any(struct settle *settle, struct cargo *cargo)
{
    size_t n_ends = 0;

    (void)settle;
    for (size_t i = 0; i < cargo->n; i++) {
        const struct job_settle *item = cargo->items[i];

        if (goes_on(item))
            continue;
        cargo->items[i] = cargo->items[n_ends];
        cargo->items[n_ends++] = item;
    }
}

/* It goes on here, at once, nothing else hangs off it, and where its row is, is known. */
static bool takes_next(const struct slot *slot)
{
    const struct job *job = &slot->run.job;

    return slot->item.sticky && slot->item.outcome.kind == OUTCOME_NEXT && job->tid != 0 &&
           job->is_machine && job->attempt == 1 && !job->machine->waited && !job->machine->joined &&
           job->machine->shown == NULL;
}

static void bind_next(struct params *params,
                      const struct job_settle *const *items,
                      size_t n,
                      const char *worker,
                      const struct uuid *ended,
                      size_t n_ended)
{
    (void)worker;
    (void)ended;
    (void)n_ended;
    job_settle_next_bind(params, items, n);
}

/* Its end concerns nobody else, and its row is where the claim left it. */
static bool takes_done(const struct slot *slot)
{
    const struct job *job = &slot->run.job;

    return slot->item.outcome.kind == OUTCOME_DONE && job->tid != 0 && !job->is_machine &&
           !job->is_child && !job->has_options;
}

static int by_id(const void *left, const void *right)
{
    int64_t a = (*(const struct job_settle *const *)left)->job->id;
    int64_t b = (*(const struct job_settle *const *)right)->job->id;

    return (a > b) - (a < b);
}

/* It waits for the next flush, and so does the end of its claim. */
static void put_back(struct settle *settle, const struct job_settle *item)
{
    struct slot *slot = slot_of_item(item);
    const struct uuid *token = &slot->claim->asked.token;

    slot_move_first(settle->options.slots, slot, SLOT_WAITING);
    settle->n_sent--;
    for (size_t i = 0; i < settle->n_ended; i++) {
        if (memcmp(&settle->ended[i], token, sizeof(*token)) == 0)
            settle->ended[i] = settle->ended[--settle->n_ended];
    }
}

/* Ascending, none twice. The same job twice means that we had lost it and got it again; the second
 * outcome, with a token of its own, waits for the next flush. */
static void arrange_done(struct settle *settle, struct cargo *cargo)
{
    bool sorted = true;
    size_t n = cargo->n;

    for (size_t i = 0; i < n; i++) {
        settle->done_ids[i] = cargo->items[i]->job->id;
        sorted = sorted && (i == 0 || settle->done_ids[i - 1] < settle->done_ids[i]);
    }
    if (sorted)
        return;
    qsort(cargo->items, n, sizeof(cargo->items[0]), by_id);
    cargo->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct job_settle *item = cargo->items[i];

        if (cargo->n > 0 && settle->done_ids[cargo->n - 1] == item->job->id) {
            put_back(settle, item);
            continue;
        }
        settle->done_ids[cargo->n] = item->job->id;
        cargo->items[cargo->n++] = item;
    }
}

/* In the order of their ids: the database answers in that of their rows. */
static void read_done(struct settle *settle, struct cargo *cargo, const PGresult *r, row_fn unused)
{
    bool done[SETTLE_BATCH_MAX] __attribute__((uninitialized));

    (void)unused;
    memset(done, false, cargo->n * sizeof(*done));
    for (int row = 0; row < PQntuples(r); row++)
        done[job_settle_done_row(r, row, settle->done_ids, cargo->n)] = true;
    for (size_t i = 0; i < cargo->n; i++) {
        if (done[i])
            hand_back(settle, &cargo->items[i], "done");
    }
}

/* CARRIER_DONE is the last because it alone may leave jobs to the next flush, and does not end
 * their claims then. */
static const struct carrier carriers[SETTLE_CARRIERS] = {
    [CARRIER_ANY] = {.stmt = STMT_job_settle,
                     .takes = takes_any,
                     .arrange = arrange_any,
                     .bind = job_settle_bind,
                     .read = read_rows,
                     .row = job_settle_row,
                     .ends_claims = true},
    [CARRIER_NEXT] = {.stmt = STMT_job_settle_next,
                      .takes = takes_next,
                      .bind = bind_next,
                      .read = read_rows,
                      .row = job_settle_next_row,
                      .sends_again = true},
    [CARRIER_DONE] = {.stmt = STMT_job_settle_done,
                      .takes = takes_done,
                      .arrange = arrange_done,
                      .bind = job_settle_done_bind,
                      .read = read_done,
                      .ends_claims = true,
                      .sends_again = true},
};

/* ---- a flush */

/* The narrowest that takes it. */
static struct cargo *cargo_for(struct settle *settle, const struct slot *slot)
{
    size_t i = SETTLE_CARRIERS - 1;

    while (!carriers[i].takes(slot))
        i--;
    return &settle->cargo[i];
}

/* Moves what fits into one flush from waiting to flying. */
static void gather(struct settle *settle)
{
    size_t most = settle->n_suspects > 0 ? settle->suspects_max : SETTLE_BATCH_MAX;
    size_t bytes = 0;
    size_t n = 0;
    struct slot *slot;

    settle->n_ended = 0;
    for (size_t i = 0; i < SETTLE_CARRIERS; i++)
        settle->cargo[i].n = 0;
    for (; n < most && (slot = slot_first(settle->options.slots, SLOT_WAITING)) != NULL; n++) {
        struct cargo *cargo = cargo_for(settle, slot);
        bool alone = slot->sent.alone || slot->sent.refused == REFUSED_PARK;

        bytes += outcome_bytes(&slot->item.outcome);
        if (n > 0 && (bytes > SETTLE_BYTES_MAX || alone))
            break;
        if (alone)
            most = 1;
        cargo->items[cargo->n++] = &slot->item;
        slot_move(settle->options.slots, slot, SLOT_FLYING);
        /* The claim of which the last job is on its way is over. */
        if (slot->claim->n_unsent == 0 && !slot->claim->left_to_lease)
            settle->ended[settle->n_ended++] = slot->claim->asked.token;
    }
    settle->n_sent = n;
    for (size_t i = 0; i < SETTLE_CARRIERS; i++) {
        if (carriers[i].arrange != NULL)
            carriers[i].arrange(settle, &settle->cargo[i]);
    }
}

/* A flush that had no effect, or none that we know of: everything waits again, first in line, in
 * the order in which it waited before. */
static void ungather(struct settle *settle, bool again)
{
    struct list *flying = &settle->options.slots->at[SLOT_FLYING];

    while (!list_empty(flying)) {
        struct slot *slot = slot_of_link(flying->prev);

        slot->sent.again |= again;
        slot_move_first(settle->options.slots, slot, SLOT_WAITING);
    }
    settle->n_sent = 0;
}

/* What the answer does not name. */
static void on_missing(struct settle *settle, const struct carrier *carrier, struct cargo *cargo)
{
    for (size_t i = 0; i < cargo->n; i++) {
        if (cargo->items[i] == NULL)
            continue;
        struct slot *slot = slot_of_item(cargo->items[i]);

        if (carrier->sends_again) {
            slot->run.job.tid = 0;
            slot_move_first(settle->options.slots, slot, SLOT_WAITING);
        } else {
            hand_back(settle, &cargo->items[i], NULL); /* it was no longer ours */
        }
    }
}

/* Never more than there are suspects: those behind them are not to suffer. */
static size_t suspects_limit(const struct settle *settle, size_t most)
{
    if (most > settle->n_suspects)
        most = settle->n_suspects;
    return most > 0 ? most : 1;
}

static void on_answers(struct settle *settle, const struct batch_end *end)
{
    for (size_t i = SETTLE_CARRIERS; i-- > 0;) {
        if (settle->cargo[i].n > 0)
            carriers[i].read(
                settle, &settle->cargo[i], end->results[settle->cargo[i].answer], carriers[i].row);
    }
    for (size_t i = SETTLE_CARRIERS; i-- > 0;)
        on_missing(settle, &carriers[i], &settle->cargo[i]);
    if (settle->lanes_left && lanes_called(end->results[end->n_results - 1]) < 0)
        settle->options.missed(settle->options.data);
}

static void on_committed(struct settle *settle, const struct batch_end *end)
{
    size_t n = settle->n_sent;

    if (settle->parking)
        settle->options.settled(settle->options.data,
                                slot_first(settle->options.slots, SLOT_FLYING),
                                PQntuples(end->results[settle->n_before]) > 0 ? "parked" : NULL);
    else
        on_answers(settle, end);
    settle->n_sent = 0;
    settle->retry_ms = RETRY_MIN_MS;
    settle->since_us = 0;
    settle->n_suspects -= n < settle->n_suspects ? n : settle->n_suspects;
    settle->suspects_max = suspects_limit(settle, 2 * settle->suspects_max);
}

/* The database refuses this outcome as it is, and would again: the job fails with that as its
 * error. If it cannot fail either, because its end cannot be written, it is parked. */
static void on_refused(struct settle *settle, const struct pawl_err *err)
{
    struct slot *slot = slot_first(settle->options.slots, SLOT_WAITING);
    char error[1200];

    log_error_err(settle->options.log,
                  "job_settle",
                  err,
                  LOG_INT("job", slot->run.job.id),
                  LOG_INT("try", slot->sent.refused));
    if (++slot->sent.refused == REFUSED_PARK) /* with the error it has by now */
        return;
    if (slot->sent.refused == REFUSED_FAIL) {
        snprintf(error, sizeof(error), "the outcome could not be stored: %s", err->message);
        slot_finish(slot,
                    &(struct outcome){
                        .kind = OUTCOME_FAIL,
                        .error = error,
                        .delay_ms = -1,
                        .run_us = slot->item.outcome.run_us,
                    });
        slot_set_sticky(settle->options.slots, slot, false);
        return;
    }
    /* Given up. It is never sent, so no settle ends its claim: once the other jobs of the claim are
     * over nothing renews it, the lease runs out and the sweeper takes the job back. */
    slot->claim->left_to_lease = true;
    settle->n_suspects--;
    settle->options.settled(settle->options.data, slot, NULL);
}

/* Whether the database objects to what we sent, rather than to us or to the moment. */
static bool is_about_the_outcomes(const struct batch_end *end)
{
    return end->verdict == PG_VERDICT_PERMANENT && end->err->code != PAWL_ESCHEMA &&
           end->err->code != PAWL_EREADONLY && end->err->code != PAWL_EDENIED;
}

/* Whether it may have been too much at once. A commit that only the standby has not confirmed was not. */
static bool is_too_much(const struct batch_end *end)
{
    return (end->verdict == PG_VERDICT_UNKNOWN && !end->unconfirmed) ||
           (end->verdict == PG_VERDICT_RETRY && end->err->code == PAWL_ETIMEOUT);
}

/* All of a flush of n are sent again, half as many at a time. */
static void suspect(struct settle *settle, size_t n)
{
    if (n > settle->n_suspects)
        settle->n_suspects = n;
    settle->suspects_max = suspects_limit(settle, n / 2);
}

static void on_flushed(void *data, const struct batch_end *end)
{
    struct settle *settle = data;
    struct coordinator_stats *stats = settle->options.stats;

    if (end->verdict == PG_VERDICT_OK) {
        stats->settles++;
        if (settle->n_sent > stats->settle_batch_max)
            stats->settle_batch_max = settle->n_sent;
        latency_add(&stats->settle, end->took_us);
        on_committed(settle, end);
        /* Not left to the end of the turn, which first hands out what goes on: the database works meanwhile. */
        settle_flush(settle);
        return;
    }
    size_t n = settle->n_sent;

    stats->settle_errors++;
    ungather(settle, end->verdict == PG_VERDICT_UNKNOWN);
    if (is_about_the_outcomes(end)) {
        suspect(settle, n);
        if (n == 1)
            on_refused(settle, end->err);
        return;
    }
    log_warn_err(settle->options.log,
                 "job_settle",
                 end->err,
                 LOG_INT("waiting", settle->options.slots->n[SLOT_WAITING]));
    if (settle_ran_into_lock(end)) {
        settle_set_aside(settle, n);
        return;
    }
    if (is_too_much(end))
        suspect(settle, n);
    uv_timer_start(&settle->retry, on_retry, (uint64_t)settle->retry_ms, 0);
    settle->retry_ms = settle->retry_ms * 2 < RETRY_MAX_MS ? settle->retry_ms * 2 : RETRY_MAX_MS;
}

static bool any_again(struct settle *settle)
{
    LIST_FOREACH(link, &settle->options.slots->at[SLOT_FLYING]) {
        if (slot_of_link(link)->sent.again)
            return true;
    }
    return false;
}

static bool fill_park(struct settle *settle, struct batch *batch, const struct slot *slot)
{
    struct params *params = batch_add(batch, STMT(job_park));

    if (params != NULL)
        job_park_bind(params, &slot->item, settle->options.worker, settle->ended, settle->n_ended);
    return params != NULL;
}

/* One statement for each carrier that has something to carry. Claims end with the last of them,
 * when all their jobs are gone. */
static bool fill_carriers(struct settle *settle, struct batch *batch)
{
    struct params *params[SETTLE_CARRIERS];
    size_t n_ended = settle->n_ended;
    size_t n = 0;

    for (size_t i = 0; i < SETTLE_CARRIERS; i++) {
        struct cargo *cargo = &settle->cargo[i];

        params[i] = cargo->n > 0 ? batch_add(batch, &stmts[carriers[i].stmt]) : NULL;
        if (cargo->n > 0 && params[i] == NULL)
            return false;
        cargo->answer = settle->n_before + n;
        n += cargo->n > 0;
    }
    for (size_t i = SETTLE_CARRIERS; i-- > 0;) {
        const struct cargo *cargo = &settle->cargo[i];

        if (cargo->n == 0)
            continue;
        carriers[i].bind(
            params[i], cargo->items, cargo->n, settle->options.worker, settle->ended, n_ended);
        if (carriers[i].ends_claims)
            n_ended = 0;
    }
    return true;
}

static bool fill_batch(struct settle *settle, struct batch *batch)
{
    struct list *flying = &settle->options.slots->at[SLOT_FLYING];
    const struct slot *first;
    size_t n_let_go = 0;

    gather(settle);
    first = slot_of_link(flying->next);
    settle->parking = first->sent.refused == REFUSED_PARK;
    settle->lanes_left = false;
    settle->n_before = 0;
    /* What an earlier flush settled, as far as is known, is found settled and nothing is written: then this makes the
     * commit wait until the earlier one is sure to last. */
    if (any_again(settle)) {
        if (batch_add(batch, STMT(tx_confirm)) == NULL)
            return false;
        settle->n_before++;
    }
    if (settle->parking)
        return fill_park(settle, batch, first);
    if (settle_let_go(batch, flying, settle->n_sent, &n_let_go) < 0)
        return false;
    settle->n_before += n_let_go;
    return fill_carriers(settle, batch) &&
           settle_follow(batch, flying, settle->n_sent, &settle->lanes_left) == 0;
}

void settle_flush(struct settle *settle)
{
    /* Which claims it ends depends on the primary: not before there is a connection to one, and not on the next. */
    if (settle->n_sent > 0 || settle->options.slots->n[SLOT_WAITING] == 0 || settle->blocked ||
        uv_is_active((uv_handle_t *)&settle->retry) ||
        conn_state(settle->options.conn) != CONN_READY)
        return;

    struct batch *batch = batch_new(settle->options.conn);

    if (batch == NULL || !fill_batch(settle, batch)) {
        /* Full or out of memory: back-pressure. Look again shortly. */
        ungather(settle, false);
        batch_free(batch);
        uv_timer_start(&settle->retry, on_retry, RETRY_MIN_MS, 0);
        return;
    }
    if (settle->since_us == 0)
        settle->since_us = clock_mono_us(settle->options.clock);
    batch_here_only(batch);
    batch_submit(batch, SETTLE_DEADLINE_MS, on_flushed, settle);
}
