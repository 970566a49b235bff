/*
 * map: from a short run of bytes to a pointer. Keys are copied, values are borrowed. Bounded: a map
 * refuses to grow past its maximum. The hash is seeded per map from the kernel, because keys come from outside.
 * Not thread safe.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

struct map_entry;

struct map {
    struct map_entry **buckets; /* owned; NULL until the first put */
    size_t n_buckets;           /* a power of two */
    size_t n;
    size_t max; /* of n; never 0 */
    struct hash_seed seed;
};

void map_init(struct map *map, size_t max);
void map_deinit(struct map *map);

/* The value, or NULL. */
void *map_get(const struct map *map, const void *key, size_t key_len);

/* Replaces a value that is there. PAWL_ELIMIT when full, PAWL_ENOMEM. value must not be NULL. */
int map_put(struct map *map, const void *key, size_t key_len, void *value) MUST_CHECK;

/* The value that was there, or NULL. */
void *map_remove(struct map *map, const void *key, size_t key_len);

/* Start with *pos = 0; each call gives the next value, NULL at the end. Order is arbitrary; the map must not
 * change meanwhile. ret_key and ret_len may be NULL. */
void *map_next(const struct map *map, size_t *pos, const void **ret_key, size_t *ret_len);

#endif
