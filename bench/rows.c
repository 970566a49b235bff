/* rows: the lines of the report, and whether they reach their targets. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include "bench/bench.h"

void series_add(struct series *series, double value)
{
    if (series->n < BENCH_ROUNDS_MAX)
        series->values[series->n++] = value;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

double series_median(const struct series *series)
{
    double sorted[BENCH_ROUNDS_MAX];
    size_t n = series->n;

    if (n == 0)
        return BENCH_NONE;
    memcpy(sorted, series->values, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_size);
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* The two of a round were measured one right after the other, so they saw the same machine. */
static double median_ratio(const struct series *measured, const struct series *against)
{
    struct series ratios = {0};

    for (size_t i = 0; i < measured->n && i < against->n; i++) {
        if (against->values[i] > 0)
            series_add(&ratios, measured->values[i] / against->values[i]);
    }
    return series_median(&ratios);
}

static struct bench_row *row_add(struct bench *b,
                                 const char *what,
                                 const char *unit,
                                 const struct series *measured,
                                 const struct series *against)
{
    struct bench_row *row = &b->rows[b->n_rows++];

    assert(b->n_rows <= BENCH_ROWS_MAX);
    *row = (struct bench_row){
        .name = b->current,
        .unit = unit,
        .measured = *measured,
        .ratio = BENCH_NONE,
        .target = BENCH_NONE,
        .met = true,
    };
    snprintf(row->what, sizeof(row->what), "%s", what);
    if (against != NULL) {
        row->against = *against;
        row->ratio = median_ratio(measured, against);
    }
    return row;
}

void bench_row_ratio(struct bench *b,
                     const char *what,
                     const char *unit,
                     const struct series *measured,
                     const struct series *against,
                     double target)
{
    struct bench_row *row = row_add(b, what, unit, measured, against);

    if (isnan(target))
        return;
    row->goal = GOAL_AT_LEAST;
    row->goal_on_ratio = true;
    row->target = target;
    row->met = row->ratio >= target;
}

void bench_row_ratio_most(struct bench *b,
                          const char *what,
                          const char *unit,
                          const struct series *measured,
                          const struct series *against,
                          double target)
{
    struct bench_row *row = row_add(b, what, unit, measured, against);

    row->goal = GOAL_AT_MOST;
    row->goal_on_ratio = true;
    row->target = target;
    row->met = row->ratio <= target;
}

void bench_row_limit(struct bench *b,
                     const char *what,
                     const char *unit,
                     const struct series *measured,
                     const struct series *against,
                     double target)
{
    struct bench_row *row = row_add(b, what, unit, measured, against);

    if (isnan(target))
        return;
    row->goal = GOAL_AT_MOST;
    row->target = target;
    row->met = series_median(measured) <= target;
}
