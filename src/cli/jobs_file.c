/* jobs_file: the members a line may have, one function each. */
#include "cli/jobs_file.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/json.h"
#include "core/json_walk.h"

struct line {
    struct arena *arena;
    struct job_new job;
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
    line->job.payload = (struct bytes){value.data, value.len};
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
        line->job.priority = (int16_t)n;
    return rc;
}

static int on_max_attempts(struct line *line, struct json_span value, struct pawl_err *err)
{
    int64_t n;
    int rc = number(line, value, 1, JOB_MAX_ATTEMPTS_LIMIT, &n, err);

    if (rc == 0)
        line->job.max_attempts = (int32_t)n;
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
    line->job.timeout_ms = (int32_t)ms;
    return 0;
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
    return err_hint(err,
                    "A job has kind, queue, payload, priority, delay or at, max_attempts and "
                    "timeout.");
}

int jobs_file_line(const char *text,
                   size_t len,
                   const struct job_new *defaults,
                   struct arena *arena,
                   struct job_new *ret_job,
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
