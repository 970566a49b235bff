/* failing: malloc and its kin that fail once, when `countdown` says so. For programs whose linker puts them in the place of the real
 * ones (--wrap), so that only our own code has them. Include it in one file. */
#ifndef TESTS_SERVE_FAILING_H
#define TESTS_SERVE_FAILING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static int64_t countdown = -1; /* the allocation that fails; negative: none does */
static bool failed;

static bool fails_now(void)
{
    if (countdown < 0 || countdown-- > 0)
        return false;
    failed = true;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails_now() ? NULL : __real_realloc(p, size);
}

#endif
