/* echo: unary calls answered now or later, and a stream that follows its reader. */
#include "echo.h"

#include <stdlib.h>
#include <string.h>

#include "echo.pb-c.h"

typedef Pawl__Test__V1__UnaryRequest UnaryRequest;
typedef Pawl__Test__V1__UnaryResponse UnaryResponse;
typedef Pawl__Test__V1__CountRequest CountRequest;
typedef Pawl__Test__V1__CountResponse CountResponse;

struct echo_state echo_state;

#define ANSWER_BYTES_MAX (64 * 1024 * 1024)

static char *unconst(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

static void answer(struct rpc_call *call, const UnaryRequest *request)
{
    UnaryResponse response;
    uint8_t *made = NULL;

    pawl__test__v1__unary_response__init(&response);
    response.text = request->text;
    response.data = request->data;
    response.n_parts = (int64_t)request->n_parts;
    response.subject = unconst(rpc_call_peer(call)->subject);
    response.address = unconst(rpc_call_peer(call)->address);
    response.authorization = unconst(rpc_call_authorization(call));
    if (request->answer_bytes > 0 && request->answer_bytes <= ANSWER_BYTES_MAX) {
        made = calloc(1, (size_t)request->answer_bytes);
        response.data = (ProtobufCBinaryData){made ? (size_t)request->answer_bytes : 0, made};
    }
    if (request->status)
        rpc_end(call, (enum rpc_status)request->status, "%s", request->text);
    else
        rpc_reply(call, &response.base);
    free(made);
}

/* A call that is answered later. */
struct later {
    uv_timer_t timer;
    struct rpc_call *call;
    const UnaryRequest *request;
};

static void later_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void later_cb(uv_timer_t *timer)
{
    struct later *later = timer->data;

    echo_state.held--;
    answer(later->call, later->request);
    uv_close((uv_handle_t *)timer, later_closed);
}

static void later_gone(struct rpc_call *call, void *data)
{
    struct later *later = data;

    (void)call;
    echo_state.held--;
    echo_state.gone++;
    uv_close((uv_handle_t *)&later->timer, later_closed);
}

static const struct rpc_call_ops later_ops = {.gone = later_gone};

static void handle_unary(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const UnaryRequest *request = (const UnaryRequest *)(const void *)message;

    (void)data;
    if (request->delay_ms == 0 && !request->never) {
        answer(call, request);
        return;
    }
    struct later *later = calloc(1, sizeof(*later));
    if (!later) {
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    later->call = call;
    later->request = request;
    later->timer.data = later;
    uv_timer_init(echo_state.loop, &later->timer);
    if (!request->never)
        uv_timer_start(&later->timer, later_cb, (uint64_t)request->delay_ms, 0);
    echo_state.held++;
    rpc_hold(call, &later_ops, later);
}

struct counting {
    const CountRequest *request;
    int64_t sent;
    uint8_t *padding;
};

static void counting_free(struct counting *counting)
{
    echo_state.held--;
    free(counting->padding);
    free(counting);
}

static void count_on(struct rpc_call *call, void *data)
{
    struct counting *counting = data;
    CountResponse response;

    pawl__test__v1__count_response__init(&response);
    response.padding = (ProtobufCBinaryData){(size_t)counting->request->size, counting->padding};
    while (counting->request->messages == 0 || counting->sent < counting->request->messages) {
        response.number = counting->sent + 1;
        if (rpc_send(call, &response.base) < 0) {
            echo_state.refused_sends++;
            return;
        }
        counting->sent++;
    }
    if (counting->request->stay_open)
        return;
    counting_free(counting);
    rpc_end_ok(call);
}

static void count_gone(struct rpc_call *call, void *data)
{
    (void)call;
    echo_state.gone++;
    counting_free(data);
}

static const struct rpc_call_ops count_ops = {.gone = count_gone, .writable = count_on};

static void handle_count(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const CountRequest *request = (const CountRequest *)(const void *)message;
    struct counting *counting = calloc(1, sizeof(*counting));

    (void)data;
    if (counting && request->size >= 0 && request->size <= ANSWER_BYTES_MAX)
        counting->padding = calloc(1, (size_t)request->size + 1);
    if (!counting || !counting->padding) {
        free(counting);
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    counting->request = request;
    echo_state.held++;
    rpc_hold(call, &count_ops, counting);
    count_on(call, counting);
}

static const struct rpc_method methods[] = {
    {.name = "Unary",
     .request = &pawl__test__v1__unary_request__descriptor,
     .response = &pawl__test__v1__unary_response__descriptor,
     .handle = handle_unary},
    {.name = "Count",
     .request = &pawl__test__v1__count_request__descriptor,
     .response = &pawl__test__v1__count_response__descriptor,
     .server_streams = true,
     .handle = handle_count},
};

const struct rpc_service echo_service = {
    .name = "pawl.test.v1.Echo", .methods = methods, .n_methods = 2};
