/* lines: bounded reading. */
#include "cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (64 * 1024)
#define BOM   "\xef\xbb\xbf" /* some editors put it in front of UTF-8 */

/* What people call it. */
static const char *shown(const char *name)
{
    return strcmp(name, "-") == 0 ? "standard input" : name;
}

static int open_input(const char *name, int *ret_fd, struct pawl_err *err)
{
    if (strcmp(name, "-") == 0) {
        *ret_fd = STDIN_FILENO;
        return 0;
    }
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_set_errno(err, errno, "could not open %s", name);
    *ret_fd = fd;
    return 0;
}

static void close_input(int fd)
{
    if (fd > STDIN_FILENO)
        close(fd);
}

/* One read(2) into the buffer. 0 at the end of the input. */
static ssize_t fill(struct buf *buf, int fd, size_t len, const char *name, struct pawl_err *err)
{
    char *room = buf_reserve(buf, len);
    ssize_t n;

    if (room == NULL)
        return err_set(err, PAWL_ENOMEM, "could not read %s: out of memory", name);
    do
        n = read(fd, room, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set_errno(err, errno, "could not read %s", name);
    buf_wrote(buf, (size_t)n);
    return n;
}

int lines_open(struct lines *lines, const char *name, size_t line_max, struct pawl_err *err)
{
    int fd = -1;
    int rc = open_input(name, &fd, err);

    if (rc < 0)
        return rc;
    *lines = (struct lines){.name = shown(name), .fd = fd, .line_max = line_max};
    buf_init(&lines->buf, 2 * line_max + 2 * CHUNK);
    return 0;
}

void lines_close(struct lines *lines)
{
    close_input(lines->fd);
    buf_deinit(&lines->buf);
}

static int too_long(const struct lines *lines, struct pawl_err *err)
{
    return err_set(err,
                   PAWL_ELIMIT,
                   "%.80s, line %lld: longer than %zu bytes",
                   lines->name,
                   (long long)lines->number + 1,
                   lines->line_max);
}

int lines_next(struct lines *lines, const char **ret_line, size_t *ret_len, struct pawl_err *err)
{
    size_t searched = 0;

    for (;;) {
        size_t have = lines->buf.len - lines->at;
        const char *line = buf_str(&lines->buf) + lines->at;
        const char *end = have > searched ? memchr(line + searched, '\n', have - searched) : NULL;
        size_t len = end != NULL ? (size_t)(end - line) : have;

        if (len > lines->line_max)
            return too_long(lines, err);
        if (end != NULL || (lines->at_end && have > 0)) {
            lines->at += end != NULL ? len + 1 : len;
            lines->number++;
            if (len > 0 && line[len - 1] == '\r')
                len--;
            if (lines->number == 1 && len >= strlen(BOM) && memcmp(line, BOM, strlen(BOM)) == 0) {
                line += strlen(BOM);
                len -= strlen(BOM);
            }
            *ret_line = line;
            *ret_len = len;
            return 1;
        }
        if (lines->at_end)
            return 0;
        searched = have;
        buf_consume(&lines->buf, lines->at);
        lines->at = 0;
        ssize_t n = fill(&lines->buf, lines->fd, CHUNK, lines->name, err);

        if (n < 0)
            return (int)n;
        lines->at_end = n == 0;
    }
}

int read_all(const char *name, size_t max, struct buf *out, struct pawl_err *err)
{
    int fd;
    ssize_t n;
    int rc = open_input(name, &fd, err);

    if (rc < 0)
        return rc;
    do {
        size_t room = max + 1 - out->len;

        n = fill(out, fd, room < CHUNK ? room : CHUNK, shown(name), err);
    } while (n > 0 && out->len <= max);
    close_input(fd);
    if (n < 0)
        return (int)n;
    if (out->len > max) {
        err_set(err, PAWL_ELIMIT, "%s has more than the limit of %zu bytes", shown(name), max);
        return err_hint(err, "Store it elsewhere and pass a reference to it.");
    }
    return 0;
}
