/* callers: a load of calls. */
#include "bench/callers.h"

#include <stdlib.h>

#define CONNECT_MS 20000

struct callers;

struct caller {
    struct callers *all;
    struct channel *channel;
};

struct callers {
    const struct callers_options *options;
    uv_loop_t loop;
    struct caller *callers; /* owned */
    size_t n_up;
    size_t n_open;
    size_t n_under_way;
    int64_t n_answered;
    bool calling;
    struct pawl_err err;
};

static void call_again(struct caller *caller);

static void on_message(void *data, const ProtobufCMessage *message)
{
    (void)data;
    (void)message;
}

static void on_ended(void *data, const struct call_end *end)
{
    struct caller *caller = data;
    struct callers *all = caller->all;

    all->n_under_way--;
    all->n_answered++;
    if (end->status != RPC_OK && all->err.code == 0)
        call_error(end, all->options->server, "make a call", &all->err);
    if (all->calling && all->err.code == 0)
        call_again(caller);
}

static const struct call_ops ops = {.message = on_message, .ended = on_ended};

static void call_again(struct caller *caller)
{
    struct callers *all = caller->all;
    int rc = call_start(caller->channel,
                        &(struct call_new){.path = all->options->path,
                                           .request = all->options->request,
                                           .response = all->options->response,
                                           .ops = &ops,
                                           .data = caller},
                        NULL);

    if (rc == 0)
        all->n_under_way++;
    else if (all->err.code == 0)
        err_set(&all->err, rc, "could not start a call");
}

static void on_up(void *data)
{
    struct caller *caller = data;

    caller->all->n_up++;
}

static void on_down(void *data, const struct pawl_err *err)
{
    struct caller *caller = data;

    if (caller->all->err.code == 0)
        caller->all->err = *err;
}

static void on_closed(void *data)
{
    struct callers *all = data;

    all->n_open--;
}

static int open_all(struct callers *all, struct pawl_err *err)
{
    for (size_t i = 0; i < all->options->connections; i++) {
        struct caller *caller = &all->callers[i];

        caller->all = all;
        caller->channel = channel_new(&(struct channel_options){.loop = &all->loop,
                                                                .server = all->options->server,
                                                                .up = on_up,
                                                                .down = on_down,
                                                                .data = caller},
                                      err);
        if (caller->channel == NULL)
            return err->code;
        all->n_open++;
        channel_start(caller->channel);
    }
    return 0;
}

static void on_wake(uv_timer_t *timer)
{
    (void)timer; /* only so that the loop turns */
}

static int run(struct bench *b, struct callers *all, double *ret_rate, struct pawl_err *err)
{
    const struct callers_options *o = all->options;
    int64_t until_us = bench_now_us() + CONNECT_MS * US_PER_MS;

    while (all->n_up < o->connections && all->err.code == 0 && bench_now_us() < until_us)
        uv_run(&all->loop, UV_RUN_ONCE);
    all->calling = true;
    for (size_t i = 0; i < o->connections && all->err.code == 0; i++) {
        for (size_t j = 0; j < o->at_once; j++)
            call_again(&all->callers[i]);
    }
    int64_t begun_us = bench_now_us();

    until_us = begun_us + o->ms * US_PER_MS;
    while (all->err.code == 0 && bench_now_us() < until_us && !b->interrupted)
        uv_run(&all->loop, UV_RUN_ONCE);
    *ret_rate = (double)all->n_answered * US_PER_S / (double)(bench_now_us() - begun_us);
    all->calling = false;
    while (all->err.code == 0 && all->n_under_way > 0)
        uv_run(&all->loop, UV_RUN_ONCE);
    if (all->err.code < 0) {
        *err = all->err;
        return err->code;
    }
    return bench_go_on(b, err);
}

int callers_run(struct bench *b,
                const struct callers_options *options,
                double *ret_rate,
                struct pawl_err *err)
{
    struct callers all = {.options = options};
    uv_timer_t wake;

    all.callers = calloc(options->connections, sizeof(*all.callers));
    if (all.callers == NULL || uv_loop_init(&all.loop) < 0) {
        free(all.callers);
        return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    uv_timer_init(&all.loop, &wake);
    uv_timer_start(&wake, on_wake, 100, 100);
    int rc = open_all(&all, err);

    if (rc == 0)
        rc = run(b, &all, ret_rate, err);
    for (size_t i = 0; i < options->connections; i++) {
        if (all.callers[i].channel != NULL)
            channel_close(all.callers[i].channel, on_closed, &all);
    }
    uv_close((uv_handle_t *)&wake, NULL);
    uv_run(&all.loop, UV_RUN_DEFAULT);
    uv_loop_close(&all.loop);
    free(all.callers);
    return rc;
}
