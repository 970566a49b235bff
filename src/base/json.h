/*
 * json: writing JSON into a buf, one value after another; commas and quotes are its business.
 * Reading is core/json.h's. Strings may hold any bytes: control bytes are escaped, and bytes that are not UTF-8
 * become U+FFFD, so what is written always parses. Nothing is put between values at the top: who writes several
 * documents into one buf puts his own newlines there.
 *
 * No name here may be one of jansson's (json_null, json_real, ...): a program that links both would have
 * jansson call our function.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Nesting this writer follows; all our own documents are flatter. Deeper sets out->failed. */
#define JSON_DEPTH_MAX 16

struct json_writer {
    struct buf *out; /* borrowed; check out->failed at the end */
    unsigned depth;
    bool comma[JSON_DEPTH_MAX + 1]; /* a value stands before this place */
    bool after_key;
};

void json_init(struct json_writer *w, struct buf *out);

void json_object_begin(struct json_writer *w);
void json_object_end(struct json_writer *w);
void json_array_begin(struct json_writer *w);
void json_array_end(struct json_writer *w);

void json_key(struct json_writer *w, const char *key);

void json_none(struct json_writer *w); /* null */
void json_bool(struct json_writer *w, bool value);
void json_int(struct json_writer *w, int64_t value);
void json_double(struct json_writer *w, double value); /* null when it is not finite */
void json_str(struct json_writer *w, const char *s);   /* NULL writes null */
void json_strn(struct json_writer *w, const char *s, size_t len);
/* Bytes that are known to be one JSON value, written as they are. */
void json_raw(struct json_writer *w, const char *json, size_t len);

/* The escaping alone, without quotes: for the logger. */
void json_escape(struct buf *out, const char *s, size_t len);

/* Length in bytes of the UTF-8 character at s (1 to 4), or 0 when it is not valid UTF-8. */
size_t utf8_next(const char *s, size_t len);
bool utf8_valid(const char *s, size_t len);

#endif
