/* view: field by field. A text that is NULL becomes "", as the contract says. */
#include "serve/api/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "core/json_walk.h"

/* The enums of the contract have the same numbers as ours. */
#define SAME_NUMBER(name, number, text, terminal)                                       \
    _Static_assert((int)PAWL__V1__JOB_STATE__JOB_STATE_READY == (int)JOB_READY &&       \
                       (int)(name) == (number) &&                                       \
                       (int)PAWL__V1__JOB_STATE__JOB_STATE_WAITING == (int)JOB_WAITING, \
                   "job states");
JOB_STATES(SAME_NUMBER)
#undef SAME_NUMBER

Pawl__V1__JobState view_state(const char *state)
{
    enum job_state found;

    if (state == NULL || job_state_parse(state, &found) < 0)
        return PAWL__V1__JOB_STATE__JOB_STATE_UNSPECIFIED;
    return (Pawl__V1__JobState)found;
}

/* The fields of the message are not const, and nothing writes to them. */
static char *borrowed(const char *text)
{
    union {
        const char *in;
        char *out;
    } cast = {.in = text != NULL ? text : ""};

    return cast.out;
}

static ProtobufCBinaryData borrowed_bytes(struct bytes bytes)
{
    return (ProtobufCBinaryData){.len = bytes.len, .data = (uint8_t *)borrowed(bytes.data)};
}

static int64_t known(int64_t time_us)
{
    return time_us == INT64_MAX || time_us == INT64_MIN ? 0 : time_us;
}

static bool key_is(struct json_span key, const char *name)
{
    size_t len = strlen(name);

    return key.len == len + 2 && memcmp(key.data + 1, name, len) == 0;
}

/* One object {"attempt", "at", "class", "error", …}. NULL: no memory. */
static Pawl__V1__JobError *read_error(struct json_span json, struct arena *arena)
{
    Pawl__V1__JobError *error = arena_new(arena, Pawl__V1__JobError);
    struct json_span key, value;
    size_t pos = 0;

    if (error == NULL)
        return NULL;
    pawl__v1__job_error__init(error);
    while (json_walk(json.data, json.len, &pos, &key, &value)) {
        const char *text = NULL;

        if (key_is(key, "attempt"))
            error->attempt = (uint32_t)strtoul(value.data, NULL, 10);
        else if (value.data[0] != '"' || json_span_string(value, arena, &text, NULL) < 0)
            continue;
        else if (key_is(key, "class"))
            error->error_class = borrowed(text);
        else if (key_is(key, "error"))
            error->error = borrowed(text);
        else if (key_is(key, "at"))
            (void)!text_parse_time(text, &error->at_us, NULL);
    }
    return error;
}

#define ERRORS_MAX 32 /* more than pawl.errors_add keeps */

static bool read_errors(const struct job_view *job, struct arena *arena, Pawl__V1__JobView *view)
{
    struct json_span item;
    size_t pos = 0;

    view->errors = arena_new_array(arena, ERRORS_MAX, Pawl__V1__JobError *);
    if (view->errors == NULL)
        return false;
    if (job->error != NULL) {
        item = (struct json_span){job->error, strlen(job->error)};
        view->errors[view->n_errors++] = read_error(item, arena);
    }
    while (job->errors != NULL && view->n_errors < ERRORS_MAX &&
           json_walk_item(job->errors, strlen(job->errors), &pos, &item))
        view->errors[view->n_errors++] = read_error(item, arena);
    for (size_t i = 0; i < view->n_errors; i++) {
        if (view->errors[i] == NULL)
            return false;
    }
    return true;
}

static bool read_tags(const struct job_view *job, struct arena *arena, Pawl__V1__JobView *view)
{
    struct json_span item;
    size_t pos = 0;

    if (job->tags == NULL)
        return true;
    view->tags = arena_new_array(arena, PAWL_TAGS_MAX, char *);
    if (view->tags == NULL)
        return false;
    while (view->n_tags < PAWL_TAGS_MAX &&
           json_walk_item(job->tags, strlen(job->tags), &pos, &item)) {
        const char *text;

        if (json_span_string(item, arena, &text, NULL) == 0)
            view->tags[view->n_tags++] = borrowed(text);
    }
    return true;
}

/* "40 % …" is how the percentage of a remote worker is stored; any other text is only a note. */
static bool read_progress(const struct job_view *job, struct arena *arena, Pawl__V1__JobView *view)
{
    char *end;

    if (job->progress == NULL)
        return true;
    view->progress = arena_new(arena, Pawl__V1__JobProgress);
    if (view->progress == NULL)
        return false;
    pawl__v1__job_progress__init(view->progress);
    view->progress->job_id = job->id;
    view->progress->note = borrowed(job->progress);
    unsigned long percent = strtoul(job->progress, &end, 10);
    if (end == job->progress || percent > 100)
        return true;
    end += *end == ' ';
    if (*end == '%') {
        end++;
        view->progress->percent = (uint32_t)percent;
        view->progress->note = borrowed(end + (*end == ' '));
    }
    return true;
}

Pawl__V1__JobView *view_job(const struct job_view *job, bool with_data, struct arena *arena)
{
    Pawl__V1__JobView *view = arena_new(arena, Pawl__V1__JobView);

    if (view == NULL)
        return NULL;
    pawl__v1__job_view__init(view);
    view->job_id = job->id;
    view->state = view_state(job->state);
    view->queue = borrowed(job->queue);
    view->kind = borrowed(job->kind);
    view->priority = (uint32_t)job->priority;
    view->attempt = (uint32_t)job->attempt;
    view->max_attempts = (uint32_t)job->max_attempts;
    view->created_at_us = known(job->created_at);
    view->due_at_us = known(job->due_at);
    view->started_at_us = known(job->started_at);
    view->finished_at_us = known(job->finished_at);
    view->worker_id = borrowed(job->worker);
    view->lane = borrowed(job->lane);
    view->step = borrowed(job->step);
    view->parent_id = job->parent_id;
    view->queue_paused = job->queue_paused;
    if (with_data) {
        view->payload = borrowed_bytes(job->payload);
        view->result = borrowed_bytes(job->result);
    }
    if (!read_errors(job, arena, view) || !read_tags(job, arena, view) ||
        !read_progress(job, arena, view))
        return NULL;
    return view;
}

Pawl__V1__QueueStats *view_queue(const struct queue_view *queue, struct arena *arena)
{
    const struct {
        enum job_state state;
        int64_t jobs;
    } counts[] = {
        {JOB_READY, queue->ready},
        {JOB_SCHEDULED, queue->scheduled},
        {JOB_RETRYING, queue->retrying},
        {JOB_RUNNING, queue->running},
        {JOB_PARKED, queue->parked},
        {JOB_WAITING, queue->waiting},
    };

    const size_t n = sizeof(counts) / sizeof(*counts);
    Pawl__V1__QueueStats *stats = arena_new(arena, Pawl__V1__QueueStats);
    Pawl__V1__StateCount *each = arena_new_array(arena, n, Pawl__V1__StateCount);
    char *name = arena_strdup(arena, queue->name);

    if (stats == NULL || each == NULL || name == NULL)
        return NULL;
    pawl__v1__queue_stats__init(stats);
    stats->queue = name;
    stats->paused = queue->paused_at != 0;
    if (queue->oldest_due_at != 0 && queue->now > queue->oldest_due_at)
        stats->oldest_due_ms = (queue->now - queue->oldest_due_at) / US_PER_MS;
    stats->counts = arena_new_array(arena, n, Pawl__V1__StateCount *);
    if (stats->counts == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (counts[i].jobs == 0)
            continue;
        pawl__v1__state_count__init(&each[i]);
        each[i].state = (Pawl__V1__JobState)counts[i].state;
        each[i].jobs = counts[i].jobs;
        stats->counts[stats->n_counts++] = &each[i];
    }
    return stats;
}
