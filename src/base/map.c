/*
 * map: open addressing with linear probing over pointers to entries. Conserved: n_buckets is a
 * power of two and at least one bucket is empty, so every search ends; no entry lies behind an
 * empty bucket on the way from its home, so a search may stop there (removal moves the followers up
 * to keep it so).
 */
#include "base/map.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

#define MAP_FIRST_BUCKETS ((size_t)16)

struct map_entry {
    void *value; /* borrowed */
    uint64_t hash;
    size_t key_len;
    unsigned char key[];
};

void map_init(struct map *map, size_t max)
{
    assert(max > 0);
    *map = (struct map){.max = max};
    rand_bytes(&map->seed, sizeof(map->seed));
}

void map_deinit(struct map *map)
{
    for (size_t i = 0; i < map->n_buckets; i++)
        free(map->buckets[i]);
    free(map->buckets);
    map->buckets = NULL;
    map->n_buckets = map->n = 0;
}

static size_t home_of(uint64_t hash, size_t n_buckets)
{
    return (size_t)hash & (n_buckets - 1);
}

/* The bucket that holds the key, or the empty one where it would go. There must be buckets. */
static size_t find(const struct map *map, uint64_t hash, const void *key, size_t key_len)
{
    size_t i = home_of(hash, map->n_buckets);

    for (; map->buckets[i]; i = (i + 1) & (map->n_buckets - 1)) {
        const struct map_entry *entry = map->buckets[i];
        if (entry->hash == hash && entry->key_len == key_len &&
            (key_len == 0 || memcmp(entry->key, key, key_len) == 0))
            break;
    }
    return i;
}

void *map_get(const struct map *map, const void *key, size_t key_len)
{
    if (map->n == 0)
        return NULL;
    const struct map_entry *entry =
        map->buckets[find(map, hash_bytes(&map->seed, key, key_len), key, key_len)];
    return entry ? entry->value : NULL;
}

/* Twice as many buckets, everything moved over; or nothing changed. */
static bool grow(struct map *map)
{
    size_t n_buckets = map->n_buckets ? map->n_buckets * 2 : MAP_FIRST_BUCKETS;
    struct map_entry **buckets = calloc(n_buckets, sizeof(struct map_entry *));

    if (!buckets)
        return false;
    for (size_t i = 0; i < map->n_buckets; i++) {
        struct map_entry *entry = map->buckets[i];
        if (!entry)
            continue;
        size_t to = home_of(entry->hash, n_buckets);
        while (buckets[to])
            to = (to + 1) & (n_buckets - 1);
        buckets[to] = entry;
    }
    free(map->buckets);
    map->buckets = buckets;
    map->n_buckets = n_buckets;
    return true;
}

int map_put(struct map *map, const void *key, size_t key_len, void *value)
{
    assert(value);
    uint64_t hash = hash_bytes(&map->seed, key, key_len);

    if (map->n > 0) {
        struct map_entry *there = map->buckets[find(map, hash, key, key_len)];
        if (there) {
            there->value = value;
            return 0;
        }
    }
    if (map->n >= map->max)
        return PAWL_ELIMIT;
    /* Three quarters full is where probing gets long. Without memory for more, a fuller table will
     * do as long as one bucket stays empty. */
    if (map->n >= map->n_buckets / 4 * 3 && !grow(map) && map->n + 1 >= map->n_buckets)
        return PAWL_ENOMEM;

    if (key_len > PTRDIFF_MAX - sizeof(struct map_entry))
        return PAWL_ENOMEM;
    struct map_entry *entry = malloc(sizeof(*entry) + key_len);
    if (!entry)
        return PAWL_ENOMEM;
    entry->value = value;
    entry->hash = hash;
    entry->key_len = key_len;
    if (key_len > 0)
        memcpy(entry->key, key, key_len);
    map->buckets[find(map, hash, key, key_len)] = entry;
    map->n++;
    return 0;
}

void *map_remove(struct map *map, const void *key, size_t key_len)
{
    if (map->n == 0)
        return NULL;
    size_t mask = map->n_buckets - 1;
    size_t hole = find(map, hash_bytes(&map->seed, key, key_len), key, key_len);
    struct map_entry *entry = map->buckets[hole];
    if (!entry)
        return NULL;

    void *value = entry->value;
    free(entry);
    map->buckets[hole] = NULL;
    map->n--;
    /* A follower fills the hole unless its home lies between the hole (exclusive) and where it
     * stands. */
    for (size_t i = (hole + 1) & mask; map->buckets[i]; i = (i + 1) & mask) {
        size_t home = home_of(map->buckets[i]->hash, map->n_buckets);
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        map->buckets[hole] = map->buckets[i];
        map->buckets[i] = NULL;
        hole = i;
    }
    return value;
}

void *map_next(const struct map *map, size_t *pos, const void **ret_key, size_t *ret_len)
{
    while (*pos < map->n_buckets) {
        const struct map_entry *entry = map->buckets[(*pos)++];
        if (!entry)
            continue;
        if (ret_key)
            *ret_key = entry->key;
        if (ret_len)
            *ret_len = entry->key_len;
        return entry->value;
    }
    return NULL;
}
