/* access: binding and reading the statements about access tokens. */
#include "store/access.h"

#include "pg/result.h"

void access_create_bind(struct params *p, const struct access_new *access)
{
    params_text(p, access->name);
    params_bytes(p, access->hash);
    params_text_array(p, access->scopes, access->n_scopes);
    params_text_array(p, access->queues, access->n_queues);
    params_i64(p, access->expires_ms);
    params_i32(p, ACCESS_MAX);
}

bool access_create_row(const PGresult *r, int64_t *ret_id)
{
    if (PQntuples(r) == 0)
        return false;
    *ret_id = result_i64(r, 0, 0);
    return true;
}

void access_list_bind(struct params *p, bool all)
{
    params_bool(p, all);
    params_i32(p, ACCESS_MAX);
}

void access_list_row(const PGresult *r, int row, struct access_view *ret_access)
{
    *ret_access = (struct access_view){
        .id = result_i64(r, row, 0),
        .name = result_text(r, row, 1),
        .hash = result_bytes(r, row, 2),
        .scopes = result_text(r, row, 3),
        .queues = result_text(r, row, 4),
        .created_at = result_time(r, row, 5),
        .created_by = result_text(r, row, 6),
        .expires_at = result_is_null(r, row, 7) ? 0 : result_time(r, row, 7),
        .revoked_at = result_is_null(r, row, 8) ? 0 : result_time(r, row, 8),
        .now = result_time(r, row, 9),
    };
}

void access_revoke_bind(struct params *p, const char *which)
{
    params_text(p, which);
}
