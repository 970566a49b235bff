/*
 * err: filling in a `struct pawl_err` (declared in pawl.h, because callers see it).
 *
 * Every setter accepts err == NULL and returns the code, so that a failure is one line:
 *     return err_set(err, PAWL_EINVAL, "priority %d is not between 0 and 9", priority);
 * Message grammar: "could not" for what may work next time, "cannot" for what never will; no final full
 * stop in the message; detail and hint are whole sentences.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "pawl.h"

#define MUST_CHECK        __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

void err_clear(struct pawl_err *err);

/* Replaces whatever was there: code and message set, SQLSTATE, detail and hint emptied. */
int err_set(struct pawl_err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same, with strerror(errnum) as the detail. ENOSPC, EDQUOT, EMFILE, ENFILE become PAWL_EFULL,
 * EACCES and EPERM PAWL_EDENIED, ENOMEM PAWL_ENOMEM, ENOENT PAWL_ENOTFOUND; all else PAWL_EFAILED. */
int err_set_errno(struct pawl_err *err, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Add to what err_set wrote. They return err->code (PAWL_EFAILED when err is NULL). */
int err_detail(struct pawl_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
int err_hint(struct pawl_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts where it happened in front of the message: "jobs.jsonl, line 3: ...". The end of a message that no longer fits
 * is cut. Returns err->code. */
int err_prefix(struct pawl_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Tables made from PAWL_CODES. An unknown code dies in a debug build and reads as PAWL_EFAILED. */
const char *err_code_name(int code); /* "PAWL_EINVAL" */
const char *err_code_text(int code);
int err_code_exit(int code); /* exit status of the command line */

#endif
