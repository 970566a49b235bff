/*
 * events: what a process under the soak test says of itself, in a file of its own outside the
 * database. One event is one line and one write(2) in append mode, so kill -9 costs at most the
 * last one. Any thread may write. What the lines mean: history.py.
 */
#ifndef TESTS_FAULT_EVENTS_H
#define TESTS_FAULT_EVENTS_H

#include <stddef.h>

#include "base/rand.h"

/* Ends the program when the file cannot be opened. */
void events_open(const char *path);

/* Puts the time in front and a newline behind. Ends the program when it cannot be written: a
 * history with holes proves nothing. */
void events_write(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A comma-separated list under construction; "-" when it stays empty. */
#define EVENTS_LINE_MAX 65536

struct items {
    size_t len;
    char text[EVENTS_LINE_MAX - 256];
};

void items_clear(struct items *items);
void items_add(struct items *items, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text of a token, for one use in an argument list. */
#define TOKEN(uuid) (token_text(&(struct token_text){0}, (uuid)))

struct token_text {
    char text[UUID_TEXT_LEN + 1];
};

const char *token_text(struct token_text *buffer, const struct uuid *uuid);

#endif
