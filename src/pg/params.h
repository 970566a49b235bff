/*
 * params: the parameters of one statement in PostgreSQL's binary format. User bytes travel with
 * their length, so a NUL inside them is not the end of them, and empty is not NULL.
 *
 * Values are copied into the arena given at the start. Errors stick: after running out of memory or
 * parameters `failed` is set and the executor refuses to send, so a binder needs no check after
 * each line.
 */
#ifndef PG_PARAMS_H
#define PG_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/arena.h"
#include "base/rand.h"

#define PARAMS_MAX 32

struct params {
    struct arena *arena; /* borrowed */
    int n;
    bool failed;
    Oid types[PARAMS_MAX];
    const char *values[PARAMS_MAX]; /* in the arena */
    int lengths[PARAMS_MAX];
    int formats[PARAMS_MAX]; /* all binary */
};

/* Bytes that may be absent. data == NULL means SQL NULL; an empty value has a non-NULL data and len
 * 0. */
struct bytes {
    const char *data;
    size_t len;
};

void params_init(struct params *p, struct arena *arena);

void params_bool(struct params *p, bool value);
void params_i16(struct params *p, int16_t value);
void params_i32(struct params *p, int32_t value);
void params_i64(struct params *p, int64_t value);
void params_text(struct params *p, const char *value); /* NULL is SQL NULL */
void params_bytes(struct params *p, struct bytes value);
void params_uuid(struct params *p, const struct uuid *value); /* NULL is SQL NULL */
/* timestamptz; NULL is SQL NULL, INT64_MAX and INT64_MIN are infinity and -infinity, as result_time
 * gives them. */
void params_time(struct params *p, const int64_t *unix_us);

/* How a member of a struct travels in an array. An element that may be NULL is SQL NULL then. */
enum column_type {
    COLUMN_BOOL,
    COLUMN_I16,
    COLUMN_I32, /* also an enum */
    COLUMN_I64,
    COLUMN_I32_AS_I16, /* an int32_t or an enum that fits into an int2 */
    COLUMN_I64_AS_I32, /* an int64_t that fits into an int4 */
    COLUMN_TID,        /* uint64_t: the place of a row, as result_tid gave it */
    COLUMN_UUID,
    COLUMN_TIME,     /* int64_t, as params_time takes it */
    COLUMN_TIME_PTR, /* const int64_t *, may be NULL */
    COLUMN_TEXT,     /* const char *, may be NULL */
    COLUMN_BYTES,    /* struct bytes, or a pointer and its length behind it; data may be NULL */
};

/* An array of what stands at `offset` in each of n items that are `stride` bytes apart. */
void params_column(struct params *p,
                   enum column_type type,
                   const void *items,
                   size_t stride,
                   size_t offset,
                   size_t n);

/* The array of one member of n structs. */
#define PARAMS_COLUMN(p, type, items, n, member) \
    params_column(                               \
        (p), (type), (items), sizeof(*(items)), offsetof(__typeof__(*(items)), member), (n))

/* Arrays of values that stand side by side. */
#define PARAMS_ARRAY(name, c_type, column)                                                     \
    static inline void params_##name##_array(struct params *p, c_type const *values, size_t n) \
    {                                                                                          \
        params_column(p, (column), values, sizeof(*values), 0, n);                             \
    }

PARAMS_ARRAY(bool, bool, COLUMN_BOOL)
PARAMS_ARRAY(i16, int16_t, COLUMN_I16)
PARAMS_ARRAY(i32, int32_t, COLUMN_I32)
PARAMS_ARRAY(i64, int64_t, COLUMN_I64)
PARAMS_ARRAY(tid, uint64_t, COLUMN_TID)
PARAMS_ARRAY(uuid, struct uuid, COLUMN_UUID)
PARAMS_ARRAY(time, const int64_t *, COLUMN_TIME_PTR)
PARAMS_ARRAY(text, const char *, COLUMN_TEXT)
PARAMS_ARRAY(bytes, struct bytes, COLUMN_BYTES)

#endif
