/*
 * json_keys: a stack of keys, found by hash. Conserved: each list of a home begins with the key that
 * was pushed last, so taking a key off the stack takes it off the head of its list.
 */
#include "core/json_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

#define CHUNK 256 /* bytes that are hashed at once */

/* The bytes that a key stands for, one at a time. */
struct reader {
    const char *at;
    const char *end;
    unsigned char more[3]; /* of a character that an escape stands for */
    unsigned n_more;
};

static unsigned hex4(const char *digits)
{
    unsigned value = 0;

    for (int i = 0; i < 4; i++) {
        char c = digits[i];

        value = value << 4 |
                (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10); /* json.c checked them */
    }
    return value;
}

/* Behind "\u". The first byte of the character; the others wait. */
static int read_code(struct reader *r)
{
    unsigned code = hex4(r->at);

    r->at += 4;
    if (code >= 0xd800 && code < 0xdc00) { /* json.c saw to it that the other half follows */
        code = 0x10000 + ((code - 0xd800) << 10) + (hex4(r->at + 2) - 0xdc00);
        r->at += 6;
    }
    if (code < 0x80)
        return (int)code;
    r->n_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    for (unsigned i = 0; i < r->n_more; i++)
        r->more[i] = (unsigned char)(0x80 | (code >> (6 * i) & 0x3f)); /* the last one first */
    return (int)(code >> (6 * r->n_more) | (r->n_more == 1   ? 0xc0u
                                            : r->n_more == 2 ? 0xe0u
                                                             : 0xf0u));
}

/* The next byte, or -1. */
static int read_byte(struct reader *r)
{
    static const char letters[] = "bfnrt";
    static const char meant[] = "\b\f\n\r\t";

    if (r->n_more > 0)
        return r->more[--r->n_more];
    if (r->at == r->end)
        return -1;
    unsigned char c = (unsigned char)*r->at++;
    if (c != '\\')
        return c;
    c = (unsigned char)*r->at++;
    if (c == 'u')
        return read_code(r);
    const char *letter = strchr(letters, c);

    return letter != NULL ? meant[letter - letters] : c;
}

static bool has_escape(const char *key, size_t len)
{
    return memchr(key, '\\', len) != NULL;
}

static uint32_t hash_key(const struct json_keys *keys, const char *key, size_t len)
{
    uint64_t hash = 0;
    unsigned char chunk[CHUNK];

    if (!has_escape(key, len)) {
        for (; len > CHUNK; key += CHUNK, len -= CHUNK)
            hash = hash * 31 + hash_bytes(&keys->seed, key, CHUNK);
        hash = hash * 31 + hash_bytes(&keys->seed, key, len);
        return (uint32_t)(hash ^ hash >> 32);
    }
    struct reader r = {.at = key, .end = key + len};
    size_t n = 0;

    for (int byte; (byte = read_byte(&r)) >= 0;) {
        if (n == CHUNK) {
            hash = hash * 31 + hash_bytes(&keys->seed, chunk, CHUNK);
            n = 0;
        }
        chunk[n++] = (unsigned char)byte;
    }
    hash = hash * 31 + hash_bytes(&keys->seed, chunk, n);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool same_key(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (!has_escape(a, a_len) && !has_escape(b, b_len))
        return a_len == b_len && memcmp(a, b, a_len) == 0;
    struct reader ra = {.at = a, .end = a + a_len};
    struct reader rb = {.at = b, .end = b + b_len};
    int byte;

    do {
        byte = read_byte(&ra);
        if (byte != read_byte(&rb))
            return false;
    } while (byte >= 0);
    return true;
}

void json_keys_init(struct json_keys *keys, const char *text)
{
    keys->text = text;
    rand_bytes(&keys->seed, sizeof(keys->seed));
    keys->parts = 1;
    keys->room = JSON_KEYS_FEW;
    keys->stack = keys->few;
    keys->homes = keys->few_homes;
    keys->owned = NULL;
}

void json_keys_deinit(struct json_keys *keys)
{
    free(keys->owned);
    keys->owned = NULL;
}

void json_keys_begin(struct json_keys *keys, unsigned part)
{
    keys->part = part;
    keys->n = 0;
    memset(keys->homes, 0, keys->room * sizeof(*keys->homes));
}

void json_keys_divide(struct json_keys *keys)
{
    keys->parts *= 2;
}

static uint32_t *home_of(const struct json_keys *keys, uint32_t hash)
{
    return &keys->homes[hash & (keys->room - 1)];
}

static void push(struct json_keys *keys, struct json_key key)
{
    uint32_t *home = home_of(keys, key.hash);

    key.next = *home;
    keys->stack[keys->n++] = key;
    *home = (uint32_t)keys->n;
}

/* Twice the room, with all that is there. */
static bool grow(struct json_keys *keys)
{
    size_t room = 2 * keys->room;
    size_t n = keys->n;
    struct json_key *stack = malloc(room * (sizeof(*stack) + sizeof(*keys->homes)));

    if (stack == NULL)
        return false;
    memcpy(stack, keys->stack, n * sizeof(*stack));
    free(keys->owned);
    keys->owned = keys->stack = stack;
    keys->homes = (uint32_t *)(void *)(stack + room);
    keys->room = room;
    json_keys_begin(keys, keys->part);
    while (keys->n < n)
        push(keys, stack[keys->n]);
    return true;
}

enum json_keys_answer json_keys_add(struct json_keys *keys, size_t since, size_t at, size_t len)
{
    uint32_t hash = hash_key(keys, keys->text + at, len);

    /* The part by other bits than the home, or only some homes would be used. */
    if ((hash >> 20 & (keys->parts - 1)) != keys->part)
        return JSON_KEY_NEW;
    for (uint32_t i = *home_of(keys, hash); i > since; i = keys->stack[i - 1].next) {
        const struct json_key *other = &keys->stack[i - 1];

        if (other->hash == hash &&
            same_key(keys->text + at, len, keys->text + other->at, other->len))
            return JSON_KEY_TWICE;
    }
    if (keys->n == JSON_KEYS_MAX)
        return JSON_KEYS_MORE_PARTS;
    if (keys->n == keys->room && !grow(keys))
        return JSON_KEYS_NO_MEMORY;
    push(keys, (struct json_key){.hash = hash, .at = (uint32_t)at, .len = (uint32_t)len});
    return JSON_KEY_NEW;
}

void json_keys_close(struct json_keys *keys, size_t since)
{
    while (keys->n > since) {
        const struct json_key *last = &keys->stack[--keys->n];

        *home_of(keys, last->hash) = last->next;
    }
}
