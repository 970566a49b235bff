/* job_enqueue: binding and reading the statements that accept jobs. */
#include "store/job_enqueue.h"

#include <assert.h>

#include "pg/oid.h"
#include "pg/result.h"

/* How a field travels in an array. Words go as texts, and the default one as NULL. */
static const enum column_type column_of[] = {
    [FIELD_NAME] = COLUMN_TEXT,
    [FIELD_KIND] = COLUMN_TEXT,
    [FIELD_TEXT] = COLUMN_TEXT,
    [FIELD_BYTES] = COLUMN_BYTES,
    [FIELD_SMALL] = COLUMN_I32_AS_I16,
    [FIELD_INT] = COLUMN_I32,
    [FIELD_ID] = COLUMN_I64,
    [FIELD_SPAN] = COLUMN_I64,
    [FIELD_SPAN32] = COLUMN_I64_AS_I32,
    [FIELD_TIME] = COLUMN_I64,
    [FIELD_WORD] = COLUMN_TEXT,
    [FIELD_WORDS] = COLUMN_I32,
};

static void bind_words(struct params *p,
                       const struct job_field *field,
                       const struct pawl_job_new *jobs,
                       size_t n)
{
    const char **words = arena_new_array(p->arena, n, const char *);

    if (words == NULL) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int word = *(const int *)job_field_at(field, &jobs[i]);

        words[i] = word > 0 ? field->words[word] : NULL;
    }
    params_text_array(p, words, n);
}

static void bind_meta(struct params *p, const struct pawl_job_new *jobs, size_t n)
{
    const char **metas = arena_new_array(p->arena, n, const char *);

    for (size_t i = 0; metas != NULL && i < n; i++)
        p->failed |= !job_new_meta(&jobs[i], p->arena, &metas[i]);
    p->failed |= metas == NULL;
    params_text_array(p, metas, metas != NULL ? n : 0);
}

/* The columns of one home. */
static void
bind_columns(struct params *p, enum job_field_home home, const struct pawl_job_new *jobs, size_t n)
{
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        const struct job_field *field = &job_fields[i];

        if (field->home != home)
            continue;
        if (field->type == FIELD_WORD)
            bind_words(p, field, jobs, n);
        else
            params_column(p, column_of[field->type], jobs, sizeof(*jobs), field->offset, n);
    }
}

/* A plain field of one job, by itself. */
static void
bind_value(struct params *p, const struct job_field *field, const struct pawl_job_new *job)
{
    const void *at = job_field_at(field, job);

    switch (column_of[field->type]) {
    case COLUMN_TEXT:
        params_text(p, *(const char *const *)at);
        break;
    case COLUMN_BYTES:
        params_bytes(p, (struct bytes){job->payload, job->payload_len});
        break;
    case COLUMN_I32_AS_I16:
        params_i16(p, (int16_t) * (const int *)at);
        break;
    case COLUMN_I32:
        params_i32(p, *(const int *)at);
        break;
    case COLUMN_I64_AS_I32:
        params_i32(p, (int32_t) * (const int64_t *)at);
        break;
    default:
        params_i64(p, *(const int64_t *)at);
        break;
    }
}

void job_enqueue_bind(struct params *p, const struct pawl_job_new *jobs, size_t n)
{
    assert(n > 0 && n <= JOB_ENQUEUE_MAX);
    bind_columns(p, FIELD_PLAIN, jobs, n);
}

void job_enqueue_options_bind(struct params *p, const struct pawl_job_new *jobs, size_t n)
{
    job_enqueue_bind(p, jobs, n);
    bind_columns(p, FIELD_OPTION, jobs, n);
    bind_meta(p, jobs, n);
}

void job_enqueue_one_bind(struct params *p, const struct pawl_job_new *job)
{
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        if (job_fields[i].home == FIELD_PLAIN)
            bind_value(p, &job_fields[i], job);
    }
}

void job_enqueue_same_bind(struct params *p, const struct pawl_job_new *jobs, size_t n)
{
    assert(n > 0 && n <= JOB_ENQUEUE_MAX);
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        if (i == JOB_FIELD_payload)
            PARAMS_COLUMN(p, COLUMN_BYTES, jobs, n, payload);
        else if (job_fields[i].home == FIELD_PLAIN)
            bind_value(p, &job_fields[i], jobs);
    }
}

void job_enqueue_read(const PGresult *r, int64_t *ret_ids, bool *ret_existed)
{
    /* job_enqueue_options alone says so. */
    bool says = PQnfields(r) > 1 && PQftype(r, 1) == OID_BOOL;

    for (int i = 0; i < PQntuples(r); i++) {
        ret_ids[i] = result_i64(r, i, 0);
        if (ret_existed != NULL)
            ret_existed[i] = says && result_bool(r, i, 1);
    }
}

void enqueue_key_take_bind(struct params *p,
                           const struct uuid *keys,
                           const struct uuid *requests,
                           size_t n)
{
    params_uuid_array(p, keys, n);
    params_uuid_array(p, requests, n);
}

void job_enqueue_once_bind(struct params *p,
                           const struct pawl_job_new *jobs,
                           const struct uuid *const *once,
                           const char *const *steps,
                           const bool *plain,
                           size_t n)
{
    const char **texts = arena_new_array(p->arena, n, const char *);

    for (size_t i = 0; texts != NULL && i < n; i++) {
        char *text = once[i] != NULL ? arena_alloc(p->arena, UUID_TEXT_LEN + 1) : NULL;

        if (text != NULL)
            uuid_format(once[i], text);
        else if (once[i] != NULL)
            p->failed = true;
        texts[i] = text;
    }
    p->failed |= texts == NULL;
    if (p->failed)
        return;
    job_enqueue_options_bind(p, jobs, n);
    params_text_array(p, texts, n);
    params_text_array(p, steps, n);
    params_bool_array(p, plain, n);
}

void job_enqueue_once_row(const PGresult *r, int row, struct job_once *ret_once)
{
    *ret_once = (struct job_once){
        .i = (size_t)result_i64(r, row, 0) - 1,
        .id = result_i64(r, row, 1),
        .existed = result_bool(r, row, 2),
        .replay = !result_is_null(r, row, 3),
    };
    if (ret_once->replay) {
        ret_once->key = result_uuid(r, row, 3);
        ret_once->request = result_uuid(r, row, 4);
    }
}
