/* text: the whole text or nothing, at the edges of every range, and formats people can read. */
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

static void whole_numbers_are_read_to_their_ends(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-7", -7},
        {"007", 7},
        {"0000000000000000000000000000001", 1},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        int64_t value = 99;
        assert_int_equal(text_parse_int(rows[i].text, INT64_MIN, INT64_MAX, &value, NULL), 0);
        assert_true(value == rows[i].value);
    }
}

static void what_is_no_whole_number_is_refused(void **state)
{
    static const char *const texts[] = {
        "", "-", "+1", " 1", "1 ", "1\n", "1.0", "1e3", "0x10", "--1", "a", "1a", "\xd9\xa1", "-"};
    struct pawl_err err;
    int64_t value = 99;

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        assert_int_equal(text_parse_int(texts[i], INT64_MIN, INT64_MAX, &value, &err), PAWL_EINVAL);
        assert_has(err.message, "is not a whole number");
    }
    assert_int_equal(text_parse_int(NULL, 0, 1, &value, NULL), PAWL_EINVAL);
    assert_int_equal(value, 99);
}

static void a_number_out_of_range_is_refused_not_clipped(void **state)
{
    static const char *const huge[] = {"9223372036854775808",
                                       "-9223372036854775809",
                                       "18446744073709551616",
                                       "99999999999999999999999999",
                                       "-99999999999999999999999999"};
    struct pawl_err err;
    int64_t value = 99;

    (void)state;
    for (size_t i = 0; i < LEN(huge); i++)
        assert_int_equal(text_parse_int(huge[i], INT64_MIN, INT64_MAX, &value, NULL), PAWL_EINVAL);
    assert_int_equal(text_parse_int("10", 0, 9, &value, &err), PAWL_EINVAL);
    assert_string_equal(err.message, "\"10\" is not between 0 and 9");
    assert_int_equal(text_parse_int("-1", 0, 9, &value, NULL), PAWL_EINVAL);
    assert_int_equal(value, 99);
    assert_int_equal(text_parse_int("9", 0, 9, &value, NULL), 0);
    assert_int_equal(text_parse_int("0", 0, 9, &value, NULL), 0);
}

static void durations_are_read_in_their_units(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"0", 0},
        {"5", 5000},
        {"250ms", 250},
        {"90s", 90000},
        {"5m", 300000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"1h30m", 5400000},
        {"1d2h3m4s5ms", 93784005},
        {"1m1ms", 60001},
        {"0s", 0},
        {"36h", 129600000},
        {"3650d", 315360000000},
        {"315360000", 315360000000},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        int64_t ms = -1;
        if (text_parse_duration(rows[i].text, &ms, NULL) != 0)
            fail_msg("refused: %s", rows[i].text);
        assert_true(ms == rows[i].ms);
    }
}

static void what_is_no_duration_is_refused(void **state)
{
    static const char *const texts[] = {"",     "s",     "10y",  "1w",    "-5s",  "+5s",  "1.5h",
                                        "1h30", "30m1h", "1s1s", "1h 2m", " 1s",  "1s ",  "1S",
                                        "1min", "1sec",  "ms",   "1hm",   "1h2h", "5m5m", "5ms1s",
                                        "1e3",  "0x1s",  "1\ns", "1msx",  "--",   "1h-1m"};
    struct pawl_err err;
    int64_t ms = 99;

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        if (text_parse_duration(texts[i], &ms, &err) != PAWL_EINVAL)
            fail_msg("accepted: %s", texts[i]);
        assert_has(err.message, "is not a duration");
        assert_has(err.hint, "1h30m");
    }
    assert_int_equal(text_parse_duration(NULL, &ms, NULL), PAWL_EINVAL);
    assert_int_equal(ms, 99);
}

static void a_duration_over_ten_years_is_refused(void **state)
{
    static const char *const texts[] = {"3650d1ms",
                                        "3651d",
                                        "315360001",
                                        "99999999999999999999s",
                                        "9223372036854775807d",
                                        "9223372036854775807ms",
                                        "106751991167d",
                                        "3000d99999999h"};
    struct pawl_err err;
    int64_t ms = 99;

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        assert_int_equal(text_parse_duration(texts[i], &ms, &err), PAWL_EINVAL);
        assert_has(err.message, "ten years");
    }
    assert_int_equal(ms, 99);
}

static void times_are_read_in_any_offset(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01 00:00:00Z", 0},
        {"1970-01-01T00:00:00.000001Z", 1},
        {"1970-01-01T00:00:00.5Z", 500000},
        {"1970-01-01T00:00:00.123456789Z", 123456},
        {"1970-01-01T01:00:00+01:00", 0},
        {"1969-12-31T20:30:00-03:30", 0},
        {"1970-01-01T00:00:00-00:00", 0},
        {"1969-12-31T23:59:59.999999Z", -1},
        {"2026-11-15T12:00:00Z", 1794744000000000},
        {"2026-11-15T13:00:00+01:00", 1794744000000000},
        {"2024-02-29T00:00:00Z", 1709164800000000},
        {"2000-02-29T00:00:00Z", 951782400000000},
        {"2023-12-31T23:59:59+23:59", 1703980859000000},
        {"2038-01-19T03:14:08Z", 2147483648000000},
        {"0000-01-01T00:00:00Z", -62167219200000000},
        {"9999-12-31T23:59:59.999999Z", 253402300799999999},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        int64_t us = 99;
        if (text_parse_time(rows[i].text, &us, NULL) != 0)
            fail_msg("refused: %s", rows[i].text);
        if (us != rows[i].us)
            fail_msg("%s is %lld", rows[i].text, (long long)us);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "now",
        "2026-11-15",
        "2026-11-15T12:00:00",
        "2026-11-15T12:00Z",
        "2026-02-30T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z",
        "2016-12-31T23:59:60Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.1234567890Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+00:60",
        "2026-01-01T00:00:00+0100",
        "2026-01-01T00:00:00+01",
        "2026-01-01T00:00:00ZZ",
        "2026-01-01T00:00:00Z ",
        " 2026-01-01T00:00:00Z",
        "26-01-01T00:00:00Z",
        "12026-01-01T00:00:00Z",
        "-001-01-01T00:00:00Z",
        "2026-1-1T00:00:00Z",
        "2026/01/01T00:00:00Z",
        "2026-01-01T-1:00:00Z",
        "2026-01-01T00:00:00,5Z",
        "2026-01-01_00:00:00Z",
        "2026-01-01T00:00:00.-5Z",
    };
    struct pawl_err err;
    int64_t us = 99;

    (void)state;
    for (size_t i = 0; i < LEN(texts); i++) {
        if (text_parse_time(texts[i], &us, &err) != PAWL_EINVAL)
            fail_msg("accepted: %s", texts[i]);
        assert_has(err.message, "is not a time");
        assert_has(err.hint, "2026-11-15T12:00:00Z");
    }
    assert_int_equal(text_parse_time(NULL, &us, NULL), PAWL_EINVAL);
    assert_int_equal(us, 99);
}

static void times_are_written_in_utc_and_read_back(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000000, "1969-12-31T23:59:59.000Z"},
        {1794744000123999, "2026-11-15T12:00:00.123Z"},
        {253402300799999999, "9999-12-31T23:59:59.999Z"},
        {-62167219200000000, "0000-01-01T00:00:00.000Z"},
    };

    char text[TEXT_TIME_LEN];

    (void)state;
    setenv("TZ", "America/St_Johns", 1);
    tzset();
    for (size_t i = 0; i < LEN(rows); i++) {
        int64_t back;
        text_format_time(rows[i].us, text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(text_parse_time(text, &back, NULL), 0);
        assert_true(back <= rows[i].us && back > rows[i].us - 1000);
    }
    unsetenv("TZ");
    tzset();
    text_format_time(INT64_MAX, text);
    assert_string_equal(text, "294247-01-10T04:00:54.775Z");
    text_format_time(INT64_MIN, text);
    assert_string_equal(text, "-290308-12-21T19:59:05.224Z");
}

/* Every day of 800 years, against an independent count of days. */
static void every_day_has_its_place(void **state)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t expected = (int64_t)-135140 * 86400 * 1000000; /* 1600-01-01 */

    (void)state;
    for (int year = 1600; year < 2400; year++) {
        for (int month = 1; month <= 12; month++) {
            int last = days[month - 1];
            if (month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))
                last = 29;
            for (int day = 1; day <= last; day++, expected += (int64_t)86400 * 1000000) {
                char text[64];
                int64_t us;
                snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", year, month, day);
                assert_int_equal(text_parse_time(text, &us, NULL), 0);
                assert_true(us == expected);
            }
        }
    }
}

static void durations_are_written_in_two_units_at_most(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {
        {0, "0 \u00b5s"},
        {350, "350 \u00b5s"},
        {999, "999 \u00b5s"},
        {1000, "1 ms"},
        {12345, "12 ms"},
        {999999, "999 ms"},
        {1000000, "1 s"},
        {3250000, "3.2 s"},
        {59999999, "59.9 s"},
        {60000000, "1 min"},
        {250000000, "4 min 10 s"},
        {3599999999, "59 min 59 s"},
        {3600000000, "1 h"},
        {7500000000, "2 h 5 min"},
        {86399999999, "23 h 59 min"},
        {86400000000, "1 d"},
        {273600000000, "3 d 4 h"},
        {-12345, "-12 ms"},
        {-250000000, "-4 min 10 s"},
        {INT64_MAX, "106751991 d 4 h"},
        {INT64_MIN, "-106751991 d 4 h"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        char text[TEXT_DURATION_LEN];
        text_format_duration(rows[i].us, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void a_near_miss_finds_what_was_meant(void **state)
{
    static const char *const verbs[] = {
        "enqueue", "work", "job", "queue", "db", "demo", "completion"};

    static const struct {
        const char *typed, *meant;
    } rows[] = {
        {"enqueue", "enqueue"},
        {"enque", "enqueue"},
        {"enqeue", "enqueue"},
        {"ENQUEUE", "enqueue"},
        {"wrok", "work"},
        {"works", "work"},
        {"jbo", "job"},
        {"qeueu", NULL},
        {"quueue", "queue"},
        {"bd", "db"},
        {"comp", "completion"},
        {"e", "enqueue"},
        {"d", "db"},
        {"x", NULL},
        {"", NULL},
        {"zzz", NULL},
        {"help", NULL},
        {"jobs", "job"},
        {"queues", "queue"},
        {"xyzzy", NULL},
    };

    char endless[1000];

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        const char *found = text_nearest(rows[i].typed, verbs, LEN(verbs));
        if (!rows[i].meant ? found != NULL : !found || strcmp(found, rows[i].meant) != 0)
            fail_msg("%s: %s", rows[i].typed, found ? found : "nothing");
    }
    assert_null(text_nearest(NULL, verbs, LEN(verbs)));
    assert_null(text_nearest("job", verbs, 0));
    memset(endless, 'e', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_null(text_nearest(endless, verbs, LEN(verbs)));
    const char *const one[] = {endless};
    assert_null(text_nearest("eeee", one, 1));
}

static void a_word_of_the_longest_length_is_still_compared(void **state)
{
    char word[65], typed[66];

    (void)state;
    memset(word, 'a', 64);
    word[64] = '\0';
    memcpy(typed, word, 65);
    typed[63] = 'b';
    assert_ptr_equal(text_nearest(typed, (const char *const[]){word}, 1), word);
    memset(typed, 'a', 65);
    typed[65] = '\0';
    assert_null(text_nearest(typed, (const char *const[]){word}, 1));
}

static void a_cut_leaves_whole_characters(void **state)
{
    static const char *const characters[] = {"x", "ä", "€", "😀"};

    (void)state;
    for (size_t i = 0; i < LEN(characters); i++) {
        size_t size = strlen(characters[i]);
        char text[32];

        assert_true(snprintf(text, sizeof(text), "ab%s%s", characters[i], characters[i]) > 0);
        for (size_t len = 0; len <= strlen(text); len++)
            assert_int_equal(text_whole(text, len), len < 2 ? len : len - (len - 2) % size);
    }
    /* What is no UTF-8 keeps its bytes, or loses a few; it is not read beyond its length. */
    assert_int_equal(text_whole("\x80", 1), 1);
    assert_int_equal(text_whole("\xf0", 1), 0);
    assert_int_equal(text_whole("\x80\x80\x80\x80\x80", 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_read_to_their_ends),
        cmocka_unit_test(what_is_no_whole_number_is_refused),
        cmocka_unit_test(a_number_out_of_range_is_refused_not_clipped),
        cmocka_unit_test(durations_are_read_in_their_units),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(a_duration_over_ten_years_is_refused),
        cmocka_unit_test(times_are_read_in_any_offset),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(times_are_written_in_utc_and_read_back),
        cmocka_unit_test(every_day_has_its_place),
        cmocka_unit_test(durations_are_written_in_two_units_at_most),
        cmocka_unit_test(a_near_miss_finds_what_was_meant),
        cmocka_unit_test(a_word_of_the_longest_length_is_still_compared),
        cmocka_unit_test(a_cut_leaves_whole_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
