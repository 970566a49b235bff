/* coordinator: its life from new to free. Where jobs are claimed: claim.c. What happens when they
 * end: finish.c. How it looks after itself: pulse.c. */
#include "engine/coordinator.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/coordinator_internal.h"
#include "store/statements.h"
#include "store/worker.h"

#define GOODBYE_MS       2000 /* for the worker's last statement: its row goes after a day */
#define SWEEPS_PER_LEASE 2

static void on_worker_started(void *data, const struct batch_end *end)
{
    struct coordinator *c = data;

    if (end->verdict != PG_VERDICT_OK)
        log_warn_err(c->options.log, "worker_start", end->err, LOG_STR("worker", c->name));
    /* Until our row was there, another worker that started took the mark for one of the dead. */
    else if (c->state == COORDINATOR_WORKING)
        waker_doubt(&c->waker);
}

static void register_worker(struct coordinator *c)
{
    struct batch *batch = batch_new(c->settle_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(worker_start)) : NULL;
    size_t n_queues;
    const char *const *queues = coordinator_queues(c, &n_queues);

    if (params == NULL) {
        batch_free(batch);
        return;
    }
    worker_start_bind(params,
                      &(struct worker_start){
                          .id = c->worker,
                          .name = c->name,
                          .host = c->host,
                          .pid = (int32_t)getpid(),
                          .queues = queues,
                          .n_queues = n_queues,
                          .slots = (int32_t)c->pulse.tuner.now,
                      });
    batch_submit(batch, c->options.lease_ms, on_worker_started, c);
}

void coordinator_note_timeline(struct coordinator *c)
{
    if (c->timeline == c->options.primary->timeline)
        return;
    if (c->timeline != 0)
        lease_primary_moved(&c->lease);
    c->timeline = c->options.primary->timeline;
}

static void on_settle_conn(void *data, enum conn_state state, const struct pawl_err *err)
{
    struct coordinator *c = data;

    (void)err;
    if (state == CONN_READY)
        coordinator_note_timeline(c);
    if (state == CONN_READY && c->state == COORDINATOR_WORKING)
        register_worker(c);
}

/* The first time nothing is known yet, and forgetting does no harm. */
static void on_claim_conn(void *data, enum conn_state state, const struct pawl_err *err)
{
    struct coordinator *c = data;

    (void)err;
    if (state != CONN_READY)
        return;
    for (size_t i = 0; i < c->n_scans; i++)
        scan_forget(&c->scans[i]);
}

static void on_upkeep_conn(void *data, enum conn_state state, const struct pawl_err *err)
{
    (void)err;
    if (state == CONN_READY)
        coordinator_marks_reset(data);
}

typedef void (*conn_state_fn)(void *data, enum conn_state state, const struct pawl_err *err);

static struct conn *open_conn(struct coordinator *c,
                              const char *name,
                              const struct stmt *session,
                              conn_state_fn on_state)
{
    return conn_new(c->loop,
                    &(struct conn_options){
                        .target = c->options.target,
                        .name = name,
                        .clock = c->options.clock,
                        .log = c->options.log,
                        .unprepared = c->options.unprepared,
                        .primary = c->options.primary,
                        .session = session,
                        .n_statements = &c->stats.statements,
                        .on_state = on_state,
                        .on_notify = coordinator_on_notify,
                        .data = c,
                    });
}

static void tell_beat(void *data, struct worker_beat *ret_beat)
{
    const struct coordinator *c = data;

    *ret_beat = (struct worker_beat){
        .running = (int32_t)c->slots.n[SLOT_RUNNING],
        .buffered = (int32_t)(c->slots.n[SLOT_BUFFERED] + c->slots.n[SLOT_BEHIND]),
        .slots = (int32_t)c->pulse.tuner.now,
        .memory_bytes = c->pulse.memory.rss_bytes,
    };
}

static void close_all(struct coordinator *c);

static void on_late(void *data)
{
    close_all(data);
}

/* Nothing in here can fail: libuv's timers only write to their own memory. */
static void init_parts(struct coordinator *c)
{
    const struct coordinator_options *o = &c->options;

    uv_timer_init(c->loop, &c->backoff_timer);
    coordinator_suspect_init(c);
    uv_prepare_init(c->loop, &c->turn);
    c->backoff_timer.data = c;
    c->turn.data = c;
    slots_init(&c->slots,
               &(struct slots_options){
                   .loop = c->loop,
                   .hands = o->hands,
                   .log = o->log,
                   .started = coordinator_on_started,
                   .not_started = coordinator_on_not_started,
                   .late = on_late,
                   .data = c,
               });
    settle_init(&c->settle,
                &(struct settle_options){
                    .loop = c->loop,
                    .slots = &c->slots,
                    .conn = c->settle_conn,
                    .worker = c->name,
                    .clock = o->clock,
                    .log = o->log,
                    .stats = &c->stats,
                    .settled = coordinator_on_settled,
                    .due = coordinator_on_due,
                    .went_on = coordinator_on_went_on,
                    .missed = coordinator_on_missed,
                    .data = c,
                });
    lease_init(&c->lease,
               &(struct lease_options){
                   .loop = c->loop,
                   .conn = c->settle_conn,
                   .worker = c->worker,
                   .lease_ms = o->lease_ms,
                   .clock = o->clock,
                   .log = o->log,
                   .stats = &c->stats,
                   .lost = coordinator_on_lost,
                   .cancelled = coordinator_on_cancelled,
                   .beat = tell_beat,
                   .data = c,
               });
    sweeper_init(&c->sweeper,
                 &(struct sweeper_options){
                     .loop = c->loop,
                     .conn = c->upkeep_conn,
                     .every_ms = o->lease_ms / SWEEPS_PER_LEASE,
                     .deadline_ms = o->sweep_ms,
                     .low = &c->marks.low,
                     .log = o->log,
                     .stats = &c->stats,
                     .called = coordinator_on_called,
                     .data = c,
                 });
    notes_init(&c->notes, c->loop, c->settle_conn, &c->slots.at[SLOT_RUNNING], o->log);
    waker_init(&c->waker,
               &(struct waker_options){
                   .loop = c->loop,
                   .conn = c->claim_conn,
                   .worker = c->worker,
                   .queues = o->queues,
                   .n_queues = o->n_queues,
                   .listening = !o->deaf,
                   .poll_ms = o->poll_ms,
                   .poll_max_ms = o->poll_max_ms,
                   .clock = o->clock,
                   .log = o->log,
                   .look = coordinator_look,
                   .data = c,
               });
    coordinator_marks_init(c);
    vacuum_init(&c->vacuum,
                &(struct vacuum_options){
                    .loop = c->loop,
                    .upkeep = c->upkeep_conn,
                    .care = c->care_conn,
                    .log = o->log,
                    .stats = &c->stats,
                });
    for (size_t i = 0; i < o->n_queues; i++)
        scan_init(&c->scans[i], o->queues[i]);
    if (!o->deaf)
        conn_listen(c->claim_conn, STMT(listen));
}

/* What was made of it before memory ran out. */
static void give_up(struct coordinator *c)
{
    struct conn *conns[] = {c->settle_conn, c->claim_conn, c->upkeep_conn, c->care_conn};

    for (size_t i = 0; i < sizeof(conns) / sizeof(*conns); i++) {
        if (conns[i] != NULL)
            conn_close(conns[i], NULL, NULL);
    }
    primary_deinit(&c->primary);
    free(c->scans);
    free(c);
}

struct coordinator *
coordinator_new(uv_loop_t *loop, const struct coordinator_options *options, struct pawl_err *err)
{
    struct coordinator *c = calloc(1, sizeof(*c));

    assert((options->n_queues > 0 || options->hands->ops->room != NULL) &&
           options->concurrency > 0 && options->lease_ms > 0);
    if (c != NULL) {
        c->options = *options;
        c->loop = loop;
        primary_init(&c->primary, STMT(server_identity), options->log);
        if (c->options.primary == NULL)
            c->options.primary = &c->primary;
        c->worker = uuid_random();
        gethostname(c->host, sizeof(c->host) - 1);
        snprintf(c->name, sizeof(c->name), "%s:%d", c->host, (int)getpid());
        c->n_scans = options->n_queues;
        c->scans_size = options->n_queues > 0 ? options->n_queues : 1;
        c->scans = calloc(c->scans_size, sizeof(*c->scans));
        c->settle_conn = open_conn(c, "settle", STMT(session_settle), on_settle_conn);
        c->claim_conn = open_conn(c, "claim", STMT(session), on_claim_conn);
        c->upkeep_conn = open_conn(c, "upkeep", STMT(session), on_upkeep_conn);
        /* Where settings are sent with every transaction, VACUUM would not be alone in its own. */
        c->care_conn = open_conn(c, "care", c->options.unprepared ? NULL : STMT(session), NULL);
    }
    if (c == NULL || c->settle_conn == NULL || c->claim_conn == NULL || c->upkeep_conn == NULL ||
        c->care_conn == NULL || c->scans == NULL) {
        if (c != NULL)
            give_up(c);
        err_set(err, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    init_parts(c);
    coordinator_pulse_init(c);
    options->hands->finished = coordinator_on_finished;
    options->hands->finished_data = c;
    return c;
}

static void check_end(struct coordinator *c);

/* All that follows from what happened in this turn of the loop. */
void coordinator_turn(struct coordinator *c)
{
    if (c->state == COORDINATOR_NEW || c->state >= COORDINATOR_CLOSING)
        return;
    if (c->pulse.watch != NULL)
        watch_beat(c->pulse.watch);
    coordinator_dispatch(c);
    settle_flush(&c->settle);
    coordinator_pump(c);
    check_end(c);
    c->stats.poll_wakeups = c->waker.n_polls;
}

static void on_turn(uv_prepare_t *turn)
{
    coordinator_turn(turn->data);
}

void coordinator_start(struct coordinator *c)
{
    assert(c->state == COORDINATOR_NEW);
    c->state = COORDINATOR_WORKING;
    conn_start(c->settle_conn);
    conn_start(c->claim_conn);
    conn_start(c->upkeep_conn);
    lease_start(&c->lease);
    sweeper_start(&c->sweeper);
    coordinator_marks_start(c);
    vacuum_start(&c->vacuum);
    coordinator_pulse_start(c);
    uv_prepare_start(&c->turn, on_turn);
}

void coordinator_wake(struct coordinator *c)
{
    coordinator_look(c);
}

static void on_part_closed(struct coordinator *c)
{
    if (--c->n_closing > 0)
        return;
    c->state = COORDINATOR_STOPPED;
    coordinator_pulse_stop(c);
    c->options.stopped(c->options.data, c->left);
}

static void on_conn_closed(void *data)
{
    on_part_closed(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void close_handle(struct coordinator *c, uv_handle_t *handle)
{
    handle->data = c; /* whatever part it belonged to */
    c->n_closing++;
    uv_close(handle, on_handle_closed);
}

static size_t jobs_here(const struct coordinator *c)
{
    return c->slots.n[SLOT_BEHIND] + c->slots.n[SLOT_BUFFERED] + c->slots.n[SLOT_RUNNING] +
           coordinator_unsettled(c);
}

static void close_all(struct coordinator *c)
{
    if (c->state >= COORDINATOR_CLOSING)
        return;
    c->state = COORDINATOR_CLOSING;

    c->left = jobs_here(c);
    if (c->left > 0)
        log_warn(c->options.log,
                 "worker_stop",
                 LOG_INT("left", c->left),
                 LOG_INT("running", c->slots.n[SLOT_RUNNING]),
                 LOG_INT("unsettled", coordinator_unsettled(c)),
                 LOG_INT("locked", c->slots.n[SLOT_ASIDE]), /* of these, by other transactions */
                 LOG_STR("then", "another worker gets them when their lease is over"));
    uv_timer_t *timers[] = {
        &c->backoff_timer,
        &c->held_timer,
        &c->waker.timer,
        &c->slots.drain,
        &c->settle.retry,
        &c->settle.look,
        &c->notes.timer,
        &c->lease.timer,
        &c->pulse.timer,
        &c->sweeper.sweep_timer,
        &c->sweeper.history_timer,
        &c->sweeper.mend_timer,
        &c->marks.timer,
        &c->vacuum.timer,
    };
    struct conn *conns[] = {c->care_conn, c->upkeep_conn, c->claim_conn, c->settle_conn};

    for (size_t i = 0; i < sizeof(timers) / sizeof(*timers); i++)
        close_handle(c, (uv_handle_t *)timers[i]);
    close_handle(c, (uv_handle_t *)&c->turn);
    sweep_stop(&c->sweeper.sweep);
    vacuum_stop(&c->vacuum);
    c->n_closing += sizeof(conns) / sizeof(*conns);
    for (size_t i = 0; i < sizeof(conns) / sizeof(*conns); i++)
        conn_close(conns[i], on_conn_closed, c);
}

static void on_goodbye(void *data, const struct batch_end *end)
{
    (void)end;
    close_all(data);
}

static void say_goodbye(struct coordinator *c)
{
    struct batch *batch = batch_new(c->settle_conn);
    struct params *params = batch != NULL ? batch_add(batch, STMT(worker_stop)) : NULL;

    c->state = COORDINATOR_ENDING;
    sweeper_stop(&c->sweeper);
    if (params == NULL || conn_state(c->settle_conn) != CONN_READY) {
        batch_free(batch);
        close_all(c);
        return;
    }
    worker_stop_bind(params, &c->worker);
    batch_submit(batch, GOODBYE_MS, on_goodbye, c);
}

static void check_end(struct coordinator *c)
{
    /* A claim that waits for its connection has no effect, and closing ends it. */
    bool unsent = conn_state(c->claim_conn) != CONN_READY;

    if (jobs_here(c) > 0)
        return;
    if (c->claiming.claim != NULL && !unsent)
        return;
    if (c->state == COORDINATOR_DRAINING ||
        (c->state == COORDINATOR_WORKING && c->options.until_empty && coordinator_all_empty(c) &&
         !sweeper_mends(&c->sweeper) && coordinator_marks_seen_all(c)))
        say_goodbye(c);
}

void coordinator_stop(struct coordinator *c)
{
    switch (c->state) {
    case COORDINATOR_NEW:
        close_all(c);
        break;
    case COORDINATOR_WORKING:
        c->state = COORDINATOR_DRAINING;
        waker_stop(&c->waker);
        /* What was not started goes back at once, with its attempt. */
        coordinator_release_buffered(c);
        slots_drain(&c->slots, c->options.drain_ms);
        break;
    case COORDINATOR_DRAINING:
    case COORDINATOR_ENDING:
        /* Twice: once to ask, once to insist. */
        slots_end_running(&c->slots);
        slots_end_running(&c->slots);
        close_all(c);
        break;
    case COORDINATOR_CLOSING:
    case COORDINATOR_STOPPED:
        break;
    }
}

void coordinator_free(struct coordinator *c)
{
    if (c == NULL)
        return;
    assert(c->state == COORDINATOR_STOPPED);
    /* Only now: late runs of the hands still pointed into them. */
    lease_deinit(&c->lease);
    coordinator_pulse_deinit(c);
    coordinator_marks_deinit(c);
    free(c->kinds);
    free(c->source_queues);
    free(c->scans);
    free(c);
}

const struct coordinator_stats *coordinator_stats(const struct coordinator *c)
{
    return &c->stats;
}

void coordinator_note(struct coordinator *c, struct run *run, const char *text)
{
    if (c->state < COORDINATOR_CLOSING)
        notes_add(&c->notes, slot_of_run(run), text);
}

size_t coordinator_running(const struct coordinator *c)
{
    return c->slots.n[SLOT_RUNNING];
}

const struct uuid *coordinator_worker(const struct coordinator *c)
{
    return &c->worker;
}

bool coordinator_connected(const struct coordinator *c)
{
    return conn_state(c->claim_conn) == CONN_READY && conn_state(c->settle_conn) == CONN_READY &&
           conn_state(c->upkeep_conn) == CONN_READY;
}
