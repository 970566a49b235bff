/* map: it holds what was put, up to its maximum, through growth and removal in any order. */
#include "base/map.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/defer.h"
#include "check.h"

#define AUTO_MAP        \
    CLEANUP(map_deinit) \
    struct map

static int put(struct map *map, const char *key, void *value)
{
    return map_put(map, key, strlen(key), value);
}

static void *get(const struct map *map, const char *key)
{
    return map_get(map, key, strlen(key));
}

static void an_empty_map_has_nothing(void **state)
{
    AUTO_MAP map;
    size_t pos = 0;

    (void)state;
    map_init(&map, 1);
    assert_null(get(&map, "a"));
    assert_null(map_get(&map, NULL, 0));
    assert_null(map_remove(&map, "a", 1));
    assert_null(map_next(&map, &pos, NULL, NULL));
}

static void keys_are_bytes_compared_with_their_length(void **state)
{
    AUTO_MAP map;
    int a, b, c, d;
    char key[] = "ab";

    (void)state;
    map_init(&map, 10);
    assert_int_equal(put(&map, key, &a), 0);
    key[0] = 'X'; /* the map has its own copy */
    assert_int_equal(map_put(&map, "ab\0", 3, &b), 0);
    assert_int_equal(map_put(&map, NULL, 0, &c), 0);
    assert_int_equal(map_put(&map, "\0", 1, &d), 0);
    assert_ptr_equal(get(&map, "ab"), &a);
    assert_ptr_equal(map_get(&map, "ab\0", 3), &b);
    assert_ptr_equal(get(&map, ""), &c);
    assert_ptr_equal(map_get(&map, "\0", 1), &d);
    assert_null(get(&map, "Xb"));
    assert_null(get(&map, "a"));
    assert_int_equal(map.n, 4);
}

static void putting_again_replaces(void **state)
{
    AUTO_MAP map;
    int a, b;

    (void)state;
    map_init(&map, 1);
    assert_int_equal(put(&map, "k", &a), 0);
    assert_int_equal(put(&map, "k", &b), 0);
    assert_ptr_equal(get(&map, "k"), &b);
    assert_int_equal(map.n, 1);
}

static void a_full_map_refuses_new_keys_only(void **state)
{
    AUTO_MAP map;
    int a, b, c;

    (void)state;
    map_init(&map, 2);
    assert_int_equal(put(&map, "a", &a), 0);
    assert_int_equal(put(&map, "b", &b), 0);
    assert_int_equal(put(&map, "c", &c), PAWL_ELIMIT);
    assert_null(get(&map, "c"));
    assert_int_equal(put(&map, "b", &c), 0);
    assert_ptr_equal(get(&map, "b"), &c);
    assert_ptr_equal(map_remove(&map, "a", 1), &a);
    assert_int_equal(put(&map, "c", &c), 0);
}

/* Random puts and removals, compared with a plain array after each round. */
static void it_agrees_with_a_plain_array(void **state)
{
    enum { KEYS = 500 };

    AUTO_MAP map;
    bool there[KEYS] = {false};
    int values[KEYS];
    size_t n = 0;
    unsigned random = 12345; /* fixed: a failure must come again */

    (void)state;
    map_init(&map, KEYS);
    for (int step = 0; step < 20000; step++) {
        random = random * 1664525u + 1013904223u;
        unsigned i = random >> 8 & 0x1ff;
        char key[32];
        if (i >= KEYS)
            continue;
        /* Short and long, so that whole words and what is left over of them are hashed. */
        size_t len = (size_t)snprintf(key, sizeof(key), i % 2 ? "%u" : "a-rather-long-key-%u", i);
        if (random >> 20 & 1) {
            assert_int_equal(map_put(&map, key, len, &values[i]), 0);
            n += !there[i];
            there[i] = true;
        } else {
            assert_ptr_equal(map_remove(&map, key, len), there[i] ? &values[i] : NULL);
            n -= there[i];
            there[i] = false;
        }
        assert_int_equal(map.n, n);
        if (step % 500 != 0)
            continue;
        for (unsigned k = 0; k < KEYS; k++) {
            len = (size_t)snprintf(key, sizeof(key), k % 2 ? "%u" : "a-rather-long-key-%u", k);
            assert_ptr_equal(map_get(&map, key, len), there[k] ? &values[k] : NULL);
        }
    }
}

static void walking_meets_every_entry_once(void **state)
{
    enum { KEYS = 100 };

    AUTO_MAP map;
    int seen[KEYS] = {0};
    const void *key;
    size_t len, pos = 0, n = 0;

    (void)state;
    map_init(&map, KEYS);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(map_put(&map, &i, sizeof(i), &seen[i]), 0);
    for (int *value; (value = map_next(&map, &pos, &key, &len)); n++) {
        int i;
        assert_int_equal(len, sizeof(i));
        memcpy(&i, key, sizeof(i));
        assert_ptr_equal(value, &seen[i]);
        seen[i]++;
    }
    assert_int_equal(n, KEYS);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(seen[i], 1);
}

static void every_map_has_a_seed_of_its_own(void **state)
{
    AUTO_MAP a;
    AUTO_MAP b;

    (void)state;
    map_init(&a, 1);
    map_init(&b, 1);
    assert_memory_not_equal(&a.seed, &b.seed, sizeof(a.seed));
}

static void long_keys_are_kept_whole(void **state)
{
    AUTO_MAP map;
    int a;

    (void)state;
    map_init(&map, 1);
    /* Long, but real: nothing says keys are short but the comment. */
    AUTO_FREE char *key = calloc(1, 100000);
    assert_int_equal(map_put(&map, key, 100000, &a), 0);
    assert_ptr_equal(map_get(&map, key, 100000), &a);
    assert_null(map_get(&map, key, 99999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(keys_are_bytes_compared_with_their_length),
        cmocka_unit_test(putting_again_replaces),
        cmocka_unit_test(a_full_map_refuses_new_keys_only),
        cmocka_unit_test(it_agrees_with_a_plain_array),
        cmocka_unit_test(walking_meets_every_entry_once),
        cmocka_unit_test(every_map_has_a_seed_of_its_own),
        cmocka_unit_test(long_keys_are_kept_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
