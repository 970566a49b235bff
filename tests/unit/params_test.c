/*
 * Parameters as they go over the wire, byte by byte. That PostgreSQL reads them the same way is
 * shown by tests/db/sync_test.c.
 */
#include "pg/params.h"

#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "pg/oid.h"
#include "support/cmocka.h"

static struct arena arena;
static struct params p;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 20);
    params_init(&p, &arena);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return 0;
}

#define assert_wire(index, oid, ...)                                        \
    do {                                                                    \
        const unsigned char expected_[] = {__VA_ARGS__};                    \
        assert_int_equal(p.types[index], oid);                              \
        assert_int_equal(p.formats[index], 1);                              \
        assert_non_null(p.values[index]);                                   \
        assert_int_equal(p.lengths[index], sizeof(expected_));              \
        assert_memory_equal(p.values[index], expected_, sizeof(expected_)); \
    } while (0)

static void assert_null_param(int index, Oid oid)
{
    assert_int_equal(p.types[index], oid);
    assert_null(p.values[index]);
}

static void numbers_travel_in_network_order(void **state)
{
    (void)state;
    params_bool(&p, true);
    params_bool(&p, false);
    params_i16(&p, -2);
    params_i32(&p, 0x01020304);
    params_i64(&p, INT64_MIN);
    assert_int_equal(p.n, 5);
    assert_false(p.failed);
    assert_wire(0, OID_BOOL, 1);
    assert_wire(1, OID_BOOL, 0);
    assert_wire(2, OID_INT2, 0xff, 0xfe);
    assert_wire(3, OID_INT4, 1, 2, 3, 4);
    assert_wire(4, OID_INT8, 0x80, 0, 0, 0, 0, 0, 0, 0);
}

static void empty_is_not_null(void **state)
{
    (void)state;
    params_text(&p, "");
    params_text(&p, NULL);
    params_bytes(&p, (struct bytes){"", 0});
    params_bytes(&p, (struct bytes){NULL, 0});
    params_uuid(&p, NULL);
    params_time(&p, NULL);
    assert_false(p.failed);
    assert_non_null(p.values[0]);
    assert_int_equal(p.lengths[0], 0);
    assert_null_param(1, OID_TEXT);
    assert_non_null(p.values[2]);
    assert_int_equal(p.lengths[2], 0);
    assert_null_param(3, OID_BYTEA);
    assert_null_param(4, OID_UUID);
    assert_null_param(5, OID_TIMESTAMPTZ);
}

static void a_nul_inside_is_not_the_end(void **state)
{
    (void)state;
    params_bytes(&p, (struct bytes){"a\0b", 3});
    assert_wire(0, OID_BYTEA, 'a', 0, 'b');
}

static void values_are_copied(void **state)
{
    char text[] = "before";

    (void)state;
    params_text(&p, text);
    memcpy(text, "after!", sizeof(text));
    assert_wire(0, OID_TEXT, 'b', 'e', 'f', 'o', 'r', 'e');
}

static void times_count_from_the_year_2000(void **state)
{
    int64_t epoch = PG_EPOCH_UNIX_US;
    int64_t before = PG_EPOCH_UNIX_US - 1;
    int64_t ever = INT64_MAX;
    int64_t never = INT64_MIN;
    int64_t too_early = INT64_MIN + 1;

    (void)state;
    params_time(&p, &epoch);
    params_time(&p, &before);
    params_time(&p, &ever);
    params_time(&p, &never);
    params_time(&p, &too_early);
    assert_wire(0, OID_TIMESTAMPTZ, 0, 0, 0, 0, 0, 0, 0, 0);
    assert_wire(1, OID_TIMESTAMPTZ, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
    assert_wire(2, OID_TIMESTAMPTZ, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
    assert_wire(3, OID_TIMESTAMPTZ, 0x80, 0, 0, 0, 0, 0, 0, 0);
    /* Out of range, but not -infinity. */
    assert_wire(4, OID_TIMESTAMPTZ, 0x80, 0, 0, 0, 0, 0, 0, 1);
}

static void an_array_carries_its_shape_and_its_nulls(void **state)
{
    const char *const texts[] = {"x", NULL, ""};

    (void)state;
    params_text_array(&p, texts, 3);
    /* clang-format off */
    assert_wire(0, OID_TEXT_ARRAY,
                0, 0, 0, 1,             /* dimensions */
                0, 0, 0, 1,             /* has NULLs */
                0, 0, 0, 25,            /* of text */
                0, 0, 0, 3, 0, 0, 0, 1, /* three, counted from one */
                0, 0, 0, 1, 'x',
                0xff, 0xff, 0xff, 0xff,
                0, 0, 0, 0);
    /* clang-format on */
}

static void an_empty_array_has_no_dimension(void **state)
{
    (void)state;
    params_i64_array(&p, NULL, 0);
    assert_wire(0, OID_INT8_ARRAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20);
}

static void number_arrays_travel_in_network_order(void **state)
{
    const int16_t shorts[] = {1, -1};
    const bool bools[] = {true};

    (void)state;
    params_i16_array(&p, shorts, 2);
    params_bool_array(&p, bools, 1);
    /* clang-format off */
    assert_wire(0, OID_INT2_ARRAY,
                0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 1,
                0, 0, 0, 2, 0, 1, 0, 0, 0, 2, 0xff, 0xff);
    assert_wire(1, OID_BOOL_ARRAY,
                0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1,
                0, 0, 0, 1, 1);
    /* clang-format on */
}

/* Members of structs, some narrower in the database than here. */
static void a_column_takes_one_member_of_each_struct(void **state)
{
    const struct {
        const char *data;
        size_t len;
        int level;
        int64_t ms;
    } items[] = {{"a\0", 2, 7, 258}, {NULL, 0, -1, 1}};

    (void)state;
    PARAMS_COLUMN(&p, COLUMN_BYTES, items, 2, data);
    PARAMS_COLUMN(&p, COLUMN_I32_AS_I16, items, 2, level);
    PARAMS_COLUMN(&p, COLUMN_I64_AS_I32, items, 2, ms);
    PARAMS_COLUMN(&p, COLUMN_TIME, items, 0, ms);
    assert_false(p.failed);
    assert_int_equal(p.types[0], OID_BYTEA_ARRAY);
    assert_int_equal(p.lengths[0], 20 + 4 + 2 + 4);
    assert_memory_equal(p.values[0] + 20, "\0\0\0\2a\0\377\377\377\377", 10);
    assert_int_equal(p.types[1], OID_INT2_ARRAY);
    assert_memory_equal(p.values[1] + 20, "\0\0\0\2\0\7\0\0\0\2\377\377", 12);
    assert_int_equal(p.types[2], OID_INT4_ARRAY);
    assert_memory_equal(p.values[2] + 20, "\0\0\0\4\0\0\1\2\0\0\0\4\0\0\0\1", 16);
    assert_wire(3, OID_TIMESTAMPTZ_ARRAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x04, 0xa0);
}

static void one_parameter_too_many_fails_and_sticks(void **state)
{
    (void)state;
    for (int i = 0; i < PARAMS_MAX; i++)
        params_i32(&p, i);
    assert_false(p.failed);
    params_i32(&p, 0);
    assert_true(p.failed);
    assert_int_equal(p.n, PARAMS_MAX);
}

static void no_memory_fails_and_sticks(void **state)
{
    static char large[4096];
    struct arena small;

    (void)state;
    arena_init(&small, 1024);
    params_init(&p, &small);
    params_bytes(&p, (struct bytes){large, sizeof(large)});
    assert_true(p.failed);
    params_i32(&p, 1);
    assert_int_equal(p.n, 0);

    params_init(&p, &small);
    params_bytes_array(&p, &(struct bytes){large, sizeof(large)}, 1);
    assert_true(p.failed);
    arena_deinit(&small);
}

static void what_the_protocol_cannot_carry_is_refused(void **state)
{
    (void)state;
    /* Never read: the length alone is too much. */
    params_bytes(&p, (struct bytes){"", (size_t)INT_MAX + 1});
    assert_true(p.failed);
    params_init(&p, &arena);
    params_bytes_array(&p, &(struct bytes){"", SIZE_MAX - 4}, 1);
    assert_true(p.failed);
    params_init(&p, &arena);
    params_i64_array(&p, NULL, SIZE_MAX / 4);
    assert_true(p.failed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_travel_in_network_order),
        TEST(empty_is_not_null),
        TEST(a_nul_inside_is_not_the_end),
        TEST(values_are_copied),
        TEST(times_count_from_the_year_2000),
        TEST(an_array_carries_its_shape_and_its_nulls),
        TEST(an_empty_array_has_no_dimension),
        TEST(number_arrays_travel_in_network_order),
        TEST(a_column_takes_one_member_of_each_struct),
        TEST(one_parameter_too_many_fails_and_sticks),
        TEST(no_memory_fails_and_sticks),
        TEST(what_the_protocol_cannot_carry_is_refused),
    };

    return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
