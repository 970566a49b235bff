/*
 * quantile: how long most things took, from a fixed amount of memory. A histogram whose buckets grow with
 * the values, so that every answer is at most one part in 32 (3 %) too high, from a microsecond to twelve days.
 * Not thread safe.
 */
#ifndef BASE_QUANTILE_H
#define BASE_QUANTILE_H

#include <stdint.h>

#define QUANTILE_SUB_BITS 5 /* 32 buckets for each power of two */
#define QUANTILE_MAX_BITS 40
#define QUANTILE_BUCKETS  ((QUANTILE_MAX_BITS - QUANTILE_SUB_BITS + 1) << QUANTILE_SUB_BITS)

struct quantile {
    uint64_t n;
    uint64_t counts[QUANTILE_BUCKETS];
};

void quantile_clear(struct quantile *q);

/* A negative value counts as 0, one beyond 2^40 as the largest there is. */
void quantile_add(struct quantile *q, int64_t value);
void quantile_merge(struct quantile *into, const struct quantile *from);

/* The value that so many in a thousand do not exceed: 500 is the median. 0 when there are none. */
int64_t quantile_at(const struct quantile *q, unsigned per_mille);

#endif
