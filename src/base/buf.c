/*
 * buf: a byte buffer that doubles as it grows, up to its maximum. Conserved: len <= max, len < cap
 * when there is memory, and data[len] is a NUL.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_CAP ((size_t)64)

void buf_init(struct buf *buf, size_t max)
{
    assert(max > 0);
    /* No object is larger than PTRDIFF_MAX, and below it len + n + 1 cannot overflow. */
    *buf = (struct buf){.max = max < PTRDIFF_MAX ? max : PTRDIFF_MAX - 1};
}

void buf_init_fixed(struct buf *buf, char *storage, size_t size)
{
    assert(size > 0 && size <= PTRDIFF_MAX);
    storage[0] = '\0';
    *buf = (struct buf){.data = storage, .cap = size, .max = size - 1, .fixed = true};
}

void buf_deinit(struct buf *buf)
{
    if (!buf->fixed)
        free(buf->data);
    *buf = (struct buf){.max = buf->max};
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

/* Makes room for extra bytes and a NUL after what is there. */
static int grow(struct buf *buf, size_t extra)
{
    if (buf->failed)
        return PAWL_ELIMIT;
    if (extra > buf->max - buf->len) {
        buf->failed = true;
        return PAWL_ELIMIT;
    }
    size_t need = buf->len + extra + 1;
    if (need <= buf->cap)
        return 0;

    size_t cap = buf->cap <= buf->max / 2 ? buf->cap * 2 : buf->max + 1;
    if (cap < BUF_FIRST_CAP)
        cap = BUF_FIRST_CAP;
    if (cap > buf->max + 1)
        cap = buf->max + 1;
    if (cap < need)
        cap = need;
    char *data = realloc(buf->data, cap);
    if (!data) {
        buf->failed = true;
        return PAWL_ENOMEM;
    }
    data[buf->len] = '\0';
    buf->data = data;
    buf->cap = cap;
    return 0;
}

int buf_append(struct buf *buf, const void *data, size_t len)
{
    int rc = grow(buf, len);

    if (rc < 0 || len == 0)
        return rc;
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    return 0;
}

int buf_puts(struct buf *buf, const char *s)
{
    return buf_append(buf, s, strlen(s));
}

int buf_putc(struct buf *buf, char c)
{
    return buf_append(buf, &c, 1);
}

int buf_vprintf(struct buf *buf, const char *fmt, va_list ap)
{
    if (buf->failed)
        return PAWL_ELIMIT;

    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) {
        buf->failed = true; /* longer than an int can say */
        return PAWL_ELIMIT;
    }
    int rc = grow(buf, (size_t)n);
    if (rc < 0)
        return rc;
    vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, ap);
    buf->len += (size_t)n;
    return 0;
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int rc = buf_vprintf(buf, fmt, ap);
    va_end(ap);
    return rc;
}

char *buf_reserve(struct buf *buf, size_t len)
{
    return grow(buf, len) < 0 ? NULL : buf->data + buf->len;
}

void buf_wrote(struct buf *buf, size_t len)
{
    if (len == 0)
        return;
    assert(buf->data && len < buf->cap - buf->len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void buf_consume(struct buf *buf, size_t n)
{
    assert(n <= buf->len);
    if (n == 0)
        return;
    buf->len -= n;
    memmove(buf->data, buf->data + n, buf->len + 1);
}

const char *buf_str(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

char *buf_take(struct buf *buf, size_t *ret_len)
{
    assert(!buf->fixed);
    char *data = buf->data;
    size_t len = buf->len;

    *buf = (struct buf){.max = buf->max};
    if (len == 0) {
        free(data);
        data = NULL;
    }
    if (ret_len)
        *ret_len = len;
    return data;
}
