/* lane: binding and reading the statements about lanes. */
#include "store/lane.h"

#include "pg/result.h"
#include "store/job.h"

void lane_set_bind(struct params *p, const struct lane_limits *limits)
{
    params_text(p, limits->queue);
    params_text(p, limits->pattern);
    params_i32(p, limits->max_running);
    params_text(p, limits->rate_per_s);
    params_i32(p, limits->burst);
    params_bool(p, limits->strict);
    params_bool(p, limits->hold);
}

void lane_list_bind(struct params *p, const char *queue, int32_t limit, int64_t count_max)
{
    params_text(p, queue);
    params_i32(p, limit);
    params_i64(p, count_max);
}

void lane_list_row(const PGresult *r, int row, struct lane_view *ret_lane)
{
    *ret_lane = (struct lane_view){
        .queue = result_text(r, row, 0),
        .lane = result_text(r, row, 1),
        .rule = result_bool(r, row, 2),
        .running = result_i32(r, row, 3),
        .waiting = result_i64(r, row, 4),
        .max_running = result_i32(r, row, 5),
        .rate_per_s = result_text(r, row, 6),
        .burst = result_text(r, row, 7),
        .strict = result_bool(r, row, 8),
        .hold = result_bool(r, row, 9),
    };
}

void lane_leave_bind(struct params *p,
                     const char *const *queues,
                     const char *const *lanes,
                     const int64_t *ids,
                     size_t n)
{
    params_text_array(p, queues, n);
    params_text_array(p, lanes, n);
    params_i64_array(p, ids, n);
}

void lanes_mend_bind(struct params *p, int32_t limit)
{
    params_i32(p, limit);
}

int32_t lanes_called(const PGresult *r)
{
    return result_i32(r, 0, 0);
}
