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

void params_bool_array(struct params *p, const bool *values, size_t n);
void params_i16_array(struct params *p, const int16_t *values, size_t n);
void params_i32_array(struct params *p, const int32_t *values, size_t n);
void params_i64_array(struct params *p, const int64_t *values, size_t n);
/* Places of rows, as result_tid gave them. */
void params_tid_array(struct params *p, const uint64_t *values, size_t n);
void params_uuid_array(struct params *p, const struct uuid *values, size_t n);
void params_time_array(struct params *p,
                       const int64_t *const *unix_us,
                       size_t n); /* a NULL element is SQL NULL */
void params_text_array(struct params *p,
                       const char *const *values,
                       size_t n); /* a NULL element is SQL NULL */
void params_bytes_array(struct params *p, const struct bytes *values, size_t n);

#endif
