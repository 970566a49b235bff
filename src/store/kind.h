/* kind: the statements about kinds of jobs. Pairs of _bind and _row as in store/job.h. */
#ifndef STORE_KIND_H
#define STORE_KIND_H

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

#include "pg/params.h"

#define KIND_TABLE_MAX 100 /* delays in a retry table */

#define KIND_AS_IT_IS  (-1)

/* What to change; the rest stays as it is. */
struct kind_set {
    const char *name;
    const char *retry; /* "exponential", "quadratic", "table"; NULL: as it is */
    int32_t base_ms;   /* 0: as it is */
    int32_t cap_ms;    /* 0: as it is */
    int32_t table_ms[KIND_TABLE_MAX];
    size_t n_table; /* 0: as it is */
    int16_t park;   /* 1, 0, or KIND_AS_IT_IS */
};

void kind_set_bind(struct params *p, const struct kind_set *set);

/* Pointers live as long as the result. */
struct kind_view {
    const char *name;
    const char *retry;
    int32_t base_ms;
    int32_t cap_ms;
    const char *table_ms; /* comma-separated, or NULL */
    bool park;
};

void kind_list_row(const PGresult *r, int row, struct kind_view *ret_kind);

#endif
