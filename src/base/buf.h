/*
 * buf: bytes that grow up to a maximum given at the start.
 *
 * Errors stick: after an append that did not fit (or found no memory) `failed` is set, what was there stays
 * there, and every later append is refused, so a caller may write a whole message and check once.
 * The bytes are always followed by a NUL that is not counted in len.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct buf {
    char *data; /* owned; NULL until the first append */
    size_t len;
    size_t cap;
    size_t max; /* of len; never 0 */
    bool failed;
    bool fixed; /* data is the caller's storage: neither grown nor freed */
};

void buf_init(struct buf *buf, size_t max);
/* Writes into storage of the caller (size counts the NUL, at least 1) and never allocates. No buf_take. */
void buf_init_fixed(struct buf *buf, char *storage, size_t size);
void buf_deinit(struct buf *buf);
void buf_clear(struct buf *buf); /* empty and not failed; keeps its memory */

/* 0, or PAWL_ELIMIT / PAWL_ENOMEM; a buffer that failed earlier says PAWL_ELIMIT. data must not point into the
 * buffer itself. Ignoring the answer is fine where buf->failed is checked at the end. */
int buf_append(struct buf *buf, const void *data, size_t len);
int buf_puts(struct buf *buf, const char *s);
int buf_putc(struct buf *buf, char c);
int buf_printf(struct buf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);
int buf_vprintf(struct buf *buf, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

/* Room for len more bytes to be written by the caller, who then says how many with buf_wrote. */
char *buf_reserve(struct buf *buf, size_t len) MUST_CHECK;
void buf_wrote(struct buf *buf, size_t len);

/* Drops n bytes from the front. */
void buf_consume(struct buf *buf, size_t n);

/* Never NULL: "" when empty. */
const char *buf_str(const struct buf *buf);

/* Hands the memory over (free() it); the buffer is empty and usable again. NULL when empty. */
char *buf_take(struct buf *buf, size_t *ret_len);

#endif
