/*
 * arena: memory that is given back all at once. One arena per lifetime (process, connection, request,
 * attempt), with a named owner. Not thread safe: an arena belongs to one thread at a time.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* owned; newest first */
    size_t used;                /* bytes handed out, padding included */
    size_t max;                 /* bytes it may hand out; never 0 */
    size_t first; /* of the first block, where there are thousands of small ones; 0: as usual */
    bool starved; /* something failed for want of memory, not for max */
};

/* max is a promise to the rest of the process: what grows on outside input stays below it. */
void arena_init(struct arena *arena, size_t max);
void arena_deinit(struct arena *arena);

/* Forgets everything that was handed out and keeps one block for the next round. */
void arena_clear(struct arena *arena);

/* Zeroed, aligned for any type. NULL when the maximum or the machine's memory is exhausted. */
void *arena_alloc(struct arena *arena, size_t size) MUST_CHECK;
/* n * size with overflow check. */
void *arena_alloc_array(struct arena *arena, size_t n, size_t size) MUST_CHECK;
void *arena_memdup(struct arena *arena, const void *data, size_t len) MUST_CHECK;
/* A NUL-terminated copy. s == NULL gives NULL. */
char *arena_strdup(struct arena *arena, const char *s) MUST_CHECK;
char *arena_strndup(struct arena *arena, const char *s, size_t len) MUST_CHECK;
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;

#define arena_new(arena, type)          ((type *)arena_alloc((arena), sizeof(type)))
#define arena_new_array(arena, n, type) ((type *)arena_alloc_array((arena), (n), sizeof(type)))

#endif
