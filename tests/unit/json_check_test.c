/*
 * json_check: random texts are judged as a parser judges them that builds the value, and a key that
 * comes twice in one object is found, however many there are and however it is written.
 */
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/defer.h"
#include "check.h"
#include "core/json.h"

#define AUTO_BUF        \
    CLEANUP(buf_deinit) \
    struct buf

/* xorshift: the same texts on every machine. */
static uint32_t chance_seed = 2463534242;

static uint32_t chance(uint32_t below)
{
    chance_seed ^= chance_seed << 13;
    chance_seed ^= chance_seed >> 17;
    chance_seed ^= chance_seed << 5;
    return chance_seed % below;
}

/* Its one other opinion: it refuses numbers that no double holds, and then says nothing of what follows. */
static bool jansson_agrees(const char *text, size_t len, bool valid)
{
    json_error_t error;
    json_t *value = json_loadb(text,
                               len,
                               JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL |
                                   JSON_DECODE_INT_AS_REAL,
                               &error);

    json_decref(value);
    return valid == (value != NULL) ||
           (value == NULL && json_error_code(&error) == json_error_numeric_overflow);
}

static void random_texts_are_judged_as_by_jansson(void **state)
{
    static const char *const pieces[] = {
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"\\u0061\"",
        "\"b\"",
        "\"\"",
        "0",
        "-1.5e3",
        "01",
        "true",
        "null",
        "nul",
        " ",
        "\n",
        "\"\\n\"",
        "\"\n\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"\xc3\xa9\"",
        "\xff",
        "\"\\u0000\"",
        "\"a\":1",
        "\"b\":[",
        "\"\\u00e9\":{",
        "\"\\/\"",
        "\"\\x\"",
        "-",
        "1.",
        "1e",
    };
    size_t accepted = 0;

    (void)state;
    for (int round = 0; round < 300000; round++) {
        char text[256];
        size_t len = 0;
        uint32_t n = 1 + chance(9);

        while (n-- > 0) {
            const char *piece = pieces[chance(LEN(pieces))];

            memcpy(text + len, piece, strlen(piece));
            len += strlen(piece);
        }
        bool valid = json_is_valid(text, len);

        accepted += valid;
        if (!jansson_agrees(text, len, valid))
            fail_msg("%s: %.*s", valid ? "accepted" : "refused", (int)len, text);
    }
    assert_in_range(accepted, 1000, 200000);
}

/* --- keys ----------------------------------------------------------------------------------------- */

/* An object of n different keys; `again` of them, or n for none, stands at the end once more. */
static void put_keys(struct buf *out, unsigned n, unsigned again)
{
    buf_putc(out, '{');
    for (unsigned i = 0; i < n; i++)
        buf_printf(out, "%s\"%x\":0", i > 0 ? "," : "", i);
    if (again < n)
        buf_printf(out, ",\"%x\":0", again);
    buf_putc(out, '}');
}

static void a_key_that_comes_again_is_found_among_any_number(void **state)
{
    /* The last is walked in several parts. */
    static const unsigned sizes[] = {2, 31, 32, 33, 1000, 700000};

    (void)state;
    for (size_t i = 0; i < LEN(sizes); i++) {
        AUTO_BUF out;

        buf_init(&out, 16 << 20);
        put_keys(&out, sizes[i], sizes[i]);
        assert_false(out.failed);
        assert_true(json_is_valid(out.data, out.len));
        for (unsigned again = 0; again < sizes[i]; again += 1 + sizes[i] / 4) {
            struct pawl_err err;

            buf_clear(&out);
            put_keys(&out, sizes[i], again);
            assert_int_equal(json_check(out.data, out.len, &err), PAWL_EINVAL);
            assert_has(err.message, "twice");
        }
    }
}

static void keys_are_the_same_however_they_are_written(void **state)
{
    static const char *const same[] = {
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\\u00e9\":1,\"\xc3\xa9\":2}",
        "{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}",
        "{\"\\u20AC\":1,\"\\u20ac\":2}",
        "{\"/\":1,\"\\/\":2}",
        "{\"\\n\":1,\"\\u000a\":2}",
        "{\"x\":{\"y\":[{}]},\"z\":{\"x\":1},\"x\":1}",
    };
    static const char *const different[] = {
        "{\"a\":1,\"A\":2}",
        "{\"a\":{\"a\":{\"a\":1}}}",
        "[{\"a\":1},{\"a\":1}]",
        "{\"\\u00e9\":1,\"e\":2}",
        "{\"a\":{\"b\":1},\"b\":1}",
        "{\"\\\\n\":1,\"\\n\":2}",
    };

    (void)state;
    for (size_t i = 0; i < LEN(same); i++) {
        struct pawl_err err = {0};

        assert_int_equal(json_check(same[i], strlen(same[i]), &err), PAWL_EINVAL);
        assert_has(err.message, "twice");
    }
    for (size_t i = 0; i < LEN(different); i++)
        assert_true(json_is_valid(different[i], strlen(different[i])));
}

static void long_keys_are_compared_to_their_ends(void **state)
{
    (void)state;
    for (size_t len = 250; len < 520; len++) {
        AUTO_BUF out;
        static char key[520];

        memset(key, 'k', len);
        buf_init(&out, 4096);
        buf_printf(&out, "{\"%.*s\":1,\"\\u006b%.*s\":2}", (int)len, key, (int)len - 1, key);
        assert_false(json_is_valid(out.data, out.len));
        buf_clear(&out);
        buf_printf(&out, "{\"%.*s\":1,\"%.*sx\":2}", (int)len, key, (int)len - 1, key);
        assert_true(json_is_valid(out.data, out.len));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_texts_are_judged_as_by_jansson),
        cmocka_unit_test(a_key_that_comes_again_is_found_among_any_number),
        cmocka_unit_test(keys_are_the_same_however_they_are_written),
        cmocka_unit_test(long_keys_are_compared_to_their_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
