/*
 * tail: the last bytes and the lines of a stream, in bounded memory.
 */
#include "hands/tail.h"

#include <string.h>

#include "base/json.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

void tail_add(struct tail *tail, const char *data, size_t len)
{
    if (len > TAIL_MAX) {
        data += len - TAIL_MAX;
        len = TAIL_MAX;
        tail->len = 0;
        tail->dropped = true;
    }
    if (tail->len + len > sizeof(tail->bytes)) {
        size_t keep = TAIL_MAX;
        memmove(tail->bytes, tail->bytes + tail->len - keep, keep);
        tail->len = keep;
        tail->dropped = true;
    }
    memcpy(tail->bytes + tail->len, data, len);
    tail->len += len;
}

/* Where to begin after a cut: at a whole line if one follows, else at a whole character. */
static size_t tail_start(const char *bytes, size_t len)
{
    const char *newline = memchr(bytes, '\n', len);
    if (newline != NULL && newline + 1 < bytes + len)
        return (size_t)(newline + 1 - bytes);
    size_t start = 0;
    while (start < len && start < 3 && ((unsigned char)bytes[start] & 0xC0) == 0x80)
        start++;
    return start;
}

void tail_put(const struct tail *tail, struct buf *out)
{
    const char *s = tail->bytes;
    size_t len = tail->len;
    while (len > 0 && (s[len - 1] == '\n' || s[len - 1] == '\r'))
        len--;
    bool cut = tail->dropped || len > TAIL_MAX;
    if (len > TAIL_MAX) {
        s += len - TAIL_MAX;
        len = TAIL_MAX;
    }
    if (cut) {
        size_t start = tail_start(s, len);
        s += start;
        len -= start;
    }
    if (len == 0)
        return;

    buf_putc(out, '\n');
    while (len > 0) {
        size_t n = utf8_next(s, len);
        if (n == 0 || *s == '\0') {
            buf_puts(out, REPLACEMENT);
            n = 1;
        } else {
            buf_append(out, s, n);
        }
        s += n;
        len -= n;
    }
}

void tail_flush(struct tail *tail, void (*line)(void *context, const char *text), void *context)
{
    size_t len = tail->line_len;
    if (len > 0 && tail->line[len - 1] == '\r')
        len--;
    tail->line_len = 0;
    if (len == 0)
        return;
    tail->line[len] = '\0';
    line(context, tail->line);
}

void tail_lines(struct tail *tail,
                const char *data,
                size_t len,
                void (*line)(void *context, const char *text),
                void *context)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n') {
            tail_flush(tail, line, context);
            continue;
        }
        if (tail->line_len == TAIL_LINE_MAX)
            tail_flush(tail, line, context);
        tail->line[tail->line_len++] = data[i] ? data[i] : ' ';
    }
}
