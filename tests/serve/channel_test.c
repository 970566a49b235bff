/* The client's channel and calls against the echo server, and against servers that are not what they should be. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "channel_fixture.h"

static void connect_both(struct fixture *f)
{
    fixture_serve(f, "127.0.0.1:0", NULL);
    fixture_connect(f);
    UNTIL(f, f->ups == 1);
}

static void addresses_are_read_strictly(void **state)
{
    static const char *const bad[] = {"",
                                      "host:",
                                      "host:0",
                                      "host:65536",
                                      "host:80/x",
                                      "[::1",
                                      "[::1]x",
                                      ":80",
                                      "unix:",
                                      "ho st:1",
                                      "host:12ab",
                                      "user@h:1",
                                      "https://"};
    struct address a;
    struct pawl_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (address_parse(bad[i], &a, &err) != PAWL_EINVAL)
            fail_msg("%s was taken for an address", bad[i]);
    }
    assert_int_equal(0, address_parse("https://[::1]:80/", &a, &err));
    assert_string_equal("::1", a.host);
    assert_string_equal("80", a.port);
    assert_string_equal("[::1]:80", a.text);
    assert_true(a.tls);
    assert_int_equal(0, address_parse("host", &a, &err));
    assert_string_equal("host:7295", a.text);
    assert_false(a.tls);
    assert_int_equal(0, address_parse("unix:/a/b", &a, &err));
    assert_string_equal("/a/b", a.host);
    assert_true(a.is_unix);
}

static void a_call_is_answered_with_its_token(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f};
    Pawl__Test__V1__UnaryRequest request;

    pawl__test__v1__unary_request__init(&request);
    f->options.token = "secret";
    connect_both(f);
    request.text = (char *)(uintptr_t) "hello";
    assert_int_equal(0, start_unary(&h, &request, 5000));
    UNTIL(f, h.ended);
    assert_int_equal(RPC_OK, h.status);
    assert_int_equal(1, h.messages);
    assert_string_equal("hello", h.text);
    assert_string_equal("Bearer secret", h.authorization);
}

static void a_status_comes_with_its_words(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f};
    struct pawl_err err;
    Pawl__Test__V1__UnaryRequest request;

    pawl__test__v1__unary_request__init(&request);
    connect_both(f);
    request.text = (char *)(uintptr_t) "100 % größer\nzweite Zeile";
    request.status = RPC_PERMISSION_DENIED;
    assert_int_equal(0, start_unary(&h, &request, 0));
    UNTIL(f, h.ended);
    assert_int_equal(RPC_PERMISSION_DENIED, h.status);
    assert_int_equal(0, h.messages);
    assert_string_equal("100 % größer zweite Zeile", h.message);
    assert_int_equal(
        PAWL_EDENIED,
        call_error(&(struct call_end){h.status, h.message, CALL_REFUSED}, &f->address, "x", &err));
    assert_non_null(strstr(err.detail, "PERMISSION_DENIED: 100 % größer"));
}

static void a_deadline_ends_a_call(void **state)
{
    struct fixture *f = *state;
    struct heard late = {.f = f};
    struct heard after = {.f = f};
    Pawl__Test__V1__UnaryRequest request;
    int64_t gone = echo_state.gone;

    pawl__test__v1__unary_request__init(&request);
    connect_both(f);
    request.never = true;
    assert_int_equal(0, start_unary(&late, &request, 30));
    UNTIL(f, late.ended);
    assert_int_equal(RPC_DEADLINE_EXCEEDED, late.status);
    UNTIL(f, echo_state.gone == gone + 1);
    request.never = false;
    assert_int_equal(0, start_unary(&after, &request, 5000));
    UNTIL(f, after.ended);
    assert_int_equal(RPC_OK, after.status);
}

static void a_cancelled_call_is_silent_and_the_server_knows(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f};
    struct heard unsent = {.f = f};
    Pawl__Test__V1__UnaryRequest request;
    int64_t gone = echo_state.gone;

    pawl__test__v1__unary_request__init(&request);
    connect_both(f);
    request.never = true;
    assert_int_equal(0, start_unary(&h, &request, 0));
    assert_int_equal(0, start_unary(&unsent, &request, 0));
    call_cancel(unsent.call);
    int64_t held = echo_state.held;

    UNTIL(f, echo_state.held > held);
    call_cancel(h.call);
    UNTIL(f, echo_state.gone == gone + 1);
    assert_false(h.ended);
    assert_false(unsent.ended);
}

static void large_messages_pass_both_ways(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f};
    struct heard too_large = {.f = f};
    Pawl__Test__V1__UnaryRequest request;
    size_t len = (size_t)3 * 1024 * 1024;

    pawl__test__v1__unary_request__init(&request);
    connect_both(f);
    request.data = (ProtobufCBinaryData){len, calloc(1, len)};
    assert_int_equal(0, start_unary(&h, &request, 0));
    free(request.data.data);
    UNTIL(f, h.ended);
    assert_int_equal(RPC_OK, h.status);
    assert_int_equal(len, h.last);
    /* What the server takes but we do not. */
    request.data = (ProtobufCBinaryData){0, NULL};
    request.answer_bytes = (int64_t)CHANNEL_MESSAGE_MAX + 1;
    assert_int_equal(0, start_unary(&too_large, &request, 0));
    UNTIL(f, too_large.ended);
    assert_int_equal(RPC_RESOURCE_EXHAUSTED, too_large.status);
    request.answer_bytes = 0;
    request.data =
        (ProtobufCBinaryData){CHANNEL_MESSAGE_MAX + 1, calloc(1, CHANNEL_MESSAGE_MAX + 1)};
    assert_int_equal(PAWL_ELIMIT, start_unary(&too_large, &request, 0));
    free(request.data.data);
}

static void many_calls_share_the_connection(void **state)
{
    struct fixture *f = *state;

    enum { N = 1000 };
    struct heard *h = calloc(N, sizeof(*h));
    Pawl__Test__V1__UnaryRequest request;

    pawl__test__v1__unary_request__init(&request);
    connect_both(f);
    for (int i = 0; i < N; i++) {
        h[i].f = f;
        assert_int_equal(0, start_unary(&h[i], &request, 0));
    }
    for (int i = 0; i < N; i++) {
        UNTIL(f, h[i].ended);
        assert_int_equal(RPC_OK, h[i].status);
    }
    assert_int_equal(1, f->ups);
    free(h);
}

static void a_stream_is_read_to_its_end(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f};

    connect_both(f);
    assert_int_equal(0, start_count(&h, 20000, 1000, false, 0));
    UNTIL(f, h.ended);
    assert_int_equal(RPC_OK, h.status);
    assert_int_equal(20000, h.messages);
    assert_int_equal(20000, h.last);
}

static void cancel_at_three(struct heard *h)
{
    if (h->messages == 3)
        call_cancel(h->call);
}

static void a_stream_may_be_cancelled_from_its_own_message(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f, .each = cancel_at_three};
    int64_t gone = echo_state.gone;

    connect_both(f);
    assert_int_equal(0, start_count(&h, 0, 10, true, 0));
    UNTIL(f, echo_state.gone == gone + 1);
    assert_int_equal(3, h.messages);
    assert_false(h.ended);
}

static void close_at_three(struct heard *h)
{
    if (h->messages == 3) {
        channel_close(h->f->channel, on_closed, h->f);
        h->f->channel = NULL;
    }
}

static void a_channel_may_be_closed_from_a_message(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f, .each = close_at_three};

    connect_both(f);
    assert_int_equal(0, start_count(&h, 0, 10, true, 0));
    UNTIL(f, f->closed);
    assert_int_equal(3, h.messages);
    assert_false(h.ended);
}

static void what_is_under_way_ends_with_a_server_that_dies_and_the_channel_comes_back(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f};
    struct heard again = {.f = f};
    Pawl__Test__V1__UnaryRequest request;
    char listen[512];

    pawl__test__v1__unary_request__init(&request);
    connect_both(f);
    request.never = true;
    snprintf(listen, sizeof(listen), "%s", f->address.text);
    assert_int_equal(0, start_unary(&h, &request, 0));
    fixture_stop_server(f);
    UNTIL(f, h.ended);
    assert_int_equal(RPC_UNAVAILABLE, h.status);
    UNTIL(f, f->downs >= 2);
    assert_false(channel_is_up(f->channel));
    assert_int_equal(PAWL_ECONN, start_unary(&again, &request, 0));
    assert_int_equal(PAWL_ECONN, f->down.code);
    assert_non_null(strstr(f->down.message, "could not connect to the server at 127.0.0.1:"));
    assert_string_equal("Connection refused.", f->down.detail);
    assert_string_equal("Is `pawl serve` running there?", f->down.hint);
    fixture_serve(f, listen, NULL);
    UNTIL(f, f->ups == 2);
    request.never = false;
    assert_int_equal(0, start_unary(&again, &request, 5000));
    UNTIL(f, again.ended);
    assert_int_equal(RPC_OK, again.status);
}

static void a_goodbye_lets_calls_end_while_new_ones_go_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct heard slow = {.f = f};
    struct heard fresh = {.f = f};
    struct transport *old;
    Pawl__Test__V1__UnaryRequest request;
    char listen[512];

    pawl__test__v1__unary_request__init(&request);
    connect_both(f);
    snprintf(listen, sizeof(listen), "%s", f->address.text);
    request.delay_ms = 3000;
    assert_int_equal(0, start_unary(&slow, &request, 0));
    UNTIL(f, echo_state.held > 0);
    old = f->server;
    transport_stop(old, 30000, on_stopped, f);
    /* The port is free as soon as it stops listening. */
    struct fixture next = {.loop = f->loop};

    (void)next;
    f->server = NULL;
    fixture_serve(f, listen, NULL);
    struct transport *new = f->server;

    UNTIL(f, f->ups == 2);
    assert_false(slow.ended);
    request.delay_ms = 0;
    assert_int_equal(0, start_unary(&fresh, &request, 0));
    UNTIL(f, fresh.ended);
    assert_int_equal(RPC_OK, fresh.status);
    UNTIL(f, slow.ended);
    assert_int_equal(RPC_OK, slow.status);
    assert_int_equal(0, f->downs);
    f->server = old;
    UNTIL(f, f->stopped);
    f->server = new;
    f->stopped = false;
}

/* --- servers that are not what they should be --- */

struct fake {
    uv_tcp_t listener;
    uv_tcp_t client;
    uv_write_t write;
    const char *says;
    size_t len;
    bool closes;
    bool connected;
};

static void fake_wrote(uv_write_t *write, int status)
{
    struct fake *fake = write->data;

    (void)status;
    if (fake->closes && !uv_is_closing((uv_handle_t *)&fake->client))
        uv_close((uv_handle_t *)&fake->client, NULL);
}

static void fake_accept(uv_stream_t *listener, int status)
{
    struct fake *fake = listener->data;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)fake->says, (unsigned)fake->len);

    assert_int_equal(0, status);
    if (fake->connected)
        return; /* once is enough */
    fake->connected = true;
    uv_tcp_init(listener->loop, &fake->client);
    uv_accept(listener, (uv_stream_t *)&fake->client);
    fake->write.data = fake;
    uv_write(&fake->write, (uv_stream_t *)&fake->client, &buf, 1, fake_wrote);
}

static void
fake_serve(struct fixture *f, struct fake *fake, const char *says, size_t len, bool closes)
{
    struct sockaddr_in in;
    int size = sizeof(in);
    char text[64];
    struct pawl_err err;

    fake->says = says;
    fake->len = len;
    fake->closes = closes;
    uv_ip4_addr("127.0.0.1", 0, &in);
    uv_tcp_init(&f->loop, &fake->listener);
    fake->listener.data = fake;
    uv_tcp_bind(&fake->listener, (const struct sockaddr *)&in, 0);
    assert_int_equal(0, uv_listen((uv_stream_t *)&fake->listener, 8, fake_accept));
    uv_tcp_getsockname(&fake->listener, (struct sockaddr *)&in, &size);
    snprintf(text, sizeof(text), "127.0.0.1:%d", ntohs(in.sin_port));
    assert_int_equal(0, address_parse(text, &f->address, &err));
    f->options.retry_ms = 10000;
    fixture_connect(f);
}

static void fake_end(struct fixture *f, struct fake *fake)
{
    uv_close((uv_handle_t *)&fake->listener, NULL);
    if (fake->connected && !uv_is_closing((uv_handle_t *)&fake->client))
        uv_close((uv_handle_t *)&fake->client, NULL);
    channel_close(f->channel, on_closed, f);
    f->channel = NULL;
    UNTIL(f, f->closed);
}

static void a_server_that_is_none_is_said_so(void **state)
{
    static const struct {
        const char *says;
        size_t len;
        const char *detail;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28, "It does not speak HTTP/2."},
        {"220 mail ESMTP\r\n", 16, "It does not speak HTTP/2."},
        {"\x15\x03\x03\x00\x02\x02\x46", 7, "It wants TLS."},
        {"\0\0\0\x04\0\0\0\0\0"
         "\xff\xff\xff\x01\0\0\0\0\x01",
         18,
         NULL}, /* opens, then a huge frame */
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fake fake = {0};

        f->downs = 0;
        fake_serve(f, &fake, cases[i].says, cases[i].len, false);
        UNTIL(f, f->downs == 1);
        if (cases[i].detail != NULL)
            assert_string_equal(cases[i].detail, f->down.detail);
        fake_end(f, &fake);
    }
}

static void a_server_that_closes_at_once_is_said_so(void **state)
{
    struct fixture *f = *state;
    struct fake fake = {0};

    fake_serve(f, &fake, "", 0, true);
    UNTIL(f, f->downs == 1);
    assert_non_null(strstr(f->down.detail, "closed"));
    fake_end(f, &fake);
}

static void a_server_that_says_nothing_is_given_up(void **state)
{
    struct fixture *f = *state;
    struct fake fake = {0};

    f->options.connect_ms = 50;
    fake_serve(f, &fake, "", 0, false);
    UNTIL(f, f->downs == 1);
    assert_string_equal("It did not answer in time.", f->down.detail);
    fake_end(f, &fake);
}

static void a_name_that_does_not_exist_is_said_so(void **state)
{
    struct fixture *f = *state;
    struct pawl_err err;

    assert_int_equal(0, address_parse("no-such-host.invalid:1", &f->address, &err));
    fixture_connect(f);
    UNTIL(f, f->downs >= 1);
    assert_non_null(strstr(f->down.detail, "no-such-host.invalid"));
}

static void a_call_over_a_unix_socket_is_answered(void **state)
{
    struct fixture *f = *state;
    struct heard h = {.f = f};
    char dir[] = "/tmp/pawl-channel-XXXXXX";
    char listen[64];
    Pawl__Test__V1__UnaryRequest request;

    pawl__test__v1__unary_request__init(&request);
    assert_non_null(mkdtemp(dir));
    snprintf(listen, sizeof(listen), "unix:%s/s", dir);
    fixture_serve(f, listen, NULL);
    fixture_connect(f);
    UNTIL(f, f->ups == 1);
    assert_int_equal(0, start_unary(&h, &request, 0));
    UNTIL(f, h.ended);
    assert_int_equal(RPC_OK, h.status);
    fixture_stop_server(f);
    unlink(listen + 5);
    assert_int_equal(0, rmdir(dir));
}

static void random_bytes_from_a_server_break_nothing(void **state)
{
    struct fixture *f = *state;
    char bytes[512];

    for (unsigned round = 0; round < 200; round++) {
        struct fake fake = {0};
        size_t len = 0;

        srand(round);
        if (round % 2 == 0) { /* after a proper beginning */
            memcpy(bytes, "\0\0\0\x04\0\0\0\0\0", 9);
            len = 9;
        }
        while (len < sizeof(bytes))
            bytes[len++] = (char)rand();
        f->downs = 0;
        f->ups = 0;
        fake_serve(f, &fake, bytes, sizeof(bytes), true);
        UNTIL(f, f->downs > 0);
        fake_end(f, &fake);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_strictly),
        TEST(a_call_is_answered_with_its_token),
        TEST(a_status_comes_with_its_words),
        TEST(a_deadline_ends_a_call),
        TEST(a_cancelled_call_is_silent_and_the_server_knows),
        TEST(large_messages_pass_both_ways),
        TEST(many_calls_share_the_connection),
        TEST(a_stream_is_read_to_its_end),
        TEST(a_stream_may_be_cancelled_from_its_own_message),
        TEST(a_channel_may_be_closed_from_a_message),
        TEST(what_is_under_way_ends_with_a_server_that_dies_and_the_channel_comes_back),
        TEST(a_goodbye_lets_calls_end_while_new_ones_go_elsewhere),
        TEST(a_server_that_is_none_is_said_so),
        TEST(a_server_that_closes_at_once_is_said_so),
        TEST(a_server_that_says_nothing_is_given_up),
        TEST(a_name_that_does_not_exist_is_said_so),
        TEST(a_call_over_a_unix_socket_is_answered),
        TEST(random_bytes_from_a_server_break_nothing),
    };

    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
