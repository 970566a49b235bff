/*
 * json_keys: whether a key occurs twice in one object, told while a JSON text is walked, in memory
 * that does not grow with the text. Belongs to json.c. One thread at a time.
 *
 * The keys of all open objects stand on one stack; a closed object takes its keys along, so a text
 * of many small objects needs room for one of them. A text with more open keys than the stack may
 * hold is walked several times, and each walk looks at a part of the keys, chosen by their hash:
 * equal keys have equal hashes, so they meet in the same walk.
 */
#ifndef CORE_JSON_KEYS_H
#define CORE_JSON_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define JSON_KEYS_FEW 32                /* need no memory of their own */
#define JSON_KEYS_MAX ((size_t)1 << 18) /* 5 MiB at most */

struct json_key {
    uint32_t hash;
    uint32_t next; /* further down the stack with the same home, plus 1; 0: none */
    uint32_t at;   /* in the text, behind the quote */
    uint32_t len;  /* as it is written, with its escapes */
};

struct json_keys {
    const char *text; /* borrowed; valid JSON up to the last key added */
    struct hash_seed seed;
    unsigned parts; /* walks that are needed; a power of two */
    unsigned part;  /* the one that this is, from 0 */
    size_t n;
    size_t room; /* a power of two */
    struct json_key *stack;
    uint32_t *homes;        /* room of them: the key that was pushed last, plus 1 */
    struct json_key *owned; /* the heap behind both, or NULL */
    struct json_key few[JSON_KEYS_FEW];
    uint32_t few_homes[JSON_KEYS_FEW];
};

enum json_keys_answer {
    JSON_KEY_NEW,
    JSON_KEY_TWICE,
    JSON_KEYS_MORE_PARTS, /* begin again with twice as many: json_keys_divide */
    JSON_KEYS_NO_MEMORY,
};

void json_keys_init(struct json_keys *keys, const char *text);
void json_keys_deinit(struct json_keys *keys);

/* A walk begins: nothing is open. */
void json_keys_begin(struct json_keys *keys, unsigned part);
void json_keys_divide(struct json_keys *keys);

/* A key of the object that was opened when `since` keys were on the stack. */
enum json_keys_answer json_keys_add(struct json_keys *keys, size_t since, size_t at, size_t len);
/* That object is closed. */
void json_keys_close(struct json_keys *keys, size_t since);

#endif
