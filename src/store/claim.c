/* claim: binding and reading the statements about leases. */
#include "store/claim.h"

#include <string.h>

#include "pg/result.h"
#include "store/job.h"

void claim_renew_bind(struct params *p,
                      const struct uuid *worker,
                      const struct uuid *tokens,
                      size_t n_tokens,
                      int64_t lease_ms,
                      const struct worker_beat *beat)
{
    params_uuid(p, worker);
    params_uuid_array(p, tokens, n_tokens);
    params_i64(p, lease_ms);
    params_i32(p, beat->running);
    params_i32(p, beat->buffered);
    params_i32(p, beat->slots);
    params_i64(p, beat->memory_bytes);
}

struct uuid claim_renew_row(const PGresult *r, int row)
{
    return result_uuid(r, row, 0);
}

const char *claim_renew_cancelled(const PGresult *r, int row)
{
    return result_is_null(r, row, 1) ? NULL : result_text(r, row, 1);
}

bool claim_renew_renewed(const PGresult *r, int row)
{
    return result_bool(r, row, 2);
}

void claim_turn_bind(struct params *p, const char *queue)
{
    params_text(p, queue);
}

bool claim_turn_row(const PGresult *r)
{
    return result_bool(r, 0, 0);
}

void claim_sweep_bind(struct params *p, int32_t limit, const struct claim_job *only, int64_t low)
{
    params_i32(p, limit);
    params_uuid(p, only != NULL ? &only->token : NULL);
    params_i64(p, only != NULL ? only->id : 0);
    params_i64(p, low);
}

void claim_sweep_first_bind(struct params *p, int64_t low)
{
    params_i64(p, low);
}

int claim_sweep_said(const PGresult *r, bool *ret_lanes, bool *ret_more)
{
    int n = PQntuples(r);

    *ret_lanes = *ret_more = false;
    for (; n > 0 && result_i64(r, n - 1, 0) == 0; n--) {
        if (strcmp(result_text(r, n - 1, 1), "more") == 0)
            *ret_more = true;
        else
            *ret_lanes = true;
    }
    return n;
}

void claim_sweep_row(const PGresult *r, int row, int64_t *ret_id, const char **ret_state)
{
    *ret_id = result_i64(r, row, 0);
    *ret_state = result_text(r, row, 1);
}

struct claim_job claim_sweep_first_row(const PGresult *r, int row)
{
    return (struct claim_job){.token = result_uuid(r, row, 0), .id = result_i64(r, row, 1)};
}

void claim_sweep_park_bind(struct params *p, const struct claim_job *job, const char *error)
{
    params_uuid(p, &job->token);
    params_i64(p, job->id);
    params_text(p, error);
}

void claim_sweep_aside_bind(struct params *p, const struct claim_job *job)
{
    params_uuid(p, &job->token);
    params_i64(p, job->id);
}

void claim_low_bind(struct params *p, int64_t low, int64_t end)
{
    params_i64(p, low);
    params_i64(p, end);
}

int64_t claim_low_row(const PGresult *r)
{
    return result_is_null(r, 0, 0) ? 0 : result_i64(r, 0, 0);
}

int64_t claim_low_load_row(const PGresult *r)
{
    return PQntuples(r) > 0 ? result_i64(r, 0, 0) : 0;
}

void claim_low_store_bind(struct params *p, int64_t low)
{
    params_i64(p, low);
}

struct writers writer_list_row(const PGresult *r)
{
    return (struct writers){
        .jobs = result_is_null(r, 0, 0) ? "" : result_text(r, 0, 0),
        .claims = result_is_null(r, 0, 1) ? "" : result_text(r, 0, 1),
        .seq = result_i64(r, 0, 2),
    };
}

void claim_assert_bind(struct params *p, int64_t id, const struct uuid *token)
{
    params_i64(p, id);
    params_uuid(p, token);
}
