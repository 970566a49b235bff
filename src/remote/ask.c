/*
 * ask: a loop and a channel for the length of one call.
 *
 *     CONNECTING ──up──► SENT ──answer──► OVER
 *         ▲                │
 *         └── the call ended without an answer, and may be made again
 *
 * Conserved: the call is on at most one connection at a time. While one server has it, whatever other connections do is
 * of no interest: a server that says goodbye still answers, and to make the call elsewhere meanwhile would be to make it
 * twice. It is made again when it is known that the server did not do it, or when it has one effect however often it is
 * made. What is reported at the end never claims to know more than is known (`lost`).
 */
#include "remote/ask.h"

#include "base/rand.h"

#define AGAIN_MS 200 /* before it is made again, up to so long */
#define MAYBE    "It may or may not have happened: look before you do it again."

enum ask_state { ASK_CONNECTING, ASK_SENT, ASK_OVER };

struct asking {
    const struct ask *ask;
    uv_loop_t loop;
    uv_timer_t late;
    uv_timer_t again;
    struct channel *channel;
    enum ask_state state;
    bool met;  /* a server was there */
    bool lost; /* a server had the call, and nobody knows what became of it */
    bool worked;
    struct pawl_err err; /* the newest reason; code 0: none yet */
};

static void start(struct asking *a);

static void end(struct asking *a)
{
    a->state = ASK_OVER;
}

static void on_message(void *data, const ProtobufCMessage *message)
{
    struct asking *a = data;

    if (a->ask->answer != NULL)
        a->ask->answer(a->ask->data, message);
}

static void on_again(uv_timer_t *timer)
{
    struct asking *a = timer->data;

    if (a->state == ASK_CONNECTING && channel_is_up(a->channel))
        start(a);
}

/* With the connection there is, in a moment, or with the next one. */
static void make_again(struct asking *a)
{
    a->state = ASK_CONNECTING;
    uv_timer_start(&a->again, on_again, 1 + rand_below(AGAIN_MS), 0);
}

static bool may_repeat(const struct asking *a, const struct call_end *call_end)
{
    if (a->lost && !a->ask->repeatable)
        return false;
    switch (call_end->done) {
    case CALL_UNTOUCHED:
        return true;
    case CALL_REFUSED:
        /* That is the answer, unless the server stops. For a call that was lost before it is none: what became of that
         * one is still to be found out. */
        return (call_end->status == RPC_UNAVAILABLE && (a->lost || !channel_is_up(a->channel))) ||
               (call_end->status == RPC_ABORTED && a->lost) ||
               (call_end->status == RPC_RESOURCE_EXHAUSTED && a->lost);
    default:
        return a->ask->repeatable;
    }
}

static void on_ended(void *data, const struct call_end *call_end)
{
    struct asking *a = data;

    if (call_end->status == RPC_OK) {
        a->worked = true;
        end(a);
        return;
    }
    call_error(call_end, a->ask->server, a->ask->what, &a->err);
    a->lost |= call_end->done == CALL_UNKNOWN;
    if (may_repeat(a, call_end))
        make_again(a);
    else
        end(a);
}

static const struct call_ops ops = {.message = on_message, .ended = on_ended};

static void start(struct asking *a)
{
    int rc = call_start(
        a->channel,
        &(struct call_new){.path = a->ask->path,
                           .request = a->ask->request,
                           .response = a->ask->response,
                           .timeout_ms = a->ask->timeout_ms > 0 ? a->ask->timeout_ms : ASK_MS,
                           .ops = &ops,
                           .data = a},
        NULL);

    a->met = true;
    a->state = ASK_SENT;
    if (rc == 0)
        return;
    err_set(&a->err, rc, "could not %s", a->ask->what);
    end(a);
}

static void on_up(void *data)
{
    struct asking *a = data;

    if (a->state == ASK_CONNECTING)
        start(a);
}

/* Whoever cannot be reached at the first try is not waited for; whoever goes away in the middle is. */
static void on_down(void *data, const struct pawl_err *err)
{
    struct asking *a = data;

    if (a->state != ASK_CONNECTING)
        return; /* the call is on another connection */
    a->err = *err;
    if (!a->met)
        end(a);
}

static void on_late(uv_timer_t *timer)
{
    struct asking *a = timer->data;

    if (a->state == ASK_SENT && !a->lost) {
        err_set(&a->err,
                PAWL_ETIMEOUT,
                "could not %s: the server did not answer in time",
                a->ask->what);
        err_hint(&a->err, MAYBE);
    } else if (a->err.code == 0) {
        err_set(&a->err,
                PAWL_ETIMEOUT,
                "could not %s: no server could be reached in time",
                a->ask->what);
    }
    end(a);
}

int remote_ask(const struct ask *ask, struct pawl_err *err)
{
    struct asking a = {.ask = ask};

    if (uv_loop_init(&a.loop) < 0)
        return err_set(err, PAWL_EFULL, "could not make an event loop");
    uv_timer_init(&a.loop, &a.late);
    uv_timer_init(&a.loop, &a.again);
    a.late.data = a.again.data = &a;
    a.channel = channel_new(&(struct channel_options){.loop = &a.loop,
                                                      .server = ask->server,
                                                      .token = ask->token,
                                                      .tls = ask->tls,
                                                      .up = on_up,
                                                      .down = on_down,
                                                      .data = &a},
                            &a.err);
    if (a.channel != NULL) {
        uv_timer_start(
            &a.late, on_late, (uint64_t)(ask->timeout_ms > 0 ? ask->timeout_ms : ASK_MS), 0);
        channel_start(a.channel);
        while (a.state != ASK_OVER)
            uv_run(&a.loop, UV_RUN_ONCE);
        channel_close(a.channel, NULL, NULL);
    }
    uv_close((uv_handle_t *)&a.late, NULL);
    uv_close((uv_handle_t *)&a.again, NULL);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    uv_loop_close(&a.loop);
    if (a.worked)
        return 0;
    if (a.lost) {
        a.err.code = PAWL_EUNKNOWN;
        err_hint(&a.err, "The connection was lost. " MAYBE);
    }
    *err = a.err;
    return err->code;
}
