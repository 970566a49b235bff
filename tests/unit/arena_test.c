/* arena: what is handed out is zeroed, aligned, apart from each other, bounded, and given back all
 * at once. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdio.h>

#include <stdalign.h>

#include "check.h"

#define MIB ((size_t)1024 * 1024)

static bool all_zero(const unsigned char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] != 0)
            return false;
    return true;
}

static void memory_is_zeroed_and_aligned(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 8 * MIB);
    for (size_t size = 0; size < 300; size++) {
        unsigned char *data = arena_alloc(&arena, size);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % alignof(max_align_t), 0);
        assert_true(all_zero(data, size));
        memset(data, 0xff, size);
    }
    arena_deinit(&arena);
}

static void objects_do_not_overlap(void **state)
{
    /* Around the sizes of blocks: ordinary ones, those that fill a block, and those that get their
     * own. */
    static const size_t sizes[] = {
        1, 15, 16, 17, 4080, 4096, 4097, 8192, 65536, 65537, 200000, 3, 40000, 0, 64};
    struct arena arena;
    unsigned char *data[4 * LEN(sizes)];

    (void)state;
    arena_init(&arena, 8 * MIB);
    for (size_t i = 0; i < LEN(data); i++) {
        data[i] = arena_alloc(&arena, sizes[i % LEN(sizes)]);
        assert_non_null(data[i]);
        memset(data[i], (int)i + 1, sizes[i % LEN(sizes)]);
    }
    for (size_t i = 0; i < LEN(data); i++)
        for (size_t j = 0; j < sizes[i % LEN(sizes)]; j++)
            assert_int_equal(data[i][j], i + 1);
    arena_deinit(&arena);
}

static void memory_is_zeroed_again_after_clear(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, MIB);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(arena.used, 0);
        for (int i = 0; i < 50; i++) {
            unsigned char *data = arena_alloc(&arena, 1000);
            assert_non_null(data);
            assert_true(all_zero(data, 1000));
            memset(data, 0xff, 1000);
        }
        arena_clear(&arena);
    }
    arena_deinit(&arena);
}

static void clear_makes_the_whole_maximum_available_again(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1024);
    assert_non_null(arena_alloc(&arena, 1024));
    assert_null(arena_alloc(&arena, 1));
    arena_clear(&arena);
    assert_non_null(arena_alloc(&arena, 1024));
    arena_deinit(&arena);
}

static void clear_of_an_empty_arena_is_harmless(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1);
    arena_clear(&arena);
    arena_deinit(&arena);
    arena_deinit(&arena);
}

static void maximum_is_exact_and_small_requests_still_fit_after_a_refusal(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 160);
    assert_non_null(arena_alloc(&arena, 100)); /* 112 with padding */
    assert_int_equal(arena.used, 112);
    assert_null(arena_alloc(&arena, 49));
    assert_int_equal(arena.used, 112);
    assert_non_null(arena_alloc(&arena, 48));
    assert_int_equal(arena.used, 160);
    assert_null(arena_alloc(&arena, 0));
    arena_deinit(&arena);
}

static void absurd_sizes_are_refused(void **state)
{
    struct arena arena;
    volatile size_t huge = SIZE_MAX; /* the compiler would warn of a constant */

    (void)state;
    arena_init(&arena, SIZE_MAX);
    assert_null(arena_alloc(&arena, huge));
    assert_null(arena_alloc(&arena, huge - 15));
    assert_null(arena_alloc(&arena, huge / 2));
    assert_null(arena_alloc_array(&arena, huge, 2));
    assert_null(arena_alloc_array(&arena, huge / 2 + 2, 2));
    assert_null(arena_strndup(&arena, "x", huge));
    assert_int_equal(arena.used, 0);
    assert_non_null(arena_alloc_array(&arena, 0, huge));
    arena_deinit(&arena);
}

static void copies_are_equal_and_independent(void **state)
{
    struct arena arena;
    char text[] = "one\0two";

    (void)state;
    arena_init(&arena, MIB);
    char *bytes = arena_memdup(&arena, text, sizeof(text));
    char *whole = arena_strdup(&arena, text);
    char *part = arena_strndup(&arena, text, 2);
    assert_non_null(arena_memdup(&arena, NULL, 0));
    text[0] = 'X';
    assert_memory_equal(bytes, "one\0two", sizeof(text));
    assert_string_equal(whole, "one");
    assert_string_equal(part, "on");
    assert_string_equal(arena_strndup(&arena, "", 0), "");
    assert_null(arena_strdup(&arena, NULL));
    arena_deinit(&arena);
}

static void printf_sizes_itself(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 4096);
    assert_string_equal(arena_printf(&arena, "%s-%d", "job", 7), "job-7");
    char *wide = arena_printf(&arena, "%2000d", 1);
    assert_int_equal(strlen(wide), 2000);
    assert_null(arena_printf(&arena, "%4000d", 1));
    arena_deinit(&arena);
}

static void typed_helpers_give_zeroed_objects(void **state)
{
    struct pair {
        long a;
        void *b;
    };
    struct arena arena;

    (void)state;
    arena_init(&arena, 4096);
    struct pair *one = arena_new(&arena, struct pair);
    struct pair *many = arena_new_array(&arena, 10, struct pair);
    assert_int_equal(one->a, 0);
    assert_null(many[9].b);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(objects_do_not_overlap),
        cmocka_unit_test(memory_is_zeroed_again_after_clear),
        cmocka_unit_test(clear_makes_the_whole_maximum_available_again),
        cmocka_unit_test(clear_of_an_empty_arena_is_harmless),
        cmocka_unit_test(maximum_is_exact_and_small_requests_still_fit_after_a_refusal),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(copies_are_equal_and_independent),
        cmocka_unit_test(printf_sizes_itself),
        cmocka_unit_test(typed_helpers_give_zeroed_objects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
