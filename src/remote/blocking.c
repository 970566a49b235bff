/*
 * blocking: a loop and a channel for the length of one call, made by a thread that waits for it.
 *
 *     CONNECTING ──up──► SENT ──answer──► OVER
 *         ▲                │
 *         └── the call ended without an answer, and may be made again
 *
 * Conserved: the call is on at most one connection at a time. While one server has the call, other
 * connections do not matter: a server that says goodbye still answers, and the call would be made
 * twice. It is made again when it is known that the server did not do it, or when it has one effect
 * however often it is made. The end never claims to know more than is known (`lost`).
 */
#include "remote/blocking.h"

#include "base/rand.h"

#define AGAIN_MS 200 /* before it is made again, up to so long */
#define MAYBE    "It may or may not have happened: look before you do it again."

enum blocking_state { BLOCKING_CONNECTING, BLOCKING_SENT, BLOCKING_OVER };

struct blocking {
    const struct blocking_call *call;
    uv_loop_t loop;
    uv_timer_t late;
    uv_timer_t again;
    struct channel *channel;
    enum blocking_state state;
    bool met;  /* a server was there */
    bool lost; /* a server had the call, and nobody knows what became of it */
    bool worked;
    struct pawl_err err; /* the newest reason; code 0: none yet */
};

static void start(struct blocking *b);

static void end(struct blocking *b)
{
    b->state = BLOCKING_OVER;
}

static void on_message(void *data, const ProtobufCMessage *message)
{
    struct blocking *b = data;

    if (b->call->answer != NULL)
        b->call->answer(b->call->data, message);
}

static void on_again(uv_timer_t *timer)
{
    struct blocking *b = timer->data;

    if (b->state == BLOCKING_CONNECTING && channel_is_up(b->channel))
        start(b);
}

/* With the connection there is, in a moment, or with the next one. */
static void make_again(struct blocking *b)
{
    b->state = BLOCKING_CONNECTING;
    uv_timer_start(&b->again, on_again, 1 + rand_below(AGAIN_MS), 0);
}

static bool may_repeat(const struct blocking *b, const struct call_end *call_end)
{
    if (b->lost && !b->call->repeatable)
        return false;
    switch (call_end->done) {
    case CALL_UNTOUCHED:
        return true;
    case CALL_REFUSED:
        /* That is the answer, unless the server stops. For a call that was lost before it is none:
         * what became of that one is still to be found out. */
        return (call_end->status == RPC_UNAVAILABLE && (b->lost || !channel_is_up(b->channel))) ||
               (call_end->status == RPC_ABORTED && b->lost) ||
               (call_end->status == RPC_RESOURCE_EXHAUSTED && b->lost);
    default:
        return b->call->repeatable;
    }
}

static void on_ended(void *data, const struct call_end *call_end)
{
    struct blocking *b = data;

    if (call_end->status == RPC_OK) {
        b->worked = true;
        end(b);
        return;
    }
    call_error(call_end, b->call->server, b->call->what, &b->err);
    b->lost |= call_end->done == CALL_UNKNOWN;
    if (may_repeat(b, call_end))
        make_again(b);
    else
        end(b);
}

static const struct call_ops ops = {.message = on_message, .ended = on_ended};

static void start(struct blocking *b)
{
    int rc =
        call_start(b->channel,
                   &(struct call_new){.path = b->call->path,
                                      .request = b->call->request,
                                      .response = b->call->response,
                                      .timeout_ms = b->call->timeout_ms > 0 ? b->call->timeout_ms
                                                                            : BLOCKING_MS,
                                      .ops = &ops,
                                      .data = b},
                   NULL);

    b->met = true;
    b->state = BLOCKING_SENT;
    if (rc == 0)
        return;
    err_set(&b->err, rc, "could not %s", b->call->what);
    end(b);
}

static void on_up(void *data)
{
    struct blocking *b = data;

    if (b->state == BLOCKING_CONNECTING)
        start(b);
}

/* Whoever cannot be reached at the first try is not waited for; whoever goes away in the middle is.
 */
static void on_down(void *data, const struct pawl_err *err)
{
    struct blocking *b = data;

    if (b->state != BLOCKING_CONNECTING)
        return; /* the call is on another connection */
    b->err = *err;
    if (!b->met)
        end(b);
}

static void on_late(uv_timer_t *timer)
{
    struct blocking *b = timer->data;

    if (b->state == BLOCKING_SENT && !b->lost) {
        err_set(&b->err,
                PAWL_ETIMEOUT,
                "could not %s: the server did not answer in time",
                b->call->what);
        err_hint(&b->err, MAYBE);
    } else if (b->err.code == 0) {
        err_set(&b->err,
                PAWL_ETIMEOUT,
                "could not %s: no server could be reached in time",
                b->call->what);
    }
    end(b);
}

int call_blocking(const struct blocking_call *call, struct pawl_err *err)
{
    struct blocking b = {.call = call};

    if (uv_loop_init(&b.loop) < 0)
        return err_set(err, PAWL_EFULL, "could not make an event loop");
    uv_timer_init(&b.loop, &b.late);
    uv_timer_init(&b.loop, &b.again);
    b.late.data = b.again.data = &b;
    b.channel = channel_new(&(struct channel_options){.loop = &b.loop,
                                                      .server = call->server,
                                                      .token = call->token,
                                                      .tls = call->tls,
                                                      .up = on_up,
                                                      .down = on_down,
                                                      .data = &b},
                            &b.err);
    if (b.channel != NULL) {
        uv_timer_start(
            &b.late, on_late, (uint64_t)(call->timeout_ms > 0 ? call->timeout_ms : BLOCKING_MS), 0);
        channel_start(b.channel);
        while (b.state != BLOCKING_OVER)
            uv_run(&b.loop, UV_RUN_ONCE);
        channel_close(b.channel, NULL, NULL);
    }
    uv_close((uv_handle_t *)&b.late, NULL);
    uv_close((uv_handle_t *)&b.again, NULL);
    uv_run(&b.loop, UV_RUN_DEFAULT);
    uv_loop_close(&b.loop);
    if (b.worked)
        return 0;
    if (b.lost) {
        b.err.code = PAWL_EUNKNOWN;
        err_hint(&b.err, "The connection was lost. " MAYBE);
    }
    *err = b.err;
    return err->code;
}
