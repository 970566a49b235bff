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

static inline void array_u32(struct array *array, uint32_t value)
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

static inline void array_element(struct array *array, const void *data, size_t len)
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

/* What travels of a value of each type. len 0: as long as the value is. */
static const struct {
    Oid element, array;
    size_t len;
} columns[] = {
    [COLUMN_BOOL] = {OID_BOOL, OID_BOOL_ARRAY, 1},
    [COLUMN_I16] = {OID_INT2, OID_INT2_ARRAY, sizeof(int16_t)},
    [COLUMN_I32] = {OID_INT4, OID_INT4_ARRAY, sizeof(int32_t)},
    [COLUMN_I64] = {OID_INT8, OID_INT8_ARRAY, sizeof(int64_t)},
    [COLUMN_I32_AS_I16] = {OID_INT2, OID_INT2_ARRAY, sizeof(int16_t)},
    [COLUMN_I64_AS_I32] = {OID_INT4, OID_INT4_ARRAY, sizeof(int32_t)},
    [COLUMN_TID] = {OID_TID, OID_TID_ARRAY, PG_TID_LEN},
    [COLUMN_UUID] = {OID_UUID, OID_UUID_ARRAY, sizeof(struct uuid)},
    [COLUMN_TIME] = {OID_TIMESTAMPTZ, OID_TIMESTAMPTZ_ARRAY, sizeof(int64_t)},
    [COLUMN_TIME_PTR] = {OID_TIMESTAMPTZ, OID_TIMESTAMPTZ_ARRAY, 0},
    [COLUMN_TEXT] = {OID_TEXT, OID_TEXT_ARRAY, 0},
    [COLUMN_BYTES] = {OID_BYTEA, OID_BYTEA_ARRAY, 0},
};

/* A number of the machine's, in the order of bytes of the wire. */
static inline void element_int(struct array *array, uint64_t value, size_t len)
{
    uint64_t wire = htobe64(value << (64 - 8 * len));

    array_element(array, &wire, len);
}

#define READ(type, at) (*(type const *)(const void *)(at))

/* Inlined for each type by params_column, so that the loops do not ask for it again. */
#define FOR_EACH_TYPE static inline __attribute__((always_inline))

FOR_EACH_TYPE void element_fixed(struct array *array, enum column_type type, const char *at)
{
    size_t len = columns[type].len;
    int32_t i32;

    switch (type) {
    case COLUMN_BOOL:
        element_int(array, READ(bool, at), len);
        break;
    case COLUMN_I16:
        element_int(array, (uint64_t)READ(int16_t, at), len);
        break;
    case COLUMN_I32:
    case COLUMN_I32_AS_I16: /* copied: the member may be an enum */
        memcpy(&i32, at, sizeof(i32));
        element_int(array, (uint64_t)i32, len);
        break;
    case COLUMN_I64:
    case COLUMN_I64_AS_I32:
        element_int(array, (uint64_t)READ(int64_t, at), len);
        break;
    case COLUMN_TID:
        element_int(array, READ(uint64_t, at), len);
        break;
    case COLUMN_TIME:
        element_int(array, be64toh(time_encode(READ(int64_t, at))), len);
        break;
    default: /* COLUMN_UUID */
        array_element(array, at, len);
        break;
    }
}

/* One that may be NULL: as bytes. wire: room for a time. */
FOR_EACH_TYPE struct bytes bytes_at(enum column_type type, const char *at, uint64_t *wire)
{
    struct bytes bytes = {NULL, 0};

    if (type == COLUMN_BYTES) {
        /* Copied: the member may be a pointer and the length behind it. */
        memcpy(&bytes, at, sizeof(bytes));
    } else if (type == COLUMN_TEXT) {
        bytes.data = READ(char *, at);
        bytes.len = bytes.data != NULL ? strlen(bytes.data) : 0;
    } else if (READ(int64_t *, at) != NULL) {
        *wire = time_encode(*READ(int64_t *, at));
        bytes = (struct bytes){(const char *)wire, sizeof(*wire)};
    }
    return bytes;
}

FOR_EACH_TYPE void
column_variable(struct params *p, enum column_type type, const char *at, size_t stride, size_t n)
{
    struct array array;
    uint64_t wire;
    size_t payload = 0;
    bool has_null = false;

    for (size_t i = 0; i < n; i++) {
        struct bytes bytes = bytes_at(type, at + i * stride, &wire);

        if (bytes.data == NULL)
            has_null = true;
        else if (__builtin_add_overflow(payload, bytes.len, &payload))
            p->failed = true;
    }
    if (!array_begin(p, &array, columns[type].element, n, payload, has_null))
        return;
    for (size_t i = 0; i < n; i++) {
        struct bytes bytes = bytes_at(type, at + i * stride, &wire);

        if (bytes.data != NULL)
            array_element(&array, bytes.data, bytes.len);
        else
            array_null(&array);
    }
    array_end(p, columns[type].array, &array);
}

FOR_EACH_TYPE void
column_fixed(struct params *p, enum column_type type, const char *at, size_t stride, size_t n)
{
    size_t payload;
    struct array array;

    if (__builtin_mul_overflow(n, columns[type].len, &payload)) {
        p->failed = true;
        return;
    }
    if (!array_begin(p, &array, columns[type].element, n, payload, false))
        return;
    for (size_t i = 0; i < n; i++, at += stride)
        element_fixed(&array, type, at);
    array_end(p, columns[type].array, &array);
}

void params_column(struct params *p,
                   enum column_type type,
                   const void *items,
                   size_t stride,
                   size_t offset,
                   size_t n)
{
    /* No items have no address either. */
    const char *at = n > 0 ? (const char *)items + offset : NULL;

#define COLUMN(type, kind)                       \
    case type:                                   \
        column_##kind(p, (type), at, stride, n); \
        break;

    switch (type) {
        COLUMN(COLUMN_BOOL, fixed)
        COLUMN(COLUMN_I16, fixed)
        COLUMN(COLUMN_I32, fixed)
        COLUMN(COLUMN_I64, fixed)
        COLUMN(COLUMN_I32_AS_I16, fixed)
        COLUMN(COLUMN_I64_AS_I32, fixed)
        COLUMN(COLUMN_TID, fixed)
        COLUMN(COLUMN_UUID, fixed)
        COLUMN(COLUMN_TIME, fixed)
        COLUMN(COLUMN_TIME_PTR, variable)
        COLUMN(COLUMN_TEXT, variable)
        COLUMN(COLUMN_BYTES, variable)
    }
}
