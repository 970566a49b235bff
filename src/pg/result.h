/*
 * result: reading a PGresult whose columns are in binary format, as all of ours are. The SQL file
 * fixes the types; reading a column as another type than it has is a programming error and asserts,
 * and so is reading a NULL with anything but result_is_null, result_text and result_bytes. Returned
 * pointers live as long as the result.
 */
#ifndef PG_RESULT_H
#define PG_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/rand.h"
#include "pg/params.h"

bool result_is_null(const PGresult *r, int row, int col);
bool result_bool(const PGresult *r, int row, int col);
int16_t result_i16(const PGresult *r, int row, int col);
int32_t result_i32(const PGresult *r, int row, int col);
int64_t result_i64(const PGresult *r, int row, int col); /* int2, int4 or int8 */
const char *result_text(const PGresult *r,
                        int row,
                        int col); /* text, json, enum; NULL for SQL NULL; NUL-terminated */
struct bytes result_bytes(const PGresult *r, int row, int col); /* data NULL for SQL NULL */
/* The fields of a composite value that is not NULL, as they are on the wire; data NULL for SQL NULL. Only
 * the last is NUL-terminated. */
void result_fields(const PGresult *r, int row, int col, struct bytes *ret_fields, int n);
/* The place of a row (ctid) as one number; 0 is none. */
uint64_t result_tid(const PGresult *r, int row, int col);
struct uuid result_uuid(const PGresult *r, int row, int col);
/* Microseconds since 1970; INT64_MAX and INT64_MIN for infinity and -infinity. */
int64_t result_time(const PGresult *r, int row, int col);

void result_cleanup(PGresult **r); /* for CLEANUP() */

#endif
