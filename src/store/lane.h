/* lane: the statements about lanes that people use. Pairs of _bind and _row as in store/job.h. */
#ifndef STORE_LANE_H
#define STORE_LANE_H

#include <stdbool.h>

#include <libpq-fe.h>

#include "pg/params.h"

/* Limits of all lanes of a queue that a pattern fits. */
struct lane_limits {
    const char *queue; /* or * */
    const char *pattern;
    int32_t max_running;    /* 0: the rule goes */
    const char *rate_per_s; /* a number; "": no limit */
    int32_t burst;
    bool strict;
    bool hold;
};

void lane_set_bind(struct params *p, const struct lane_limits *limits);

/* Pointers live as long as the result. */
struct lane_view {
    const char *queue;
    const char *lane; /* or a pattern */
    bool rule;
    int32_t running;
    int64_t waiting;
    int32_t max_running;
    const char *rate_per_s; /* NULL: no limit */
    const char *burst;
    bool strict;
    bool hold;
};

/* queue: NULL for all. */
void lane_list_bind(struct params *p, const char *queue, int32_t limit, int64_t count_max);
void lane_list_row(const PGresult *r, int row, struct lane_view *ret_lane);

#endif
