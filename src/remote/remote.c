/* remote: its life from new to free. What comes: stream.c. What goes: report.c. What keeps it: beat.c. */
#include "remote/remote.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "remote/remote_internal.h"

#define BACKOFF_MS     100
#define BACKOFF_MAX_MS 5000

uint64_t remote_backoff_ms(unsigned failures)
{
    uint64_t ms = (uint64_t)BACKOFF_MS << (failures < 8 ? failures : 8);

    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    return ms / 2 + rand_below(ms / 2 + 1);
}

static void close_all(struct remote *r);

void remote_trouble(struct remote *r, const char *event, const struct pawl_err *err)
{
    if (r->taken || r->state != REMOTE_WORKING) {
        log_warn_err(r->options.log, event, err, LOG_STR("server", r->options.server->text));
        return;
    }
    r->err = *err;
    close_all(r);
}

static void on_up(void *data)
{
    struct remote *r = data;

    r->report_resting = false;
    remote_stream_open(r);
}

static void on_down(void *data, const struct pawl_err *err)
{
    struct remote *r = data;

    if (!r->taken)
        remote_trouble(r, "channel_down", err);
}

static void on_late(void *data)
{
    close_all(data);
}

static void init_handles(struct remote *r)
{
    uv_prepare_init(r->loop, &r->turn);
    uv_timer_init(r->loop, &r->beat);
    uv_timer_init(r->loop, &r->again);
    uv_timer_init(r->loop, &r->resend);
    uv_timer_init(r->loop, &r->rest);
    r->turn.data = r->beat.data = r->again.data = r->resend.data = r;
    r->rest.data = r;
    slots_init(&r->slots,
               &(struct slots_options){.loop = r->loop,
                                       .hands = r->options.hands,
                                       .log = r->options.log,
                                       .started = remote_on_started,
                                       .not_started = remote_on_not_started,
                                       .late = on_late,
                                       .data = r});
}

struct remote *
remote_new(uv_loop_t *loop, const struct remote_options *options, struct pawl_err *err)
{
    struct remote *r = calloc(1, sizeof(*r));
    struct uuid id = uuid_random();
    char host[64] = "";

    assert(options->n_queues > 0 && options->concurrency > 0 && options->lease_ms > 0);
    if (r == NULL) {
        err_set(err, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    r->options = *options;
    r->loop = loop;
    r->lease_ms = options->lease_ms;
    uuid_format(&id, r->worker_id);
    gethostname(host, sizeof(host) - 1);
    if (options->name != NULL)
        snprintf(r->name, sizeof(r->name), "%s", options->name);
    else
        snprintf(r->name, sizeof(r->name), "%s:%d", host, (int)getpid());
    for (size_t i = 0; i < FLIGHTS_MAX; i++) {
        r->flights[i].remote = r;
        list_init(&r->flights[i].slots);
    }
    r->channel = channel_new(&(struct channel_options){.loop = loop,
                                                       .log = options->log,
                                                       .server = options->server,
                                                       .token = options->token,
                                                       .tls = options->tls,
                                                       .up = on_up,
                                                       .down = on_down,
                                                       .data = r},
                             err);
    if (r->channel == NULL) {
        free(r);
        return NULL;
    }
    init_handles(r);
    options->hands->finished = remote_on_finished;
    options->hands->finished_data = r;
    return r;
}

/* --- the turn --- */

static void check_end(struct remote *r)
{
    if (r->state == REMOTE_DRAINING && remote_here(r) == 0 && r->beat_call == NULL)
        close_all(r);
}

void remote_turn(struct remote *r)
{
    if (r->state == REMOTE_NEW || r->state >= REMOTE_CLOSING)
        return;
    remote_dispatch(r);
    remote_report_flush(r);
    check_end(r);
    if (r->state < REMOTE_CLOSING)
        channel_turn(r->channel);
}

static void on_turn(uv_prepare_t *turn)
{
    remote_turn(turn->data);
}

void remote_start(struct remote *r)
{
    assert(r->state == REMOTE_NEW);
    r->state = REMOTE_WORKING;
    channel_start(r->channel);
    /* After the channel's: what is started last runs first, and sends what this says. */
    if (r->state == REMOTE_WORKING)
        uv_prepare_start(&r->turn, on_turn);
}

/* --- the end --- */

static void on_part_closed(struct remote *r)
{
    if (--r->n_closing > 0)
        return;
    r->state = REMOTE_STOPPED;
    r->options.stopped(r->options.data, r->left, r->err.code < 0 ? &r->err : NULL);
}

static void on_channel_closed(void *data)
{
    on_part_closed(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void close_handle(struct remote *r, uv_handle_t *handle)
{
    handle->data = r; /* whatever part it belonged to */
    r->n_closing++;
    uv_close(handle, on_handle_closed);
}

static void close_all(struct remote *r)
{
    if (r->state >= REMOTE_CLOSING)
        return;
    remote_stream_close(r);
    r->state = REMOTE_CLOSING;
    r->left = remote_here(r);
    if (r->left > 0)
        log_warn(r->options.log,
                 "worker_stop",
                 LOG_INT("left", r->left),
                 LOG_INT("running", r->slots.n[SLOT_RUNNING]),
                 LOG_STR("then", "another worker gets them when their lease is over"));
    uv_timer_t *timers[] = {&r->beat, &r->slots.drain, &r->again, &r->resend, &r->rest};

    for (size_t i = 0; i < sizeof(timers) / sizeof(*timers); i++)
        close_handle(r, (uv_handle_t *)timers[i]);
    close_handle(r, (uv_handle_t *)&r->turn);
    r->n_closing++;
    channel_close(r->channel, on_channel_closed, r);
    r->channel = NULL;
}

void remote_stop(struct remote *r)
{
    switch (r->state) {
    case REMOTE_NEW:
        close_all(r);
        break;
    case REMOTE_WORKING:
        r->state = REMOTE_DRAINING;
        remote_stream_close(r); /* takes no more */
        remote_release_buffered(r);
        slots_drain(&r->slots, r->options.drain_ms);
        remote_beat_left(r);
        break;
    case REMOTE_DRAINING:
        slots_end_running(&r->slots); /* twice: once to ask, once to insist */
        slots_end_running(&r->slots);
        close_all(r);
        break;
    case REMOTE_CLOSING:
    case REMOTE_STOPPED:
        break;
    }
}

static void free_slots(struct list *slots)
{
    LIST_FOREACH_SAFE(link, after, slots)
        remote_slot_free(slot_of_remote_link(link));
}

void remote_free(struct remote *r)
{
    if (r == NULL)
        return;
    assert(r->state == REMOTE_STOPPED);
    for (size_t i = 0; i < SLOT_PLACES; i++)
        free_slots(&r->slots.at[i]);
    for (size_t i = 0; i < FLIGHTS_MAX; i++)
        free_slots(&r->flights[i].slots);
    free(r);
}

/* --- small things --- */

bool remote_is_taken(const struct remote *r)
{
    return r->taken;
}

void remote_set_concurrency(struct remote *r, size_t concurrency)
{
    bool fewer = concurrency < r->options.concurrency;

    if (concurrency == r->options.concurrency)
        return;
    r->options.concurrency = concurrency;
    if (r->state != REMOTE_WORKING)
        return;
    if (fewer)
        slots_recall(&r->slots);
    /* A stream has its credits from the start: another one is opened, which names all that is held. */
    remote_stream_close(r);
    remote_stream_open(r);
}

void remote_note(struct remote *r, struct run *run, const char *text)
{
    struct remote_slot *slot = slot_of_remote_run(run);
    char *copy = strdup(text);

    if (copy == NULL || r->state >= REMOTE_CLOSING) {
        free(copy);
        return;
    }
    free(slot->note);
    slot->note = copy;
    remote_beat_soon(r);
}

const struct remote_stats *remote_stats(const struct remote *r)
{
    return &r->stats;
}

size_t remote_running(const struct remote *r)
{
    return r->slots.n[SLOT_RUNNING];
}

size_t remote_buffered(const struct remote *r)
{
    return r->slots.n[SLOT_BUFFERED];
}
