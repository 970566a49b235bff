/* queue: bytes to be sent, added at the end and taken from the front. An empty queue gives its
 * memory back, so that a thousand idle streams use none. The caller that adds bytes enforces the
 * limits. */
#ifndef WIRE_QUEUE_H
#define WIRE_QUEUE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_KEEP_MAX ((size_t)4 * 1024)

struct queue {
    uint8_t *data; /* owned */
    size_t head;
    size_t len; /* from head on */
    size_t cap;
    struct queue_total *total; /* borrowed; the bytes of all queues */
};

struct queue_total {
    size_t used;
    size_t max;
};

/* Room for n more bytes, which count as added. NULL: no memory, or too much in all queues;
 * nothing changed. */
static inline uint8_t *queue_reserve(struct queue *q, size_t n)
{
    if (q->total != NULL && n > q->total->max - q->total->used)
        return NULL;
    if (q->head > 0 && q->head + q->len + n > q->cap) {
        memmove(q->data, q->data + q->head, q->len);
        q->head = 0;
    }
    if (q->len + n > q->cap) {
        size_t cap = q->cap * 2 > q->len + n ? q->cap * 2 : q->len + n;
        uint8_t *data = realloc(q->data, cap);
        if (data == NULL)
            return NULL;
        q->data = data;
        q->cap = cap;
    }
    uint8_t *at = q->data + q->head + q->len;
    q->len += n;
    if (q->total != NULL)
        q->total->used += n;
    return at;
}

static inline void queue_deinit(struct queue *q)
{
    if (q->total != NULL)
        q->total->used -= q->len;
    free(q->data);
    *q = (struct queue){.total = q->total};
}

/* The next len bytes, valid until bytes are added or taken. */
static inline const uint8_t *queue_front(const struct queue *q)
{
    return q->data + q->head;
}

/* Drops n bytes; there must be that many. */
static inline void queue_drop(struct queue *q, size_t n)
{
    q->head += n;
    q->len -= n;
    if (q->total != NULL)
        q->total->used -= n;
    if (q->len == 0) {
        q->head = 0;
        if (q->cap > QUEUE_KEEP_MAX)
            queue_deinit(q);
    }
}

/* Copies up to n bytes out. */
static inline size_t queue_take(struct queue *q, void *out, size_t n)
{
    if (n > q->len)
        n = q->len;
    if (n > 0)
        memcpy(out, queue_front(q), n);
    queue_drop(q, n);
    return n;
}

#endif
