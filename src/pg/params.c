/*
 * params: encodes C values as PostgreSQL's binary parameters. Everything is in network byte order;
 * an array is a header (dimensions, has-null flag, element type, length, lower bound) and then each
 * element with its length in front.
 */
#include "pg/params.h"

#include <limits.h>
#include <string.h>

#include <endian.h>

#include "pg/oid.h"

void params_init(struct params *p, struct arena *arena)
{
    memset(p, 0, sizeof(*p));
    p->arena = arena;
}

/* The one place that adds a parameter. data NULL is SQL NULL. */
static void add(struct params *p, Oid type, const char *data, size_t len)
{
    if (p->failed)
        return;
    if (p->n == PARAMS_MAX || len > INT_MAX) {
        p->failed = true;
        return;
    }
    p->types[p->n] = type;
    p->values[p->n] = data;
    p->lengths[p->n] = (int)len;
    p->formats[p->n] = 1;
    p->n++;
}

static void add_copy(struct params *p, Oid type, const void *data, size_t len)
{
    if (p->failed)
        return;
    /* One byte more, so that an empty value still has an address: a NULL pointer would be SQL NULL.
     */
    char *copy = len < INT_MAX ? arena_alloc(p->arena, len + 1) : NULL;
    if (!copy) {
        p->failed = true;
        return;
    }
    if (len > 0)
        memcpy(copy, data, len);
    add(p, type, copy, len);
}

/* A time out of PostgreSQL's range is passed on as the farthest one, which the server refuses; it
 * must not turn into infinity, which has a meaning. */
static uint64_t time_encode(int64_t unix_us)
{
    int64_t pg_us;

    if (unix_us == INT64_MAX || unix_us == INT64_MIN)
        pg_us = unix_us;
    else if (__builtin_sub_overflow(unix_us, PG_EPOCH_UNIX_US, &pg_us) || pg_us == INT64_MIN)
        pg_us = INT64_MIN + 1;
    return htobe64((uint64_t)pg_us);
}

void params_bool(struct params *p, bool value)
{
    char byte = value ? 1 : 0;

    add_copy(p, OID_BOOL, &byte, sizeof(byte));
}

void params_i16(struct params *p, int16_t value)
{
    uint16_t wire = htobe16((uint16_t)value);

    add_copy(p, OID_INT2, &wire, sizeof(wire));
}

void params_i32(struct params *p, int32_t value)
{
    uint32_t wire = htobe32((uint32_t)value);

    add_copy(p, OID_INT4, &wire, sizeof(wire));
}

void params_i64(struct params *p, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);

    add_copy(p, OID_INT8, &wire, sizeof(wire));
}

void params_text(struct params *p, const char *value)
{
    if (value)
        add_copy(p, OID_TEXT, value, strlen(value));
    else
        add(p, OID_TEXT, NULL, 0);
}

void params_bytes(struct params *p, struct bytes value)
{
    if (value.data)
        add_copy(p, OID_BYTEA, value.data, value.len);
    else
        add(p, OID_BYTEA, NULL, 0);
}

void params_uuid(struct params *p, const struct uuid *value)
{
    if (value)
        add_copy(p, OID_UUID, value->bytes, sizeof(value->bytes));
    else
        add(p, OID_UUID, NULL, 0);
}

void params_time(struct params *p, const int64_t *unix_us)
{
    if (!unix_us) {
        add(p, OID_TIMESTAMPTZ, NULL, 0);
        return;
    }
    uint64_t wire = time_encode(*unix_us);
    add_copy(p, OID_TIMESTAMPTZ, &wire, sizeof(wire));
}

/* An array under construction: its exact size is known before the first byte is written. */
struct array {
    char *start;
    char *at;
    size_t size;
};

#define ARRAY_HEADER_EMPTY (3 * sizeof(uint32_t))
#define ARRAY_HEADER       (5 * sizeof(uint32_t))

static void array_u32(struct array *array, uint32_t value)
{
    uint32_t wire = htobe32(value);

    memcpy(array->at, &wire, sizeof(wire));
    array->at += sizeof(wire);
}

/* payload: the bytes of all elements, without their lengths. Sticks like everything here: false
 * once failed. */
static bool array_begin(
    struct params *p, struct array *array, Oid element, size_t n, size_t payload, bool has_null)
{
    size_t size = 0;

    if (p->failed)
        return false;
    /* An empty array has no dimension at all. */
    if (n > INT32_MAX || __builtin_mul_overflow(n, sizeof(uint32_t), &size) ||
        __builtin_add_overflow(size, n > 0 ? ARRAY_HEADER : ARRAY_HEADER_EMPTY, &size) ||
        __builtin_add_overflow(size, payload, &size) || size > INT_MAX)
        p->failed = true;
    else if (!(array->start = arena_alloc(p->arena, size)))
        p->failed = true;
    if (p->failed)
        return false;
    array->at = array->start;
    array->size = size;
    array_u32(array, n > 0 ? 1 : 0);
    array_u32(array, has_null ? 1 : 0);
    array_u32(array, element);
    if (n > 0) {
        array_u32(array, (uint32_t)n);
        array_u32(array, 1); /* SQL counts from one */
    }
    return true;
}

static void array_element(struct array *array, const void *data, size_t len)
{
    array_u32(array, (uint32_t)len);
    if (len > 0)
        memcpy(array->at, data, len);
    array->at += len;
}

static void array_null(struct array *array)
{
    array_u32(array, UINT32_MAX);
}

static void array_end(struct params *p, Oid type, const struct array *array)
{
    if ((size_t)(array->at - array->start) != array->size)
        p->failed = true; /* the values changed under our feet: send nothing */
    add(p, type, array->start, array->size);
}

/* Fixed-size elements without NULLs: n * size cannot overflow for what array_begin accepts. */
static bool
array_begin_fixed(struct params *p, struct array *array, Oid element, size_t n, size_t size)
{
    size_t payload;

    if (__builtin_mul_overflow(n, size, &payload)) {
        p->failed = true;
        return false;
    }
    return array_begin(p, array, element, n, payload, false);
}

void params_bool_array(struct params *p, const bool *values, size_t n)
{
    struct array array;

    if (!array_begin_fixed(p, &array, OID_BOOL, n, 1))
        return;
    for (size_t i = 0; i < n; i++) {
        char byte = values[i] ? 1 : 0;
        array_element(&array, &byte, sizeof(byte));
    }
    array_end(p, OID_BOOL_ARRAY, &array);
}

void params_i16_array(struct params *p, const int16_t *values, size_t n)
{
    struct array array;

    if (!array_begin_fixed(p, &array, OID_INT2, n, sizeof(*values)))
        return;
    for (size_t i = 0; i < n; i++) {
        uint16_t wire = htobe16((uint16_t)values[i]);
        array_element(&array, &wire, sizeof(wire));
    }
    array_end(p, OID_INT2_ARRAY, &array);
}

void params_i32_array(struct params *p, const int32_t *values, size_t n)
{
    struct array array;

    if (!array_begin_fixed(p, &array, OID_INT4, n, sizeof(*values)))
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t wire = htobe32((uint32_t)values[i]);
        array_element(&array, &wire, sizeof(wire));
    }
    array_end(p, OID_INT4_ARRAY, &array);
}

void params_i64_array(struct params *p, const int64_t *values, size_t n)
{
    struct array array;

    if (!array_begin_fixed(p, &array, OID_INT8, n, sizeof(*values)))
        return;
    for (size_t i = 0; i < n; i++) {
        uint64_t wire = htobe64((uint64_t)values[i]);
        array_element(&array, &wire, sizeof(wire));
    }
    array_end(p, OID_INT8_ARRAY, &array);
}

void params_tid_array(struct params *p, const uint64_t *values, size_t n)
{
    struct array array;

    if (!array_begin_fixed(p, &array, OID_TID, n, PG_TID_LEN))
        return;
    for (size_t i = 0; i < n; i++) {
        uint64_t wire = htobe64(values[i] << 16);
        array_element(&array, &wire, PG_TID_LEN);
    }
    array_end(p, OID_TID_ARRAY, &array);
}

void params_uuid_array(struct params *p, const struct uuid *values, size_t n)
{
    struct array array;

    if (!array_begin_fixed(p, &array, OID_UUID, n, sizeof(values->bytes)))
        return;
    for (size_t i = 0; i < n; i++)
        array_element(&array, values[i].bytes, sizeof(values[i].bytes));
    array_end(p, OID_UUID_ARRAY, &array);
}

void params_time_array(struct params *p, const int64_t *const *unix_us, size_t n)
{
    struct array array;
    size_t n_null = 0;

    for (size_t i = 0; i < n; i++)
        n_null += unix_us[i] == NULL;
    if (!array_begin(p, &array, OID_TIMESTAMPTZ, n, (n - n_null) * sizeof(uint64_t), n_null > 0))
        return;
    for (size_t i = 0; i < n; i++) {
        if (!unix_us[i]) {
            array_null(&array);
            continue;
        }
        uint64_t wire = time_encode(*unix_us[i]);
        array_element(&array, &wire, sizeof(wire));
    }
    array_end(p, OID_TIMESTAMPTZ_ARRAY, &array);
}

void params_text_array(struct params *p, const char *const *values, size_t n)
{
    struct array array;
    size_t payload = 0;
    bool has_null = false;

    for (size_t i = 0; i < n; i++) {
        if (!values[i])
            has_null = true;
        else if (__builtin_add_overflow(payload, strlen(values[i]), &payload))
            p->failed = true;
    }
    if (!array_begin(p, &array, OID_TEXT, n, payload, has_null))
        return;
    for (size_t i = 0; i < n; i++) {
        if (values[i])
            array_element(&array, values[i], strlen(values[i]));
        else
            array_null(&array);
    }
    array_end(p, OID_TEXT_ARRAY, &array);
}

void params_bytes_array(struct params *p, const struct bytes *values, size_t n)
{
    struct array array;
    size_t payload = 0;
    bool has_null = false;

    for (size_t i = 0; i < n; i++) {
        if (!values[i].data)
            has_null = true;
        else if (__builtin_add_overflow(payload, values[i].len, &payload))
            p->failed = true;
    }
    if (!array_begin(p, &array, OID_BYTEA, n, payload, has_null))
        return;
    for (size_t i = 0; i < n; i++) {
        if (values[i].data)
            array_element(&array, values[i].data, values[i].len);
        else
            array_null(&array);
    }
    array_end(p, OID_BYTEA_ARRAY, &array);
}
