/* Output: tables by display width, JSON that parses, hostile bytes made harmless, and write errors
 * that are noticed. */
#include "cli/out.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <locale.h>

#include "base/clock.h"
#include "core/json.h"
#include "support/cmocka.h"

#define NOW_US (1700000000ll * US_PER_S)

static const struct out_column columns[] = {
    {"id", "ID", OUT_INT},
    {"name", "NAME", OUT_TEXT},
    {"due", "DUE", OUT_TIME},
    {"took", "TOOK", OUT_DURATION},
    {"paused", "PAUSED", OUT_BOOL},
    {"payload", "PAYLOAD", OUT_BYTES},
    {"secret", NULL, OUT_TEXT},
};
#define N (sizeof columns / sizeof *columns)

/* Where an out writes to, and what came out of it. */
struct sink {
    FILE *file;
    char *text;
    size_t len;
    struct out *out;
};

static void sink_open(struct sink *sink, enum out_format format, bool color, size_t width)
{
    sink->file = open_memstream(&sink->text, &sink->len);
    assert_non_null(sink->file);
    sink->out = out_new(format, columns, N, color);
    assert_non_null(sink->out);
    out_to(sink->out, sink->file, width);
    out_none(sink->out, NULL);
}

static void sink_end(struct sink *sink)
{
    struct pawl_err err;
    assert_int_equal(out_end(sink->out, NOW_US, &err), 0);
    out_free(sink->out);
    fclose(sink->file);
}

static void
add(struct out *out, int64_t id, const char *name, const char *payload, size_t payload_len)
{
    out_int(out, id);
    out_text(out, name);
    out_int(out, NOW_US - 185 * (int64_t)US_PER_S);
    out_int(out, 12 * US_PER_MS);
    out_int(out, 1);
    out_textn(out, payload, payload_len);
    out_text(out, "hidden");
    out_row(out);
}

static void table_is_aligned_by_display_width(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink, OUT_TABLE, false, 0);
    add(sink.out, 7, "日本", "{}", 2);
    add(sink.out, 1234, "Zoë", "1", 1);
    sink_end(&sink);
    assert_string_equal(sink.text,
                        "  ID  NAME  DUE        TOOK   PAUSED  PAYLOAD\n"
                        "   7  日本  3 min ago  12 ms  yes     {}\n"
                        "1234  Zoë   3 min ago  12 ms  yes     1\n");
    free(sink.text);
}

static void table_escapes_what_could_drive_a_terminal(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink, OUT_TABLE, false, 0);
    add(sink.out, 1, "a\033[2Jb\nc", "\xff\xc2\x9b\xe2\x80\xae", 6);
    sink_end(&sink);
    assert_non_null(strstr(sink.text, "a\\x1b[2Jb\\nc"));
    assert_non_null(strstr(sink.text, "\\xff\\u009b\\u202e"));
    assert_null(strchr(sink.text, '\033'));
    free(sink.text);
}

static void table_cuts_text_on_a_terminal_only(void **state)
{
    (void)state;
    const char *name = "a name that goes on and on and on and on and on";
    struct sink sink;
    sink_open(&sink, OUT_TABLE, false, 60);
    add(sink.out, 1, name, "ééééééééééééééééééééééééééééééé", 62);
    sink_end(&sink);
    char *rest = sink.text;
    for (char *line; (line = strsep(&rest, "\n"));)
        assert_true(out_width(line, strlen(line)) <= 60);
    free(sink.text);

    sink_open(&sink, OUT_TABLE, false, 60);
    add(sink.out, 1, name, "x", 1);
    sink_end(&sink);
    assert_non_null(strstr(sink.text, "…"));
    assert_non_null(strstr(sink.text, "3 min ago"));
    free(sink.text);

    sink_open(&sink, OUT_TABLE, false, 0);
    add(sink.out, 1, name, "x", 1);
    sink_end(&sink);
    assert_non_null(strstr(sink.text, name));
    free(sink.text);
}

static void table_uses_colour_only_when_asked(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink, OUT_TABLE, true, 0);
    out_int(sink.out, 5);
    out_text(sink.out, "failed");
    out_tone(sink.out, TONE_BAD);
    out_row(sink.out);
    sink_end(&sink);
    assert_non_null(strstr(sink.text, "\033[31mfailed\033[0m"));
    assert_non_null(strstr(sink.text, "\033[1mID\033[0m"));
    free(sink.text);
}

static void table_of_more_rows_than_are_kept_loses_none(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink, OUT_TABLE, false, 0);
    for (int i = 0; i < OUT_ROWS_MAX + 7; i++)
        add(sink.out, i, "n", "1", 1);
    sink_end(&sink);
    size_t lines = 0;
    for (const char *p = sink.text; (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, OUT_ROWS_MAX + 7 + 1);
    free(sink.text);
}

static void single_shows_a_line_per_column(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink, OUT_TABLE, false, 0);
    out_single(sink.out);
    out_int(sink.out, 9);
    out_text(sink.out, "first\nsecond\n");
    out_null(sink.out);
    out_row(sink.out);
    sink_end(&sink);
    assert_string_equal(sink.text, "ID:       9\nNAME:     first\n          second\n");
    free(sink.text);

    sink_open(&sink, OUT_JSON, false, 0);
    out_single(sink.out);
    out_int(sink.out, 9);
    out_row(sink.out);
    sink_end(&sink);
    assert_true(json_is_valid(sink.text, sink.len));
    assert_int_equal(sink.text[0], '{');
    free(sink.text);
}

static void json_is_one_array(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink, OUT_JSON, false, 0);
    sink_end(&sink);
    assert_string_equal(sink.text, "[]\n");
    free(sink.text);

    sink_open(&sink, OUT_JSON, false, 0);
    add(sink.out, 1, "a\"b", "{}", 2);
    out_row(sink.out);
    sink_end(&sink);
    assert_true(json_is_valid(sink.text, sink.len));
    assert_non_null(strstr(sink.text, "\"name\":\"a\\\"b\""));
    assert_non_null(strstr(sink.text, "\"took_us\":12000"));
    assert_non_null(strstr(sink.text, "\"paused\":true"));
    assert_non_null(strstr(sink.text, "\"due\":\"2023-11-14T22:10:15"));
    assert_non_null(strstr(sink.text, "\"secret\":\"hidden\""));
    assert_non_null(strstr(sink.text, "\"secret\":null"));
    free(sink.text);
}

static void jsonl_is_one_object_a_line_whatever_the_payload(void **state)
{
    (void)state;

    static const struct {
        const char *bytes;
        size_t len;
        const char *shown;
    } cases[] = {
        {"{\r\n \"n\": 18014398509481985\n}", 28, "\"payload\":{   \"n\": 18014398509481985 },"},
        {"two\nlines", 9, "\"payload\":\"two\\nlines\","},
        {"", 0, "\"payload\":\"\","},
        {"\xff\x00\x01", 3, "\"payload\":{\"base64\":\"/wAB\"},"},
        {"\xff", 1, "\"payload\":{\"base64\":\"/w==\"},"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sink sink;
        sink_open(&sink, OUT_JSONL, false, 0);
        add(sink.out, 1, "x", cases[i].bytes, cases[i].len);
        sink_end(&sink);
        assert_non_null(strstr(sink.text, cases[i].shown));
        assert_ptr_equal(strchr(sink.text, '\n'), sink.text + sink.len - 1);
        assert_true(json_is_valid(sink.text, sink.len));
        free(sink.text);
    }
}

static void jsonl_goes_out_row_by_row(void **state)
{
    (void)state;
    struct sink sink;
    sink_open(&sink, OUT_JSONL, false, 0);
    add(sink.out, 1, "x", "1", 1);
    assert_true(sink.len > 0);
    sink_end(&sink);
    free(sink.text);
}

static void times_are_relative(void **state)
{
    (void)state;

    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {
        {0, "now"},
        {-1, "1 s ago"},
        {5, "in 5 s"},
        {-59, "59 s ago"},
        {60, "in 1 min"},
        {-7300, "2 h ago"},
        {200000, "in 2 d"},
        {-86400 * 31, "2023-10-14"},
    };

    char text[OUT_RELATIVE_LEN];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        out_relative(NOW_US + cases[i].seconds * US_PER_S, NOW_US, text);
        assert_string_equal(text, cases[i].text);
    }
    out_relative(INT64_MAX, NOW_US, text);
    assert_string_equal(text, "never");
    out_relative(INT64_MIN, NOW_US, text); /* must not overflow */
}

static void full_disk_is_an_error(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    struct out *out = out_new(OUT_JSONL, columns, N, false);
    out_to(out, full, 0);
    add(out, 1, "x", "1", 1);
    assert_true(out_failed(out));
    struct pawl_err err;
    assert_int_equal(out_end(out, NOW_US, &err), PAWL_EFULL);
    assert_string_equal(err.message, "could not write the output");
    out_free(out);
    fclose(full);
}

static void reader_that_left_is_told_from_an_error(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    FILE *file = fdopen(ends[1], "w");
    struct out *out = out_new(OUT_JSONL, columns, N, false);
    out_to(out, file, 0);
    add(out, 1, "x", "1", 1);
    add(out, 2, "x", "1", 1);
    struct pawl_err err;
    assert_int_equal(out_end(out, NOW_US, &err), PAWL_EINTERRUPTED);
    assert_false(out_reader_gone()); /* that is about stdout alone */
    out_free(out);
    fclose(file);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_aligned_by_display_width),
        cmocka_unit_test(table_escapes_what_could_drive_a_terminal),
        cmocka_unit_test(table_cuts_text_on_a_terminal_only),
        cmocka_unit_test(table_uses_colour_only_when_asked),
        cmocka_unit_test(table_of_more_rows_than_are_kept_loses_none),
        cmocka_unit_test(single_shows_a_line_per_column),
        cmocka_unit_test(json_is_one_array),
        cmocka_unit_test(jsonl_is_one_object_a_line_whatever_the_payload),
        cmocka_unit_test(jsonl_goes_out_row_by_row),
        cmocka_unit_test(times_are_relative),
        cmocka_unit_test(full_disk_is_an_error),
        cmocka_unit_test(reader_that_left_is_told_from_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
