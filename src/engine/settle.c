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
#define TRIES_FAIL 1
#define TRIES_PARK 2
#define TRIES_MAX  3

static void on_retry(uv_timer_t *timer)
{
    settle_flush(timer->data);
}

void settle_init(struct settle *settle, const struct settle_options *options)
{
    *settle = (struct settle){.options = *options, .retry_ms = RETRY_MIN_MS};
    list_init(&settle->waiting);
    uv_timer_init(options->loop, &settle->retry);
    settle->retry.data = settle;
    settle_aside_init(settle);
}

void settle_deinit(struct settle *settle)
{
    while (!list_empty(&settle->waiting))
        slot_clear(slot_of_link(settle->waiting.next));
    settle->n_waiting = settle->n_flying = 0;
    settle_aside_deinit(settle);
}

void settle_add(struct settle *settle, struct slot *slot)
{
    list_push(&settle->waiting, &slot->link);
    settle->n_waiting++;
    settle->n_sticky += slot->sticky;
}

/* What one flush carries. */
struct load {
    struct uuid ended[SETTLE_BATCH_MAX]; /* tokens of claims of which no job is left */
    size_t n_ended;
    struct slot *others[SETTLE_BATCH_MAX]; /* all but done plain jobs, and machines that go on */
    size_t n_others;
    struct slot *nexts[SETTLE_BATCH_MAX]; /* machines that simply go on here */
    size_t n_nexts;
    struct slot *steps[SETTLE_BATCH_MAX]; /* other machines that go on */
    bool sticky[SETTLE_BATCH_MAX];
    size_t n_steps;
};

static int by_id(const void *left, const void *right)
{
    int64_t a = (*(struct slot *const *)left)->run.job.id;
    int64_t b = (*(struct slot *const *)right)->run.job.id;

    return (a > b) - (a < b);
}

/* As job_settle_done wants them: ascending, none twice. The same job twice means that we had lost
 * it and got it again; the second outcome, with a token of its own, waits for the next flush.
 * Returns how many are left. */
static size_t put_in_order(struct settle *settle, struct slot **slots, size_t n)
{
    bool sorted = true;
    size_t kept = 0;

    for (size_t i = 1; sorted && i < n; i++)
        sorted = slots[i - 1]->run.job.id < slots[i]->run.job.id;
    if (sorted)
        return n;
    qsort(slots, n, sizeof(*slots), by_id);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && slots[kept - 1]->run.job.id == slots[i]->run.job.id)
            list_unshift(&settle->waiting, &slots[i]->link);
        else
            slots[kept++] = slots[i];
    }
    return kept;
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

static bool goes_on(const struct slot *slot)
{
    return slot->item.outcome.kind >= OUTCOME_NEXT;
}

/* Its end concerns nobody else, and its row is where the claim left it. */
static bool is_plainly_done(const struct slot *slot)
{
    const struct job *job = &slot->run.job;

    return slot->item.outcome.kind == OUTCOME_DONE && !slot->moved && job->place != 0 &&
           !job->is_machine && !job->is_child && !job->has_options;
}

/* It goes on here, at once, nothing else hangs off it, and its row is where it was last seen. */
static bool is_plainly_next(const struct slot *slot)
{
    const struct job *job = &slot->run.job;

    return slot->sticky && slot->item.outcome.kind == OUTCOME_NEXT && !slot->moved &&
           job->place != 0 && job->is_machine && job->attempt == 1 && !job->machine->waited &&
           !job->machine->joined && job->machine->shown == NULL;
}

/* Those that end, or wait, are not here any more: the claim of which the last one is on its way is
 * over. */
static void count_out(struct settle *settle, struct load *load)
{
    for (size_t i = 0; i < settle->n_flying; i++) {
        struct claim *claim = settle->flying[i]->claim;

        if (settle->flying[i]->sticky)
            continue;
        assert(claim->n_unsent > 0);
        if (--claim->n_unsent == 0 && !claim->left_to_lease)
            load->ended[load->n_ended++] = claim->asked.token;
    }
}

/* Moves what fits into one flush from waiting to flying: the done ones, the others, the machines
 * that go on. */
static void gather(struct settle *settle, struct load *load)
{
    size_t most = settle->n_suspects > 0 ? settle->suspects_max : SETTLE_BATCH_MAX;
    size_t bytes = 0;
    size_t n = 0;

    load->n_ended = load->n_others = load->n_nexts = load->n_steps = 0;
    for (size_t all = 0; all < most && !list_empty(&settle->waiting); all++) {
        struct slot *slot = slot_of_link(settle->waiting.next);

        bytes += outcome_bytes(&slot->item.outcome);
        bool alone = slot->alone || slot->tries == TRIES_PARK;

        if (all > 0 && (bytes > SETTLE_BYTES_MAX || alone))
            break;
        if (alone)
            most = 1;
        list_remove(&slot->link);
        if (is_plainly_next(slot)) {
            load->nexts[load->n_nexts++] = slot;
        } else if (goes_on(slot)) {
            load->sticky[load->n_steps] = slot->sticky;
            load->steps[load->n_steps++] = slot;
        } else if (is_plainly_done(slot)) {
            settle->flying[n++] = slot;
        } else {
            load->others[load->n_others++] = slot;
        }
    }
    n = put_in_order(settle, settle->flying, n);
    settle->n_flying_done = n;
    for (size_t i = 0; i < n; i++)
        settle->done_ids[i] = settle->flying[i]->run.job.id;
    memcpy(settle->flying + n, load->others, load->n_others * sizeof(*load->others));
    n += load->n_others;
    settle->n_flying_ended = n;
    settle->n_flying_next = load->n_nexts;
    memcpy(settle->flying + n, load->nexts, load->n_nexts * sizeof(*load->nexts));
    n += load->n_nexts;
    memcpy(settle->flying + n, load->steps, load->n_steps * sizeof(*load->steps));
    settle->n_flying = n + load->n_steps;
    settle->n_waiting -= settle->n_flying;
    count_out(settle, load);
}

/* A flush that had no effect, or none that we know of: everything waits again, first in line. */
static void ungather(struct settle *settle, bool resent)
{
    while (settle->n_flying > 0) {
        struct slot *slot = settle->flying[--settle->n_flying];

        slot->claim->n_unsent += !slot->sticky;
        slot->resent |= resent;
        list_unshift(&settle->waiting, &slot->link);
        settle->n_waiting++;
    }
}

static void hand_back(struct settle *settle, struct slot **slot, const char *state)
{
    assert(*slot != NULL);
    settle->n_sticky -= (*slot)->sticky;
    settle->options.settled(settle->options.data, *slot, state);
    *slot = NULL;
}

/* What a machine is now. */
static const char *state_after(const struct slot *slot)
{
    if (slot->item.outcome.kind != OUTCOME_NEXT)
        return "waiting";
    return slot->item.outcome.delay_ms > 0 ? "scheduled" : "ready";
}

static void on_step(struct settle *settle, struct slot **slot, bool cancelled)
{
    struct slot *here = *slot;

    if (!here->sticky) {
        hand_back(settle, slot, state_after(here));
        return;
    }
    *slot = NULL;
    settle->n_sticky--;
    settle->options.went_on(settle->options.data, here, cancelled);
}

static void on_nexts(struct settle *settle, const PGresult *r, struct slot **flying)
{
    for (int row = 0; r != NULL && row < PQntuples(r); row++) {
        size_t i;
        bool cancelled;
        uint64_t place;

        job_settle_next_row(r, row, &i, &cancelled, &place);
        flying[i]->run.job.place = place;
        on_step(settle, &flying[i], cancelled);
    }
}

static void on_steps(struct settle *settle, const PGresult *r, struct slot **flying)
{
    for (int row = 0; r != NULL && row < PQntuples(r); row++) {
        size_t i;
        bool cancelled;
        uint64_t place;

        job_settle_step_row(r, row, &i, &cancelled, &place);
        flying[i]->run.job.place = place;
        flying[i]->moved = false;
        if (!flying[i]->sticky)
            settle->options.due(settle->options.data, flying[i], job_settle_due_ms(r, row));
        on_step(settle, &flying[i], cancelled);
    }
}

/* One that is not where the claim left it, or was stale: job_settle knows, and the answer is in the
 * next flush. */
static void send_again(struct settle *settle, struct slot **slot)
{
    (*slot)->moved = true;
    (*slot)->claim->n_unsent += !(*slot)->sticky;
    list_unshift(&settle->waiting, &(*slot)->link);
    settle->n_waiting++;
    *slot = NULL;
}

/* In the order of their ids: the database answers in that of their places. */
static void on_done(struct settle *settle, const PGresult *r, size_t n)
{
    bool done[SETTLE_BATCH_MAX] __attribute__((uninitialized));

    memset(done, false, n * sizeof(*done));
    for (int row = 0; r != NULL && row < PQntuples(r); row++)
        done[job_settle_done_row(r, row, settle->done_ids, n)] = true;
    for (size_t i = 0; i < n; i++) {
        if (done[i])
            hand_back(settle, &settle->flying[i], "done");
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
    struct slot **flying = settle->flying;
    size_t n = settle->n_flying;
    size_t n_done = settle->n_flying_done;
    size_t n_ended = settle->n_flying_ended;
    size_t n_before_steps = n_ended + settle->n_flying_next;
    size_t answer = settle->n_before;
    const PGresult *others = n_ended > n_done ? end->results[answer++] : NULL;
    const PGresult *nexts = n_before_steps > n_ended ? end->results[answer++] : NULL;
    const PGresult *steps = n > n_before_steps ? end->results[answer++] : NULL;
    const PGresult *done = n_done > 0 ? end->results[answer++] : NULL;

    on_done(settle, done, n_done);
    for (int row = 0; others != NULL && row < PQntuples(others); row++) {
        size_t i;
        const char *state;

        job_settle_row(others, row, &i, &state);
        settle->options.due(
            settle->options.data, flying[n_done + i], job_settle_due_ms(others, row));
        hand_back(settle, &flying[n_done + i], state);
    }
    on_nexts(settle, nexts, flying + n_ended);
    on_steps(settle, steps, flying + n_before_steps);
    for (size_t i = 0; i < n_before_steps; i++) {
        if (flying[i] != NULL && (i < n_done || i >= n_ended))
            send_again(settle, &flying[i]);
    }
    /* What is missing from the answers was no longer ours. */
    for (size_t i = 0; i < n; i++) {
        if (flying[i] != NULL)
            hand_back(settle, &flying[i], NULL);
    }
    if (settle->lanes_left && lanes_called(end->results[end->n_results - 1]) < 0)
        settle->options.missed(settle->options.data);
}

static void on_committed(struct settle *settle, const struct batch_end *end)
{
    size_t n = settle->n_flying;

    if (settle->parking)
        hand_back(settle,
                  &settle->flying[0],
                  PQntuples(end->results[settle->n_before]) > 0 ? "parked" : NULL);
    else
        on_answers(settle, end);
    settle->n_flying = 0;
    settle->retry_ms = RETRY_MIN_MS;
    settle->since_us = 0;
    settle->n_suspects -= n < settle->n_suspects ? n : settle->n_suspects;
    settle->suspects_max = suspects_limit(settle, 2 * settle->suspects_max);
}

/* The database refuses this outcome as it is, and would again: the job fails with that as its
 * error. If it cannot fail either, because its end cannot be written, it is parked. */
static void on_refused(struct settle *settle, const struct pawl_err *err)
{
    struct slot *slot = slot_of_link(settle->waiting.next);
    char error[1200];

    log_error_err(settle->options.log,
                  "job_settle",
                  err,
                  LOG_INT("job", slot->run.job.id),
                  LOG_INT("try", slot->tries));
    if (++slot->tries == TRIES_PARK) /* with the error it has by now */
        return;
    if (slot->tries == TRIES_FAIL) {
        snprintf(error, sizeof(error), "the outcome could not be stored: %s", err->message);
        slot_finish(slot,
                    &(struct outcome){
                        .kind = OUTCOME_FAIL,
                        .error = error,
                        .delay_ms = -1,
                        .run_us = slot->item.outcome.run_us,
                    });
        settle->n_sticky -= slot->sticky;
        slot->sticky = false;
        return;
    }
    /* Given up. It is never sent, so no settle ends its claim: once the other jobs of the claim are
     * over nothing renews it, the lease runs out and the sweeper takes the job back. */
    list_remove(&slot->link);
    settle->n_waiting--;
    settle->n_suspects--;
    settle->n_sticky -= slot->sticky;
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
        if (settle->n_flying > stats->settle_batch_max)
            stats->settle_batch_max = settle->n_flying;
        latency_add(&stats->settle, end->took_us);
        on_committed(settle, end);
        /* Not left to the end of the turn, which first hands out what goes on: the database works meanwhile. */
        settle_flush(settle);
        return;
    }
    size_t n = settle->n_flying;

    stats->settle_errors++;
    ungather(settle, end->verdict == PG_VERDICT_UNKNOWN);
    if (is_about_the_outcomes(end)) {
        suspect(settle, n);
        if (n == 1)
            on_refused(settle, end->err);
        return;
    }
    log_warn_err(
        settle->options.log, "job_settle", end->err, LOG_INT("waiting", settle->n_waiting));
    if (settle_ran_into_lock(end)) {
        settle_set_aside(settle, n);
        return;
    }
    if (is_too_much(end))
        suspect(settle, n);
    uv_timer_start(&settle->retry, on_retry, (uint64_t)settle->retry_ms, 0);
    settle->retry_ms = settle->retry_ms * 2 < RETRY_MAX_MS ? settle->retry_ms * 2 : RETRY_MAX_MS;
}

static bool any_resent(const struct settle *settle)
{
    for (size_t i = 0; i < settle->n_flying; i++) {
        if (settle->flying[i]->resent)
            return true;
    }
    return false;
}

static bool fill_park(struct settle *settle, struct batch *batch, const struct load *load)
{
    struct params *params = batch_add(batch, STMT(job_park));

    if (params != NULL)
        job_park_bind(
            params, &settle->flying[0]->item, settle->options.worker, load->ended, load->n_ended);
    return params != NULL;
}

static bool fill_batch(struct settle *settle, struct batch *batch, struct load *load)
{
    const struct job_settle *items[SETTLE_BATCH_MAX] __attribute__((uninitialized));

    gather(settle, load);
    settle->parking = settle->flying[0]->tries == TRIES_PARK;
    for (size_t i = 0; i < settle->n_flying; i++)
        items[i] = &settle->flying[i]->item;

    size_t n_done = settle->n_flying_done;
    size_t n_let_go = 0;

    settle->n_before = 0;
    /* What an earlier flush settled, as far as is known, is found settled and nothing is written: then this makes the
     * commit wait until the earlier one is sure to last. */
    if (any_resent(settle)) {
        if (batch_add(batch, STMT(tx_confirm)) == NULL)
            return false;
        settle->n_before++;
    }
    if (settle->parking)
        return fill_park(settle, batch, load);
    if (settle_let_go(batch, settle->flying, settle->n_flying, &n_let_go) < 0)
        return false;
    settle->n_before += n_let_go;
    struct params *others = load->n_others > 0 ? batch_add(batch, STMT(job_settle)) : NULL;
    struct params *nexts = load->n_nexts > 0 ? batch_add(batch, STMT(job_settle_next)) : NULL;
    struct params *steps = load->n_steps > 0 ? batch_add(batch, STMT(job_settle_step)) : NULL;
    struct params *done = n_done > 0 ? batch_add(batch, STMT(job_settle_done)) : NULL;
    size_t n_ended = load->n_ended;

    if ((n_done > 0 && done == NULL) || (load->n_others > 0 && others == NULL) ||
        (load->n_nexts > 0 && nexts == NULL) || (load->n_steps > 0 && steps == NULL))
        return false;
    if (nexts != NULL)
        job_settle_next_bind(nexts, items + settle->n_flying_ended, load->n_nexts);
    /* Claims end with the last statement, when all their jobs are gone. That of the done ones is the last, because it alone
     * may leave jobs to the next flush, and does not end their claims then. */
    if (done != NULL) {
        job_settle_done_bind(done, items, n_done, settle->options.worker, load->ended, n_ended);
        n_ended = 0;
    }
    if (steps != NULL) {
        job_settle_step_bind(steps,
                             items + settle->n_flying_ended + load->n_nexts,
                             load->sticky,
                             load->n_steps,
                             load->ended,
                             n_ended);
        n_ended = 0;
    }
    if (others != NULL)
        job_settle_bind(
            others, items + n_done, load->n_others, settle->options.worker, load->ended, n_ended);
    return settle_follow(batch, settle->flying, settle->n_flying, &settle->lanes_left) == 0;
}

void settle_flush(struct settle *settle)
{
    /* gather sets what is read of it; else the compiler would zero 98 KB for each outcome, and each look in vain. */
    struct load load __attribute__((uninitialized));

    /* Which claims it ends depends on the primary: not before there is a connection to one, and not on the next. */
    if (settle->n_flying > 0 || settle->n_waiting == 0 || settle->blocked ||
        uv_is_active((uv_handle_t *)&settle->retry) ||
        conn_state(settle->options.conn) != CONN_READY)
        return;

    struct batch *batch = batch_new(settle->options.conn);

    if (batch == NULL || !fill_batch(settle, batch, &load)) {
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
