/* vacuum: the statements by which workers vacuum the hot tables themselves. Pairs as in store/job.h. */
#ifndef STORE_VACUUM_H
#define STORE_VACUUM_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "pg/params.h"

/* What is vacuumed together. */
enum vacuum_part { VACUUM_CLAIM, VACUUM_JOB, VACUUM_SIDE, VACUUM_PARTS };

struct vacuum_due {
    enum vacuum_part part;
    bool may;        /* this role is allowed to */
    bool truncate;   /* it is far larger than its rows need */
    int64_t dead;    /* rows */
    int64_t horizon; /* 0: not visible for this role */
};

struct vacuum_due vacuum_due_row(const PGresult *r, int row);
void vacuum_note_bind(struct params *p, enum vacuum_part part, int64_t horizon);
int64_t vacuum_note_row(const PGresult *r); /* dead rows that are left */
const char *vacuum_part_name(enum vacuum_part part);

#endif
