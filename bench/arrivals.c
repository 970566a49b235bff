/* arrivals: sending one, and waiting for it. */
#include "bench/arrivals.h"

#include <stdlib.h>

#include <math.h>

#define BETWEEN_MS     5
#define ARRIVE_MOST_MS 10000

int arrivals_init(struct arrivals *a, size_t max, struct pawl_err *err)
{
    *a = (struct arrivals){.ms = calloc(max, sizeof(double)), .max = max};
    return a->ms != NULL ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");
}

void arrivals_deinit(struct arrivals *a)
{
    free(a->ms);
    a->ms = NULL;
}

void arrivals_note(void *data, const struct job *job)
{
    struct arrivals *a = data;

    (void)job;
    atomic_store(&a->at_us, bench_now_us());
}

static int
send_one(struct bench *b, struct arrivals *a, struct single *single, struct pawl_err *err)
{
    int64_t at_us = 0;

    atomic_store(&a->at_us, 0);
    int rc = single_send(single, false, err);

    if (rc == 0)
        rc = single_finish(single, err);
    int64_t sent_us = bench_now_us();

    while (rc == 0 && (at_us = atomic_load(&a->at_us)) == 0) {
        rc = bench_go_on(b, err);
        if (rc == 0 && bench_now_us() - sent_us > ARRIVE_MOST_MS * US_PER_MS)
            rc = err_set(err, PAWL_ETIMEOUT, "a job did not arrive in time");
        bench_sleep_ms(b, 1); /* the worker's clock counts, not ours */
    }
    /* It may be faster than the answer to the COMMIT. */
    if (rc == 0)
        a->ms[a->n++] = fmax(0, (double)(at_us - sent_us) / US_PER_MS);
    bench_sleep_ms(b, BETWEEN_MS);
    return rc;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

int arrivals_measure(struct bench *b,
                     struct arrivals *a,
                     struct single *single,
                     struct pawl_err *err)
{
    int rc = 0;

    for (a->n = 0; rc == 0 && a->n < a->max;)
        rc = send_one(b, a, single, err);
    if (rc == 0)
        qsort(a->ms, a->n, sizeof(*a->ms), compare);
    return rc;
}

double arrivals_percentile(const struct arrivals *a, int percent)
{
    return a->ms[a->n * (size_t)percent / 100];
}
