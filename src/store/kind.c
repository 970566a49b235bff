/* kind: binding and reading the statements about kinds. */
#include "store/kind.h"

#include "pg/result.h"

void kind_set_bind(struct params *p, const struct kind_set *set)
{
    params_text(p, set->name);
    params_text(p, set->retry);
    params_i32(p, set->base_ms);
    params_i32(p, set->cap_ms);
    params_i32_array(p, set->table_ms, set->n_table);
    params_i16(p, set->park);
}

void kind_list_row(const PGresult *r, int row, struct kind_view *ret_kind)
{
    *ret_kind = (struct kind_view){
        .name = result_text(r, row, 0),
        .retry = result_text(r, row, 1),
        .base_ms = result_i32(r, row, 2),
        .cap_ms = result_i32(r, row, 3),
        .table_ms = result_text(r, row, 4),
        .park = result_bool(r, row, 5),
    };
}
