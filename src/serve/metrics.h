/*
 * metrics: the text format of Prometheus (0.0.4). A family has a name, a type and a help text,
 * followed by its samples. Errors stick to the buffer (base/buf.h). One thread.
 */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include <stdint.h>

#include "base/buf.h"

/* The whole answer to one scrape. */
#define METRICS_BYTES_MAX    (4 * 1024 * 1024)
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* type: "counter", "gauge" or "histogram". help: one line. */
void metrics_family(struct buf *out, const char *name, const char *type, const char *help);

/* A label's value may be anything; it is escaped. A key of NULL ends the list. */
struct metrics_label {
    const char *key;
    const char *value;
};

/* labels: up to a key of NULL; NULL for none. */
void metrics_int(struct buf *out,
                 const char *name,
                 const struct metrics_label *labels,
                 int64_t value);

/* A family with one sample without labels. */
void metrics_counter(struct buf *out, const char *name, const char *help, uint64_t value);
void metrics_gauge(struct buf *out, const char *name, const char *help, int64_t value);

/* Durations in buckets from half a millisecond to ten seconds. */
#define HISTOGRAM_BUCKETS 14

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS]; /* not cumulative; longer durations are only in count */
    uint64_t count;
    uint64_t sum_us;
};

void histogram_add(struct histogram *histogram, int64_t us);
void metrics_histogram(struct buf *out,
                       const char *name,
                       const struct metrics_label *labels,
                       const struct histogram *histogram);

#endif
