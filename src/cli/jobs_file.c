/* jobs_file: the members a line may have: those of the table of fields. */
#include "cli/jobs_file.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/job_fields.h"
#include "core/json.h"
#include "core/json_walk.h"

static int read_string(struct json_span value,
                       struct arena *arena,
                       const char **ret_text,
                       struct pawl_err *err)
{
    if (value.data[0] != '"')
        return err_set(err, PAWL_EINVAL, "it must be a string, in quotes");
    return json_span_string(value, arena, ret_text, err);
}

static int
read_number(struct json_span value, struct arena *arena, int64_t *ret_number, struct pawl_err *err)
{
    const char *text = arena_strndup(arena, value.data, value.len);

    if (text == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (value.data[0] == '"')
        return err_set(err, PAWL_EINVAL, "it must be a number, without quotes");
    return text_parse_int(text, INT64_MIN, INT64_MAX, ret_number, err);
}

/* "90s", or a number of seconds. */
static int
read_duration(struct json_span value, struct arena *arena, int64_t *ret_ms, struct pawl_err *err)
{
    const char *text = NULL;
    int rc = 0;

    if (value.data[0] == '"')
        rc = json_span_string(value, arena, &text, err);
    else if ((text = arena_strndup(arena, value.data, value.len)) == NULL)
        rc = err_set(err, PAWL_ENOMEM, "out of memory");
    return rc == 0 ? text_parse_duration(text, ret_ms, err) : rc;
}

/* An array of strings. */
static int read_strings(struct json_span value,
                        struct arena *arena,
                        const char *const **ret_texts,
                        size_t *ret_n,
                        struct pawl_err *err)
{
    struct json_span item;
    size_t pos = 0;
    size_t n = 0;
    int rc = 0;

    if (value.data[0] != '[')
        return err_set(err, PAWL_EINVAL, "it must be an array of strings");
    while (json_walk_item(value.data, value.len, &pos, &item))
        n++;
    const char **texts = arena_new_array(arena, n > 0 ? n : 1, const char *);

    if (texts == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    pos = 0;
    for (size_t i = 0; rc == 0 && json_walk_item(value.data, value.len, &pos, &item); i++)
        rc = item.data[0] == '"' ? json_span_string(item, arena, &texts[i], err)
                                 : err_set(err, PAWL_EINVAL, "it must be an array of strings");
    *ret_texts = texts;
    *ret_n = n;
    return rc;
}

static int read_words(const struct job_field *field,
                      struct json_span value,
                      struct arena *arena,
                      struct pawl_job_new *job,
                      struct pawl_err *err)
{
    const char *const *words;
    const char *word;
    size_t n = 1;
    int rc;

    if (field->type == FIELD_WORD) {
        rc = read_string(value, arena, &word, err);
        words = &word;
    } else {
        rc = read_strings(value, arena, &words, &n, err);
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = job_field_word(field, words[i], job, err);
    return rc;
}

static int read_value(const struct job_field *field,
                      struct json_span value,
                      struct arena *arena,
                      struct pawl_job_new *job,
                      struct pawl_err *err)
{
    void *to = job_field_to(field, job);
    const char *text;
    int64_t number;
    int rc;

    switch (field->type) {
    case FIELD_NAME:
    case FIELD_KIND:
    case FIELD_TEXT:
        return read_string(value, arena, to, err);
    case FIELD_BYTES: /* as it stands there */
        job->payload = value.data;
        job->payload_len = value.len;
        return 0;
    case FIELD_SMALL:
    case FIELD_INT:
        rc = read_number(value, arena, &number, err);
        if (rc == 0)
            *(int *)to = number >= INT_MIN && number <= INT_MAX ? (int)number : INT_MAX;
        return rc;
    case FIELD_ID:
        return read_number(value, arena, to, err);
    case FIELD_SPAN:
    case FIELD_SPAN32:
        return read_duration(value, arena, to, err);
    case FIELD_TIME:
        rc = read_string(value, arena, &text, err);
        return rc == 0 ? text_parse_time(text, to, err) : rc;
    case FIELD_WORD:
    case FIELD_WORDS:
        return read_words(field, value, arena, job, err);
    case FIELD_TEXTS:
        return read_strings(value, arena, to, (size_t *)to + 1, err);
    }
    return err_set(err, PAWL_EFAILED, "%s has no type", field->name);
}

static const struct job_field *find(struct json_span key)
{
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        size_t len = strlen(job_fields[i].name);

        /* The key still has its quotes. */
        if (key.len == len + 2 && memcmp(key.data + 1, job_fields[i].name, len) == 0)
            return &job_fields[i];
    }
    return NULL;
}

static int unknown(struct json_span key, struct pawl_err *err)
{
    const char *names[JOB_FIELDS_N];
    char typed[64];

    for (size_t i = 0; i < JOB_FIELDS_N; i++)
        names[i] = job_fields[i].name;
    snprintf(
        typed, sizeof(typed), "%.*s", (int)(key.len - 2 < 60 ? key.len - 2 : 60), key.data + 1);
    const char *meant = text_nearest(typed, names, JOB_FIELDS_N);

    err_set(err, PAWL_EINVAL, "a job has no member \"%s\"", typed);
    if (meant != NULL)
        return err_hint(err, "Did you mean \"%s\"?", meant);
    return err_hint(
        err,
        "A job has kind, queue, payload, priority, delay or at, max_attempts, timeout and "
        "what pawl enqueue --help lists.");
}

/* A mistake in the JSON names the member as it stands there; other refusals are as everywhere. */
static int read_member(const struct job_field *field,
                       struct json_span value,
                       struct arena *arena,
                       struct pawl_job_new *job,
                       struct pawl_err *err)
{
    if (read_value(field, value, arena, job, err) < 0)
        return err_prefix(err, "\"%s\"", field->name);
    return job_field_check(field, job, true, err);
}

int jobs_file_line(const char *text,
                   size_t len,
                   const struct pawl_job_new *defaults,
                   struct arena *arena,
                   struct pawl_job_new *ret_job,
                   struct pawl_err *err)
{
    struct pawl_job_new job = *defaults;
    bool given[JOB_FIELDS_N] = {false};
    struct json_span key;
    struct json_span value;
    size_t pos = 0;
    int rc = json_check(text, len, err);

    if (rc < 0)
        return rc;
    if (!json_looks_object(text, len))
        return err_set(err, PAWL_EINVAL, "it is not a JSON object");
    while (json_walk(text, len, &pos, &key, &value)) {
        const struct job_field *field = find(key);

        rc = field != NULL ? read_member(field, value, arena, &job, err) : unknown(key, err);
        if (rc < 0)
            return rc;
        given[field - job_fields] = true;
    }
    if (given[JOB_FIELD_delay] && given[JOB_FIELD_at])
        return err_set(err, PAWL_EINVAL, "\"delay\" and \"at\" exclude each other");
    /* Each of them replaces the other of the command line. */
    if (given[JOB_FIELD_delay])
        job.at_us = 0;
    if (given[JOB_FIELD_at])
        job.delay_ms = 0;
    if (job.kind == NULL)
        return err_set(
            err, PAWL_EINVAL, "it has no \"kind\", and none was given on the command line");
    *ret_job = job;
    return 0;
}
