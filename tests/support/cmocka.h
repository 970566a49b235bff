/*
 * cmocka: <cmocka.h> with the headers it wants before it, in the order it wants them. Include this
 * one instead.
 */
#ifndef TESTS_CMOCKA_H
#define TESTS_CMOCKA_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

#endif
