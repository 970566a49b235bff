/* buf: it grows to its maximum and not a byte further, its errors stick, and it always ends in a
 * NUL. */
#include "base/buf.h"

#include <stdlib.h>

#include "base/defer.h"
#include "check.h"

#define AUTO_BUF        \
    CLEANUP(buf_deinit) \
    struct buf

static void an_empty_buffer_reads_as_empty_text(void **state)
{
    AUTO_BUF buf;

    (void)state;
    buf_init(&buf, 10);
    assert_string_equal(buf_str(&buf), "");
    assert_int_equal(buf.len, 0);
    assert_null(buf.data);
    buf_consume(&buf, 0);
    buf_wrote(&buf, 0);
    buf_clear(&buf);
    assert_int_equal(buf_append(&buf, NULL, 0), 0);
    assert_string_equal(buf_str(&buf), "");
}

static void appends_add_up(void **state)
{
    AUTO_BUF buf;

    (void)state;
    buf_init(&buf, 1000);
    assert_int_equal(buf_puts(&buf, "ab"), 0);
    assert_int_equal(buf_putc(&buf, 'c'), 0);
    assert_int_equal(buf_append(&buf, "\0d", 2), 0);
    assert_int_equal(buf_printf(&buf, "%05d%s", 42, "!"), 0);
    assert_int_equal(buf.len, 11);
    assert_memory_equal(buf_str(&buf), "abc\0d00042!", 12);
    assert_false(buf.failed);
}

static void it_takes_its_maximum_and_not_one_more(void **state)
{
    (void)state;
    for (size_t max = 1; max < 200; max++) {
        AUTO_BUF buf;
        buf_init(&buf, max);
        for (size_t i = 0; i < max; i++)
            assert_int_equal(buf_putc(&buf, 'x'), 0);
        assert_int_equal(buf.len, max);
        assert_true(buf.cap <= max + 1);
        assert_int_equal(buf_putc(&buf, 'y'), PAWL_ELIMIT);
        assert_true(buf.failed);
        assert_int_equal(strlen(buf_str(&buf)), max);
    }
}

static void a_refused_append_keeps_what_was_there_and_sticks(void **state)
{
    AUTO_BUF buf;

    (void)state;
    buf_init(&buf, 5);
    assert_int_equal(buf_puts(&buf, "abc"), 0);
    assert_int_equal(buf_puts(&buf, "def"), PAWL_ELIMIT);
    assert_string_equal(buf_str(&buf), "abc");
    assert_int_equal(buf_puts(&buf, "d"), PAWL_ELIMIT);
    assert_int_equal(buf_append(&buf, "", 0), PAWL_ELIMIT);
    assert_int_equal(buf_printf(&buf, "%d", 1), PAWL_ELIMIT);
    assert_null(buf_reserve(&buf, 1));
    assert_string_equal(buf_str(&buf), "abc");
    buf_clear(&buf);
    assert_int_equal(buf_puts(&buf, "defgh"), 0);
    assert_string_equal(buf_str(&buf), "defgh");
}

static void a_printf_that_does_not_fit_leaves_no_part_of_itself(void **state)
{
    AUTO_BUF buf;

    (void)state;
    buf_init(&buf, 8);
    buf_puts(&buf, "12345");
    assert_int_equal(buf_printf(&buf, "%s", "6789"), PAWL_ELIMIT);
    assert_string_equal(buf_str(&buf), "12345");
    buf_clear(&buf);
    assert_int_equal(buf_printf(&buf, "%s", "12345678"), 0);
    assert_string_equal(buf_str(&buf), "12345678");
}

static void lengths_that_would_overflow_are_refused(void **state)
{
    AUTO_BUF buf;

    (void)state;
    buf_init(&buf, SIZE_MAX);
    buf_puts(&buf, "abc");
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    buf_clear(&buf);
    buf_puts(&buf, "abc");
    assert_null(buf_reserve(&buf, SIZE_MAX - 3));
    assert_string_equal(buf_str(&buf), "abc");
}

static void reserved_room_becomes_content_when_it_is_said(void **state)
{
    AUTO_BUF buf;

    (void)state;
    buf_init(&buf, 300);
    buf_puts(&buf, "ab");
    char *room = buf_reserve(&buf, 298);
    assert_non_null(room);
    assert_string_equal(buf_str(&buf), "ab");
    memset(room, 'z', 298);
    buf_wrote(&buf, 1);
    assert_string_equal(buf_str(&buf), "abz");
    assert_null(buf_reserve(&buf, 298));
}

static void consuming_drops_the_front(void **state)
{
    AUTO_BUF buf;

    (void)state;
    buf_init(&buf, 100);
    buf_puts(&buf, "abcdef");
    buf_consume(&buf, 2);
    assert_string_equal(buf_str(&buf), "cdef");
    buf_puts(&buf, "g");
    buf_consume(&buf, 5);
    assert_string_equal(buf_str(&buf), "");
    assert_int_equal(buf.len, 0);
}

static void taking_hands_the_memory_over(void **state)
{
    AUTO_BUF buf;
    size_t len = 99;

    (void)state;
    buf_init(&buf, 5);
    assert_null(buf_take(&buf, &len));
    assert_int_equal(len, 0);
    buf_puts(&buf, "abcde");
    buf_putc(&buf, 'f');
    AUTO_FREE char *taken = buf_take(&buf, &len);
    assert_string_equal(taken, "abcde");
    assert_int_equal(len, 5);
    assert_int_equal(buf_puts(&buf, "xyz"), 0);
    assert_string_equal(buf_str(&buf), "xyz");
    buf_clear(&buf);
    assert_null(buf_take(&buf, NULL)); /* empty, but it had memory: nothing may leak */
}

static void fixed_storage_is_neither_grown_nor_freed(void **state)
{
    char storage[4] = "????";
    struct buf buf;

    (void)state;
    buf_init_fixed(&buf, storage, sizeof(storage));
    assert_string_equal(storage, "");
    assert_int_equal(buf_puts(&buf, "abc"), 0);
    assert_ptr_equal(buf.data, storage);
    assert_int_equal(buf_putc(&buf, 'd'), PAWL_ELIMIT);
    assert_string_equal(storage, "abc");
    buf_deinit(&buf);
    char one[1];
    buf_init_fixed(&buf, one, 1);
    assert_int_equal(buf_putc(&buf, 'x'), PAWL_ELIMIT);
    assert_string_equal(buf_str(&buf), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_reads_as_empty_text),
        cmocka_unit_test(appends_add_up),
        cmocka_unit_test(it_takes_its_maximum_and_not_one_more),
        cmocka_unit_test(a_refused_append_keeps_what_was_there_and_sticks),
        cmocka_unit_test(a_printf_that_does_not_fit_leaves_no_part_of_itself),
        cmocka_unit_test(lengths_that_would_overflow_are_refused),
        cmocka_unit_test(reserved_room_becomes_content_when_it_is_said),
        cmocka_unit_test(consuming_drops_the_front),
        cmocka_unit_test(taking_hands_the_memory_over),
        cmocka_unit_test(fixed_storage_is_neither_grown_nor_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
