/* vacuum: binding and reading the statements about vacuum. */
#include "store/vacuum.h"

#include <string.h>

#include "pg/result.h"

static const char *const names[VACUUM_PARTS] = {
    [VACUUM_CLAIM] = "claim", [VACUUM_JOB] = "job", [VACUUM_SIDE] = "side"};

const char *vacuum_part_name(enum vacuum_part part)
{
    return names[part];
}

struct vacuum_due vacuum_due_row(const PGresult *r, int row)
{
    const char *name = result_text(r, row, 0);
    struct vacuum_due due = {
        .part = VACUUM_SIDE,
        .may = result_bool(r, row, 1),
        .truncate = result_bool(r, row, 2),
        .dead = result_i64(r, row, 3),
        .horizon = result_i64(r, row, 4),
    };

    for (int part = 0; part < VACUUM_PARTS; part++) {
        if (strcmp(names[part], name) == 0)
            due.part = (enum vacuum_part)part;
    }
    return due;
}

void vacuum_note_bind(struct params *p, enum vacuum_part part, int64_t horizon)
{
    params_text(p, names[part]);
    params_i64(p, horizon);
}

int64_t vacuum_note_row(const PGresult *r)
{
    return result_i64(r, 0, 0);
}
