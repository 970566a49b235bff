/* The parts below the protocols, one by one: frames, messages, header texts, metrics, limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.pb-c.h"
#include "serve/limits.h"
#include "serve/metrics.h"
#include "support/cmocka.h"
#include "wire/frame.h"
#include "wire/queue.h"
#include "wire/status.h"
#include "wire/wire.h"

static void test_frame_limit(void **state)
{
    static const uint8_t at[] = "\0\0\0\0\x0a"
                                "0123456789",
                         above[] = "\0\0\0\0\x0b";
    struct frame_reader reader;
    const uint8_t *data = at, *message;
    size_t len = 15, message_len;

    (void)state;
    frame_reader_init(&reader, 10);
    assert_int_equal(frame_next(&reader, &data, &len, &message, &message_len), 1);
    assert_int_equal(message_len, 10);
    assert_ptr_equal(message, at + 5); /* not copied */
    assert_false(frame_partial(&reader));
    data = above;
    len = 5;
    assert_true(frame_next(&reader, &data, &len, &message, &message_len) < 0);
    assert_int_equal(reader.status, RPC_RESOURCE_EXHAUSTED);
    frame_reader_deinit(&reader);
}

static void test_frame_announced(void **state)
{
    static const uint8_t announced[] = "\0\0\x3f\xff\xff";
    struct frame_reader reader;
    const uint8_t *data = announced, *message;
    size_t len = 5, message_len;

    (void)state;
    frame_reader_init(&reader, 4 << 20);
    assert_int_equal(frame_next(&reader, &data, &len, &message, &message_len), 0);
    assert_true(frame_partial(&reader));
    assert_true(frame_memory(&reader) < 1000); /* memory follows what has arrived */
    frame_reader_deinit(&reader);
}

static void test_text(void **state)
{
    static const char *const good[] = {"", "a", "ü€𝄞", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc1\xbf",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xc3",
                                      "\xe2\x82",
                                      "\xff"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(wire_text_valid((const uint8_t *)good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(wire_text_valid((const uint8_t *)bad[i], strlen(bad[i])));
    assert_false(wire_text_valid((const uint8_t *)"a\0b", 3));
}

/* The memory a few megabytes of nothing may take stays within what the arena allows. */
static void test_expansion(void **state)
{
    const size_t len = 1 << 20;
    uint8_t *data = malloc(len);
    ProtobufCMessage *message;
    struct pawl_err err;
    struct arena arena;

    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < len; i += 2)
        memcpy(data + i, "\x32\x00", 2);
    arena_init(&arena, WIRE_ARENA_MAX(len));
    assert_int_equal(
        wire_unpack(&pawl__test__v1__unary_request__descriptor, &arena, data, len, &message, &err),
        PAWL_ELIMIT);
    assert_true(arena.used <= WIRE_ARENA_MAX(len));
    arena_deinit(&arena);
    free(data);
}

static void test_unknown_fields(void **state)
{
    static const uint8_t newer[] = "\xa2\x06\x02xy\x98\x06\x05\x0a\x02ok";
    ProtobufCMessage *message;
    struct pawl_err err;
    struct arena arena;

    (void)state;
    arena_init(&arena, WIRE_ARENA_BASE);
    assert_int_equal(wire_unpack(&pawl__test__v1__unary_request__descriptor,
                                 &arena,
                                 newer,
                                 sizeof(newer) - 1,
                                 &message,
                                 &err),
                     0);
    assert_string_equal(((Pawl__Test__V1__UnaryRequest *)message)->text, "ok");
    arena_deinit(&arena);
}

static void test_timeouts(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } cases[] = {{"1H", 3600000000},
                 {"2M", 120000000},
                 {"3S", 3000000},
                 {"4m", 4000},
                 {"5u", 5},
                 {"6n", 1},
                 {"0m", 0},
                 {"99999999H", 3153600000000000}};

    static const char *const bad[] = {
        "", "1", "m", "1x", "-1m", "123456789m", " 1m", "1 m", "1.5S"};
    int64_t us;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(rpc_timeout_parse(cases[i].text, strlen(cases[i].text), &us), 0);
        assert_int_equal(us, cases[i].us);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_true(rpc_timeout_parse(bad[i], strlen(bad[i]), &us) < 0);
}

static void test_messages(void **state)
{
    char out[RPC_MESSAGE_ENCODED_MAX], text[RPC_MESSAGE_MAX + 10];

    (void)state;
    rpc_message_encode("a%b\n\x7fü", out);
    assert_string_equal(out, "a%25b%0A%7F%C3%BC");
    /* What is cut is cut between characters. */
    memset(text, 'x', sizeof(text));
    memcpy(text + RPC_MESSAGE_MAX - 1, "ü", 3);
    assert_int_equal(rpc_message_encode(text, out), RPC_MESSAGE_MAX - 1);
    assert_int_equal(rpc_status_of(PAWL_ENOTFOUND), RPC_NOT_FOUND);
    assert_string_equal(rpc_status_name(RPC_UNAVAILABLE), "UNAVAILABLE");
    assert_string_equal(rpc_status_name(99), "UNKNOWN");
}

static void test_metrics(void **state)
{
    const struct metrics_label labels[] = {{"a", "x\"\\\ny"}, {NULL, NULL}};
    struct histogram h = {0};
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    metrics_int(&out, "n", labels, -5);
    assert_string_equal(out.data, "n{a=\"x\\\"\\\\\\ny\"} -5\n");
    buf_clear(&out);
    histogram_add(&h, 40);
    histogram_add(&h, 700);
    histogram_add(&h, 99000000);
    metrics_histogram(&out, "s", NULL, &h);
    assert_non_null(strstr(out.data, "s_bucket{le=\"5e-05\"} 1\n"));
    assert_non_null(strstr(out.data, "s_bucket{le=\"0.0005\"} 1\n"));
    assert_non_null(strstr(out.data, "s_bucket{le=\"0.001\"} 2\n"));
    assert_non_null(strstr(out.data, "s_bucket{le=\"10\"} 2\n"));
    assert_non_null(strstr(out.data, "s_bucket{le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(out.data, "s_sum 99.000740\n"));
    buf_deinit(&out);
}

static void test_queue(void **state)
{
    struct queue q = {0};
    uint8_t bytes[100], in = 0, out = 0;

    (void)state;
    for (int round = 0; round < 1000; round++) {
        size_t n = (size_t)(round * 7 % 90);
        uint8_t *room = queue_reserve(&q, n);
        assert_true(room || n == 0);
        for (size_t i = 0; i < n; i++)
            room[i] = in++;
        n = queue_take(&q, bytes, (size_t)(round * 5 % 99));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], out++);
    }
    queue_deinit(&q);
}

/* The table in the documentation has every limit with its default. */
static void test_limits_documented(void **state)
{
    FILE *f = fopen(SOURCE_ROOT "/docs/internals/serve.md", "r");
    static char text[200000];

    (void)state;
    assert_non_null(f);
    size_t len = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    assert_true(len > 0 && len < sizeof(text) - 1);
#define LIMIT_DOCUMENTED(name, value, what)                         \
    {                                                               \
        char row[200];                                              \
        snprintf(row, sizeof(row), "| `%s` | %d | ", #name, value); \
        if (!strstr(text, row))                                     \
            fail_msg("docs/internals/serve.md has no row %s", row); \
    }
    SERVE_LIMITS(LIMIT_DOCUMENTED)
#undef LIMIT_DOCUMENTED
    struct serve_limits limits = serve_limits_default();
    assert_ptr_equal(serve_limits_find(&limits, "idle_ms"), &limits.idle_ms);
    assert_null(serve_limits_find(&limits, "idle"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_limit),
        cmocka_unit_test(test_frame_announced),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_unknown_fields),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_limits_documented),
    };

    return cmocka_run_group_tests_name("serve_parts", tests, NULL, NULL);
}
