/* jobs_file: the members a line may have, one function each. */
#include "cli/jobs_file.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/text.h"
#include "cli/enqueue_rich.h"
#include "core/job.h"
#include "core/json.h"
#include "core/json_walk.h"

struct line {
    struct arena *arena;
    struct pawl_job_new job;
    bool has_delay;
    bool has_at;
};

typedef int (*member_fn)(struct line *line, struct json_span value, struct pawl_err *err);

static int
string(struct line *line, struct json_span value, const char **ret_text, struct pawl_err *err)
{
    if (value.data[0] != '"')
        return err_set(err, PAWL_EINVAL, "it must be a string, in quotes");
    return json_span_string(value, line->arena, ret_text, err);
}

static int on_kind(struct line *line, struct json_span value, struct pawl_err *err)
{
    return string(line, value, &line->job.kind, err);
}

static int on_queue(struct line *line, struct json_span value, struct pawl_err *err)
{
    return string(line, value, &line->job.queue, err);
}

static int on_payload(struct line *line, struct json_span value, struct pawl_err *err)
{
    (void)err;
    line->job.payload = value.data;
    line->job.payload_len = value.len;
    return 0;
}

static int number(struct line *line,
                  struct json_span value,
                  int64_t min,
                  int64_t max,
                  int64_t *ret,
                  struct pawl_err *err)
{
    const char *text = arena_strndup(line->arena, value.data, value.len);

    if (text == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    if (value.data[0] == '"')
        return err_set(err, PAWL_EINVAL, "it must be a number, without quotes");
    return text_parse_int(text, min, max, ret, err);
}

static int on_priority(struct line *line, struct json_span value, struct pawl_err *err)
{
    int64_t n;
    int rc = number(line, value, PAWL_PRIORITY_MIN, PAWL_PRIORITY_MAX, &n, err);

    if (rc == 0)
        line->job.priority = (int)n;
    return rc;
}

static int on_max_attempts(struct line *line, struct json_span value, struct pawl_err *err)
{
    int64_t n;
    int rc = number(line, value, 1, JOB_MAX_ATTEMPTS_LIMIT, &n, err);

    if (rc == 0)
        line->job.max_attempts = (int)n;
    return rc;
}

/* "90s", or a number of seconds. */
static int
duration(struct line *line, struct json_span value, int64_t *ret_ms, struct pawl_err *err)
{
    const char *text;

    if (value.data[0] != '"') {
        text = arena_strndup(line->arena, value.data, value.len);
        if (text == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    } else {
        int rc = json_span_string(value, line->arena, &text, err);

        if (rc < 0)
            return rc;
    }
    return text_parse_duration(text, ret_ms, err);
}

static int on_delay(struct line *line, struct json_span value, struct pawl_err *err)
{
    line->has_delay = true;
    line->job.at_us = 0;
    return duration(line, value, &line->job.delay_ms, err);
}

static int on_at(struct line *line, struct json_span value, struct pawl_err *err)
{
    const char *text;
    int rc = string(line, value, &text, err);

    line->has_at = true;
    line->job.delay_ms = 0;
    return rc < 0 ? rc : text_parse_time(text, &line->job.at_us, err);
}

static int on_timeout(struct line *line, struct json_span value, struct pawl_err *err)
{
    int64_t ms;
    int rc = duration(line, value, &ms, err);

    if (rc < 0)
        return rc;
    if (ms < 1 || ms > INT32_MAX)
        return err_set(err, PAWL_EINVAL, "it must be between 1 ms and 24 days");
    line->job.timeout_ms = ms;
    return 0;
}

static int on_unique_key(struct line *line, struct json_span value, struct pawl_err *err)
{
    return string(line, value, &line->job.unique_key, err);
}

static int on_lane(struct line *line, struct json_span value, struct pawl_err *err)
{
    return string(line, value, &line->job.lane, err);
}

static int on_trace(struct line *line, struct json_span value, struct pawl_err *err)
{
    return string(line, value, &line->job.trace, err);
}

static int on_correlation(struct line *line, struct json_span value, struct pawl_err *err)
{
    return string(line, value, &line->job.correlation, err);
}

static int on_deadline(struct line *line, struct json_span value, struct pawl_err *err)
{
    return duration(line, value, &line->job.deadline_ms, err);
}

/* The index of the word, which must be one of them. */
static int word(struct line *line,
                struct json_span value,
                const char *const *words,
                int *ret_index,
                struct pawl_err *err)
{
    const char *text;
    int rc = string(line, value, &text, err);

    if (rc < 0)
        return rc;
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_index = i;
            return 0;
        }
    }
    return err_set(err, PAWL_EINVAL, "\"%.40s\" is none of what it can be", text);
}

static int on_unique_scope(struct line *line, struct json_span value, struct pawl_err *err)
{
    int i;
    int rc = word(line, value, enqueue_scopes, &i, err);

    if (rc == 0)
        line->job.unique_scope = (enum pawl_unique_scope)i;
    return rc;
}

static int on_conflict(struct line *line, struct json_span value, struct pawl_err *err)
{
    int i;
    int rc = word(line, value, enqueue_conflicts, &i, err);

    if (rc == 0)
        line->job.unique_mode = (enum pawl_unique_mode)i;
    return rc;
}

static int on_retry(struct line *line, struct json_span value, struct pawl_err *err)
{
    int i;
    int rc = word(line, value, enqueue_retries, &i, err);

    if (rc == 0)
        line->job.retry = (enum pawl_retry)i;
    return rc;
}

static int on_unique_for(struct line *line, struct json_span value, struct pawl_err *err)
{
    return duration(line, value, &line->job.unique_for_ms, err);
}

static int short_wait(struct line *line, struct json_span value, int64_t *ret, struct pawl_err *err)
{
    int64_t ms;
    int rc = duration(line, value, &ms, err);

    if (rc < 0)
        return rc;
    if (ms > INT32_MAX)
        return err_set(err, PAWL_EINVAL, "it must be at most 24 days");
    *ret = ms;
    return 0;
}

static int on_retry_base(struct line *line, struct json_span value, struct pawl_err *err)
{
    return short_wait(line, value, &line->job.retry_base_ms, err);
}

static int on_retry_cap(struct line *line, struct json_span value, struct pawl_err *err)
{
    return short_wait(line, value, &line->job.retry_cap_ms, err);
}

static int on_parent(struct line *line, struct json_span value, struct pawl_err *err)
{
    return number(line, value, 1, INT64_MAX, &line->job.parent_id, err);
}

/* An array of strings. */
static int on_tags(struct line *line, struct json_span value, struct pawl_err *err)
{
    json_t *array = json_loadb(value.data, value.len, JSON_DECODE_ANY, NULL);
    size_t n = json_array_size(array);
    const char **tags = arena_new_array(line->arena, PAWL_TAGS_MAX, const char *);
    int rc = tags != NULL ? 0 : err_set(err, PAWL_ENOMEM, "out of memory");

    if (rc == 0 && !json_is_array(array))
        rc = err_set(err, PAWL_EINVAL, "it must be an array of strings");
    else if (rc == 0 && n > PAWL_TAGS_MAX)
        rc = err_set(err, PAWL_ELIMIT, "at most %d tags", PAWL_TAGS_MAX);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *text = json_string_value(json_array_get(array, i));

        if (text == NULL)
            rc = err_set(err, PAWL_EINVAL, "it must be an array of strings");
        else if ((tags[i] = arena_strdup(line->arena, text)) == NULL)
            rc = err_set(err, PAWL_ENOMEM, "out of memory");
    }
    line->job.tags = tags;
    line->job.n_tags = rc == 0 ? n : 0;
    json_decref(array);
    return rc;
}

static const struct {
    const char *name;
    member_fn fn;
} members[] = {
    {"kind", on_kind},
    {"queue", on_queue},
    {"payload", on_payload},
    {"priority", on_priority},
    {"max_attempts", on_max_attempts},
    {"delay", on_delay},
    {"at", on_at},
    {"timeout", on_timeout},
    {"unique_key", on_unique_key},
    {"unique_scope", on_unique_scope},
    {"unique_for", on_unique_for},
    {"on_conflict", on_conflict},
    {"lane", on_lane},
    {"tags", on_tags},
    {"trace", on_trace},
    {"correlation", on_correlation},
    {"deadline", on_deadline},
    {"retry", on_retry},
    {"retry_base", on_retry_base},
    {"retry_cap", on_retry_cap},
    {"parent", on_parent},
};

#define N_MEMBERS (sizeof(members) / sizeof(*members))

static member_fn find(struct json_span key)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        size_t len = strlen(members[i].name);

        /* The key still has its quotes. */
        if (key.len == len + 2 && memcmp(key.data + 1, members[i].name, len) == 0)
            return members[i].fn;
    }
    return NULL;
}

static int unknown(struct json_span key, struct pawl_err *err)
{
    const char *names[N_MEMBERS];
    char typed[64];

    for (size_t i = 0; i < N_MEMBERS; i++)
        names[i] = members[i].name;
    snprintf(
        typed, sizeof(typed), "%.*s", (int)(key.len - 2 < 60 ? key.len - 2 : 60), key.data + 1);
    const char *meant = text_nearest(typed, names, N_MEMBERS);

    err_set(err, PAWL_EINVAL, "a job has no member \"%s\"", typed);
    if (meant != NULL)
        return err_hint(err, "Did you mean \"%s\"?", meant);
    return err_hint(
        err,
        "A job has kind, queue, payload, priority, delay or at, max_attempts, timeout and "
        "what pawl enqueue --help lists.");
}

int jobs_file_line(const char *text,
                   size_t len,
                   const struct pawl_job_new *defaults,
                   struct arena *arena,
                   struct pawl_job_new *ret_job,
                   struct pawl_err *err)
{
    struct line line = {.arena = arena, .job = *defaults};
    struct json_span key;
    struct json_span value;
    size_t pos = 0;
    int rc = json_check(text, len, err);

    if (rc < 0)
        return rc;
    if (!json_looks_object(text, len))
        return err_set(err, PAWL_EINVAL, "it is not a JSON object");
    while (json_walk(text, len, &pos, &key, &value)) {
        member_fn fn = find(key);

        rc = fn != NULL ? fn(&line, value, err) : unknown(key, err);
        if (rc < 0 && fn != NULL)
            err_prefix(err, "%.*s", (int)key.len, key.data);
        if (rc < 0)
            return rc;
    }
    if (line.has_delay && line.has_at)
        return err_set(err, PAWL_EINVAL, "\"delay\" and \"at\" exclude each other");
    if (line.job.kind == NULL)
        return err_set(
            err, PAWL_EINVAL, "it has no \"kind\", and none was given on the command line");
    *ret_job = line.job;
    return 0;
}
