/* remote: its life from new to free. What comes: stream.c. What goes: report.c. What keeps it: beat.c. */
#include "remote/remote.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "remote/remote_internal.h"

#define AFTER_DRAIN_MS \
    10000 /* for jobs that were told to end: longer than hands wait before they kill */
#define AFTER_RUNS_MS  2000 /* when nothing runs any more, and only the server keeps us */
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

static void init_handles(struct remote *r)
{
    uv_prepare_init(r->loop, &r->turn);
    uv_timer_init(r->loop, &r->beat);
    uv_timer_init(r->loop, &r->drain);
    uv_timer_init(r->loop, &r->again);
    uv_timer_init(r->loop, &r->resend);
    uv_timer_init(r->loop, &r->rest);
    r->turn.data = r->beat.data = r->drain.data = r->again.data = r->resend.data = r;
    r->rest.data = r;
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
    list_init(&r->buffered);
    list_init(&r->running);
    list_init(&r->waiting);
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
    if (r->state == REMOTE_DRAINING && remote_held(r) == 0 && r->beat_call == NULL)
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
    r->n_closing++;
    uv_close(handle, on_handle_closed);
}

static void close_all(struct remote *r)
{
    if (r->state >= REMOTE_CLOSING)
        return;
    remote_stream_close(r);
    r->state = REMOTE_CLOSING;
    r->left = remote_held(r);
    if (r->left > 0)
        log_warn(r->options.log,
                 "worker_stop",
                 LOG_INT("left", r->left),
                 LOG_INT("running", r->n_running),
                 LOG_STR("then", "another worker gets them when their lease is over"));
    close_handle(r, (uv_handle_t *)&r->turn);
    close_handle(r, (uv_handle_t *)&r->beat);
    close_handle(r, (uv_handle_t *)&r->drain);
    close_handle(r, (uv_handle_t *)&r->again);
    close_handle(r, (uv_handle_t *)&r->resend);
    close_handle(r, (uv_handle_t *)&r->rest);
    r->n_closing++;
    channel_close(r->channel, on_channel_closed, r);
    r->channel = NULL;
}

static void end_running(struct remote *r)
{
    LIST_FOREACH_SAFE(link, after, &r->running) {
        struct remote_slot *slot = slot_of_remote_link(link);

        r->options.hands->ops->stop(r->options.hands, &slot->run, STOP_SHUTDOWN);
    }
}

static void on_report_too_late(uv_timer_t *timer)
{
    close_all(timer->data);
}

static void on_drain_over(uv_timer_t *timer)
{
    struct remote *r = timer->data;

    log_warn(r->options.log, "worker_drain", LOG_INT("ended", r->n_running));
    end_running(r);
    uv_timer_start(timer, on_report_too_late, r->n_running > 0 ? AFTER_DRAIN_MS : AFTER_RUNS_MS, 0);
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
        if (r->options.hands->ops->recall != NULL)
            r->options.hands->ops->recall(r->options.hands);
        log_info(r->options.log, "worker_drain", LOG_INT("running", r->n_running));
        uv_timer_start(&r->drain, on_drain_over, (uint64_t)r->options.drain_ms, 0);
        remote_beat_left(r);
        break;
    case REMOTE_DRAINING:
        end_running(r); /* twice: once to ask, once to insist */
        end_running(r);
        close_all(r);
        break;
    case REMOTE_CLOSING:
    case REMOTE_STOPPED:
        break;
    }
}

static void free_slots(struct list *slots)
{
    while (!list_empty(slots))
        remote_slot_free(slot_of_remote_link(slots->next));
}

void remote_free(struct remote *r)
{
    if (r == NULL)
        return;
    assert(r->state == REMOTE_STOPPED);
    free_slots(&r->buffered);
    free_slots(&r->running);
    free_slots(&r->waiting);
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
    if (fewer && r->options.hands->ops->recall != NULL)
        r->options.hands->ops->recall(r->options.hands);
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
    return r->n_running;
}

size_t remote_buffered(const struct remote *r)
{
    return r->n_buffered;
}
