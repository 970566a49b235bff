/* sweep: how large a run is, and what to do about one that fails. */
#include "engine/sweep.h"

#include <stdio.h>
#include <string.h>

#include "store/statements.h"

#define EMPTY_MAX 20 /* full runs in a row that find all jobs locked by others */
#define HUNTS_MAX 8  /* times in a row that a culprit is looked for and no job is taken back */
#define GROW_PART 4  /* the bound grows after a run that took less than this part of the deadline */

static void send_run(struct sweep *sweep);

void sweep_init(struct sweep *sweep, const struct sweep_options *options)
{
    *sweep = (struct sweep){.options = *options, .most = SWEEP_JOBS_MAX};
}

void sweep_start(struct sweep *sweep)
{
    sweep->again = sweep->flying;
    if (sweep->flying || sweep->stopped)
        return;
    sweep->n_empty = sweep->n_hunts = sweep->n_suspects = 0;
    sweep->aside = 0;
    send_run(sweep);
}

void sweep_stop(struct sweep *sweep)
{
    sweep->stopped = true;
}

/* A batch with one statement, on its way once its parameters are bound; NULL: no memory, or the
 * connection's queue is full, and the next timer tries again. */
static struct batch *
batch_of(struct sweep *sweep, const struct stmt *stmt, struct params **ret_params)
{
    struct batch *batch = !sweep->stopped ? batch_new(sweep->options.conn) : NULL;

    *ret_params = batch != NULL ? batch_add(batch, stmt) : NULL;
    if (*ret_params != NULL)
        return batch;
    batch_free(batch);
    return NULL;
}

static void submit(struct sweep *sweep, struct batch *batch, batch_fn fn)
{
    sweep->flying = true;
    batch_submit(batch, sweep->options.deadline_ms, fn, sweep);
}

/* A request that came meanwhile gets a run of its own. */
static void rest(struct sweep *sweep)
{
    if (sweep->again)
        sweep_start(sweep);
}

static const struct claim_job *suspect(const struct sweep *sweep)
{
    return sweep->n_suspects > 0 ? &sweep->suspects[sweep->n_suspects - 1] : NULL;
}

/* ── one that fails alone ── */

static void on_aside(void *data, const struct batch_end *end)
{
    struct sweep *sweep = data;

    sweep->flying = false;
    sweep->n_suspects = 0;
    if (end->verdict == PG_VERDICT_OK) {
        send_run(sweep);
        return;
    }
    log_warn_err(sweep->options.log, "claim_sweep_aside", end->err, LOG_INT("tries", 1));
    rest(sweep);
}

/* It is tried again when all others are back. */
static void put_aside(struct sweep *sweep, const struct pawl_err *err)
{
    struct params *params;
    struct batch *batch = batch_of(sweep, STMT(claim_sweep_aside), &params);

    sweep->aside = suspect(sweep)->id;
    log_error_err(sweep->options.log,
                  "claim_sweep",
                  err,
                  LOG_INT("job", sweep->aside),
                  LOG_STR("why", "the job could not be taken back, and waits behind all others"));
    if (batch == NULL)
        return;
    claim_sweep_aside_bind(params, suspect(sweep));
    submit(sweep, batch, on_aside);
}

static void on_parked(void *data, const struct batch_end *end)
{
    struct sweep *sweep = data;

    sweep->flying = false;
    if (end->verdict != PG_VERDICT_OK) {
        put_aside(sweep, end->err);
        return;
    }
    if (PQntuples(end->results[0]) > 0) {
        sweep->options.stats->swept++;
        sweep->n_hunts = 0;
        log_error(sweep->options.log,
                  "claim_sweep",
                  LOG_INT("job", suspect(sweep)->id),
                  LOG_STR("state", "parked"),
                  LOG_STR("why", "the database refuses to take the job back; see its errors"));
    }
    sweep->n_suspects--;
    send_run(sweep);
}

static void park(struct sweep *sweep, const struct pawl_err *err)
{
    struct params *params;
    struct batch *batch = batch_of(sweep, STMT(claim_sweep_park), &params);
    char error[400];

    if (batch == NULL)
        return;
    snprintf(
        error,
        sizeof(error),
        "the worker died or lost its lease, and the job could not be taken back: %s (SQLSTATE %s)",
        err->message,
        err->sqlstate);
    claim_sweep_park_bind(params, suspect(sweep), error);
    submit(sweep, batch, on_parked);
}

static void on_first(void *data, const struct batch_end *end)
{
    struct sweep *sweep = data;

    sweep->flying = false;
    if (end->verdict != PG_VERDICT_OK) {
        log_warn_err(sweep->options.log, "claim_sweep_first", end->err, LOG_INT("tries", 1));
        rest(sweep);
        return;
    }
    /* The first row is tried first. */
    for (int row = PQntuples(end->results[0]) - 1; row >= 0; row--) {
        struct claim_job job = claim_sweep_first_row(end->results[0], row);

        if (job.id != sweep->aside && sweep->n_suspects < CLAIM_SWEEP_FIRST_MAX)
            sweep->suspects[sweep->n_suspects++] = job;
    }
    /* None but the one that was put aside: until the next timer. */
    if (sweep->n_suspects > 0)
        send_run(sweep);
    else
        rest(sweep);
}

/* A run of one job failed; another sweeper may have changed which one is first. So it is asked for
 * by name, tried alone, and only then taken for the culprit. */
static void look_for_suspects(struct sweep *sweep)
{
    struct params *params;
    struct batch *batch = NULL;

    if (++sweep->n_hunts <= HUNTS_MAX)
        batch = batch_of(sweep, STMT(claim_sweep_first), &params);
    if (batch == NULL) {
        rest(sweep);
        return;
    }
    claim_sweep_first_bind(params, *sweep->options.low);
    submit(sweep, batch, on_first);
}

/* ── a run ── */

static bool took_too_long(const struct batch_end *end)
{
    return end->verdict == PG_VERDICT_RETRY && end->err->code == PAWL_ETIMEOUT;
}

/* Whether the database objects to what the run changes, rather than to us or to the moment. */
static bool is_about_the_jobs(const struct batch_end *end)
{
    return end->verdict == PG_VERDICT_PERMANENT && end->err->code != PAWL_ESCHEMA &&
           end->err->code != PAWL_EREADONLY && end->err->code != PAWL_EDENIED;
}

static void halve(struct sweep *sweep)
{
    sweep->most = sweep->most > 1 ? sweep->most / 2 : 1;
}

static void on_failed(struct sweep *sweep, const struct batch_end *end)
{
    bool alone = sweep->n_suspects > 0;
    bool late = took_too_long(end);

    log_warn_err(sweep->options.log,
                 "claim_sweep",
                 end->err,
                 LOG_INT("jobs", alone ? 1 : sweep->most),
                 LOG_INT("tries", 1));
    if (!late && !is_about_the_jobs(end)) {
        /* A lost connection, a full disk, a conflict: the next timer tries again, with fewer, for
         * the run may have been the cause. */
        halve(sweep);
        sweep->n_suspects = 0;
        rest(sweep);
    } else if (alone && late) {
        put_aside(sweep, end->err);
    } else if (alone) {
        park(sweep, end->err);
    } else if (sweep->most > 1) {
        halve(sweep);
        send_run(sweep);
    } else {
        look_for_suspects(sweep);
    }
}

static void on_swept(void *data, const struct batch_end *end)
{
    struct sweep *sweep = data;
    bool alone = sweep->n_suspects > 0;
    bool lanes;
    bool more;

    sweep->flying = false;
    if (end->verdict != PG_VERDICT_OK) {
        on_failed(sweep, end);
        return;
    }
    int n = claim_sweep_said(end->results[0], &lanes, &more);

    latency_add(&sweep->options.stats->sweep, end->took_us);
    sweep->options.stats->swept += (uint64_t)n;
    sweep->n_empty = n > 0 ? 0 : sweep->n_empty + 1;
    if (n > 0)
        sweep->n_hunts = 0;
    /* Not to where it would be cancelled: what that had done is lost. */
    if (!alone && end->took_us < sweep->options.deadline_ms * US_PER_MS / GROW_PART)
        sweep->most = 2 * sweep->most < SWEEP_JOBS_MAX ? 2 * sweep->most : SWEEP_JOBS_MAX;
    sweep->options.taken(sweep->options.data, end->results[0], n, lanes);
    if (alone) {
        sweep->n_suspects--;
        send_run(sweep);
    } else if (more && sweep->n_empty < EMPTY_MAX) {
        send_run(sweep);
    } else {
        rest(sweep);
    }
}

static void send_run(struct sweep *sweep)
{
    struct params *params;
    struct batch *batch = batch_of(sweep, STMT(claim_sweep), &params);

    if (batch == NULL)
        return;
    claim_sweep_bind(
        params, sweep->n_suspects > 0 ? 1 : sweep->most, suspect(sweep), *sweep->options.low);
    submit(sweep, batch, on_swept);
}
