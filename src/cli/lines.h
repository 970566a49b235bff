/*
 * lines: reading a file (or standard input, "-") line by line, with a limit on the length of a
 * line, so that no input makes the process grow without bound. Lines may end as on Windows, and a
 * byte order mark in front of the first one is left out.
 */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct lines {
    const char *name; /* borrowed; as messages call it */
    int fd;
    size_t line_max;
    struct buf buf;
    size_t at;      /* where the next line begins in buf */
    int64_t number; /* of the line given last, from 1 */
    bool at_end;
};

/* PAWL_ENOTFOUND, PAWL_EDENIED ... when it cannot be opened. */
int lines_open(struct lines *lines, const char *name, size_t line_max, struct pawl_err *err)
    MUST_CHECK;
void lines_close(struct lines *lines);

/* 1 with a line (without its end, valid until the next call), 0 at the end, or an error:
 * PAWL_ELIMIT names the line that is too long. */
int lines_next(struct lines *lines, const char **ret_line, size_t *ret_len, struct pawl_err *err)
    MUST_CHECK;

/* All of it, at most max bytes: refused with PAWL_ELIMIT as soon as there is one byte more. */
int read_all(const char *name, size_t max, struct buf *out, struct pawl_err *err) MUST_CHECK;

#endif
