/* job_claim: binding and reading the statements that claim jobs. Column numbers are those of the
 * SQL files. */
#include <string.h>

#include "pg/result.h"
#include "store/job_internal.h"

/* Columns of job_claim beyond the first eight; those from COL_LANE on are only in job_claim_lanes. */
enum {
    COL_JOIN_OF = 8,
    COL_HAS_OPTIONS,
    COL_IS_MACHINE,
    COL_TRACE,
    COL_TID = 13,
    COL_LANE,
    COL_IN_LANE,
    COL_TOGETHER,
    COL_ALONG,
};

/* Where a claim starts: a priority, and of jobs in lanes or not. */
struct level {
    struct job_watermark from;
    int16_t priority;
    bool in_lane;
};

/* The statements want the most urgent first. */
static size_t levels_fill(struct level levels[JOB_LEVELS], const struct job_claim *claim)
{
    size_t n = 0;

    for (int i = JOB_PRIORITIES - 1; i >= 0; i--) {
        for (int in_lane = claim->lanes; in_lane >= 0; in_lane--)
            levels[n++] = (struct level){.from = in_lane ? claim->lane_from[i] : claim->from[i],
                                         .priority = (int16_t)i,
                                         .in_lane = in_lane};
    }
    return n;
}

void job_kind_range_bind(struct params *p, const char *const *kinds, size_t n)
{
    const char *first = n > 0 ? kinds[0] : "";
    const char *last = first;

    for (size_t i = 1; i < n; i++) {
        first = strcmp(kinds[i], first) < 0 ? kinds[i] : first;
        last = strcmp(kinds[i], last) > 0 ? kinds[i] : last;
    }
    params_text(p, first);
    params_text(p, last);
}

void job_claim_bind(struct params *p, const struct job_claim *claim)
{
    struct level levels[JOB_LEVELS];
    size_t n = levels_fill(levels, claim);

    params_text(p, claim->queue);
    params_text_array(p, claim->kinds, claim->n_kinds);
    params_i32(p, claim->limit);
    params_uuid(p, &claim->token);
    params_uuid(p, &claim->worker);
    params_i64(p, claim->lease_ms);
    PARAMS_COLUMN(p, COLUMN_TIME, levels, n, from.due_us);
    PARAMS_COLUMN(p, COLUMN_I64, levels, n, from.id);
    if (claim->lanes) {
        PARAMS_COLUMN(p, COLUMN_I16, levels, n, priority);
        PARAMS_COLUMN(p, COLUMN_BOOL, levels, n, in_lane);
        params_i32(p, claim->together > 0 ? claim->together : 1);
    } else {
        job_kind_range_bind(p, claim->kinds, claim->n_kinds);
    }
}

void job_suspect_bind(struct params *p, const struct job_suspect *suspect)
{
    struct level levels[JOB_LEVELS];
    size_t n = levels_fill(levels, suspect->claim);

    params_text(p, suspect->claim->queue);
    params_text_array(p, suspect->kinds, suspect->n_kinds);
    PARAMS_COLUMN(p, COLUMN_TIME, levels, n, from.due_us);
    PARAMS_COLUMN(p, COLUMN_I64, levels, n, from.id);
    PARAMS_COLUMN(p, COLUMN_I16, levels, n, priority);
    PARAMS_COLUMN(p, COLUMN_BOOL, levels, n, in_lane);
    params_i64(p, suspect->sure_id);
    params_text(p, suspect->why);
    params_text(p, suspect->worker);
}

bool job_suspect_row(const PGresult *r, int64_t *ret_id, const char **ret_why)
{
    if (PQntuples(r) == 0)
        return false;
    *ret_id = result_i64(r, 0, 0);
    *ret_why = result_is_null(r, 0, 1) ? NULL : result_text(r, 0, 1);
    return true;
}

int64_t job_claim_id(const PGresult *r, int row)
{
    return result_i64(r, row, 0);
}

int16_t job_claim_priority(const PGresult *r, int row)
{
    return result_i16(r, row, 2);
}

/* The jobs of job_claim are in no lane. */
static bool is_set(const PGresult *r, int row, int column)
{
    return PQnfields(r) > column && result_bool(r, row, column);
}

bool job_claim_in_lane(const PGresult *r, int row)
{
    return is_set(r, row, COL_IN_LANE);
}

bool job_claim_together(const PGresult *r, int row)
{
    return is_set(r, row, COL_TOGETHER);
}

bool job_claim_along(const PGresult *r, int row)
{
    return is_set(r, row, COL_ALONG);
}

int job_claim_count(const PGresult *r, bool *ret_more)
{
    int n = PQntuples(r);

    *ret_more = n > 0 && job_claim_id(r, n - 1) == 0;
    return *ret_more ? n - 1 : n;
}

int64_t job_claim_due(const PGresult *r, int row)
{
    return result_time(r, row, 7);
}

void job_claim_row(const PGresult *r, int row, const struct job_claim *claim, struct job *ret_job)
{
    struct bytes payload = result_bytes(r, row, 6);

    *ret_job = (struct job){
        .id = result_i64(r, row, 0),
        .queue = claim->queue,
        .kind = result_text(r, row, 1),
        .priority = job_claim_priority(r, row),
        .attempt = result_i32(r, row, 3),
        .max_attempts = result_i32(r, row, 4),
        .timeout_ms = result_is_null(r, row, 5) ? 0 : result_i32(r, row, 5),
        .payload = payload.data,
        .payload_len = payload.len,
        .token = claim->token,
        .is_child = !result_is_null(r, row, COL_JOIN_OF),
        .has_options = !result_is_null(r, row, COL_HAS_OPTIONS),
        .is_machine = !result_is_null(r, row, COL_IS_MACHINE),
        .trace = result_text(r, row, COL_TRACE),
        .lane = PQnfields(r) > COL_LANE ? result_text(r, row, COL_LANE) : NULL,
        .tid = result_tid(r, row, COL_TID),
    };
}
