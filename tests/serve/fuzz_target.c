/* fuzz_target: frames, gzip, messages, header texts, and whole connections to a server in this process. */
#include "fuzz_target.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "echo.h"
#include "echo.pb-c.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/net/peer.h"
#include "serve/transport.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define MESSAGE_MAX 10000
#define INPUT_MAX   60000
#define TURNS_MAX   200

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* However the bytes are cut, the same messages come out. */
static void fuzz_frames(const uint8_t *data, size_t size)
{
    size_t counts[2] = {0, 0}, sums[2] = {0, 0};

    for (int way = 0; way < 2; way++) {
        struct frame_reader reader;
        const size_t step = way == 0 ? size + 1 : 3;
        int rc = 0;

        frame_reader_init(&reader, MESSAGE_MAX);
        reader.gzip = size > 0 && (data[0] & 1);
        for (size_t at = 0; at < size && rc >= 0; at += step) {
            const uint8_t *p = data + at, *message;
            size_t len = size - at < step ? size - at : step, message_len;
            while ((rc = frame_next(&reader, &p, &len, &message, &message_len)) > 0) {
                must(message_len <= MESSAGE_MAX);
                counts[way]++;
                for (size_t i = 0; i < message_len; i++)
                    sums[way] += message[i];
            }
            must(rc < 0 || len == 0);
        }
        must(rc >= 0 || (reader.status != RPC_OK && reader.error));
        frame_reader_deinit(&reader);
    }
    must(counts[0] == counts[1] && sums[0] == sums[1]);
}

static void fuzz_gzip(const uint8_t *data, size_t size)
{
    struct buf out;

    buf_init(&out, MESSAGE_MAX);
    int rc = gzip_inflate(data, size, &out);
    must(out.len <= MESSAGE_MAX && rc <= 0);
    buf_deinit(&out);
}

/* What is unpacked can be packed, and has no text that is cut. */
static void fuzz_message(const uint8_t *data, size_t size)
{
    const ProtobufCMessageDescriptor *const types[] = {
        &pawl__test__v1__unary_request__descriptor,
        &pawl__v1__enqueue_request__descriptor,
        &pawl__v1__report_result_request__descriptor,
        &pawl__v1__stream_jobs_response__descriptor,
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct arena arena;
        ProtobufCMessage *message;
        struct pawl_err err;

        arena_init(&arena, WIRE_ARENA_MAX(size));
        if (wire_unpack(types[i], &arena, data, size, &message, &err) == 0) {
            size_t len = protobuf_c_message_get_packed_size(message);
            uint8_t *packed = malloc(len + 1);
            must(packed && protobuf_c_message_pack(message, packed) == len);
            free(packed);
        } else
            must(err.message[0]);
        arena_deinit(&arena);
    }
}

static void fuzz_texts(const uint8_t *data, size_t size)
{
    char encoded[RPC_MESSAGE_ENCODED_MAX];
    char *text = calloc(1, size + 1);
    int64_t us;

    must(text);
    if (size > 0)
        memcpy(text, data, size);
    must(rpc_message_encode(text, encoded) == strlen(encoded));
    if (rpc_timeout_parse(text, size, &us) == 0)
        must(us >= 0 && size <= 9);
    free(text);
}

static struct {
    uv_loop_t loop;
    struct transport *server;
} self;

static void start(void)
{
    struct transport_options options = {.loop = &self.loop, .limits = serve_limits_default()};
    struct pawl_err err;

    options.limits.message_bytes = MESSAGE_MAX;
    options.limits.handshake_ms = 100;
    uv_loop_init(&self.loop);
    echo_state.loop = &self.loop;
    must(transport_new(&options, &self.server, &err) == 0);
    must(rpc_register(transport_rpc(self.server), &echo_service, &err) == 0);
}

static void stopped(void *data)
{
    (void)data;
    transport_free(self.server);
    self.server = NULL;
}

void fuzz_end(void)
{
    if (!self.server)
        return;
    transport_stop(self.server, 0, stopped, NULL);
    transport_stop(self.server, 0, stopped, NULL);
    uv_run(&self.loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&self.loop) == 0);
}

/* All of it at once; then the client stops sending and reads until the server has closed. */
static void fuzz_connection(const uint8_t *data, size_t size)
{
    int pair[2];
    bool open = true;

    if (!self.server)
        start();
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    struct net *net = transport_http(self.server)->net;
    peer_accept(net, pair[0], NULL, "fuzz");
    if (size > INPUT_MAX)
        size = INPUT_MAX;
    must(send(pair[1], data, size, MSG_NOSIGNAL) == (ssize_t)size || size == 0);
    shutdown(pair[1], SHUT_WR);
    for (int i = 0; i < TURNS_MAX && open; i++) {
        uint8_t bytes[4096];
        ssize_t n;
        uv_run(&self.loop, UV_RUN_NOWAIT);
        while ((n = recv(pair[1], bytes, sizeof(bytes), 0)) > 0)
            ;
        open = n < 0;
    }
    close(pair[1]);
    while (net->n_peers > 0)
        uv_run(&self.loop, UV_RUN_ONCE);
    uv_run(&self.loop, UV_RUN_NOWAIT);
    must(rpc_active(transport_rpc(self.server)) == 0 && echo_state.held == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    switch (data[0] % FUZZ_KINDS) {
    case FUZZ_FRAMES:
        fuzz_frames(data + 1, size - 1);
        break;
    case FUZZ_GZIP:
        fuzz_gzip(data + 1, size - 1);
        break;
    case FUZZ_MESSAGE:
        fuzz_message(data + 1, size - 1);
        break;
    case FUZZ_CONNECTION:
        fuzz_connection(data + 1, size - 1);
        break;
    default:
        fuzz_texts(data + 1, size - 1);
    }
    return 0;
}
