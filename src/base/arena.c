/*
 * arena: blocks from malloc, filled from front to back. The newest block is the one that is being
 * filled; an allocation too large for an ordinary block gets one of its own behind it. Conserved:
 * `used` is the sum of all rounded sizes handed out since the last clear and never exceeds `max`.
 */
#include "base/arena.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define ARENA_ASAN 1
#    endif
#elif defined(__SANITIZE_ADDRESS__)
#    define ARENA_ASAN 1
#endif

#ifdef ARENA_ASAN
#    include <sanitizer/asan_interface.h>
#    define ARENA_GAP               16 /* poisoned, so that a write past an object is seen */
#    define poison(address, size)   ASAN_POISON_MEMORY_REGION((address), (size))
#    define unpoison(address, size) ASAN_UNPOISON_MEMORY_REGION((address), (size))
#else
#    define ARENA_GAP               0
#    define poison(address, size)   ((void)(address), (void)(size))
#    define unpoison(address, size) ((void)(address), (void)(size))
#endif

#define ARENA_ALIGN     _Alignof(max_align_t)
#define ARENA_BLOCK_MIN ((size_t)4 * 1024)  /* the first block: most arenas stay within it */
#define ARENA_BLOCK_MAX ((size_t)64 * 1024) /* blocks double up to here */

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data */
    size_t used; /* of data; grows by multiples of the alignment */
    _Alignas(max_align_t) unsigned char data[];
};

void arena_init(struct arena *arena, size_t max)
{
    assert(max > 0);
    *arena = (struct arena){.max = max};
}

static void block_free(struct arena_block *block)
{
    unpoison(block->data, block->size);
    free(block);
}

void arena_deinit(struct arena *arena)
{
    struct arena_block *next;

    for (struct arena_block *block = arena->blocks; block; block = next) {
        next = block->next;
        block_free(block);
    }
    arena->blocks = NULL;
    arena->used = 0;
}

void arena_clear(struct arena *arena)
{
    struct arena_block *kept = NULL, *next;

    /* The largest of the ordinary ones; an outsize block is not held for a round that may never
     * need it. */
    for (struct arena_block *block = arena->blocks; block; block = next) {
        next = block->next;
        if (block->size > ARENA_BLOCK_MAX || (kept && kept->size >= block->size)) {
            block_free(block);
            continue;
        }
        if (kept)
            block_free(kept);
        kept = block;
    }
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
        poison(kept->data, kept->size);
    }
    arena->blocks = kept;
    arena->used = 0;
    arena->starved = false;
}

/* A block with room for size bytes, linked in. */
static struct arena_block *block_new(struct arena *arena, size_t size)
{
    struct arena_block *head = arena->blocks;
    size_t ordinary = arena->first > 0 ? arena->first : ARENA_BLOCK_MIN;

    if (head)
        ordinary = head->size < ARENA_BLOCK_MAX / 2 ? head->size * 2 : ARENA_BLOCK_MAX;
    bool outsize = size > ordinary;
    size_t block_size = outsize ? size : ordinary;
    struct arena_block *block = malloc(sizeof(*block) + block_size);
    if (!block) {
        arena->starved = true;
        return NULL;
    }

    block->size = block_size;
    block->used = 0;
    poison(block->data, block->size);
    if (outsize && head) {
        block->next = head->next; /* the head keeps being filled */
        head->next = block;
    } else {
        block->next = head;
        arena->blocks = block;
    }
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX - 4 * ARENA_ALIGN - sizeof(struct arena_block))
        return NULL;
    size_t rounded = size ? (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN : ARENA_ALIGN;
    if (rounded > arena->max - arena->used)
        return NULL;

    size_t wanted = rounded + ARENA_GAP;
    struct arena_block *block = arena->blocks;
    if (!block || wanted > block->size - block->used)
        block = block_new(arena, wanted);
    if (!block)
        return NULL;

    unsigned char *data = block->data + block->used;
    block->used += wanted;
    assert(block->used <= block->size);
    arena->used += rounded;
    unpoison(data, size);
    memset(data, 0, size);
    return data;
}

void *arena_alloc_array(struct arena *arena, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    return arena_alloc(arena, total);
}

void *arena_memdup(struct arena *arena, const void *data, size_t len)
{
    void *copy = arena_alloc(arena, len);

    if (copy && len > 0)
        memcpy(copy, data, len);
    return copy;
}

char *arena_strndup(struct arena *arena, const char *s, size_t len)
{
    if (!s || len == SIZE_MAX)
        return NULL;
    char *copy = arena_alloc(arena, len + 1);
    if (copy)
        memcpy(copy, s, len);
    return copy;
}

char *arena_strdup(struct arena *arena, const char *s)
{
    return s ? arena_strndup(arena, s, strlen(s)) : NULL;
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (len < 0)
        return NULL;

    char *text = arena_alloc(arena, (size_t)len + 1);
    if (!text)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, ap);
    va_end(ap);
    return text;
}
