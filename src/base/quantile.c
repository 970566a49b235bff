/* quantile: buckets by the highest bits of the value. */
#include "base/quantile.h"

#include <string.h>

#define SUB ((uint64_t)1 << QUANTILE_SUB_BITS)
#define MAX (((uint64_t)1 << QUANTILE_MAX_BITS) - 1)

void quantile_clear(struct quantile *q)
{
    memset(q, 0, sizeof(*q));
}

/* Values below SUB have a bucket each; above, a bucket is named by the position of the highest bit and the
 * QUANTILE_SUB_BITS bits after it. */
static size_t bucket_of(uint64_t value)
{
    if (value < SUB)
        return (size_t)value;
    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - QUANTILE_SUB_BITS;

    return ((size_t)(shift + 1) << QUANTILE_SUB_BITS) + (size_t)((value >> shift) & (SUB - 1));
}

/* The largest value that falls into it. */
static uint64_t bucket_max(size_t bucket)
{
    if (bucket < SUB)
        return bucket;
    unsigned shift = (unsigned)(bucket >> QUANTILE_SUB_BITS) - 1;

    return (((bucket & (SUB - 1)) + SUB + 1) << shift) - 1;
}

void quantile_add(struct quantile *q, int64_t value)
{
    uint64_t positive = value > 0 ? (uint64_t)value : 0;

    q->counts[bucket_of(positive < MAX ? positive : MAX)]++;
    q->n++;
}

void quantile_merge(struct quantile *into, const struct quantile *from)
{
    if (from->n == 0)
        return;
    for (size_t i = 0; i < QUANTILE_BUCKETS; i++)
        into->counts[i] += from->counts[i];
    into->n += from->n;
}

int64_t quantile_at(const struct quantile *q, unsigned per_mille)
{
    /* Rounded up: the 99th percentile of ten is the largest of them. */
    uint64_t wanted = q->n / 1000 * per_mille + (q->n % 1000 * per_mille + 999) / 1000;
    uint64_t seen = 0;

    for (size_t i = 0; i < QUANTILE_BUCKETS && q->n > 0; i++) {
        seen += q->counts[i];
        if (q->counts[i] > 0 && seen >= wanted)
            return (int64_t)bucket_max(i);
    }
    return 0;
}
