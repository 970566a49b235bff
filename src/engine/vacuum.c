/* vacuum: what is due, one after the other. */
#include "engine/vacuum.h"

#include "base/rand.h"
#include "store/statements.h"

#define ASK_DEADLINE_MS    5000
#define VACUUM_DEADLINE_MS 600000
#define GAIN_PART          10 /* one that removes less than one row in so many has gained nothing */

static void next(struct vacuum *vacuum);

static void on_noted(void *data, const struct batch_end *end)
{
    struct vacuum *vacuum = data;
    struct vacuum_state *state = &vacuum->parts[vacuum->running];

    vacuum->flying = false;
    if (end->verdict == PG_VERDICT_OK) {
        int64_t left = vacuum_note_row(end->results[0]);

        if (left > state->what.dead - state->what.dead / GAIN_PART) {
            state->backoff_ms = state->backoff_ms == 0 ? VACUUM_EVERY_MS : 2 * state->backoff_ms;
            if (state->backoff_ms > VACUUM_BACKOFF_MAX_MS)
                state->backoff_ms = VACUUM_BACKOFF_MAX_MS;
        } else {
            state->backoff_ms = 0;
        }
    } else {
        log_warn_err(vacuum->options.log, "vacuum_note", end->err, LOG_INT("tries", 1));
    }
    state->not_before_ms = uv_now(vacuum->options.loop) + state->backoff_ms;
    next(vacuum);
}

static void note(struct vacuum *vacuum)
{
    struct batch *batch = batch_new(vacuum->options.upkeep);
    struct params *params = batch != NULL ? batch_add(batch, STMT(vacuum_note)) : NULL;

    if (params == NULL) {
        batch_free(batch);
        return;
    }
    vacuum_note_bind(params, vacuum->running, vacuum->parts[vacuum->running].what.horizon);
    vacuum->flying = true;
    batch_submit(batch, ASK_DEADLINE_MS, on_noted, vacuum);
}

static void on_vacuumed(void *data, const struct batch_end *end)
{
    struct vacuum *vacuum = data;

    vacuum->flying = false;
    if (vacuum->stopped)
        return;
    if (end->verdict != PG_VERDICT_OK) {
        log_warn_err(vacuum->options.log,
                     "vacuum",
                     end->err,
                     LOG_STR("part", vacuum_part_name(vacuum->running)));
        vacuum->parts[vacuum->running].not_before_ms =
            uv_now(vacuum->options.loop) + VACUUM_IDLE_MS;
        return;
    }
    vacuum->options.stats->vacuums++;
    log_debug(vacuum->options.log,
              "vacuum",
              LOG_STR("part", vacuum_part_name(vacuum->running)),
              LOG_INT("dead", vacuum->parts[vacuum->running].what.dead),
              LOG_INT("took_ms", end->took_us / US_PER_MS));
    note(vacuum);
}

static const struct stmt *statement_of(enum vacuum_part part, bool truncate)
{
    switch (part) {
    case VACUUM_JOB:
        return truncate ? STMT(vacuum_job_truncate) : STMT(vacuum_job);
    case VACUUM_CLAIM:
        return truncate ? STMT(vacuum_claim_truncate) : STMT(vacuum_claim);
    default:
        return STMT(vacuum_side);
    }
}

/* Begins with what is due, unless something is under way. */
static void next(struct vacuum *vacuum)
{
    uint64_t now_ms = uv_now(vacuum->options.loop);

    for (int part = 0; part < VACUUM_PARTS && !vacuum->flying && !vacuum->stopped; part++) {
        struct vacuum_state *state = &vacuum->parts[part];

        if (!state->due)
            continue;
        state->due = false;
        bool truncate = state->what.truncate && now_ms >= state->truncate_at_ms;
        struct batch *batch = batch_new(vacuum->options.care);

        if (batch == NULL ||
            batch_add(batch, statement_of((enum vacuum_part)part, truncate)) == NULL) {
            batch_free(batch);
            return;
        }
        if (truncate)
            state->truncate_at_ms = now_ms + VACUUM_TRUNCATE_MS;
        if (conn_state(vacuum->options.care) == CONN_IDLE)
            conn_start(vacuum->options.care);
        vacuum->running = (enum vacuum_part)part;
        vacuum->flying = true;
        batch_submit(batch, VACUUM_DEADLINE_MS, on_vacuumed, vacuum);
    }
}

static void on_due(void *data, const struct batch_end *end)
{
    struct vacuum *vacuum = data;
    uint64_t now_ms = uv_now(vacuum->options.loop);

    vacuum->flying = false;
    if (vacuum->stopped)
        return;
    if (end->verdict != PG_VERDICT_OK) {
        log_warn_err(vacuum->options.log, "vacuum_due", end->err, LOG_INT("tries", 1));
        return;
    }
    for (int row = 0; row < PQntuples(end->results[0]); row++) {
        struct vacuum_due due = vacuum_due_row(end->results[0], row);
        struct vacuum_state *state = &vacuum->parts[due.part];

        if (!due.may && !vacuum->said) {
            vacuum->said = true;
            log_info(vacuum->options.log,
                     "vacuum",
                     LOG_STR("part", vacuum_part_name(due.part)),
                     LOG_STR("why", "this role may not vacuum the tables of the schema pawl"),
                     LOG_STR("then", "autovacuum does what it can"));
        }
        state->due = due.may && now_ms >= state->not_before_ms;
        state->what = due;
    }
    next(vacuum);
}

static void on_timer(uv_timer_t *timer)
{
    struct vacuum *vacuum = timer->data;
    uint64_t now_ms = uv_now(vacuum->options.loop);
    bool idle = vacuum->options.stats->claimed == vacuum->claimed;

    if (vacuum->flying || conn_state(vacuum->options.upkeep) != CONN_READY ||
        (idle && now_ms - vacuum->asked_ms < VACUUM_IDLE_MS))
        return;
    struct batch *batch = batch_new(vacuum->options.upkeep);

    if (batch == NULL || batch_add(batch, STMT(vacuum_due)) == NULL) {
        batch_free(batch);
        return;
    }
    vacuum->claimed = vacuum->options.stats->claimed;
    vacuum->asked_ms = now_ms;
    vacuum->flying = true;
    batch_submit(batch, ASK_DEADLINE_MS, on_due, vacuum);
}

void vacuum_init(struct vacuum *vacuum, const struct vacuum_options *options)
{
    *vacuum = (struct vacuum){.options = *options};
    uv_timer_init(options->loop, &vacuum->timer);
    vacuum->timer.data = vacuum;
}

/* At a random moment, so that processes that start together do not do it together. */
void vacuum_start(struct vacuum *vacuum)
{
    vacuum->asked_ms = uv_now(vacuum->options.loop);
    uv_timer_start(&vacuum->timer,
                   on_timer,
                   VACUUM_EVERY_MS / 2 + rand_below(VACUUM_EVERY_MS / 2),
                   VACUUM_EVERY_MS);
}

void vacuum_stop(struct vacuum *vacuum)
{
    vacuum->stopped = true;
}
