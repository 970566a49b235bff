/*
 * oom: every allocation fails once. Each scene is run with its first allocation failing, then its
 * second, and so on until it comes through; whatever fails must leave what was there whole and leak
 * nothing. The linker sends malloc, calloc and realloc of our own code through here (--wrap).
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/defer.h"
#include "base/map.h"
#include "check.h"
#include "core/json.h"

static int countdown = -1; /* allocations until one fails; negative: none does */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails_now(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails_now() ? NULL : __real_realloc(p, size);
}

/* True when the scene met no failure any more. */
typedef bool scene(void);

/* Returns how many allocations the scene makes. */
static int torture(scene *run)
{
    for (int n = 0; n < 1000; n++) {
        countdown = n;
        bool through = run();
        bool unused = countdown >= 0;
        countdown = -1;
        assert_int_equal(through, unused);
        if (through)
            return n;
    }
    fail_msg("it never comes through");
    return -1;
}

static bool arena_scene(void)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    bool through = true;

    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < 100; i++) {
        size_t used = arena.used;
        unsigned char *data = arena_alloc(&arena, i * i);
        if (!data) {
            assert_int_equal(arena.used, used);
            through = false;
            continue;
        }
        memset(data, 0xff, i * i);
    }
    return through;
}

static void arena_survives(void **state)
{
    (void)state;
    assert_true(torture(arena_scene) > 3);
}

static bool buf_scene(void)
{
    CLEANUP(buf_deinit)
    struct buf buf;
    int rc = 0;

    buf_init(&buf, 1 << 20);
    for (int i = 0; i < 1000 && rc == 0; i++) {
        size_t len = buf.len;
        rc = buf_printf(&buf, "%d ", i);
        if (rc < 0) {
            assert_int_equal(rc, PAWL_ENOMEM);
            assert_true(buf.failed);
            assert_int_equal(buf.len, len);
            assert_int_equal(strlen(buf_str(&buf)), len);
            assert_int_equal(buf_putc(&buf, 'x'), PAWL_ELIMIT);
        }
    }
    return rc == 0;
}

static void buf_survives(void **state)
{
    (void)state;
    assert_true(torture(buf_scene) > 3);
}

/* A failure to grow is no failure to put, as long as there is room: so what counts is that all that
 * was accepted is there. */
static bool map_scene(void)
{
    CLEANUP(map_deinit)
    struct map map;
    int values[200];
    bool there[200];
    bool through = true;

    map_init(&map, LEN(values));
    for (size_t i = 0; i < LEN(values); i++) {
        size_t n = map.n;
        int rc = map_put(&map, &i, sizeof(i), &values[i]);
        there[i] = rc == 0;
        assert_true(rc == 0 || rc == PAWL_ENOMEM);
        assert_int_equal(map.n, n + there[i]);
        through = through && there[i];
    }
    for (size_t i = 0; i < LEN(values); i++)
        assert_ptr_equal(map_get(&map, &i, sizeof(i)), there[i] ? &values[i] : NULL);
    return through;
}

static void map_survives(void **state)
{
    (void)state;
    for (int n = 0; n < 250; n++) {
        countdown = n;
        bool through = map_scene();
        /* The first two are the first table and the first entry: without them a put must be
         * refused. */
        assert_true(through || countdown < 0);
        assert_true(n > 1 || !through);
    }
    countdown = -1;
    assert_true(map_scene());
}

static void map_does_without_growing_while_there_is_room(void **state)
{
    CLEANUP(map_deinit)
    struct map map;
    int value;
    int put = 0;

    (void)state;
    map_init(&map, 1000);
    assert_int_equal(map_put(&map, &put, sizeof(put), &value), 0);
    size_t n_buckets = map.n_buckets;
    for (put = 1; put < 1000; put++) {
        /* The next one is the table's when it wants to grow, else the entry's. */
        bool wants_to_grow = map.n >= n_buckets / 4 * 3;
        countdown = wants_to_grow ? 0 : -1;
        int rc = map_put(&map, &put, sizeof(put), &value);
        countdown = -1;
        if (rc < 0) {
            assert_int_equal(rc, PAWL_ENOMEM);
            break;
        }
    }
    assert_int_equal(map.n_buckets, n_buckets);
    assert_int_equal(map.n, n_buckets - 1);
    assert_int_equal(map_put(&map, &put, sizeof(put), &value), 0);
    for (int i = 0; i <= put; i++)
        assert_ptr_equal(map_get(&map, &i, sizeof(i)), &value);
}

static int n_out_of_memory;

static bool json_scene(void)
{
    /* Keys in such a number that they need memory, which is doubled a few times. */
    static char text[16 * 1024];
    size_t len = 0;
    struct pawl_err err;

    for (int i = 0; i < 1000; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\"%d\":0", i > 0 ? "," : "{", i);
    text[len++] = '}';
    int rc = json_check(text, len, &err);

    assert_true(rc == 0 || rc == PAWL_ENOMEM);
    n_out_of_memory += rc < 0;
    return rc == 0;
}

static void json_check_survives(void **state)
{
    (void)state;
    assert_true(torture(json_scene) > 4);
    assert_true(n_out_of_memory > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_survives),
        cmocka_unit_test(buf_survives),
        cmocka_unit_test(map_survives),
        cmocka_unit_test(map_does_without_growing_while_there_is_room),
        cmocka_unit_test(json_check_survives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
