/*
 * hash: a seeded hash of bytes that come from outside. Who does not know the seed cannot choose keys
 * that collide. Take the seed from rand_bytes. Any thread may call.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_seed {
    uint64_t word[2];
};

uint64_t hash_bytes(const struct hash_seed *seed, const void *bytes, size_t len);

#endif
