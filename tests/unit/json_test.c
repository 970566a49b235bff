/*
 * json: what the writer writes always parses, whatever bytes it is given; and the check accepts
 * JSON and nothing else, saying where.
 */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

#include <float.h>
#include <locale.h>
#include <math.h>

#include "base/defer.h"
#include "check.h"
#include "core/json.h"

#define AUTO_BUF        \
    CLEANUP(buf_deinit) \
    struct buf

static void commas_go_between_values(void **state)
{
    AUTO_BUF out;
    struct json_writer w;

    (void)state;
    buf_init(&out, 1000);
    json_init(&w, &out);
    json_object_begin(&w);
    json_key(&w, "a");
    json_array_begin(&w);
    json_int(&w, 1);
    json_none(&w);
    json_object_begin(&w);
    json_object_end(&w);
    json_array_begin(&w);
    json_array_end(&w);
    json_bool(&w, true);
    json_array_end(&w);
    json_key(&w, "b");
    json_raw(&w, "[1, 2]", 6);
    json_key(&w, "c");
    json_str(&w, NULL);
    json_key(&w, "");
    json_strn(&w, "xyz", 1);
    json_key(&w, "d");
    json_bool(&w, false);
    json_object_end(&w);
    assert_string_equal(
        buf_str(&out),
        "{\"a\":[1,null,{},[],true],\"b\":[1, 2],\"c\":null,\"\":\"x\",\"d\":false}");
    assert_true(json_is_valid(out.data, out.len));
}

static void documents_at_the_top_are_not_separated(void **state)
{
    AUTO_BUF out;
    struct json_writer w;

    (void)state;
    buf_init(&out, 1000);
    json_init(&w, &out);
    for (int i = 0; i < 2; i++) {
        json_object_begin(&w);
        json_key(&w, "n");
        json_int(&w, i);
        json_object_end(&w);
        buf_putc(&out, '\n');
    }
    assert_string_equal(buf_str(&out), "{\"n\":0}\n{\"n\":1}\n");
}

static void integers_are_exact_to_their_ends(void **state)
{
    AUTO_BUF out;
    struct json_writer w;

    (void)state;
    buf_init(&out, 1000);
    json_init(&w, &out);
    json_array_begin(&w);
    json_int(&w, INT64_MIN);
    json_int(&w, INT64_MAX);
    json_int(&w, 0);
    json_array_end(&w);
    assert_string_equal(buf_str(&out), "[-9223372036854775808,9223372036854775807,0]");
}

static void doubles_read_back_as_themselves(void **state)
{
    static const double values[] = {
        0.0, -0.0, 0.1, 1.0 / 3, 1e300, -1e-300, DBL_MAX, DBL_MIN, 5e-324, 123456789.125};

    (void)state;
    for (size_t i = 0; i < LEN(values); i++) {
        AUTO_BUF out;
        struct json_writer w;
        buf_init(&out, 100);
        json_init(&w, &out);
        json_double(&w, values[i]);
        assert_true(json_is_valid(out.data, out.len));
        double back = strtod(out.data, NULL);
        assert_memory_equal(&back, &values[i], sizeof(back));
    }
    AUTO_BUF out;
    struct json_writer w;
    buf_init(&out, 100);
    json_init(&w, &out);
    json_array_begin(&w);
    json_double(&w, 0.1); /* the shortest form, not 0.10000000000000001 */
    json_double(&w, (double)NAN);
    json_double(&w, (double)INFINITY);
    json_double(&w, -(double)INFINITY);
    json_array_end(&w);
    assert_string_equal(buf_str(&out), "[0.1,null,null,null]");
}

static void a_decimal_comma_of_the_locale_does_not_get_in(void **state)
{
    AUTO_BUF out;
    struct json_writer w;

    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        return; /* nothing to see where neither is installed */
    buf_init(&out, 100);
    json_init(&w, &out);
    json_double(&w, 2.5);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(buf_str(&out), "2.5");
}

static void nesting_ends_at_the_maximum(void **state)
{
    AUTO_BUF out;
    struct json_writer w;

    (void)state;
    buf_init(&out, 1000);
    json_init(&w, &out);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_array_begin(&w);
    json_int(&w, 1);
    json_int(&w, 2);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_array_end(&w);
    assert_false(out.failed);
    assert_true(json_is_valid(out.data, out.len));

    buf_clear(&out);
    json_init(&w, &out);
    for (int i = 0; i < JSON_DEPTH_MAX + 5; i++)
        json_array_begin(&w);
    assert_true(out.failed);

    buf_clear(&out);
    json_init(&w, &out);
    json_array_end(&w);
    assert_true(out.failed);
}

static void assert_escaped(const char *bytes, size_t len, const char *expected)
{
    AUTO_BUF out;

    buf_init(&out, 1000);
    json_escape(&out, bytes, len);
    assert_string_equal(buf_str(&out), expected);
}

#define assert_escapes(bytes, expected) assert_escaped(bytes, sizeof(bytes) - 1, expected)

static void what_would_break_a_line_or_a_string_is_escaped(void **state)
{
    (void)state;
    assert_escapes("", "");
    assert_escapes("plain /text'", "plain /text'");
    assert_escapes("a\"b\\c", "a\\\"b\\\\c");
    assert_escapes("\b\f\n\r\t", "\\b\\f\\n\\r\\t");
    assert_escapes("\0\x01\x1f\x7f", "\\u0000\\u0001\\u001f\\u007f");
    assert_escapes("\x1b[31m", "\\u001b[31m");
    assert_escapes("\xc2\x80\xc2\x9b\xc2\x9f", "\\u0080\\u009b\\u009f");
    assert_escapes("\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029");
    assert_escapes("\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                   "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_escaped(NULL, 0, "");
}

#define BAD "\xef\xbf\xbd"

static void bytes_that_are_not_utf8_become_replacement_characters(void **state)
{
    (void)state;
    assert_escapes("a\xff"
                   "b",
                   "a" BAD "b");
    assert_escapes("\x80\xbf", BAD BAD);
    assert_escapes("\xc0\x80", BAD BAD);          /* overlong NUL */
    assert_escapes("\xed\xa0\x80", BAD BAD BAD);  /* surrogate */
    assert_escapes("\xe2\x82", BAD BAD);          /* cut short */
    assert_escapes("\xe2\x82\"", BAD BAD "\\\""); /* the quote after it is not swallowed */
    assert_escapes("\xf0\x9f\x98\n", BAD BAD BAD "\\n");
}

/* Every pair of bytes behind a few beginnings: what comes out is UTF-8 and parses. */
static void any_bytes_make_valid_json(void **state)
{
    static const char *const starts[] = {"", "x", "\\", "\xe2", "\xf0\x90"};

    (void)state;
    for (size_t s = 0; s < LEN(starts); s++) {
        for (unsigned pair = 0; pair < 65536; pair += 1 + (pair % 7)) {
            char bytes[8], storage[128];
            size_t n = strlen(starts[s]);
            struct buf out;
            struct json_writer w;
            memcpy(bytes, starts[s], n);
            bytes[n++] = (char)(pair >> 8);
            bytes[n++] = (char)pair;
            buf_init_fixed(&out, storage, sizeof(storage));
            json_init(&w, &out);
            json_strn(&w, bytes, n);
            assert_false(out.failed);
            assert_true(utf8_valid(out.data, out.len));
            assert_true(json_is_valid(out.data, out.len));
        }
    }
}

static void a_full_buffer_never_holds_half_a_character(void **state)
{
    static const char text[] = "a\xe2\x82\xac\n\xff\xf0\x9f\x98\x80\x01z";

    (void)state;
    for (size_t size = 1; size < 40; size++) {
        char storage[40];
        struct buf out;
        buf_init_fixed(&out, storage, size);
        json_escape(&out, text, sizeof(text) - 1);
        assert_true(utf8_valid(out.data, out.len));
    }
}

static void utf8_is_judged_by_the_standard(void **state)
{
    static const struct {
        const char *bytes;
        size_t len, next;
    } rows[] = {
        {"", 0, 0},
        {"a", 1, 1},
        {"\0", 1, 1},
        {"\x7f", 1, 1},
        {"\xc2\x80", 2, 2},
        {"\xdf\xbf", 2, 2},
        {"\xe0\xa0\x80", 3, 3},
        {"\xed\x9f\xbf", 3, 3},
        {"\xee\x80\x80", 3, 3},
        {"\xef\xbf\xbf", 3, 3},
        {"\xf0\x90\x80\x80", 4, 4},
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\x80", 1, 0}, /* continuation first */
        {"\xbf", 1, 0},
        {"\xc1\xbf", 2, 0}, /* overlong */
        {"\xe0\x9f\xbf", 3, 0},
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"\xed\xa0\x80", 3, 0}, /* surrogates */
        {"\xed\xbf\xbf", 3, 0},
        {"\xf4\x90\x80\x80", 4, 0}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xff", 1, 0},
        {"\xc2", 1, 0}, /* truncated */
        {"\xe2\x82", 2, 0},
        {"\xf0\x9f\x98", 3, 0},
        {"\xe2\x82x", 3, 0}, /* broken off */
        {"\xf0\x9f\x98x", 4, 0},
        {"\xc2x", 2, 0},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        assert_int_equal(utf8_next(rows[i].bytes, rows[i].len), rows[i].next);
        assert_int_equal(utf8_valid(rows[i].bytes, rows[i].len), rows[i].len == rows[i].next);
    }
    assert_true(utf8_valid("a\xe2\x82\xac"
                           "b",
                           5));
    assert_false(utf8_valid("a\xe2\x82\xac\xff", 5));
}

static void json_is_accepted(void **state)
{
    static const char *const texts[] = {
        "null",
        "true",
        " 1 ",
        "\"\"",
        "[]",
        "{}",
        "{\"a\":[1,2,{\"b\":null}]}",
        "\t\r\n0\n",
        "-0.5e-10",
        "\"\\u0000\"",
        "\"\\ud83d\\ude00\"",
        "\"\xe2\x82\xac\"",
        "[1,1,1]",
        "{\"a\":{\"a\":1}}",
        /* numbers no double holds */
        "1e400",
        "-1e400",
        "1e-999999",
        "[1E+99999999999999999999]",
        "{\"1e999\":1e999,\"\\\"1234\":\"00012\"}",
        "123456789012345678901234567890123456789012345678901234567890",
    };

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        struct pawl_err err = {0};
        if (json_check(texts[i], strlen(texts[i]), &err) != 0)
            fail_msg("%s: %s", texts[i], err.message);
    }
    char digits[1000];
    memset(digits, '9', sizeof(digits));
    assert_true(json_is_valid(digits, sizeof(digits)));
    digits[0] = '0';
    assert_false(json_is_valid(digits, sizeof(digits)));
}

static void what_is_not_json_is_refused_with_a_place(void **state)
{
    static const struct {
        const char *text, *has;
    } rows[] = {
        {"", "empty"},
        {" ", "at column"},
        {"{n:1}", "at column 2"},
        {"[1,\n 2,\n oops]", "line 3, column 5"},
        {"[1,]", "wrong or missing"},
        {"[1", "ends too early"},
        {"\"abc", "ends too early"},
        {"1 2", "something follows"},
        {"{}x", "at column 3"},
        {"\"\xff\"", "not UTF-8"},
        {"\"\xed\xa0\x80\"", "not UTF-8"},
        {"\"\\ud800\"", "at column"},
        {"\"a\nb\"", "at column"},
        {"'a'", "at column"},
        {"01", "at column"},
        {"+1", "at column"},
        {".5", "at column"},
        {"NaN", "at column"},
        {"{\"a\":1,\"a\":2}", "twice"},
        {"{\"a\\u0000\":1}", "key holds"},
        {"[1e400,\n012345]", "line 2, column 1"}, /* behind a number no double holds */
        {"[1e400,\n1e400,oops]", "line 2, column 10"},
        {"1e400e5", "at column"},
        {"[1e400 1]", "at column"},
        {"\xef\xbb\xbf{}", "at column"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        struct pawl_err err = {0};
        if (json_check(rows[i].text, strlen(rows[i].text), &err) != PAWL_EINVAL)
            fail_msg("accepted: %s", rows[i].text);
        assert_int_equal(err.code, PAWL_EINVAL);
        assert_has(err.message, rows[i].has);
        assert_false(json_is_valid(rows[i].text, strlen(rows[i].text)));
    }
    assert_false(json_is_valid("1\0", 2));
    assert_false(json_is_valid("\0", 1));
    assert_false(json_is_valid("\"a\0b\"", 5));
    assert_false(json_is_valid("1\0 2", 4));
    struct pawl_err err;
    assert_int_equal(json_check("[1,\n 2]\0", 9, &err), PAWL_EINVAL);
    assert_string_equal(err.message, "not valid JSON: it holds a NUL byte, at line 2, column 4");
    assert_int_equal(json_check("[", 1, NULL), PAWL_EINVAL);
}

static void nesting_is_bounded_and_says_so(void **state)
{
    enum { DEEP = 10000 };
    struct pawl_err err;
    AUTO_FREE char *text = malloc(2 * (size_t)DEEP);

    (void)state;
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    assert_int_equal(json_check(text, 2 * (size_t)DEEP, &err), PAWL_EINVAL);
    assert_has(err.message, "2048 levels");
    assert_int_equal(json_check(text + DEEP - 2048, 2 * 2048, &err), 0);
    assert_int_equal(json_check(text + DEEP - 2049, 2 * 2049, &err), PAWL_EINVAL);
}

static void errors_do_not_repeat_the_payload(void **state)
{
    static const char text[] = "{\"password\": secret1234}";
    struct pawl_err err;

    (void)state;
    assert_int_equal(json_check(text, sizeof(text) - 1, &err), PAWL_EINVAL);
    assert_null(strstr(err.message, "secret"));
    assert_null(strstr(err.detail, "secret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_go_between_values),
        cmocka_unit_test(documents_at_the_top_are_not_separated),
        cmocka_unit_test(integers_are_exact_to_their_ends),
        cmocka_unit_test(doubles_read_back_as_themselves),
        cmocka_unit_test(a_decimal_comma_of_the_locale_does_not_get_in),
        cmocka_unit_test(nesting_ends_at_the_maximum),
        cmocka_unit_test(what_would_break_a_line_or_a_string_is_escaped),
        cmocka_unit_test(bytes_that_are_not_utf8_become_replacement_characters),
        cmocka_unit_test(any_bytes_make_valid_json),
        cmocka_unit_test(a_full_buffer_never_holds_half_a_character),
        cmocka_unit_test(utf8_is_judged_by_the_standard),
        cmocka_unit_test(json_is_accepted),
        cmocka_unit_test(what_is_not_json_is_refused_with_a_place),
        cmocka_unit_test(nesting_is_bounded_and_says_so),
        cmocka_unit_test(errors_do_not_repeat_the_payload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
