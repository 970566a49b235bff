/*
 * tail: what is kept of a stderr that may never end: its last bytes, for the error, and one line at
 * a time, for the log.
 */
#ifndef HANDS_TAIL_H
#define HANDS_TAIL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define TAIL_MAX      2048 /* bytes kept for the error, which people read */
#define TAIL_LINE_MAX 1024 /* a longer line is logged in pieces */

struct tail {
    char bytes[2 * TAIL_MAX]; /* twice, so that old bytes are dropped by the block */
    size_t len;
    bool dropped; /* bytes were written before these */
    char line[TAIL_LINE_MAX + 1];
    size_t line_len;
};

/* Zeroed memory is an empty tail. */
void tail_add(struct tail *tail, const char *data, size_t len);

/* Appends a newline and the last lines as valid UTF-8 without NUL; nothing at all when nothing was
 * written. */
void tail_put(const struct tail *tail, struct buf *out);

/* Cuts the bytes into lines, each given as a string without its newline; the rest waits for more,
 * or for tail_flush. Empty lines are left out; a NUL becomes a blank. */
void tail_lines(struct tail *tail,
                const char *data,
                size_t len,
                void (*line)(void *context, const char *text),
                void *context);
void tail_flush(struct tail *tail, void (*line)(void *context, const char *text), void *context);

#endif
