/*
 * out: results on stdout as a table for people, one JSON document, or one JSON object a line. A command describes its
 * columns once and adds rows; the format is not its business.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum out_format { OUT_TABLE, OUT_JSON, OUT_JSONL };

enum out_kind {
    OUT_TEXT,
    OUT_INT,      /* right-aligned */
    OUT_TIME,     /* microseconds since 1970; RFC 3339 in JSON, relative ("3 min ago") in a table */
    OUT_DURATION, /* microseconds; a number named <key>_us in JSON, words in a table */
    OUT_BOOL,     /* yes / no in a table */
    OUT_BYTES,    /* payload or result: itself when it is JSON, a string when it is text, {"base64": "..."} otherwise */
};

struct out_column {
    const char *key;   /* JSON member, lower_case */
    const char *title; /* table heading; NULL: not shown in a table */
    enum out_kind kind;
};

struct out;

/* Buffers up to OUT_ROWS_MAX rows of a table to align it; JSON lines go out as they come. */
struct out *out_new(enum out_format format, const struct out_column *columns, size_t n, bool color) MUST_CHECK;
void out_free(struct out *out);

/* Cells of the current row, in column order. */
void out_null(struct out *out);
void out_text(struct out *out, const char *s); /* NULL is null */
void out_textn(struct out *out, const char *s, size_t len);
void out_int(struct out *out, int64_t value); /* also time, duration and bool */
/* Marks the cell added last with a meaning that a terminal shows as a colour. */
enum out_tone { TONE_PLAIN, TONE_GOOD, TONE_BAD, TONE_BUSY, TONE_DIM };
void out_tone(struct out *out, enum out_tone tone);
void out_row(struct out *out); /* ends the row */

/* Writes what is left. now_us is what relative times are relative to. A write error is an error. */
int out_end(struct out *out, int64_t now_us, struct pawl_err *err) MUST_CHECK;

#define OUT_ROWS_MAX 10000

#endif
