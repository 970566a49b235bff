/*
 * result: decodes binary columns. The asserts are the contract with the SQL files: a column of
 * another type, a NULL where a number was promised, or a row that is not there is a bug of ours,
 * and guessing would hide it. What is the same for all rows of a column is looked at in the first: a
 * claim has thousands of them.
 */
#include "pg/result.h"

#include <assert.h>
#include <string.h>

#include <endian.h>

#include "pg/oid.h"

#define ASSERT_COLUMN(row, is_so) assert((row) > 0 || (is_so))

/* The bytes of a column that must not be NULL and must be as long as its type. */
static const char *fixed(const PGresult *r, int row, int col, int len)
{
    /* A NULL, and a row or column that is not there, has the length 0. */
    assert(len > 0 && PQgetlength(r, row, col) == len);
    ASSERT_COLUMN(row, PQfformat(r, col) == 1);
    (void)len;
    return PQgetvalue(r, row, col);
}

static uint16_t read_u16(const char *data)
{
    uint16_t wire;

    memcpy(&wire, data, sizeof(wire));
    return be16toh(wire);
}

static uint32_t read_u32(const char *data)
{
    uint32_t wire;

    memcpy(&wire, data, sizeof(wire));
    return be32toh(wire);
}

static uint64_t read_u64(const char *data)
{
    uint64_t wire;

    memcpy(&wire, data, sizeof(wire));
    return be64toh(wire);
}

/* Types whose binary form is their text. An enum has an id of its own in every database. */
static bool is_textual(Oid type)
{
    return type == OID_TEXT || type == OID_VARCHAR || type == OID_BPCHAR || type == OID_NAME ||
           type == OID_JSON || type >= OID_FIRST_OF_USER;
}

bool result_is_null(const PGresult *r, int row, int col)
{
    assert(row >= 0 && row < PQntuples(r) && col >= 0 && col < PQnfields(r));
    return PQgetisnull(r, row, col);
}

bool result_bool(const PGresult *r, int row, int col)
{
    ASSERT_COLUMN(row, PQftype(r, col) == OID_BOOL);
    return fixed(r, row, col, 1)[0] != 0;
}

int16_t result_i16(const PGresult *r, int row, int col)
{
    ASSERT_COLUMN(row, PQftype(r, col) == OID_INT2);
    return (int16_t)read_u16(fixed(r, row, col, 2));
}

int32_t result_i32(const PGresult *r, int row, int col)
{
    ASSERT_COLUMN(row, PQftype(r, col) == OID_INT4);
    return (int32_t)read_u32(fixed(r, row, col, 4));
}

int64_t result_i64(const PGresult *r, int row, int col)
{
    switch (PQftype(r, col)) {
    case OID_INT2:
        return result_i16(r, row, col);
    case OID_INT4:
        return result_i32(r, row, col);
    default:
        ASSERT_COLUMN(row, PQftype(r, col) == OID_INT8);
        return (int64_t)read_u64(fixed(r, row, col, 8));
    }
}

const char *result_text(const PGresult *r, int row, int col)
{
    ASSERT_COLUMN(row, is_textual(PQftype(r, col)));
    ASSERT_COLUMN(row, PQfformat(r, col) == 1);
    return result_is_null(r, row, col) ? NULL : PQgetvalue(r, row, col);
}

struct bytes result_bytes(const PGresult *r, int row, int col)
{
    ASSERT_COLUMN(row, PQftype(r, col) == OID_BYTEA || is_textual(PQftype(r, col)));
    ASSERT_COLUMN(row, PQfformat(r, col) == 1);
    if (result_is_null(r, row, col))
        return (struct bytes){NULL, 0};
    return (struct bytes){PQgetvalue(r, row, col), (size_t)PQgetlength(r, row, col)};
}

void result_fields(const PGresult *r, int row, int col, struct bytes *ret_fields, int n)
{
    const char *data = PQgetvalue(r, row, col);
    const char *end = data + PQgetlength(r, row, col);

    /* On the wire: how many there are; then for each its type, its length and its bytes. */
    ASSERT_COLUMN(row, PQftype(r, col) >= OID_FIRST_OF_USER && PQfformat(r, col) == 1);
    assert(end - data >= 4 && read_u32(data) == (uint32_t)n);
    data += 4;
    for (int i = 0; i < n; i++) {
        assert(end - data >= 8);
        int32_t len = (int32_t)read_u32(data + 4);

        data += 8;
        ret_fields[i] = (struct bytes){len < 0 ? NULL : data, len < 0 ? 0 : (size_t)len};
        data += ret_fields[i].len;
    }
    assert(data == end);
    (void)end;
}

uint64_t result_tid(const PGresult *r, int row, int col)
{
    const char *data;

    ASSERT_COLUMN(row, PQftype(r, col) == OID_TID);
    data = fixed(r, row, col, PG_TID_LEN);
    return (uint64_t)read_u32(data) << 16 | read_u16(data + 4);
}

struct uuid result_uuid(const PGresult *r, int row, int col)
{
    struct uuid uuid;

    ASSERT_COLUMN(row, PQftype(r, col) == OID_UUID);
    memcpy(uuid.bytes, fixed(r, row, col, sizeof(uuid.bytes)), sizeof(uuid.bytes));
    return uuid;
}

int64_t result_time(const PGresult *r, int row, int col)
{
    int64_t pg_us;
    int64_t unix_us;

    ASSERT_COLUMN(row, PQftype(r, col) == OID_TIMESTAMPTZ);
    pg_us = (int64_t)read_u64(fixed(r, row, col, 8));
    if (pg_us == INT64_MAX || pg_us == INT64_MIN)
        return pg_us;
    /* The last thirty years PostgreSQL knows lie beyond our range; they must not read as infinity.
     */
    if (__builtin_add_overflow(pg_us, PG_EPOCH_UNIX_US, &unix_us) || unix_us == INT64_MAX)
        return INT64_MAX - 1;
    return unix_us;
}

void result_cleanup(PGresult **r)
{
    PQclear(*r);
    *r = NULL;
}
