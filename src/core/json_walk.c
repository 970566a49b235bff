/* json_walk: a scanner that relies on the text being valid JSON; json_check has said so before. */
#include "core/json_walk.h"

#include <string.h>

#include <jansson.h>

static size_t skip_blanks(const char *json, size_t len, size_t at)
{
    while (at < len && strchr(" \t\r\n", json[at]) != NULL && json[at] != '\0')
        at++;
    return at;
}

/* Behind the string that begins at `at`. */
static size_t skip_string(const char *json, size_t len, size_t at)
{
    for (at++; at < len && json[at] != '"'; at++) {
        if (json[at] == '\\')
            at++;
    }
    return at + 1;
}

/* Behind the value that begins at `at`. */
static size_t skip_value(const char *json, size_t len, size_t at)
{
    size_t depth = 0;

    while (at < len) {
        char c = json[at];

        if (c == '"') {
            at = skip_string(json, len, at);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            break;
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        at++;
    }
    return at;
}

/* The value that begins at `at`, without the blanks behind it. */
static struct json_span value_at(const char *json, size_t len, size_t at, size_t *ret_end)
{
    size_t end = skip_value(json, len, at);

    *ret_end = end;
    while (end > at && strchr(" \t\r\n", json[end - 1]) != NULL)
        end--;
    return (struct json_span){json + at, end - at};
}

bool json_looks_object(const char *json, size_t len)
{
    size_t at = skip_blanks(json, len, 0);

    return at < len && json[at] == '{';
}

bool json_walk(const char *json,
               size_t len,
               size_t *pos,
               struct json_span *ret_key,
               struct json_span *ret_value)
{
    /* Past the opening brace, or the comma behind the last member. */
    size_t at = skip_blanks(json, len, *pos);

    if (at >= len || json[at] == '}')
        return false;
    at = skip_blanks(json, len, at + 1);
    if (at >= len || json[at] != '"')
        return false;

    size_t key_end = skip_string(json, len, at);

    *ret_key = (struct json_span){json + at, key_end - at};
    *ret_value =
        value_at(json, len, skip_blanks(json, len, skip_blanks(json, len, key_end) + 1), pos);
    return true;
}

bool json_walk_item(const char *json, size_t len, size_t *pos, struct json_span *ret_value)
{
    /* Past the opening bracket, or the comma behind the last item. */
    size_t at = skip_blanks(json, len, *pos);

    if (at >= len || json[at] == ']')
        return false;
    at = skip_blanks(json, len, at + 1);
    if (at >= len || json[at] == ']')
        return false;
    *ret_value = value_at(json, len, at, pos);
    return true;
}

int json_span_string(struct json_span span,
                     struct arena *arena,
                     const char **ret_text,
                     struct pawl_err *err)
{
    json_t *value = json_loadb(span.data, span.len, JSON_DECODE_ANY, NULL);

    if (!json_is_string(value)) {
        json_decref(value);
        return err_set(err, PAWL_EINVAL, "it must be a string without \\u0000");
    }
    const char *text = arena_strndup(arena, json_string_value(value), json_string_length(value));

    json_decref(value);
    if (text == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    *ret_text = text;
    return 0;
}
