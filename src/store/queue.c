/* queue: binding and reading the statements about queues. */
#include "store/queue.h"

#include "pg/result.h"

void queue_list_bind(struct params *p, int64_t count_max)
{
    params_i64(p, count_max);
}

void queue_list_row(const PGresult *r, int row, struct queue_view *ret_queue)
{
    *ret_queue = (struct queue_view){
        .name = result_text(r, row, 0),
        .ready = result_i64(r, row, 1),
        .scheduled = result_i64(r, row, 2),
        .running = result_i64(r, row, 3),
        .parked = result_i64(r, row, 4),
        .oldest_due_at = result_is_null(r, row, 5) ? 0 : result_time(r, row, 5),
        .paused_at = result_is_null(r, row, 6) ? 0 : result_time(r, row, 6),
        .paused_by = result_text(r, row, 7),
        .keep_days = result_i32(r, row, 8),
        .capped = result_bool(r, row, 9),
        .retrying = result_i64(r, row, 10),
        .waiting = result_i64(r, row, 11),
        .now = result_time(r, row, 12),
    };
}

void queue_next_due_bind(struct params *p, const char *const *queues, size_t n_queues)
{
    params_text_array(p, queues, n_queues);
}

int64_t queue_next_due_ms(const PGresult *r)
{
    if (result_is_null(r, 0, 0))
        return INT64_MAX;
    return result_i64(r, 0, 0) > 0 ? result_i64(r, 0, 0) : 0;
}

void queue_pause_bind(struct params *p, const char *queue, const char *who)
{
    params_text(p, queue);
    params_text(p, who);
}

bool queue_pause_row(const PGresult *r)
{
    return result_bool(r, 0, 2);
}

void queue_resume_bind(struct params *p, const char *queue)
{
    params_text(p, queue);
}

void queue_allow_bind(struct params *p, const char *queue, const char *role)
{
    params_text(p, queue);
    params_text(p, role);
}

bool queue_allow_row(const PGresult *r)
{
    return result_bool(r, 0, 0);
}

void queue_disallow_bind(struct params *p, const char *queue, const char *role)
{
    queue_allow_bind(p, queue, role);
}
