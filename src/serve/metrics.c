/* metrics: the text format, line by line. */
#include "serve/metrics.h"

#include <inttypes.h>
#include <stddef.h>

static const struct {
    int64_t us;
    const char *seconds; /* the label "le" */
} bucket_edges[HISTOGRAM_BUCKETS] = {
    {50, "5e-05"},
    {100, "0.0001"},
    {250, "0.00025"},
    {500, "0.0005"},
    {1000, "0.001"},
    {2500, "0.0025"},
    {5000, "0.005"},
    {10000, "0.01"},
    {25000, "0.025"},
    {50000, "0.05"},
    {100000, "0.1"},
    {500000, "0.5"},
    {2500000, "2.5"},
    {10000000, "10"},
};

void metrics_family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_value(struct buf *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n') {
            buf_puts(out, "\\n");
            continue;
        }
        if (*value == '\\' || *value == '"')
            buf_putc(out, '\\');
        buf_putc(out, *value);
    }
}

/* The name, a suffix, the labels, and one more label if `extra` has a key. */
static void put_name(struct buf *out,
                     const char *name,
                     const char *suffix,
                     const struct metrics_label *labels,
                     struct metrics_label extra)
{
    char before = '{';

    buf_puts(out, name);
    buf_puts(out, suffix);
    for (const struct metrics_label *l = labels; l != NULL && l->key != NULL; l++) {
        buf_printf(out, "%c%s=\"", before, l->key);
        put_value(out, l->value);
        buf_putc(out, '"');
        before = ',';
    }
    if (extra.key != NULL) {
        buf_printf(out, "%c%s=\"%s\"", before, extra.key, extra.value);
        before = ',';
    }
    if (before == ',')
        buf_putc(out, '}');
    buf_putc(out, ' ');
}

void metrics_int(struct buf *out,
                 const char *name,
                 const struct metrics_label *labels,
                 int64_t value)
{
    put_name(out, name, "", labels, (struct metrics_label){0});
    buf_printf(out, "%" PRId64 "\n", value);
}

void metrics_counter(struct buf *out, const char *name, const char *help, uint64_t value)
{
    metrics_family(out, name, "counter", help);
    metrics_int(out, name, NULL, (int64_t)value);
}

void metrics_gauge(struct buf *out, const char *name, const char *help, int64_t value)
{
    metrics_family(out, name, "gauge", help);
    metrics_int(out, name, NULL, value);
}

void histogram_add(struct histogram *histogram, int64_t us)
{
    histogram->count++;
    histogram->sum_us += us > 0 ? (uint64_t)us : 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (us <= bucket_edges[i].us) {
            histogram->buckets[i]++;
            return;
        }
}

void metrics_histogram(struct buf *out,
                       const char *name,
                       const struct metrics_label *labels,
                       const struct histogram *histogram)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        sum += histogram->buckets[i];
        put_name(
            out, name, "_bucket", labels, (struct metrics_label){"le", bucket_edges[i].seconds});
        buf_printf(out, "%" PRIu64 "\n", sum);
    }
    put_name(out, name, "_bucket", labels, (struct metrics_label){"le", "+Inf"});
    buf_printf(out, "%" PRIu64 "\n", histogram->count);
    put_name(out, name, "_sum", labels, (struct metrics_label){0});
    buf_printf(out,
               "%" PRIu64 ".%06" PRIu64 "\n",
               histogram->sum_us / 1000000,
               histogram->sum_us % 1000000);
    put_name(out, name, "_count", labels, (struct metrics_label){0});
    buf_printf(out, "%" PRIu64 "\n", histogram->count);
}
