/* job_ask: binding and reading what people and handlers ask of a job: cancel, retry, watch, note,
 * let go. */
#include <string.h>

#include "pg/result.h"
#include "store/job.h"

void job_cancel_bind(struct params *p, int64_t id, const char *by)
{
    params_i64(p, id);
    params_text(p, by);
}

bool job_cancel_row(const PGresult *r)
{
    return strcmp(result_text(r, 0, 0), "cancelled") == 0;
}

void job_retry_bind(struct params *p, int64_t id)
{
    params_i64(p, id);
}

int64_t job_retry_row(const PGresult *r)
{
    return result_i64(r, 0, 0);
}

void job_watch_bind(struct params *p, int64_t id)
{
    params_i64(p, id);
}

bool job_watch_row(const PGresult *r)
{
    return result_bool(r, 0, 0);
}

void job_cancel_many_bind(struct params *p, const int64_t *ids, size_t n, const char *by)
{
    params_i64_array(p, ids, n);
    params_text(p, by);
}

void job_cancel_many_row(const PGresult *r, int row, struct job_cancelled *ret_cancelled)
{
    *ret_cancelled = (struct job_cancelled){
        .id = result_i64(r, row, 0),
        .result = result_text(r, row, 1),
        .state = result_text(r, row, 2),
    };
}

void job_note_bind(struct params *p, const struct job_note *notes, size_t n)
{
    PARAMS_COLUMN(p, COLUMN_I64, notes, n, id);
    PARAMS_COLUMN(p, COLUMN_UUID, notes, n, token);
    PARAMS_COLUMN(p, COLUMN_TEXT, notes, n, progress);
}

void children_let_go_bind(struct params *p,
                          const int64_t *parents,
                          const struct uuid *tokens,
                          const bool *cancel,
                          size_t n)
{
    params_i64_array(p, parents, n);
    params_uuid_array(p, tokens, n);
    params_bool_array(p, cancel, n);
}
