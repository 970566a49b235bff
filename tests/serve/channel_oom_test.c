/* Every allocation of our own code fails once while a channel is made, connects, calls and reads a stream: a call or a connection
 * may be lost, never the process, nothing leaks, and the next try succeeds. malloc and its kin are replaced by the linker. */
#include "channel_fixture.h"
#include "failing.h"

/* Until there is an answer; a call that is lost is made again. */
static void call_until_answered(struct fixture *f)
{
    for (int tries = 0; tries < 10; tries++) {
        struct heard h = {.f = f};
        Pawl__Test__V1__UnaryRequest request;

        pawl__test__v1__unary_request__init(&request);
        request.text = (char *)(uintptr_t) "hello";
        UNTIL(f, channel_is_up(f->channel));
        if (start_unary(&h, &request, 5000) < 0)
            continue;
        UNTIL(f, h.ended);
        if (h.status == RPC_OK)
            return;
    }
    fail_msg("no answer");
}

static void count_until_read(struct fixture *f)
{
    for (int tries = 0; tries < 10; tries++) {
        struct heard h = {.f = f};

        UNTIL(f, channel_is_up(f->channel));
        if (start_count(&h, 50, 5000, false, 500) < 0)
            continue;
        UNTIL(f, h.ended);
        if (h.status == RPC_OK && h.messages == 50)
            return;
    }
    fail_msg("no stream");
}

static struct channel *make(struct fixture *f)
{
    struct pawl_err err;
    struct channel *channel = channel_new(&f->options, &err);

    if (channel == NULL)
        assert_int_equal(PAWL_ENOMEM, err.code);
    return channel;
}

static void every_allocation_fails_once(void **state)
{
    struct fixture *f = *state;
    int64_t n = 0;

    fixture_serve(f, "127.0.0.1:0", NULL);
    f->options = (struct channel_options){.loop = &f->loop,
                                          .server = &f->address,
                                          .token = "t",
                                          .retry_ms = 1,
                                          .up = on_up,
                                          .down = on_down,
                                          .data = f};
    do {
        failed = false;
        countdown = n++;
        struct channel *channel = make(f);

        if (channel == NULL)
            channel = make(f);
        assert_non_null(channel);
        f->channel = channel;
        channel_start(channel);
        call_until_answered(f);
        count_until_read(f);
        f->closed = false;
        channel_close(channel, on_closed, f);
        f->channel = NULL;
        UNTIL(f, f->closed);
        countdown = -1;
    } while (failed);
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation_fails_once, fixture_begin, fixture_end),
    };

    return cmocka_run_group_tests_name("channel_oom", tests, NULL, NULL);
}
