/* events: lines in a file. */
#include "fault/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static int events_fd = -1;

static void die(const char *what)
{
    fprintf(stderr, "events: %s: %s\n", what, strerror(errno));
    _exit(70);
}

void events_open(const char *path)
{
    events_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (events_fd < 0)
        die(path);
}

void events_write(const char *format, ...)
{
    char line[EVENTS_LINE_MAX];
    va_list args;
    /* The machine's clock: the database's is the same here, and the two are compared. */
    int n = snprintf(line, sizeof(line), "%lld ", (long long)clock_wall_us(&clock_system));

    va_start(args, format);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
    va_end(args);
    if ((size_t)n >= sizeof(line) - 1) {
        errno = EMSGSIZE;
        die("write");
    }
    line[n++] = '\n';
    if (write(events_fd, line, (size_t)n) != n)
        die("write");
}

void items_clear(struct items *items)
{
    items->len = 1;
    memcpy(items->text, "-", 2);
}

void items_add(struct items *items, const char *format, ...)
{
    bool first = items->text[0] == '-';
    size_t at = first ? 0 : items->len;
    va_list args;

    if (!first)
        items->text[at++] = ',';
    va_start(args, format);
    int n = vsnprintf(items->text + at, sizeof(items->text) - at, format, args);
    va_end(args);
    items->len = at + (size_t)n;
    if (n < 0 || items->len >= sizeof(items->text) - 1) {
        errno = EMSGSIZE;
        die("items");
    }
}

const char *token_text(struct token_text *buffer, const struct uuid *uuid)
{
    uuid_format(uuid, buffer->text);
    return buffer->text;
}
