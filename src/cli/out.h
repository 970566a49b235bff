/*
 * out: results on stdout as a table for people, one JSON document, or one JSON object a line. A
 * command describes its columns once and adds rows; the format is not its business. One thread:
 * standard output is a shared thing.
 *
 * Tables: aligned by what a terminal shows (UTF-8 aware), control bytes escaped. Long cells are cut
 * to fit on a terminal, never in a pipe. Errors stick and come out of out_end.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

enum out_format { OUT_TABLE, OUT_JSON, OUT_JSONL };

enum out_kind {
    OUT_TEXT,
    OUT_INT,      /* right-aligned */
    OUT_TIME,     /* microseconds since 1970; RFC 3339 in JSON, relative ("3 min ago") in a table.
                     INT64_MAX is never:     null in JSON */
    OUT_DURATION, /* microseconds; a number named <key>_us in JSON, words in a table */
    OUT_BOOL,     /* yes / no in a table */
    OUT_BYTES,    /* payload or result: itself when it is JSON, a string when it is text, {"base64":
                     "..."} otherwise */
};

struct out_column {
    const char *key;   /* JSON member, lower_case */
    const char *title; /* table heading; NULL: not shown in a table */
    enum out_kind kind;
};

struct out;

/* NULL: out of memory. Buffers up to OUT_ROWS_MAX rows of a table to align it (what comes after is
 * aligned on its own); JSON goes out as it comes. */
struct out *
out_new(enum out_format format, const struct out_column *columns, size_t n, bool color) MUST_CHECK;
void out_free(struct out *out);

/* One object instead of a list of them: `title: value` lines, and in JSON the object itself. For
 * `show` verbs. */
void out_single(struct out *out);

/* What is said on stderr instead of a table without rows; "(none)" unless told. NULL: nothing.
 * Borrowed. */
void out_none(struct out *out, const char *note);

/* Elsewhere than to stdout. width: of the terminal, 0 when there is none and nothing is cut. file
 * is borrowed. */
void out_to(struct out *out, FILE *file, size_t width);

/* Cells of the current row, in column order. */
void out_null(struct out *out);
void out_text(struct out *out, const char *s); /* NULL is null */
void out_textn(struct out *out, const char *s, size_t len);
void out_int(struct out *out, int64_t value); /* also time, duration and bool */

/* Marks the cell added last with a meaning that a terminal shows as a colour. */
enum out_tone { TONE_PLAIN, TONE_GOOD, TONE_BAD, TONE_BUSY, TONE_DIM };

void out_tone(struct out *out, enum out_tone tone);
void out_row(struct out *out); /* ends the row; cells that were not given are null */

/* For a verb that goes on for long: no use in going on. out_end says why. */
bool out_failed(const struct out *out);

/* Writes what is left. now_us is what relative times are relative to. A write error is an error. */
int out_end(struct out *out, int64_t now_us, struct pawl_err *err) MUST_CHECK;

#define OUT_ROWS_MAX 10000

/*
 * Text that is no table, straight to stdout, flushed. When the reader has gone it is
 * PAWL_EINTERRUPTED, and out_reader_gone is true from then on: the command should end, and
 * verb_main will be quiet about it.
 */
int out_write(const char *data, size_t len, struct pawl_err *err) MUST_CHECK;
bool out_reader_gone(void);

/* For whatever is shown to people: control bytes, invalid UTF-8 and characters that reverse the
 * direction of writing become \n, \x1b, \u202e. keep_newlines leaves line ends alone. */
void out_escape(struct buf *out, const char *s, size_t len, bool keep_newlines);

/* Columns of a terminal; needs the UTF-8 locale that main sets. */
size_t out_width(const char *s, size_t len);

/* "3 min ago", "in 5 s", "now", a date beyond 30 days, "never" for INT64_MAX. */
#define OUT_RELATIVE_LEN 32
void out_relative(int64_t us, int64_t now_us, char text[OUT_RELATIVE_LEN]);

#endif
