/* mark: binding and reading the statements about marks (store/job.h). */
#include "pg/result.h"
#include "store/job_internal.h"

static void bind_marks(struct params *p, const struct job_marks *marks)
{
    PARAMS_COLUMN(p, COLUMN_TIME, marks->at, JOB_LEVELS, due_us);
    PARAMS_COLUMN(p, COLUMN_I64, marks->at, JOB_LEVELS, id);
}

void job_look_bind(struct params *p,
                   const char *queue,
                   const char *const *kinds,
                   size_t n_kinds,
                   const struct job_marks *from,
                   const struct job_marks *to)
{
    struct job_marks end = *to;
    int16_t priorities[JOB_LEVELS];
    bool in_lane[JOB_LEVELS];

    for (size_t i = 0; i < JOB_LEVELS; i++) {
        priorities[i] = (int16_t)(i % JOB_PRIORITIES);
        in_lane[i] = i >= JOB_PRIORITIES;
        /* An empty range where the marks have not moved. */
        if (!job_watermark_before(&from->at[i], &to->at[i]))
            end.at[i] = from->at[i];
    }
    params_text(p, queue);
    params_text_array(p, kinds, n_kinds);
    params_i16_array(p, priorities, JOB_LEVELS);
    params_bool_array(p, in_lane, JOB_LEVELS);
    bind_marks(p, from);
    bind_marks(p, &end);
    params_i32(p, JOB_LOOK_MAX);
    job_kind_range_bind(p, kinds, n_kinds);
}

int32_t job_look_row(const PGresult *r, int row, size_t *ret_level, struct job_watermark *ret_at)
{
    *ret_level = (size_t)result_i64(r, row, 0) - 1;
    *ret_at = (struct job_watermark){.due_us = result_time(r, row, 1), .id = result_i64(r, row, 2)};
    return result_i32(r, row, 3);
}

void mark_load_bind(struct params *p, const char *queue, const char *const *kinds, size_t n_kinds)
{
    params_text(p, queue);
    params_text_array(p, kinds, n_kinds);
}

bool mark_load_read(const PGresult *r, struct job_marks *ret_marks)
{
    if (PQntuples(r) == 0)
        return false;
    for (size_t i = 0; i < JOB_LEVELS; i++)
        ret_marks->at[i] = (struct job_watermark){.due_us = INT64_MIN};
    for (int row = 0; row < PQntuples(r); row++) {
        size_t level = (size_t)result_i64(r, row, 0) - 1;

        if (level < JOB_LEVELS)
            ret_marks->at[level] = (struct job_watermark){.due_us = result_time(r, row, 1),
                                                          .id = result_i64(r, row, 2)};
    }
    return true;
}

void mark_store_bind(struct params *p,
                     const char *queue,
                     const char *const *kinds,
                     size_t n_kinds,
                     const struct job_marks *marks)
{
    params_text(p, queue);
    params_text_array(p, kinds, n_kinds);
    bind_marks(p, marks);
}
