/*
 * channel: which connection is used, when another one is tried, and the turn in which all of them send. Back-off grows with
 * failures in a row and is jittered, so that a thousand workers do not come back to a server at once.
 */
#include "remote/channel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rand.h"
#include "remote/channel_internal.h"

#define RETRY_DEFAULT_MS 100
#define RETRY_MAX_MS     5000
#define STEADY_MS        5000 /* a connection that lived so long was a good one */
#define AGAIN_MS         50   /* after a goodbye: up to so long, by chance */

static void begin(struct channel *channel);

struct channel *channel_new(const struct channel_options *options, struct pawl_err *err)
{
    struct channel *channel = calloc(1, sizeof(*channel));

    if (channel == NULL || io_buffers_init(&channel->buffers) < 0) {
        free(channel);
        err_set(err, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    channel->options = *options;
    if (options->token != NULL &&
        (size_t)snprintf(
            channel->authorization, sizeof(channel->authorization), "Bearer %s", options->token) >=
            sizeof(channel->authorization)) {
        io_buffers_deinit(&channel->buffers);
        free(channel);
        err_set(err, PAWL_EINVAL, "the token is too long to be one");
        return NULL;
    }
    list_init(&channel->leaving);
    list_init(&channel->dead);
    uv_prepare_init(options->loop, &channel->turn);
    uv_timer_init(options->loop, &channel->retry);
    uv_timer_init(options->loop, &channel->tick);
    channel->turn.data = channel->retry.data = channel->tick.data = channel;
    channel->tick_at = UINT64_MAX;
    channel->n_handles = 3;
    return channel;
}

bool channel_is_up(const struct channel *channel)
{
    return !channel->closing && channel->current != NULL && channel->current->state == SESSION_OPEN;
}

/* --- time --- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Ends what is late; gives the time of what is next. Ending may change the list, hence from the front each time. */
static uint64_t tick_calls(struct session *session, uint64_t now_ms)
{
    uint64_t next = UINT64_MAX;
    bool again;

    do {
        again = false;
        next = UINT64_MAX;
        LIST_FOREACH(link, &session->calls) {
            struct call *call = LIST_ENTRY(link, struct call, link);

            if (call->gone || call->deadline_ms == UINT64_MAX)
                continue;
            if (call->deadline_ms <= now_ms) {
                call->deadline_ms = UINT64_MAX;
                call_fail(call, RPC_DEADLINE_EXCEEDED, "the server did not answer in time");
                again = true;
                break;
            }
            next = earlier(next, call->deadline_ms);
        }
    } while (again && session->state != SESSION_DEAD);
    return next;
}

static void on_tick(uv_timer_t *timer)
{
    struct channel *channel = timer->data;
    uint64_t now_ms = uv_now(channel->options.loop);
    uint64_t next = UINT64_MAX;

    channel->tick_at = UINT64_MAX;
    if (channel->current != NULL) {
        struct session *session = channel->current;

        next = earlier(tick_calls(session, now_ms), session_tick(session, now_ms));
    }
    LIST_FOREACH_SAFE(link, after, &channel->leaving) {
        struct session *session = LIST_ENTRY(link, struct session, link);

        next = earlier(next, tick_calls(session, now_ms));
        if (channel->closing)
            return; /* the list is gone */
        if (session->state != SESSION_DEAD)
            next = earlier(next, session_tick(session, now_ms));
    }
    if (next != UINT64_MAX)
        channel_tick_at(channel, next);
}

void channel_tick_at(struct channel *channel, uint64_t at_ms)
{
    uint64_t now_ms = uv_now(channel->options.loop);

    if (channel->closing || at_ms >= channel->tick_at)
        return;
    channel->tick_at = at_ms;
    uv_timer_start(&channel->tick, on_tick, at_ms > now_ms ? at_ms - now_ms : 1, 0);
}

/* --- connections come and go --- */

void channel_session_open(struct channel *channel, struct session *session)
{
    session->made_ms = uv_now(channel->options.loop);
    channel->reported_down = false;
    channel_tick_at(channel, session_tick(session, session->made_ms));
    log_info(channel->options.log,
             "channel_up",
             LOG_STR("server", channel->options.server->text),
             LOG_BOOL("tls", session->io.tls != NULL));
    if (channel->options.up != NULL && !channel->closing)
        channel->options.up(channel->options.data);
}

static void on_retry(uv_timer_t *timer)
{
    struct channel *channel = timer->data;

    if (!channel->closing && channel->current == NULL)
        begin(channel);
}

static void retry_in(struct channel *channel, uint64_t ms)
{
    if (!channel->closing)
        uv_timer_start(&channel->retry, on_retry, ms, 0);
}

static uint64_t backoff_ms(const struct channel *channel)
{
    uint64_t first =
        (uint64_t)(channel->options.retry_ms > 0 ? channel->options.retry_ms : RETRY_DEFAULT_MS);
    uint64_t ms = first << (channel->failures < 10 ? channel->failures : 10);

    if (ms > RETRY_MAX_MS)
        ms = RETRY_MAX_MS;
    return ms / 2 + rand_below(ms / 2 + 1);
}

void channel_session_leaving(struct channel *channel, struct session *session)
{
    if (session != channel->current)
        return;
    log_info(channel->options.log,
             "channel_leaving",
             LOG_STR("server", channel->options.server->text),
             LOG_INT("calls", session->n_calls));
    channel->current = NULL;
    list_push(&channel->leaving, &session->link);
    channel->n_leaving++;
    if (channel->n_leaving > CHANNEL_LEAVING_MAX) {
        struct pawl_err err;

        err_set(&err, PAWL_ECONN, "the server goes and comes too often");
        session_kill(LIST_ENTRY(channel->leaving.next, struct session, link), &err);
    }
    retry_in(channel, rand_below(AGAIN_MS));
}

static void down(struct channel *channel, const struct pawl_err *err)
{
    if (!channel->reported_down)
        log_warn_err(channel->options.log,
                     "channel_down",
                     err,
                     LOG_STR("server", channel->options.server->text));
    channel->reported_down = true; /* one line for a whole outage */
    if (channel->options.down != NULL && !channel->closing)
        channel->options.down(channel->options.data, err);
}

void channel_session_dead(struct channel *channel, struct session *session)
{
    bool was_current = session == channel->current;
    uint64_t now_ms = uv_now(channel->options.loop);

    if (was_current)
        channel->current = NULL;
    else if (!list_empty(&session->link))
        channel->n_leaving--;
    list_remove(&session->link);
    list_push(&channel->dead, &session->link);
    /* Calls first: who starts them again waits for `up`. */
    channel->inside++;
    LIST_FOREACH(link, &session->calls) {
        struct call *call = LIST_ENTRY(link, struct call, link);

        if (!channel->closing)
            call_fail(call, RPC_UNAVAILABLE, session->err.message);
    }
    channel->inside--;
    if (!was_current || channel->closing)
        return;
    bool steady = session->h2 != NULL && now_ms - session->made_ms > STEADY_MS;

    retry_in(channel, backoff_ms(channel));
    channel->failures = steady ? 0 : channel->failures + 1;
    down(channel, &session->err);
}

static void begin(struct channel *channel)
{
    struct session *session = session_new(channel);

    if (session == NULL) {
        struct pawl_err err;

        err_set(&err, PAWL_ENOMEM, "out of memory");
        retry_in(channel, backoff_ms(channel));
        channel->failures++;
        down(channel, &err);
        return;
    }
    channel->current = session;
    channel_tick_at(channel, session_tick(session, uv_now(channel->options.loop)));
    session_begin(session);
}

void channel_reset(struct channel *channel)
{
    struct pawl_err err;

    if (channel->current == NULL)
        return;
    err_set(&err, PAWL_ECONN, "gave up the connection to the server");
    session_kill(channel->current, &err);
}

/* --- the turn, and the end --- */

static void flush(struct channel *channel)
{
    if (channel->inside > 0)
        return;
    if (channel->current != NULL)
        session_flush(channel->current);
    LIST_FOREACH_SAFE(link, after, &channel->leaving) {
        session_flush(LIST_ENTRY(link, struct session, link));
    }
}

static void reap(struct channel *channel)
{
    struct list *link;

    while ((link = list_shift(&channel->dead)) != NULL)
        session_free(LIST_ENTRY(link, struct session, link));
}

void channel_turn(struct channel *channel)
{
    assert(channel->inside == 0);
    flush(channel);
    reap(channel);
}

static void on_turn(uv_prepare_t *turn)
{
    channel_turn(turn->data);
}

void channel_start(struct channel *channel)
{
    uv_prepare_start(&channel->turn, on_turn);
    uv_unref((uv_handle_t *)&channel->turn);
    begin(channel);
}

void channel_handle_closed(struct channel *channel)
{
    assert(channel->n_handles > 0);
    if (--channel->n_handles > 0 || !channel->closing)
        return;
    void (*closed)(void *data) = channel->closed;
    void *data = channel->closed_data;

    io_buffers_deinit(&channel->buffers);
    free(channel);
    if (closed != NULL)
        closed(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct channel *channel = handle->data;

    /* Not before here: the caller's stack may be in a callback of a session. */
    reap(channel);
    channel_handle_closed(channel);
}

void channel_close(struct channel *channel, void (*closed)(void *data), void *data)
{
    struct pawl_err err;

    if (channel->closing)
        return;
    flush(channel); /* last words */
    channel->closing = true;
    channel->closed = closed;
    channel->closed_data = data;
    err_set(&err, PAWL_ECONN, "the channel was closed");
    if (channel->current != NULL)
        session_kill(channel->current, &err);
    LIST_FOREACH_SAFE(link, after, &channel->leaving) {
        session_kill(LIST_ENTRY(link, struct session, link), &err);
    }
    uv_close((uv_handle_t *)&channel->turn, on_handle_closed);
    uv_close((uv_handle_t *)&channel->retry, on_handle_closed);
    uv_close((uv_handle_t *)&channel->tick, on_handle_closed);
}
