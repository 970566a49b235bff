/* ask: a loop and a channel for the length of one call. */
#include "remote/ask.h"

struct asking {
    const struct ask *ask;
    uv_loop_t loop;
    uv_timer_t late;
    struct channel *channel;
    bool worked;
    bool lost; /* a connection, with the call on its way */
    bool over;
    struct pawl_err err; /* code 0: it worked */
};

static void end(struct asking *a)
{
    a->over = true;
}

static void on_message(void *data, const ProtobufCMessage *message)
{
    struct asking *a = data;

    if (a->ask->answer != NULL)
        a->ask->answer(a->ask->data, message);
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
    if (call_end->status != RPC_UNAVAILABLE || channel_is_up(a->channel)) {
        end(a);
        return;
    }
    a->lost = true;
    if (!a->ask->repeatable)
        end(a); /* else with the next connection, or until it is late */
}

static const struct call_ops ops = {.message = on_message, .ended = on_ended};

static void on_up(void *data)
{
    struct asking *a = data;
    int rc = call_start(
        a->channel,
        &(struct call_new){.path = a->ask->path,
                           .request = a->ask->request,
                           .response = a->ask->response,
                           .timeout_ms = a->ask->timeout_ms > 0 ? a->ask->timeout_ms : ASK_MS,
                           .ops = &ops,
                           .data = a},
        NULL);

    if (rc == 0)
        return;
    err_set(&a->err, rc, "could not %s", a->ask->what);
    end(a);
}

/* Whoever cannot be reached at the first try is not waited for; whoever goes away in the middle is. */
static void on_down(void *data, const struct pawl_err *err)
{
    struct asking *a = data;
    bool met = a->err.code < 0;

    a->err = *err;
    if (!met || !a->ask->repeatable)
        end(a);
}

static void on_late(uv_timer_t *timer)
{
    struct asking *a = timer->data;

    if (a->err.code == 0)
        err_set(&a->err,
                PAWL_ETIMEOUT,
                "could not %s: the server did not answer in time",
                a->ask->what);
    end(a);
}

int remote_ask(const struct ask *ask, struct pawl_err *err)
{
    struct asking a = {.ask = ask};

    if (uv_loop_init(&a.loop) < 0)
        return err_set(err, PAWL_EFULL, "could not make an event loop");
    uv_timer_init(&a.loop, &a.late);
    a.late.data = &a;
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
        while (!a.over)
            uv_run(&a.loop, UV_RUN_ONCE);
        channel_close(a.channel, NULL, NULL);
    }
    uv_close((uv_handle_t *)&a.late, NULL);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    uv_loop_close(&a.loop);
    if (a.worked)
        return 0;
    if (a.lost && (a.err.code == PAWL_ECONN || a.err.code == PAWL_ETIMEOUT)) {
        a.err.code = PAWL_EUNKNOWN;
        err_hint(&a.err, "The connection was lost: it may or may not have happened.");
    }
    *err = a.err;
    return err->code;
}
