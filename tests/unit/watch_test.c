/* watch: a loop that stands still is noticed once, and once again when it turns. */
#include "engine/watch.h"

#include <stdio.h>
#include <unistd.h>

#include "check.h"

#define MS ((int64_t)US_PER_MS)

static void a_beat_in_time_is_fine(void **state)
{
    struct watch_judge judge;
    int64_t for_us = -1;

    (void)state;
    watch_judge_init(&judge, 1000, 0);
    for (int i = 1; i <= 20; i++)
        assert_int_equal(watch_judge_ask(&judge, (uint64_t)i, i * 250 * MS, &for_us), WATCH_FINE);
    assert_int_equal(for_us, -1);
}

static void a_stall_is_said_once_and_its_end_once(void **state)
{
    struct watch_judge judge;
    int64_t for_us = -1;

    (void)state;
    watch_judge_init(&judge, 1000, 0);
    assert_int_equal(watch_judge_ask(&judge, 1, 250 * MS, &for_us), WATCH_FINE);
    for (int ms = 500; ms <= 1250; ms += 250)
        assert_int_equal(watch_judge_ask(&judge, 1, ms * MS, &for_us), WATCH_FINE);
    assert_int_equal(watch_judge_ask(&judge, 1, 1500 * MS, &for_us), WATCH_STALLED);
    assert_int_equal(for_us, 1250 * MS);
    for (int ms = 1750; ms <= 5000; ms += 250)
        assert_int_equal(watch_judge_ask(&judge, 1, ms * MS, &for_us), WATCH_FINE);
    assert_int_equal(watch_judge_ask(&judge, 2, 5250 * MS, &for_us), WATCH_OVER);
    assert_int_equal(for_us, 5000 * MS);
    assert_int_equal(watch_judge_ask(&judge, 2, 5500 * MS, &for_us), WATCH_FINE);
    assert_int_equal(watch_judge_ask(&judge, 3, 5750 * MS, &for_us), WATCH_FINE);
}

/* A process that was stopped for an hour did not stall. */
static void who_stood_still_itself_judges_nobody(void **state)
{
    struct watch_judge judge;
    int64_t for_us = -1;

    (void)state;
    watch_judge_init(&judge, 1000, 0);
    assert_int_equal(watch_judge_ask(&judge, 1, 250 * MS, &for_us), WATCH_FINE);
    assert_int_equal(watch_judge_ask(&judge, 1, 3600000 * MS, &for_us), WATCH_FINE);
    for (int ms = 250; ms <= 1000; ms += 250)
        assert_int_equal(watch_judge_ask(&judge, 1, (3600000 + ms) * MS, &for_us), WATCH_FINE);
    assert_int_equal(watch_judge_ask(&judge, 1, (3600000 + 1250) * MS, &for_us), WATCH_STALLED);
}

/* Reads the log, which is a pipe, until the event is in it. */
static void await(int fd, const char *event)
{
    char text[4096] = "";
    size_t len = 0;

    while (strstr(text, event) == NULL) {
        ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

        if (n <= 0)
            fail_msg("%s was never said: %s", event, text);
        len += (size_t)n;
        text[len] = '\0';
    }
}

static void its_thread_says_so_and_ends_when_told(void **state)
{
    int fds[2];
    struct log log;
    struct pawl_err err = {0};

    (void)state;
    assert_int_equal(pipe(fds), 0);
    log_init(&log, fds[1], LOG_INFO);
    struct watch *watch = watch_new(20, "w:1", &clock_system, &log, &err);

    assert_non_null(watch);
    await(fds[0], "coordinator_stalled");
    assert_int_equal(watch_stalls(watch), 1);
    watch_beat(watch);
    await(fds[0], "coordinator_turns");
    watch_free(watch);
    watch_free(NULL);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beat_in_time_is_fine),
        cmocka_unit_test(a_stall_is_said_once_and_its_end_once),
        cmocka_unit_test(who_stood_still_itself_judges_nobody),
        cmocka_unit_test(its_thread_says_so_and_ends_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
