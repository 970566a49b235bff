/* channel_fixture: a loop with an echo server and a channel to it, both in this process, and calls whose end can be waited
 * for. For one test at a time. */
#ifndef TESTS_SERVE_CHANNEL_FIXTURE_H
#define TESTS_SERVE_CHANNEL_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "echo.pb-c.h"
#include "remote/channel.h"
#include "serve/transport.h"
#include "support/cmocka.h"

#define PATIENCE_MS 60000

struct fixture {
    uv_loop_t loop;
    struct transport *server;
    struct address address;
    struct channel *channel;
    struct channel_options options;
    int ups;
    int downs;
    struct pawl_err down; /* the newest */
    bool closed;
    bool stopped;
    bool late;
};

/* What became of a call. */
struct heard {
    struct fixture *f;
    struct call *call;
    int messages;
    int64_t last; /* of a stream: its newest number; of an answer: its length */
    char text[256];
    char authorization[256];
    bool ended;
    enum rpc_status status;
    char message[RPC_MESSAGE_MAX + 1];
    void (*each)(struct heard *h);
};

static inline void on_up(void *data)
{
    struct fixture *f = data;

    f->ups++;
}

static inline void on_down(void *data, const struct pawl_err *err)
{
    struct fixture *f = data;

    f->downs++;
    f->down = *err;
}

static inline void on_closed(void *data)
{
    struct fixture *f = data;

    f->closed = true;
}

static inline void on_stopped(void *data)
{
    struct fixture *f = data;

    f->stopped = true;
    transport_free(f->server);
    f->server = NULL;
}

static inline void on_late(uv_timer_t *timer)
{
    struct fixture *f = timer->data;

    f->late = true;
}

/* Runs the loop until it is true. */
#define UNTIL(f, condition)                              \
    do {                                                 \
        uv_timer_t late_;                                \
        uv_timer_init(&(f)->loop, &late_);               \
        late_.data = (f);                                \
        uv_timer_start(&late_, on_late, PATIENCE_MS, 0); \
        while (!(condition) && !(f)->late)               \
            uv_run(&(f)->loop, UV_RUN_ONCE);             \
        uv_close((uv_handle_t *)&late_, NULL);           \
        uv_run(&(f)->loop, UV_RUN_NOWAIT);               \
        if ((f)->late)                                   \
            fail_msg("never: %s", #condition);           \
    } while (0)

static inline void fixture_serve(struct fixture *f, const char *listen, struct tls *tls)
{
    struct pawl_err err;
    char address[128];

    echo_state.loop = &f->loop;
    f->stopped = false;
    assert_int_equal(0,
                     transport_new(&(struct transport_options){.loop = &f->loop,
                                                               .limits = serve_limits_default()},
                                   &f->server,
                                   &err));
    assert_int_equal(0, rpc_register(transport_rpc(f->server), &echo_service, &err));
    assert_int_equal(0, transport_listen(f->server, listen, tls, false, &err));
    assert_true(transport_address(f->server, 0, address, sizeof(address)));
    assert_int_equal(0, address_parse(address, &f->address, &err));
}

static inline void fixture_connect(struct fixture *f)
{
    struct pawl_err err;

    f->options.loop = &f->loop;
    f->options.server = &f->address;
    if (f->options.retry_ms == 0)
        f->options.retry_ms = 1;
    f->options.up = on_up;
    f->options.down = on_down;
    f->options.data = f;
    f->closed = false;
    f->channel = channel_new(&f->options, &err);
    assert_non_null(f->channel);
    channel_start(f->channel);
}

static inline void fixture_stop_server(struct fixture *f)
{
    if (f->server == NULL)
        return;
    transport_stop(f->server, 0, on_stopped, f);
    transport_stop(f->server, 0, on_stopped, f);
    UNTIL(f, f->stopped);
}

static inline int fixture_begin(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    uv_loop_init(&f->loop);
    *state = f;
    return 0;
}

static inline int fixture_end(void **state)
{
    struct fixture *f = *state;

    if (f->late)
        return -1; /* what is left of it is not worth taking apart */
    if (f->channel != NULL) {
        channel_close(f->channel, on_closed, f);
        UNTIL(f, f->closed);
    }
    fixture_stop_server(f);
    for (int i = 0; i < 1000 && uv_run(&f->loop, UV_RUN_NOWAIT) != 0; i++)
        ;
    assert_int_equal(0, uv_loop_close(&f->loop));
    free(f);
    return 0;
}

static inline void on_answer(void *data, const ProtobufCMessage *message)
{
    struct heard *h = data;
    const Pawl__Test__V1__UnaryResponse *response = (const void *)message;

    h->messages++;
    h->last = (int64_t)response->data.len;
    snprintf(h->text, sizeof(h->text), "%s", response->text);
    snprintf(h->authorization, sizeof(h->authorization), "%s", response->authorization);
    if (h->each != NULL)
        h->each(h);
}

static inline void on_number(void *data, const ProtobufCMessage *message)
{
    struct heard *h = data;

    h->messages++;
    h->last = ((const Pawl__Test__V1__CountResponse *)(const void *)message)->number;
    if (h->each != NULL)
        h->each(h);
}

static inline void on_ended(void *data, const struct call_end *end)
{
    struct heard *h = data;

    assert_false(h->ended);
    h->ended = true;
    h->status = end->status;
    snprintf(h->message, sizeof(h->message), "%s", end->message);
}

static const struct call_ops answer_ops = {.message = on_answer, .ended = on_ended};
static const struct call_ops number_ops = {.message = on_number, .ended = on_ended};

static inline int
start_unary(struct heard *h, Pawl__Test__V1__UnaryRequest *request, int64_t timeout_ms)
{
    return call_start(h->f->channel,
                      &(struct call_new){.path = "/pawl.test.v1.Echo/Unary",
                                         .request = &request->base,
                                         .response = &pawl__test__v1__unary_response__descriptor,
                                         .timeout_ms = timeout_ms,
                                         .ops = &answer_ops,
                                         .data = h},
                      &h->call);
}

static inline int
start_count(struct heard *h, int64_t messages, int64_t size, bool stay, int64_t timeout_ms)
{
    Pawl__Test__V1__CountRequest request;

    pawl__test__v1__count_request__init(&request);
    request.messages = messages;
    request.size = size;
    request.stay_open = stay;
    return call_start(h->f->channel,
                      &(struct call_new){.path = "/pawl.test.v1.Echo/Count",
                                         .request = &request.base,
                                         .response = &pawl__test__v1__count_response__descriptor,
                                         .streams = true,
                                         .timeout_ms = timeout_ms,
                                         .ops = &number_ops,
                                         .data = h},
                      &h->call);
}

#endif
