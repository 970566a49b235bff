/* held: binding and reading the statements about jobs in the hands of workers on streams. */
#include "store/held.h"

#include "pg/result.h"

/* job_held.sql, beyond what job_claim.sql has */
#define COL_TOKEN 15
#define COL_QUEUE 16
#define COL_N     17

void held_put_bind(struct params *p,
                   const int64_t *ids,
                   const struct uuid *tokens,
                   const char *const *workers,
                   const int64_t *left_ms,
                   size_t n)
{
    params_i64_array(p, ids, n);
    params_uuid_array(p, tokens, n);
    params_text_array(p, workers, n);
    params_i64_array(p, left_ms, n);
}

int64_t held_put_row(const PGresult *r, int row)
{
    return result_i64(r, row, 0);
}

/* Which job, and by what right. */
static void bind_held(struct params *p, const struct held_job *jobs, size_t n)
{
    struct bytes *tickets = arena_new_array(p->arena, n > 0 ? n : 1, struct bytes);

    for (size_t i = 0; tickets != NULL && i < n; i++)
        tickets[i] =
            (struct bytes){(const char *)jobs[i].ticket.bytes, sizeof(jobs[i].ticket.bytes)};
    p->failed |= tickets == NULL;
    PARAMS_COLUMN(p, COLUMN_I64, jobs, n, id);
    params_bytes_array(p, tickets, tickets != NULL ? n : 0);
}

void held_take_bind(struct params *p, const struct held_job *jobs, size_t n, int64_t lease_ms)
{
    bind_held(p, jobs, n);
    PARAMS_COLUMN(p, COLUMN_TEXT, jobs, n, worker);
    params_i64(p, lease_ms);
    PARAMS_COLUMN(p, COLUMN_TEXT, jobs, n, progress);
}

void held_take_row(const PGresult *r, int row, size_t *ret_item, bool *ret_cancelled)
{
    *ret_item = (size_t)result_i64(r, row, 0) - 1;
    *ret_cancelled = result_bool(r, row, 1);
}

void job_held_bind(struct params *p, const struct held_job *jobs, size_t n)
{
    bind_held(p, jobs, n);
}

void job_held_row(const PGresult *r, int row, struct job *ret_job)
{
    *ret_job = (struct job){
        .id = result_i64(r, row, 0),
        .queue = result_text(r, row, COL_QUEUE),
        .kind = result_text(r, row, 1),
        .priority = result_i16(r, row, 2),
        .attempt = result_i32(r, row, 3),
        .max_attempts = result_i32(r, row, 4),
        .timeout_ms = result_is_null(r, row, 5) ? 0 : result_i32(r, row, 5),
        .token = result_uuid(r, row, COL_TOKEN),
        .is_child = !result_is_null(r, row, 8),
        .has_options = !result_is_null(r, row, 9),
        .is_machine = !result_is_null(r, row, 10),
        .lane = result_text(r, row, 14),
    };
}

size_t job_held_item(const PGresult *r, int row)
{
    return (size_t)result_i64(r, row, COL_N) - 1;
}

void job_reported_bind(struct params *p, const struct held_job *jobs, size_t n)
{
    bind_held(p, jobs, n);
}

void job_reported_row(const PGresult *r,
                      int row,
                      size_t *ret_item,
                      struct job_reported *ret_reported)
{
    *ret_item = (size_t)result_i64(r, row, 0) - 1;
    *ret_reported = (struct job_reported){
        .queue = result_text(r, row, 3),
        .state = result_text(r, row, 1),
        .attempt = result_i32(r, row, 2),
        .other = result_bool(r, row, 4),
    };
}
