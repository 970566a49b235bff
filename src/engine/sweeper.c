/* sweeper: its timers, and what follows from a sweep. */
#include "engine/sweeper.h"

#include "base/rand.h"
#include "store/claim.h"
#include "store/job.h"
#include "store/statements.h"
#include "store/worker.h"

#define DEADLINE_MS         10000
#define MEND_MIN_MS         10
#define MEND_MAX_MS         1000
#define HISTORY_EVERY_MS    (60 * 60 * 1000) /* partitions are made days ahead */
#define HISTORY_DEADLINE_MS 30000

static void on_sweep_timer(uv_timer_t *timer)
{
    struct sweeper *sweeper = timer->data;

    sweep_start(&sweeper->sweep);
}

static void on_mended(void *data, const struct batch_end *end)
{
    struct sweeper *sweeper = data;

    sweeper->mending = false;
    if (end->verdict != PG_VERDICT_OK) {
        log_warn_err(sweeper->options.log,
                     "lanes_mend",
                     end->err,
                     LOG_INT("lanes", sweeper->lanes_most),
                     LOG_INT("tries", 1));
        /* The next sweep of anybody comes back to them. */
        sweeper->lanes_most = sweeper->lanes_most > 1 ? sweeper->lanes_most / 2 : 1;
        return;
    }
    sweeper->lanes_most =
        2 * sweeper->lanes_most < SWEEP_LANES_MAX ? 2 * sweeper->lanes_most : SWEEP_LANES_MAX;
    int32_t called = lanes_called(end->results[0]);

    if (called > 0)
        sweeper->options.called(sweeper->options.data);
    if (called >= 0)
        sweeper->mend_ms = MEND_MIN_MS;
    else
        sweeper_mend_soon(sweeper);
}

/* A transaction of its own, so that it sees who was moved behind meanwhile. The lanes stay marked
 * until it is through, and the next sweep of anybody sees that. */
static void mend(struct sweeper *sweeper)
{
    struct batch *batch = batch_new(sweeper->options.conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(lanes_mend)) : NULL;

    if (params == NULL) {
        batch_free(batch);
        return;
    }
    lanes_mend_bind(params, sweeper->lanes_most);
    sweeper->mending = true;
    batch_submit(batch, sweeper->sweep.options.deadline_ms, on_mended, sweeper);
}

static void on_mend_timer(uv_timer_t *timer)
{
    mend(timer->data);
}

/* Whoever locks them for long, and is no claim, is waited for less and less often. */
void sweeper_mend_soon(struct sweeper *sweeper)
{
    if (sweeper_mends(sweeper) || !uv_is_active((uv_handle_t *)&sweeper->sweep_timer))
        return;
    uv_timer_start(&sweeper->mend_timer, on_mend_timer, (uint64_t)sweeper->mend_ms, 0);
    sweeper->mend_ms = 2 * sweeper->mend_ms < MEND_MAX_MS ? 2 * sweeper->mend_ms : MEND_MAX_MS;
}

bool sweeper_mends(const struct sweeper *sweeper)
{
    return sweeper->mending || uv_is_active((const uv_handle_t *)&sweeper->mend_timer);
}

static void on_taken(void *data, const PGresult *r, int n, bool lanes)
{
    struct sweeper *sweeper = data;

    if (lanes)
        mend(sweeper);
    for (int row = 0; row < n; row++) {
        int64_t id;
        const char *state;

        claim_sweep_row(r, row, &id, &state);
        log_warn(sweeper->options.log,
                 "claim_sweep",
                 LOG_INT("job", id),
                 LOG_STR("state", state),
                 LOG_STR("why", "the worker died or lost its lease"));
    }
}

static void on_maintained(void *data, const struct batch_end *end)
{
    struct sweeper *sweeper = data;
    int32_t made;
    int32_t dropped;

    if (end->verdict != PG_VERDICT_OK) {
        /* Nothing is lost: rows without a partition of their own go to the default one. */
        log_warn_err(sweeper->options.log, "history_maintain", end->err, LOG_INT("tries", 1));
        return;
    }
    history_maintain_row(end->results[0], &made, &dropped);
    if (made > 0 || dropped > 0)
        log_info(sweeper->options.log,
                 "history_maintain",
                 LOG_INT("made", made),
                 LOG_INT("dropped", dropped));
}

static void on_history_timer(uv_timer_t *timer)
{
    struct sweeper *sweeper = timer->data;
    struct batch *batch = batch_new(sweeper->options.conn);

    if (batch == NULL || batch_add(batch, STMT(history_maintain)) == NULL) {
        batch_free(batch);
        return;
    }
    batch_submit(batch, HISTORY_DEADLINE_MS, on_maintained, sweeper);
}

void sweeper_init(struct sweeper *sweeper, const struct sweeper_options *options)
{
    *sweeper = (struct sweeper){
        .options = *options, .mend_ms = MEND_MIN_MS, .lanes_most = SWEEP_LANES_MAX};
    sweep_init(&sweeper->sweep,
               &(struct sweep_options){
                   .conn = options->conn,
                   .deadline_ms = options->deadline_ms > 0 ? options->deadline_ms : DEADLINE_MS,
                   .low = options->low,
                   .log = options->log,
                   .stats = options->stats,
                   .taken = on_taken,
                   .data = sweeper,
               });
    uv_timer_init(options->loop, &sweeper->sweep_timer);
    uv_timer_init(options->loop, &sweeper->history_timer);
    uv_timer_init(options->loop, &sweeper->mend_timer);
    sweeper->sweep_timer.data = sweeper;
    sweeper->history_timer.data = sweeper;
    sweeper->mend_timer.data = sweeper;
}

void sweeper_start(struct sweeper *sweeper)
{
    uint64_t every_ms = (uint64_t)sweeper->options.every_ms;

    /* The first looks come soon, at a random moment, so that processes that start together do not
     * sweep together. */
    uv_timer_start(&sweeper->sweep_timer, on_sweep_timer, rand_below(every_ms / 4 + 1), every_ms);
    uv_timer_start(&sweeper->history_timer, on_history_timer, rand_below(1000), HISTORY_EVERY_MS);
}

void sweeper_now(struct sweeper *sweeper)
{
    if (uv_is_active((uv_handle_t *)&sweeper->sweep_timer))
        sweep_start(&sweeper->sweep);
}

void sweeper_stop(struct sweeper *sweeper)
{
    sweep_stop(&sweeper->sweep);
    uv_timer_stop(&sweeper->sweep_timer);
    uv_timer_stop(&sweeper->history_timer);
    uv_timer_stop(&sweeper->mend_timer);
}
