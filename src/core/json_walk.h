/*
 * json_walk: the members of a JSON object as they stand in its text, so that a payload inside a
 * larger document can be passed on byte for byte. Only for text that json_check has accepted. Any
 * thread.
 */
#ifndef CORE_JSON_WALK_H
#define CORE_JSON_WALK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* A part of somebody's text; borrowed. */
struct json_span {
    const char *data;
    size_t len;
};

/* Whether the value is an object. */
bool json_looks_object(const char *json, size_t len);

/* Start with *pos = 0; false after the last member. The key keeps its quotes and escapes, the value
 * is without blanks around it. */
bool json_walk(const char *json,
               size_t len,
               size_t *pos,
               struct json_span *ret_key,
               struct json_span *ret_value);

/* The same for the items of an array. */
bool json_walk_item(const char *json, size_t len, size_t *pos, struct json_span *ret_value);

/* The text of a string value, unescaped, in the arena. PAWL_EINVAL when it is no string or holds a
 * NUL. */
int json_span_string(struct json_span span,
                     struct arena *arena,
                     const char **ret_text,
                     struct pawl_err *err) MUST_CHECK;

#endif
