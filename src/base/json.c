/*
 * json: a writer that knows where commas go, and the UTF-8 decoder that keeps bad bytes out of what
 * it writes. Mistakes of the caller that would give a broken document (too deep, one end too many)
 * mark the buf as failed, so they are found where the answer is checked.
 */
#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

void json_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

/* Before every value and every key. */
static void separate(struct json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0)
        return;
    if (w->comma[w->depth])
        buf_putc(w->out, ',');
    w->comma[w->depth] = true;
}

static void begin(struct json_writer *w, char c)
{
    separate(w);
    if (w->depth == JSON_DEPTH_MAX) {
        w->out->failed = true;
        return;
    }
    w->depth++;
    w->comma[w->depth] = false;
    buf_putc(w->out, c);
}

static void end(struct json_writer *w, char c)
{
    assert(!w->after_key);
    if (w->depth == 0) {
        w->out->failed = true;
        return;
    }
    w->depth--;
    buf_putc(w->out, c);
}

void json_object_begin(struct json_writer *w)
{
    begin(w, '{');
}

void json_object_end(struct json_writer *w)
{
    end(w, '}');
}

void json_array_begin(struct json_writer *w)
{
    begin(w, '[');
}

void json_array_end(struct json_writer *w)
{
    end(w, ']');
}

static void quoted(struct buf *out, const char *s, size_t len)
{
    buf_putc(out, '"');
    json_escape(out, s, len);
    buf_putc(out, '"');
}

void json_key(struct json_writer *w, const char *key)
{
    assert(!w->after_key && w->depth > 0);
    separate(w);
    quoted(w->out, key, strlen(key));
    buf_putc(w->out, ':');
    w->after_key = true;
}

void json_none(struct json_writer *w)
{
    separate(w);
    buf_puts(w->out, "null");
}

void json_bool(struct json_writer *w, bool value)
{
    separate(w);
    buf_puts(w->out, value ? "true" : "false");
}

void json_int(struct json_writer *w, int64_t value)
{
    separate(w);
    buf_printf(w->out, "%" PRId64, value);
}

void json_double(struct json_writer *w, double value)
{
    char text[40], number[40];
    size_t n = 0;

    if (!isfinite(value)) {
        json_none(w);
        return;
    }
    /* The shortest that reads back as the same number; 17 digits always do. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof(value)) == 0)
            break;
    }
    /* Whatever the locale takes for a decimal point, JSON has a full stop. */
    for (const char *c = text; *c; c++) {
        if (strchr("0123456789+-e", *c))
            number[n++] = *c;
        else if (n > 0 && number[n - 1] != '.')
            number[n++] = '.';
    }
    separate(w);
    buf_append(w->out, number, n);
}

void json_strn(struct json_writer *w, const char *s, size_t len)
{
    separate(w);
    quoted(w->out, s, len);
}

void json_str(struct json_writer *w, const char *s)
{
    if (s)
        json_strn(w, s, strlen(s));
    else
        json_none(w);
}

void json_raw(struct json_writer *w, const char *json, size_t len)
{
    separate(w);
    buf_append(w->out, json, len);
}

/* The letter of a two-character escape, or 0. */
static char short_escape(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

/* The character's number when it acts on terminals or ends a line somewhere (C0, DEL, C1, line and
 * paragraph separator), else 0 for "as it is". U+0000 is not asked for here. */
static unsigned control_number(const unsigned char *c, size_t len)
{
    if (len == 1)
        return c[0] < 0x20 || c[0] == 0x7f ? c[0] : 0;
    if (len == 2 && c[0] == 0xc2 && c[1] < 0xa0)
        return c[1];
    if (len == 3 && c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9))
        return 0x2000U | (c[2] & 0x3fU);
    return 0;
}

void json_escape(struct buf *out, const char *s, size_t len)
{
    size_t plain = 0; /* where the bytes that need no escape began */

    for (size_t i = 0; i < len;) {
        const unsigned char *c = (const unsigned char *)s + i;
        size_t n = utf8_next(s + i, len - i);
        unsigned number = n > 0 ? control_number(c, n) : 0;
        char letter = short_escape(*c);

        if (n > 0 && *c != 0 && number == 0 && letter == 0) {
            i += n;
            continue;
        }
        buf_append(out, s + plain, i - plain);
        if (n == 0)
            buf_puts(out, "\xef\xbf\xbd");
        else if (letter)
            buf_append(out, (char[]){'\\', letter}, 2);
        else
            buf_printf(out, "\\u%04x", number);
        i += n > 0 ? n : 1;
        plain = i;
    }
    if (len > plain)
        buf_append(out, s + plain, len - plain);
}

size_t utf8_next(const char *s, size_t len)
{
    const unsigned char *c = (const unsigned char *)s;

    if (len == 0)
        return 0;
    if (c[0] < 0x80)
        return 1;
    /* 80..bf cannot begin one; c0 and c1 would be overlong; past f4 lies beyond U+10FFFF. */
    if (c[0] < 0xc2 || c[0] > 0xf4)
        return 0;
    size_t n = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (len < n)
        return 0;
    /* The second byte rules out overlongs, surrogates and what lies beyond U+10FFFF. */
    unsigned low = c[0] == 0xe0 ? 0xa0 : c[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = c[0] == 0xed ? 0x9f : c[0] == 0xf4 ? 0x8f : 0xbf;
    if (c[1] < low || c[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool utf8_valid(const char *s, size_t len)
{
    while (len > 0) {
        size_t n = utf8_next(s, len);
        if (n == 0)
            return false;
        s += n;
        len -= n;
    }
    return true;
}
