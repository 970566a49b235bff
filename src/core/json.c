/*
 * json: one walk over the bytes, without recursion and without building anything. What a place in
 * the text may hold follows from `enum place` and from whether the innermost container is an object.
 */
#include "core/json.h"

#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "core/json_keys.h"

#define DEPTH_MAX  2048
#define ARRAY      UINT32_MAX /* in place of the number of keys before an object */

#define WHY_TOKEN  "a value, a quote, a comma or a bracket is wrong or missing"
#define WHY_EARLY  "it ends too early"
#define WHY_MORE   "something follows after the value"
#define WHY_UTF8   "it is not UTF-8"
#define WHY_DEPTH  "it is nested deeper than 2048 levels"
#define WHY_TWICE  "a key occurs twice in one object"
#define WHY_NUL    "it holds a NUL byte"
#define WHY_KEYNUL "a key holds \\u0000"

enum place {
    PLACE_VALUE,        /* a value must follow */
    PLACE_FIRST_VALUE,  /* or the array ends */
    PLACE_KEY,          /* a key must follow */
    PLACE_FIRST_KEY,    /* or the object ends */
    PLACE_BEHIND_VALUE, /* a comma, or the container ends; at the top: the end of the text */
};

struct walk {
    const char *text;
    size_t len;
    size_t at;
    size_t depth;
    size_t wrong;    /* where it is wrong */
    const char *why; /* NULL: it is not, as far as is known */
    bool more_parts; /* the walk is to begin again */
    bool no_memory;
    struct json_keys keys;
    uint32_t open[DEPTH_MAX]; /* for each level: ARRAY, or the keys that are not the object's */
};

static bool refuse_at(struct walk *w, size_t where, const char *why)
{
    w->wrong = where;
    w->why = why;
    return false;
}

/* The byte at `at` does not belong there. */
static bool refuse_here(struct walk *w)
{
    if (w->at >= w->len)
        return refuse_at(w, w->len, WHY_EARLY);
    if (utf8_next(w->text + w->at, w->len - w->at) == 0)
        return refuse_at(w, w->at, WHY_UTF8);
    return refuse_at(w, w->at, WHY_TOKEN);
}

static char here(const struct walk *w)
{
    return w->at < w->len ? w->text[w->at] : '\0';
}

static void skip_blanks(struct walk *w)
{
    while (w->at < w->len && (w->text[w->at] == ' ' || w->text[w->at] == '\n' ||
                              w->text[w->at] == '\r' || w->text[w->at] == '\t'))
        w->at++;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Some digits; none is wrong. */
static bool walk_digits(struct walk *w)
{
    size_t start = w->at;

    while (is_digit(here(w)))
        w->at++;
    return w->at > start;
}

/* Numbers of any length and size: they are never converted. A wrong one is refused where it begins. */
static bool walk_number(struct walk *w)
{
    size_t start = w->at;
    bool ok = true;

    w->at += here(w) == '-';
    if (here(w) == '0')
        w->at++;
    else
        ok = walk_digits(w);
    if (ok && here(w) == '.') {
        w->at++;
        ok = walk_digits(w);
    }
    if (ok && (here(w) == 'e' || here(w) == 'E')) {
        w->at++;
        w->at += here(w) == '+' || here(w) == '-';
        ok = walk_digits(w);
    }
    return (ok && !is_digit(here(w))) || refuse_at(w, start, WHY_TOKEN);
}

/* true, false, null; any other word is refused at its end. */
static bool walk_word(struct walk *w)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t start = w->at;

    while (is_letter(here(w)))
        w->at++;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (w->at - start == strlen(words[i]) &&
            memcmp(w->text + start, words[i], w->at - start) == 0)
            return true;
    }
    return refuse_at(w, w->at - 1, WHY_TOKEN);
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits behind "\u", or -1. */
static int walk_code(struct walk *w)
{
    int code = 0;

    for (int i = 0; i < 4; i++, w->at++) {
        int digit = hex_value(here(w));

        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

/* Behind the backslash. Halves of a pair come in pairs, the high one first. */
static bool walk_escape(struct walk *w, bool is_key)
{
    size_t start = w->at;
    char c = here(w);

    if (c == '\0' || strchr("\"\\/bfnrtu", c) == NULL)
        return refuse_here(w);
    w->at++;
    if (c != 'u')
        return true;
    int code = walk_code(w);
    if (code < 0)
        return refuse_here(w);
    if (is_key && code == 0)
        return refuse_at(w, start, WHY_KEYNUL);
    if (code < 0xd800 || code > 0xdfff)
        return true;
    if (code > 0xdbff || here(w) != '\\')
        return refuse_at(w, start, WHY_TOKEN);
    w->at++;
    if (here(w) != 'u')
        return refuse_at(w, start, WHY_TOKEN);
    w->at++;
    code = walk_code(w);
    return (code >= 0xdc00 && code <= 0xdfff) || refuse_at(w, start, WHY_TOKEN);
}

/* From its first quote to behind its last. */
static bool walk_string(struct walk *w, bool is_key)
{
    w->at++;
    while (w->at < w->len) {
        unsigned char c = (unsigned char)w->text[w->at];

        if (c == '"') {
            w->at++;
            return true;
        }
        if (c == '\\') {
            w->at++;
            if (!walk_escape(w, is_key))
                return false;
        } else if (c < 0x20) {
            return refuse_here(w);
        } else if (c < 0x80) {
            w->at++;
        } else {
            size_t n = utf8_next(w->text + w->at, w->len - w->at);

            if (n == 0)
                return refuse_here(w);
            w->at += n;
        }
    }
    return refuse_here(w);
}

/* A key and its colon. */
static bool walk_key(struct walk *w)
{
    size_t start = w->at + 1;

    if (here(w) != '"')
        return refuse_here(w);
    if (!walk_string(w, true))
        return false;
    switch (json_keys_add(&w->keys, w->open[w->depth - 1], start, w->at - 1 - start)) {
    case JSON_KEY_NEW:
        break;
    case JSON_KEY_TWICE:
        return refuse_at(w, w->at - 1, WHY_TWICE);
    case JSON_KEYS_MORE_PARTS:
        w->more_parts = true;
        return false;
    case JSON_KEYS_NO_MEMORY:
        w->no_memory = true;
        return false;
    }
    skip_blanks(w);
    if (here(w) != ':')
        return refuse_here(w);
    w->at++;
    return true;
}

static bool walk_open(struct walk *w, bool is_object)
{
    if (w->depth == DEPTH_MAX)
        return refuse_at(w, w->at, WHY_DEPTH);
    w->open[w->depth++] = is_object ? (uint32_t)w->keys.n : ARRAY;
    w->at++;
    return true;
}

static void walk_close(struct walk *w)
{
    uint32_t since = w->open[--w->depth];

    if (since != ARRAY)
        json_keys_close(&w->keys, since);
    w->at++;
}

/* A value, or the beginning of a container. */
static bool walk_value(struct walk *w, enum place *place)
{
    char c = here(w);

    *place = PLACE_BEHIND_VALUE;
    if (c == '"')
        return walk_string(w, false);
    if (c == '-' || is_digit(c))
        return walk_number(w);
    if (is_letter(c))
        return walk_word(w);
    if (c != '{' && c != '[')
        return refuse_here(w);
    *place = c == '{' ? PLACE_FIRST_KEY : PLACE_FIRST_VALUE;
    return walk_open(w, c == '{');
}

/* A comma or the end of the container. */
static bool walk_behind(struct walk *w, enum place *place)
{
    bool in_object = w->open[w->depth - 1] != ARRAY;

    if (here(w) == ',') {
        w->at++;
        *place = in_object ? PLACE_KEY : PLACE_VALUE;
        return true;
    }
    if (here(w) != (in_object ? '}' : ']'))
        return refuse_here(w);
    walk_close(w);
    return true;
}

/* The whole text, looking at one part of the keys. */
static bool walk_text(struct walk *w, unsigned part)
{
    enum place place = PLACE_VALUE;

    w->at = w->depth = 0;
    json_keys_begin(&w->keys, part);
    for (bool ok = true; ok;) {
        skip_blanks(w);
        if (place == PLACE_BEHIND_VALUE && w->depth == 0) {
            if (w->at == w->len)
                return true;
            return refuse_at(w, w->at, WHY_MORE);
        }
        if ((place == PLACE_FIRST_KEY && here(w) == '}') ||
            (place == PLACE_FIRST_VALUE && here(w) == ']')) {
            walk_close(w);
            place = PLACE_BEHIND_VALUE;
        } else if (place == PLACE_KEY || place == PLACE_FIRST_KEY) {
            ok = walk_key(w);
            place = PLACE_VALUE;
        } else if (place == PLACE_BEHIND_VALUE) {
            ok = walk_behind(w, &place);
        } else {
            ok = walk_value(w, &place);
        }
    }
    return false;
}

/* Lines and columns are counted in characters, from 1. A NUL explains whatever is wrong around it. */
static int refuse(struct walk *w, struct pawl_err *err)
{
    const char *nul = memchr(w->text, '\0', w->len);
    int line = 1;
    int column = 1;

    if (nul != NULL)
        refuse_at(w, (size_t)(nul - w->text), WHY_NUL);

    for (size_t i = 0; i < w->wrong; i++) {
        if (w->text[i] == '\n') {
            line++;
            column = 1;
        } else if ((w->text[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    /* Nearly all of it is one line, and often that is a line of something else. */
    if (line == 1)
        return err_set(err, PAWL_EINVAL, "not valid JSON: %s, at column %d", w->why, column);
    return err_set(
        err, PAWL_EINVAL, "not valid JSON: %s, at line %d, column %d", w->why, line, column);
}

int json_check(const char *bytes, size_t len, struct pawl_err *err)
{
    /* Each part is written before it is read; zeroing 9 KiB would take longer than most walks. */
    struct walk w __attribute__((uninitialized));

    if (len == 0)
        return err_set(err, PAWL_EINVAL, "not valid JSON: it is empty");
    if (len >= UINT32_MAX)
        return err_set(err, PAWL_ELIMIT, "the JSON has %zu bytes, and the limit is 4 GiB", len);
    w.text = bytes;
    w.len = len;
    w.why = NULL;
    w.more_parts = w.no_memory = false;
    json_keys_init(&w.keys, bytes);
    for (unsigned part = 0; part < w.keys.parts;) {
        if (walk_text(&w, part)) {
            part++;
        } else if (w.more_parts) {
            json_keys_divide(&w.keys);
            w.more_parts = false;
            part = 0;
        } else {
            break;
        }
    }
    json_keys_deinit(&w.keys);
    if (w.no_memory)
        return err_set(err, PAWL_ENOMEM, "could not check the JSON: out of memory");
    return w.why == NULL ? 0 : refuse(&w, err);
}

bool json_is_valid(const char *bytes, size_t len)
{
    return json_check(bytes, len, NULL) == 0;
}
