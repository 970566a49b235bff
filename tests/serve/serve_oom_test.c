/* Every allocation of the server's own code fails once while clients talk to it: a connection or a call may be lost,
 * never the process, and nothing leaks. malloc and its kin are replaced by the linker, for our code only. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conversation.h"
#include "echo.h"
#include "failing.h"
#include "serve/net/peer.h"
#include "serve/transport.h"
#include "support/cmocka.h"

static struct {
    uv_loop_t loop;
    struct transport *server;
    uint8_t said[CONVERSATION_MAX];
    size_t said_len;
} self;

/* Bytes the server answered. */
static size_t talk(const void *data, size_t len)
{
    struct net *net = transport_http(self.server)->net;
    uint8_t bytes[65536];
    size_t got = 0;
    int pair[2];
    ssize_t n = -1;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    peer_accept(net, pair[0], NULL, "test");
    if (send(pair[1], data, len, MSG_NOSIGNAL) < 0) {
        close(pair[1]); /* it was not even accepted */
        return 0;
    }
    for (int i = 0; i < 20 && n != 0; i++) {
        uv_run(&self.loop, UV_RUN_NOWAIT);
        while ((n = recv(pair[1], bytes, sizeof(bytes), 0)) > 0)
            got += (size_t)n;
    }
    close(pair[1]);
    while (net->n_peers > 0)
        uv_run(&self.loop, UV_RUN_ONCE);
    uv_run(&self.loop, UV_RUN_NOWAIT);
    assert_int_equal(rpc_active(transport_rpc(self.server)), 0);
    assert_int_equal(echo_state.held, 0);
    return got;
}

static void each_fails_once(const void *data, size_t len)
{
    size_t whole = talk(data, len);

    int64_t i;

    assert_true(whole > 100);
    for (i = 0;; i++) {
        failed = false;
        countdown = i;
        talk(data, len);
        countdown = -1;
        if (!failed)
            break; /* there are no more */
        assert_true(talk(data, len) > 100);
        assert_true(i < 10000);
    }
    assert_true(i > 10); /* it did allocate */
    print_message("# %d allocations\n", (int)i);
}

static void test_calls(void **state)
{
    (void)state;
    each_fails_once(self.said, self.said_len);
}

static void test_http1(void **state)
{
    static const char request[] =
        "GET /metrics?x=1 HTTP/1.1\r\nhost: x\r\n\r\nPOST /health HTTP/1.1\r\n"
        "content-length: 4\r\n\r\nbodyGET /nothing HTTP/1.1\r\n\r\n";

    (void)state;
    each_fails_once(request, sizeof(request) - 1);
}

static void stopped(void *data)
{
    (void)data;
    transport_free(self.server);
}

static int begin(void **state)
{
    struct transport_options options = {.loop = &self.loop, .limits = serve_limits_default()};
    struct pawl_err err;

    (void)state;
    uv_loop_init(&self.loop);
    echo_state.loop = &self.loop;
    self.said_len = conversation_make(self.said, sizeof(self.said));
    return transport_new(&options, &self.server, &err) < 0 ||
           rpc_register(transport_rpc(self.server), &echo_service, &err) < 0;
}

static int end(void **state)
{
    (void)state;
    transport_stop(self.server, 0, stopped, NULL);
    uv_run(&self.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&self.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_http1),
    };

    return cmocka_run_group_tests_name("serve_oom", tests, begin, end);
}
