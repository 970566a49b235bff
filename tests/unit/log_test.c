/* log: one event is one line, in text for people and in JSON for programs, bounded and not to be
 * forged. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/json.h"
#include "check.h"
#include "core/json.h"

#define NOON ((int64_t)1794744062123456) /* 2026-11-15T12:01:02.123456Z */

/* A log that writes into a file without a name, at a time that stands still. */
struct desk {
    struct log log;
    struct clock_fake clock;
    FILE *file;
    char text[1 << 20];
};

static int set_up(void **state)
{
    struct desk *desk = calloc(1, sizeof(*desk));

    if (!desk || !(desk->file = tmpfile()))
        return -1;
    setenv("TZ", "UTC", 1);
    tzset();
    clock_fake_init(&desk->clock, NOON);
    log_init(&desk->log, fileno(desk->file), LOG_DEBUG);
    desk->log.clock = &desk->clock.clock;
    fcntl(desk->log.fd, F_SETFL, O_APPEND);
    *state = desk;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *desk = *state;

    fclose(desk->file);
    free(desk);
    return 0;
}

/* What was written so far; the file is emptied. */
static const char *written(struct desk *desk)
{
    ssize_t n = pread(desk->log.fd, desk->text, sizeof(desk->text) - 1, 0);

    assert_true(n >= 0);
    desk->text[n] = '\0';
    assert_int_equal(ftruncate(desk->log.fd, 0), 0);
    return desk->text;
}

/* One whole line of JSON and nothing else. */
static const char *written_json(struct desk *desk)
{
    const char *text = written(desk);
    size_t len = strlen(text);

    assert_true(len > 0 && len <= 4096);
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
    assert_true(json_is_valid(text, len));
    return text;
}

static void text_is_for_people(void **state)
{
    struct desk *desk = *state;

    desk->log.format = LOG_TEXT;
    log_info(&desk->log, "job_claim", LOG_STR("queue", "default"), LOG_INT("claimed", 5));
    assert_string_equal(written(desk), "12:01:02.123 info  job_claim queue=default claimed=5\n");
    log_error(&desk->log,
              "job_settle",
              LOG_BOOL("late", true),
              LOG_STR("none", NULL),
              LOG_BOOL("ok", false));
    assert_string_equal(written(desk), "12:01:02.123 error job_settle late=true ok=false\n");
    log_warn(&desk->log, "stop");
    assert_string_equal(written(desk), "12:01:02.123 warn  stop\n");
    log_debug(&desk->log, "x", LOG_INT("n", INT64_MIN));
    assert_string_equal(written(desk), "12:01:02.123 debug x n=-9223372036854775808\n");
}

static void text_values_that_are_not_one_word_are_quoted(void **state)
{
    struct desk *desk = *state;

    desk->log.format = LOG_TEXT;
    log_info(&desk->log,
             "x",
             LOG_STR("a", "two words"),
             LOG_STR("b", ""),
             LOG_STR("c", "q\"q"),
             LOG_STR("d", "k=v"),
             LOG_STR("e", "a\\b"),
             LOG_STR("f", "caf\xc3\xa9"),
             LOG_STR("g", "/a:b-c_d.e,f"));
    assert_string_equal(
        written(desk),
        "12:01:02.123 info  x a=\"two words\" b=\"\" c=\"q\\\"q\" d=\"k=v\" e=\"a\\\\b\" "
        "f=\"caf\xc3\xa9\" g=/a:b-c_d.e,f\n");
}

static void json_is_for_programs(void **state)
{
    struct desk *desk = *state;

    log_info(&desk->log,
             "job_claim",
             LOG_STR("queue", "default"),
             LOG_INT("claimed", 5),
             LOG_BOOL("ok", true),
             LOG_STR("none", NULL),
             LOG_STR("empty", ""));
    assert_string_equal(
        written_json(desk),
        "{\"time\":\"2026-11-15T12:01:02.123Z\",\"level\":\"info\",\"event\":\"job_claim\","
        "\"queue\":\"default\",\"claimed\":5,\"ok\":true,\"empty\":\"\"}\n");
    log_warn(&desk->log, "stop");
    assert_string_equal(
        written_json(desk),
        "{\"time\":\"2026-11-15T12:01:02.123Z\",\"level\":\"warn\",\"event\":\"stop\"}\n");
}

static void a_line_cannot_be_forged(void **state)
{
    struct desk *desk = *state;
    static const char evil[] = "x\n12:00:00.000 error forged\r\x1b[2J\xff\xe2\x80\xa8\xc2\x85";

    log_info(&desk->log, "x", LOG_STR("v", evil));
    const char *text = written_json(desk);
    assert_true(utf8_valid(text, strlen(text)));
    assert_null(strchr(text, '\x1b'));
    desk->log.format = LOG_TEXT;
    log_info(&desk->log, "x", LOG_STR("v", evil));
    assert_string_equal(
        written(desk),
        "12:01:02.123 info  x v=\"x\\n12:00:00.000 error forged\\r\\u001b[2J\xef\xbf\xbd"
        "\\u2028\\u0085\"\n");
}

static void events_below_the_level_are_left_out(void **state)
{
    struct desk *desk = *state;

    desk->log.level = LOG_WARN;
    log_debug(&desk->log, "a");
    log_info(&desk->log, "a");
    assert_string_equal(written(desk), "");
    log_warn(&desk->log, "a");
    log_error(&desk->log, "b");
    assert_has(written(desk), "\"event\":\"b\"");
    desk->log.level = LOG_OFF;
    log_error(&desk->log, "a");
    log_at(&desk->log, LOG_OFF, "a");
    assert_string_equal(written(desk), "");
}

static void no_logger_is_silent(void **state)
{
    struct pawl_err err = {.code = PAWL_ECONN};

    (void)state;
    log_info(NULL, "a", LOG_INT("n", 1));
    log_error_err(NULL, "a", &err, LOG_INT("n", 1));
}

static void errors_are_logged_with_all_that_is_known(void **state)
{
    struct desk *desk = *state;
    struct pawl_err err;

    err_set(&err, PAWL_ECONN, "could not connect");
    err_hint(&err, "Start it.");
    log_warn_err(&desk->log, "conn_open", &err, LOG_INT("tries", 3));
    assert_string_equal(
        written_json(desk),
        "{\"time\":\"2026-11-15T12:01:02.123Z\",\"level\":\"warn\",\"event\":\"conn_open\","
        "\"tries\":3,\"code\":\"PAWL_ECONN\",\"message\":\"could not connect\","
        "\"hint\":\"Start it.\"}\n");
    memcpy(err.sqlstate, "08006", 6);
    err_detail(&err, "Refused.");
    log_error_err(&desk->log, "conn_open", &err);
    const char *text = written_json(desk);
    assert_has(text, "\"sqlstate\":\"08006\"");
    assert_has(text, "\"detail\":\"Refused.\"");
    log_error_err(&desk->log, "conn_open", NULL, LOG_INT("n", 1));
    assert_has(written_json(desk), "\"event\":\"conn_open\",\"n\":1}");
}

/* Values of every length around the limits, of characters that stay, double and grow sixfold. */
static void a_long_line_is_cut_with_a_mark_and_stays_valid(void **state)
{
    static const char *const chars[] = {
        "a", "\"", "\x01", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff"};
    struct desk *desk = *state;
    AUTO_FREE char *value = malloc(20001);

    for (size_t c = 0; c < LEN(chars); c++) {
        for (size_t len = 300; len < 20000; len = len < 4200 ? len + 61 : len * 2) {
            size_t n = 0;
            for (; n + strlen(chars[c]) <= len; n += strlen(chars[c]))
                memcpy(value + n, chars[c], strlen(chars[c]));
            value[n] = '\0';
            log_info(&desk->log,
                     "x",
                     LOG_STR("first", value),
                     LOG_STR("second", value),
                     LOG_INT("third", 3));
            const char *text = written_json(desk);
            assert_true(utf8_valid(text, strlen(text)));
            assert_has(text, "\"first\":\"");
            if (len >= 4200)
                assert_has(text, "\xe2\x80\xa6");
            if (strstr(text, "\xe2\x80\xa6") || !strstr(text, "second") || !strstr(text, "third"))
                assert_has(text, ",\"cut\":true}\n");
            else
                assert_null(strstr(text, "cut"));
        }
    }
    desk->log.format = LOG_TEXT;
    log_info(&desk->log,
             "x",
             LOG_STR("first", value),
             LOG_STR("second", value),
             LOG_STR("third", value));
    const char *text = written(desk);
    assert_true(strlen(text) <= 4096);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_has(text, " cut=true\n");
}

static void a_line_of_too_many_fields_is_cut_and_stays_valid(void **state)
{
    struct desk *desk = *state;
    struct log_field fields[1000];
    char keys[LEN(fields)][32];

    for (size_t i = 0; i < LEN(fields); i++) {
        snprintf(keys[i], sizeof(keys[i]), "some_%zu", i);
        fields[i] = i % 2 ? LOG_INT(keys[i], i) : LOG_STR(keys[i], "with a value");
    }
    for (size_t n = 0; n < LEN(fields); n += 37) {
        log_write(&desk->log, LOG_INFO, "x", fields, n);
        const char *text = written_json(desk);
        size_t there = 0;
        for (const char *at = text; (at = strstr(at, "\"some_")); at++)
            there++;
        assert_int_equal(strstr(text, "\"cut\":true") != NULL, there < n);
        assert_true(there == n || strlen(text) > 4000); /* no more is left out than has to be */
    }
}

static void a_largest_error_fits_without_being_cut(void **state)
{
    struct desk *desk = *state;
    struct pawl_err err = {.code = PAWL_EFAILED, .sqlstate = "XX000"};

    memset(err.message, 'm', sizeof(err.message) - 1);
    memset(err.detail, 'd', sizeof(err.detail) - 1);
    memset(err.hint, 'h', sizeof(err.hint) - 1);
    log_error_err(&desk->log, "x", &err, LOG_STR("queue", "default"));
    assert_null(strstr(written_json(desk), "cut"));
}

static void an_absurd_event_does_no_harm(void **state)
{
    struct desk *desk = *state;
    char event[10000];

    memset(event, '\x01', sizeof(event) - 1);
    event[sizeof(event) - 1] = '\0';
    log_info(&desk->log, event, LOG_INT("n", 1));
    written_json(desk);
    desk->log.format = LOG_TEXT;
    log_info(&desk->log, event);
    assert_true(strlen(written(desk)) < 4096);
}

static void a_broken_descriptor_is_survived_and_errno_kept(void **state)
{
    struct desk *desk = *state;
    struct log broken = desk->log;

    broken.fd = -1;
    errno = EXDEV;
    log_error(&broken, "x", LOG_INT("n", 1));
    assert_int_equal(errno, EXDEV);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    broken.fd = ends[1];
    for (int i = 0; i < 3000;
         i++) /* more than a pipe holds: a full one loses lines, it does not block */
        log_info(&broken, "x", LOG_STR("v", "something to fill the pipe with"));
    close(ends[0]);
    close(ends[1]);
}

static void times_before_1970_are_no_trouble(void **state)
{
    struct desk *desk = *state;

    desk->clock.wall_us = -1;
    desk->log.format = LOG_TEXT;
    log_info(&desk->log, "x");
    assert_string_equal(written(desk), "23:59:59.999 info  x\n");
    desk->clock.wall_us = INT64_MIN;
    log_info(&desk->log, "x");
    written(desk);
    desk->clock.wall_us = INT64_MAX;
    log_info(&desk->log, "x");
    assert_has(written(desk), " info  x\n");
}

static void *chatter(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_info(arg,
                 "chatter",
                 LOG_INT("i", i),
                 LOG_STR("text", "some text that makes the line a little longer"));
    return NULL;
}

static void lines_of_many_threads_do_not_mix(void **state)
{
    struct desk *desk = *state;
    pthread_t threads[4];
    size_t n = 0;

    for (size_t i = 0; i < LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, chatter, &desk->log), 0);
    for (size_t i = 0; i < LEN(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (const char *at = written(desk), *end; (end = strchr(at, '\n')); at = end + 1, n++)
        assert_true(json_is_valid(at, (size_t)(end - at)));
    assert_int_equal(n, LEN(threads) * 200);
}

static void a_terminal_gets_text_in_colour(void **state)
{
    AUTO_FD int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    struct log log;

    (void)state;
    if (terminal < 0)
        return; /* no terminals here */
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    log_init(&log, terminal, LOG_INFO);
    assert_int_equal(log.format, LOG_TEXT);
    assert_true(log.color);
    setenv("NO_COLOR", "", 1); /* empty does not count */
    log_init(&log, terminal, LOG_INFO);
    assert_true(log.color);
    setenv("NO_COLOR", "1", 1);
    log_init(&log, terminal, LOG_INFO);
    assert_int_equal(log.format, LOG_TEXT);
    assert_false(log.color);
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    log_init(&log, terminal, LOG_INFO);
    assert_false(log.color);
}

static void colour_is_on_the_level_alone(void **state)
{
    struct desk *desk = *state;

    assert_int_equal(desk->log.format, LOG_JSON); /* a file is no terminal */
    assert_false(desk->log.color);
    desk->log.format = LOG_TEXT;
    desk->log.color = true;
    log_error(&desk->log, "x", LOG_INT("n", 1));
    assert_string_equal(written(desk), "12:01:02.123 \x1b[31merror\x1b[0m x n=1\n");
}

static void levels_have_names(void **state)
{
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    enum log_level level = LOG_ERROR;

    (void)state;
    for (int i = 0; i < (int)LEN(names); i++) {
        assert_int_equal(log_level_parse(names[i], &level), 0);
        assert_int_equal((int)level, i);
    }
    assert_int_equal(log_level_parse("", &level), -1);
    assert_int_equal(log_level_parse("INFO", &level), -1);
    assert_int_equal(log_level_parse("warning", &level), -1);
    assert_int_equal(log_level_parse(NULL, &level), -1);
    assert_int_equal((int)level, LOG_OFF);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_is_for_people),
        TEST(text_values_that_are_not_one_word_are_quoted),
        TEST(json_is_for_programs),
        TEST(a_line_cannot_be_forged),
        TEST(events_below_the_level_are_left_out),
        TEST(no_logger_is_silent),
        TEST(errors_are_logged_with_all_that_is_known),
        TEST(a_long_line_is_cut_with_a_mark_and_stays_valid),
        TEST(a_line_of_too_many_fields_is_cut_and_stays_valid),
        TEST(a_largest_error_fits_without_being_cut),
        TEST(an_absurd_event_does_no_harm),
        TEST(a_broken_descriptor_is_survived_and_errno_kept),
        TEST(times_before_1970_are_no_trouble),
        TEST(lines_of_many_threads_do_not_mix),
        TEST(a_terminal_gets_text_in_colour),
        TEST(colour_is_on_the_level_alone),
        TEST(levels_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
