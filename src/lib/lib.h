/*
 * lib: what the parts of libpawl share. Structs that callers fill in begin with their size and may be older or newer
 * than ours (GROWTH in pawl.h); inside, everybody works on a whole one of our own size.
 */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include <stddef.h>

#include "base/err.h"

/* Copies the caller's struct over *ret, `known` bytes of zeros: our own size. least: how much of it there has always been.
 * what: its name, for the message. */
int lib_struct_read(void *ret,
                    size_t known,
                    size_t least,
                    const void *from,
                    const char *what,
                    struct pawl_err *err) MUST_CHECK;

/* What struct pawl_job_new has always been. */
#define LIB_JOB_NEW_LEAST offsetof(struct pawl_job_new, correlation)

/* For C++ and old callers alike: PAWL_EINVAL, with the name of what must not be NULL. */
int lib_null(const char *function, const char *what, struct pawl_err *err);

#endif
