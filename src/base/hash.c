/* hash: SipHash-1-3 (Aumasson and Bernstein), but for the byte order of the words, which is the
 * machine's: hashes never leave the process. */
#include "base/hash.h"

#include <string.h>

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

uint64_t hash_bytes(const struct hash_seed *seed, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t v[4] = {
        seed->word[0] ^ 0x736f6d6570736575U,
        seed->word[1] ^ 0x646f72616e646f6dU,
        seed->word[0] ^ 0x6c7967656e657261U,
        seed->word[1] ^ 0x7465646279746573U,
    };
    uint64_t word;
    size_t left = len;

    for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)len << 56;
    for (size_t i = 0; i < left; i++)
        word |= (uint64_t)at[i] << (8 * i);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
