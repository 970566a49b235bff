/* call_blocking: one call by a thread that blocks, while the server answers, goes, or was never there. What it says about the
 * effects of the call must be true. */
#include "remote/blocking.h"

#include <pthread.h>

#include <stdatomic.h>

#include "channel_fixture.h"

struct asked {
    pthread_t thread;
    struct address server;
    Pawl__Test__V1__UnaryRequest request;
    bool repeatable;
    int64_t timeout_ms;
    int rc;
    struct pawl_err err;
    char text[64];
    atomic_bool over;
};

static void on_text(void *data, const ProtobufCMessage *message)
{
    struct asked *asked = data;

    snprintf(asked->text,
             sizeof(asked->text),
             "%s",
             ((const Pawl__Test__V1__UnaryResponse *)(const void *)message)->text);
}

static void *ask_main(void *data)
{
    struct asked *asked = data;

    asked->rc = call_blocking(
        &(struct blocking_call){.server = &asked->server,
                                .what = "echo",
                                .path = "/pawl.test.v1.Echo/Unary",
                                .request = &asked->request.base,
                                .response = &pawl__test__v1__unary_response__descriptor,
                                .timeout_ms = asked->timeout_ms,
                                .repeatable = asked->repeatable,
                                .answer = on_text,
                                .data = asked},
        &asked->err);
    atomic_store(&asked->over, true);
    return NULL;
}

static void ask_begin(struct fixture *f, struct asked *asked)
{
    asked->server = f->address;
    if (asked->timeout_ms == 0)
        asked->timeout_ms = PATIENCE_MS;
    assert_int_equal(0, pthread_create(&asked->thread, NULL, ask_main, asked));
}

static void on_poll(uv_timer_t *timer)
{
    (void)timer; /* that the loop turns is all */
}

/* Its end, while the server's loop runs. */
static void ask_end(struct fixture *f, struct asked *asked)
{
    uv_timer_t poll;

    uv_timer_init(&f->loop, &poll);
    uv_timer_start(&poll, on_poll, 5, 5);
    UNTIL(f, atomic_load(&asked->over));
    uv_close((uv_handle_t *)&poll, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT); /* the handle is on this stack */
    pthread_join(asked->thread, NULL);
}

static void init(struct asked *asked, const char *text)
{
    *asked = (struct asked){.repeatable = false};
    pawl__test__v1__unary_request__init(&asked->request);
    asked->request.text = (char *)(uintptr_t)text;
}

static void held(struct fixture *f, int64_t n)
{
    UNTIL(f, echo_state.held == n);
}

static void on_gone(void *data)
{
    struct transport **server = data;

    transport_free(*server);
    *server = NULL;
}

/* Another server at the address of one that does not listen any more. */
static struct transport *replace(struct fixture *f)
{
    struct transport *old = f->server;
    char address[128];

    assert_true(transport_address(old, 0, address, sizeof(address)));
    transport_quiesce(old);
    fixture_serve(f, address, NULL);
    return old;
}

static void a_server_that_says_goodbye_answers(void **state)
{
    struct fixture *f = *state;
    struct asked asked;

    fixture_serve(f, "127.0.0.1:0", NULL);
    init(&asked, "hello");
    asked.request.delay_ms = 500;
    ask_begin(f, &asked);
    held(f, 1);
    /* The next connection is refused meanwhile. */
    transport_stop(f->server, PATIENCE_MS, on_stopped, f);
    ask_end(f, &asked);
    assert_int_equal(0, asked.rc);
    assert_string_equal("hello", asked.text);
    UNTIL(f, f->stopped);
}

static void a_call_is_not_at_two_servers(void **state)
{
    struct fixture *f = *state;
    struct asked asked;
    uint64_t held_most = 0;

    fixture_serve(f, "127.0.0.1:0", NULL);
    init(&asked, "hello");
    asked.repeatable = true;
    asked.request.delay_ms = 500;
    ask_begin(f, &asked);
    held(f, 1);
    struct transport *old = replace(f);

    transport_stop(old, PATIENCE_MS, on_gone, &old);
    while (!atomic_load(&asked.over)) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        if ((uint64_t)echo_state.held > held_most)
            held_most = (uint64_t)echo_state.held;
    }
    pthread_join(asked.thread, NULL);
    assert_int_equal(0, asked.rc);
    assert_int_equal(1, held_most);
    UNTIL(f, old == NULL);
}

static void a_lost_call_is_made_again_only_if_it_may_be(void **state)
{
    struct fixture *f = *state;
    struct asked asked;

    for (int repeatable = 0; repeatable < 2; repeatable++) {
        if (f->server == NULL)
            fixture_serve(f, "127.0.0.1:0", NULL);
        init(&asked, "hello");
        asked.repeatable = repeatable;
        asked.request.delay_ms = 2000; /* the first server does not live to answer */
        ask_begin(f, &asked);
        held(f, 1);
        struct transport *old = replace(f);

        transport_stop(old, 0, on_gone, &old);
        transport_stop(old, 0, NULL, NULL);
        UNTIL(f, old == NULL);
        ask_end(f, &asked);
        assert_int_equal(repeatable ? 0 : PAWL_EUNKNOWN, asked.rc);
        if (!repeatable)
            assert_non_null(strstr(asked.err.hint, "may or may not have happened"));
        assert_int_equal(0, echo_state.held);
    }
}

static void a_lost_call_stays_unknown_whatever_comes_after(void **state)
{
    struct fixture *f = *state;
    struct asked asked;

    fixture_serve(f, "127.0.0.1:0", NULL);
    init(&asked, "hello");
    asked.repeatable = true;
    asked.request.delay_ms = 2000;
    asked.timeout_ms = 3000;
    ask_begin(f, &asked);
    held(f, 1);
    fixture_stop_server(f); /* and nobody after it */
    ask_end(f, &asked);
    assert_int_equal(PAWL_EUNKNOWN, asked.rc);
    assert_non_null(strstr(asked.err.hint, "may or may not have happened"));
}

static void what_was_never_sent_was_not_done(void **state)
{
    struct fixture *f = *state;
    struct asked asked;

    fixture_serve(f, "127.0.0.1:0", NULL);
    fixture_stop_server(f);
    init(&asked, "hello");
    ask_begin(f, &asked);
    ask_end(f, &asked);
    assert_int_equal(PAWL_ECONN, asked.rc);
    assert_non_null(strstr(asked.err.message, "could not connect"));
}

static void a_refusal_is_an_answer(void **state)
{
    struct fixture *f = *state;
    struct asked asked;

    fixture_serve(f, "127.0.0.1:0", NULL);
    init(&asked, "not today");
    asked.repeatable = true;
    asked.request.status = RPC_UNAVAILABLE;
    ask_begin(f, &asked);
    ask_end(f, &asked);
    assert_int_equal(PAWL_ECONN, asked.rc);
    assert_non_null(strstr(asked.err.detail, "not today"));
}

static void no_answer_in_time_may_have_happened(void **state)
{
    struct fixture *f = *state;
    struct asked asked;

    fixture_serve(f, "127.0.0.1:0", NULL);
    init(&asked, "hello");
    asked.request.never = true;
    asked.timeout_ms = 300;
    ask_begin(f, &asked);
    ask_end(f, &asked);
    assert_true(asked.rc == PAWL_ETIMEOUT || asked.rc == PAWL_EUNKNOWN);
    assert_non_null(strstr(asked.err.hint, "may or may not have happened"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_server_that_says_goodbye_answers, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(a_call_is_not_at_two_servers, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(
            a_lost_call_is_made_again_only_if_it_may_be, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(
            a_lost_call_stays_unknown_whatever_comes_after, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(
            what_was_never_sent_was_not_done, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(a_refusal_is_an_answer, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(
            no_answer_in_time_may_have_happened, fixture_begin, fixture_end),
    };

    return cmocka_run_group_tests_name("blocking", tests, NULL, NULL);
}
