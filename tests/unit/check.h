/*
 * check: cmocka with the headers it wants before it, in the order it wants them, and two small
 * things that most unit tests need.
 */
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The text holds the part. */
#define assert_has(text, part)                                   \
    do {                                                         \
        if (!strstr((text), (part)))                             \
            fail_msg("\"%s\" is not in \"%s\"", (part), (text)); \
    } while (0)

#endif
