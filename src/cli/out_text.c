/*
 * out_text: making any bytes fit to be shown on a terminal, knowing how wide they are there, and
 * times as people say them.
 */
#include <stdio.h>
#include <string.h>

#include <wchar.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/out.h"

/* s is valid UTF-8 of len bytes. */
static unsigned decode(const char *s, size_t len)
{
    const unsigned char *u = (const unsigned char *)s;
    switch (len) {
    case 1:
        return u[0];
    case 2:
        return (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
    case 3:
        return (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    default:
        return (u[0] & 0x07u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
    }
}

/* Controls, and what turns the direction of writing round: both can make a line say what it does
 * not. */
static bool is_hostile(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

static void escape_char(struct buf *out, unsigned c)
{
    if (c == '\n')
        buf_puts(out, "\\n");
    else if (c == '\r')
        buf_puts(out, "\\r");
    else if (c == '\t')
        buf_puts(out, "\\t");
    else if (c < 0x80)
        buf_printf(out, "\\x%02x", c);
    else
        buf_printf(out, "\\u%04x", c);
}

void out_escape(struct buf *out, const char *s, size_t len, bool keep_newlines)
{
    size_t from = 0; /* not yet copied */
    size_t i = 0;
    while (i < len) {
        size_t n = utf8_next(s + i, len - i);
        unsigned c = n ? decode(s + i, n) : (unsigned char)s[i];
        if (n && (!is_hostile(c) || (c == '\n' && keep_newlines))) {
            i += n;
            continue;
        }
        buf_append(out, s + from, i - from);
        if (n)
            escape_char(out, c);
        else
            buf_printf(out, "\\x%02x", c);
        i += n ? n : 1;
        from = i;
    }
    buf_append(out, s + from, len - from);
}

size_t out_width(const char *s, size_t len)
{
    size_t width = 0;
    for (size_t i = 0; i < len;) {
        size_t n = utf8_next(s + i, len - i);
        int w = n ? wcwidth((wchar_t)decode(s + i, n)) : 1;
        width += w < 0 ? 1 : (size_t)w;
        i += n ? n : 1;
    }
    return width;
}

void out_relative(int64_t us, int64_t now_us, char text[OUT_RELATIVE_LEN])
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};

    int64_t diff_us;
    if (us == INT64_MAX) {
        snprintf(text, OUT_RELATIVE_LEN, "never");
        return;
    }
    if (__builtin_sub_overflow(us, now_us, &diff_us) || diff_us == INT64_MIN)
        diff_us = INT64_MAX;
    bool ahead = diff_us > 0;
    int64_t seconds = (ahead ? diff_us : -diff_us) / US_PER_S;
    if (seconds == 0) {
        snprintf(text, OUT_RELATIVE_LEN, "now");
        return;
    }
    if (seconds > 30 * 86400) {
        char full[TEXT_TIME_LEN];
        text_format_time(us, full);
        size_t day = strcspn(full, "T");
        snprintf(text, OUT_RELATIVE_LEN, "%.*s", (int)day, full);
        return;
    }
    size_t u = 0;
    while (seconds < units[u].seconds)
        u++;
    snprintf(text,
             OUT_RELATIVE_LEN,
             "%s%lld %s%s",
             ahead ? "in " : "",
             (long long)(seconds / units[u].seconds),
             units[u].name,
             ahead ? "" : " ago");
}
