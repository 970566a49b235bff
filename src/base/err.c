/*
 * err: formatting into a struct pawl_err, and the tables behind the codes. A text that does not fit
 * is cut between two characters and ends in an ellipsis. Arguments may point into the very error
 * that is being written, so that wrapping a message is one call.
 */
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"

static void put_text(char *out, size_t size, const char *fmt, va_list ap) PRINTF_LIKE(3, 0);

static void put_text(char *out, size_t size, const char *fmt, va_list ap)
{
    char text[sizeof((struct pawl_err *)NULL)->detail]; /* the longest of them */
    assert(size <= sizeof(text));

    int len = vsnprintf(text, size, fmt, ap);
    if (len < 0)
        text[0] = '\0';
    if (len >= (int)size) {
        size_t end = size - sizeof(ELLIPSIS);
        while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
            end--;
        memcpy(text + end, ELLIPSIS, sizeof(ELLIPSIS));
    }
    memcpy(out, text, strlen(text) + 1);
}

void err_clear(struct pawl_err *err)
{
    if (!err)
        return;
    err->code = PAWL_OK;
    err->sqlstate[0] = err->message[0] = err->detail[0] = err->hint[0] = '\0';
}

static void set(struct pawl_err *err, int code, const char *fmt, va_list ap) PRINTF_LIKE(3, 0);

static void set(struct pawl_err *err, int code, const char *fmt, va_list ap)
{
    put_text(err->message, sizeof(err->message), fmt, ap);
    err->code = code;
    err->sqlstate[0] = err->detail[0] = err->hint[0] = '\0';
}

int err_set(struct pawl_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return code;
    va_start(ap, fmt);
    set(err, code, fmt, ap);
    va_end(ap);
    return code;
}

static int code_of_errno(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
        return PAWL_EFULL;
    case EACCES:
    case EPERM:
        return PAWL_EDENIED;
    case ENOMEM:
        return PAWL_ENOMEM;
    case ENOENT:
        return PAWL_ENOTFOUND;
    default:
        return PAWL_EFAILED;
    }
}

int err_set_errno(struct pawl_err *err, int errnum, const char *fmt, ...)
{
    int code = code_of_errno(errnum);
    char text[128];
    va_list ap;

    if (!err)
        return code;
    va_start(ap, fmt);
    set(err, code, fmt, ap);
    va_end(ap);
    return err_detail(err, "%s", strerror_r(errnum, text, sizeof(text)));
}

int err_detail(struct pawl_err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return PAWL_EFAILED;
    va_start(ap, fmt);
    put_text(err->detail, sizeof(err->detail), fmt, ap);
    va_end(ap);
    return err->code;
}

int err_hint(struct pawl_err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return PAWL_EFAILED;
    va_start(ap, fmt);
    put_text(err->hint, sizeof(err->hint), fmt, ap);
    va_end(ap);
    return err->code;
}

static void put(char *out, size_t size, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void put(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_text(out, size, fmt, ap);
    va_end(ap);
}

int err_prefix(struct pawl_err *err, const char *fmt, ...)
{
    char prefix[sizeof(err->message)];
    va_list ap;

    if (!err)
        return PAWL_EFAILED;
    va_start(ap, fmt);
    put_text(prefix, sizeof(prefix), fmt, ap);
    va_end(ap);
    put(err->message, sizeof(err->message), "%s: %s", prefix, err->message);
    return err->code;
}

struct code_row {
    int code;
    int exit_status;
    const char *name;
    const char *text;
};

static const struct code_row *code_row(int code)
{
#define ROW(name, value, exit_status, text) {(value), (exit_status), #name, (text)},
    static const struct code_row rows[] = {PAWL_CODES(ROW)};
#undef ROW
    size_t n = sizeof(rows) / sizeof(rows[0]);

    for (size_t i = 0; i < n; i++)
        if (rows[i].code == code)
            return &rows[i];
    assert(false && "an error code that is not in PAWL_CODES");
    return code_row(PAWL_EFAILED);
}

const char *err_code_name(int code)
{
    return code_row(code)->name;
}

const char *err_code_text(int code)
{
    return code_row(code)->text;
}

int err_code_exit(int code)
{
    return code_row(code)->exit_status;
}
