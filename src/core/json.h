/*
 * json: is this one JSON value? Asked of payloads before they are stored; the bytes themselves are kept as they came.
 * Any thread may call.
 */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * 0 when the bytes are exactly one JSON value (RFC 8259: any kind, blanks around it allowed), else PAWL_EINVAL with what,
 * line and column, PAWL_ELIMIT from 4 GiB on, or PAWL_ENOMEM. The bytes are not repeated in the error,
 * because errors are logged. Takes 9 KiB of stack, and 5 MiB of heap at most, whatever the text holds.
 *
 * Stricter than the RFC: UTF-8 only, no duplicate keys, no \u0000 in a key, no lone surrogate escapes, at most 2048
 * levels. Numbers may be of any length and size: they are never converted.
 */
int json_check(const char *bytes, size_t len, struct pawl_err *err) MUST_CHECK;

bool json_is_valid(const char *bytes, size_t len);

#endif
