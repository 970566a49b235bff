/* job_fields: the table as an array, the check of one field, and what follows from all of them. */
#include "core/job_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define META_MAX   (64 * 1024) /* beyond what the largest tags, trace and correlation come to */
#define ESCAPE_MAX 6           /* bytes of JSON for a byte of a text */

const char *const job_scopes[] = {"kind", "queue", "global", NULL};
const char *const job_key_states[] = {"waiting", "running", "parked", NULL};
const char *const job_conflicts[] = {"keep", "replace", "reschedule", "refuse", NULL};
const char *const job_retries[] = {"auto", "exponential", "quadratic", NULL};

#define WIRE(member) #member
#define NO_WIRE      NULL
#define FIELD(how, field, kind, where, member, on_wire, from, to, in_words, list, ...) \
    [JOB_FIELD_##field] = {.name = #field,                                             \
                           .type = FIELD_##kind,                                       \
                           .home = FIELD_##where,                                      \
                           .offset = offsetof(struct pawl_job_new, member),            \
                           .wire = (on_wire),                                          \
                           .least = (from),                                            \
                           .most = (to),                                               \
                           .range = (in_words),                                        \
                           .words = (list)},

const struct job_field job_fields[JOB_FIELDS_N] = {JOB_FIELDS(FIELD)};

/* Fields of two members are read as a pointer and what stands behind it. */
struct counted {
    const void *data;
    size_t n;
};

_Static_assert(offsetof(struct pawl_job_new, payload_len) ==
                   offsetof(struct pawl_job_new, payload) + offsetof(struct counted, n),
               "the length of the payload is behind it");
_Static_assert(offsetof(struct pawl_job_new, n_tags) ==
                   offsetof(struct pawl_job_new, tags) + offsetof(struct counted, n),
               "the number of tags is behind them");

static struct counted counted_at(const struct job_field *field, const struct pawl_job_new *job)
{
    struct counted counted;

    memcpy(&counted, job_field_at(field, job), sizeof(counted));
    return counted;
}

static const char *text_at(const struct job_field *field, const struct pawl_job_new *job)
{
    return *(const char *const *)job_field_at(field, job);
}

static int64_t number_at(const struct job_field *field, const struct pawl_job_new *job)
{
    int number;

    if (field->type == FIELD_ID || field->type == FIELD_SPAN || field->type == FIELD_SPAN32 ||
        field->type == FIELD_TIME)
        return *(const int64_t *)job_field_at(field, job);
    memcpy(&number, job_field_at(field, job), sizeof(number)); /* or an enum, or unsigned */
    return number;
}

bool job_field_is_set(const struct job_field *field, const struct pawl_job_new *job)
{
    switch (field->type) {
    case FIELD_NAME:
    case FIELD_KIND:
    case FIELD_TEXT:
        return text_at(field, job) != NULL;
    case FIELD_BYTES:
    case FIELD_TEXTS:
        return counted_at(field, job).n > 0;
    default:
        return number_at(field, job) != 0;
    }
}

/* ---- checks */

/* "keep, replace, reschedule, refuse" */
static const char *list_words(const struct job_field *field, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; field->words[i] != NULL && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s", i > 0 ? ", " : "", field->words[i]);
    return text;
}

static int check_text(const struct job_field *field, const char *text, struct pawl_err *err)
{
    size_t len = strlen(text);

    if ((int64_t)len > field->most)
        return err_set(
            err, PAWL_ELIMIT, "%s has more than %" PRId64 " bytes", field->name, field->most);
    if (!utf8_valid(text, len))
        return err_set(err, PAWL_EINVAL, "%s is not valid UTF-8", field->name);
    if ((int64_t)len < field->least) {
        err_set(err, PAWL_EINVAL, "%s is empty", field->name);
        return err_hint(err, "Leave it out if there is none.");
    }
    return 0;
}

static int
check_payload(const struct job_field *field, struct counted payload, struct pawl_err *err)
{
    if (payload.data == NULL && payload.n > 0)
        return err_set(err, PAWL_EINVAL, "the payload is NULL and has a length");
    if ((int64_t)payload.n <= field->most)
        return 0;
    err_set(err,
            PAWL_ELIMIT,
            "the payload has %zu bytes, and the limit is %" PRId64,
            payload.n,
            field->most);
    return err_hint(err, "Store it elsewhere and pass a reference to it.");
}

static int check_texts(const struct job_field *field, struct counted list, struct pawl_err *err)
{
    const char *const *texts = list.data;
    int rc = 0;

    if (texts == NULL && list.n > 0)
        return err_set(err, PAWL_EINVAL, "%s is NULL and has a length", field->name);
    if ((int64_t)list.n > field->most)
        return err_set(err,
                       PAWL_ELIMIT,
                       "a job has at most %" PRId64 " %s, not %zu",
                       field->most,
                       field->name,
                       list.n);
    for (size_t i = 0; rc == 0 && i < list.n; i++) {
        if (texts[i] == NULL)
            return err_set(err, PAWL_EINVAL, "%s: number %zu is NULL", field->name, i);
        rc = name_check("tag", texts[i], err);
    }
    return rc;
}

static int check_words(const struct job_field *field, int64_t value, struct pawl_err *err)
{
    char words[128];

    if (field->type == FIELD_WORDS) {
        if (value >= 0 && value <= field->most)
            return 0;
        return err_set(err,
                       PAWL_EINVAL,
                       "%s %" PRId64 " is not a valid combination; use %s",
                       field->name,
                       value,
                       list_words(field, words, sizeof(words)));
    }
    for (int64_t i = 0; field->words[i] != NULL; i++) {
        if (i == value)
            return 0;
    }
    return err_set(err,
                   PAWL_EINVAL,
                   "%s %" PRId64 " is none of %s",
                   field->name,
                   value,
                   list_words(field, words, sizeof(words)));
}

static int
check_number(const struct job_field *field, int64_t value, bool given, struct pawl_err *err)
{
    bool left_out = value == 0 && !given;

    if (left_out || (value >= field->least && value <= field->most))
        return 0;
    if (field->range != NULL)
        return err_set(err, PAWL_EINVAL, "%s must be %s", field->name, field->range);
    if (field->most == INT64_MAX)
        return err_set(err,
                       PAWL_EINVAL,
                       "%s %" PRId64 " is not at least %" PRId64,
                       field->name,
                       value,
                       field->least);
    return err_set(err,
                   PAWL_EINVAL,
                   "%s %" PRId64 " is not between %" PRId64 " and %" PRId64,
                   field->name,
                   value,
                   field->least,
                   field->most);
}

int job_field_check(const struct job_field *field,
                    const struct pawl_job_new *job,
                    bool given,
                    struct pawl_err *err)
{
    const char *text;

    switch (field->type) {
    case FIELD_NAME:
        text = text_at(field, job);
        return text != NULL ? name_check(field->name, text, err) : 0;
    case FIELD_KIND:
        text = text_at(field, job);
        return text != NULL ? kind_check(text, err)
                            : err_set(err, PAWL_EINVAL, "a job has no kind");
    case FIELD_TEXT:
        text = text_at(field, job);
        return text != NULL ? check_text(field, text, err) : 0;
    case FIELD_BYTES:
        return check_payload(field, counted_at(field, job), err);
    case FIELD_TEXTS:
        return check_texts(field, counted_at(field, job), err);
    case FIELD_WORD:
    case FIELD_WORDS:
        return check_words(field, number_at(field, job), err);
    case FIELD_SMALL:
        return priority_check(number_at(field, job), err);
    default:
        return check_number(field, number_at(field, job), given, err);
    }
}

int job_field_word(const struct job_field *field,
                   const char *word,
                   struct pawl_job_new *job,
                   struct pawl_err *err)
{
    char words[128];

    for (unsigned i = 0; field->words[i] != NULL; i++) {
        if (strcmp(word, field->words[i]) != 0)
            continue;
        unsigned value = i;

        if (field->type == FIELD_WORDS)
            value = (unsigned)number_at(field, job) | 1u << i;
        memcpy(job_field_to(field, job), &value, sizeof(value));
        return 0;
    }
    return err_set(err,
                   PAWL_EINVAL,
                   "%s \"%.64s\" is none of %s",
                   field->name,
                   word,
                   list_words(field, words, sizeof(words)));
}

int job_new_check(const struct pawl_job_new *job,
                  const struct job_field **ret_field,
                  struct pawl_err *err)
{
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        int rc = job_field_check(&job_fields[i], job, false, err);

        if (rc < 0) {
            *ret_field = &job_fields[i];
            return rc;
        }
    }
    return 0;
}

/* ---- what follows */

void job_new_fill(struct pawl_job_new *job)
{
    if (job->queue == NULL)
        job->queue = "default";
    if (job->payload == NULL) {
        job->payload = "{}";
        job->payload_len = 2;
    }
    if (job->max_attempts == 0)
        job->max_attempts = JOB_MAX_ATTEMPTS_DEFAULT;
}

bool job_new_is_plain(const struct pawl_job_new *job)
{
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        if (job_fields[i].home != FIELD_PLAIN && job_field_is_set(&job_fields[i], job))
            return false;
    }
    return true;
}

bool job_new_is_child(const struct pawl_job_new *job)
{
    return job_new_is_plain(job) && job->delay_ms == 0 && job->at_us == 0 && job->timeout_ms == 0;
}

bool job_new_is_same(const struct pawl_job_new *a, const struct pawl_job_new *b)
{
    return (a->queue == b->queue || strcmp(a->queue, b->queue) == 0) &&
           (a->kind == b->kind || strcmp(a->kind, b->kind) == 0) && a->priority == b->priority &&
           a->delay_ms == b->delay_ms && a->at_us == b->at_us &&
           a->max_attempts == b->max_attempts && a->timeout_ms == b->timeout_ms;
}

size_t job_new_bytes(const struct pawl_job_new *job)
{
    size_t bytes = job->payload_len;

    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        const struct job_field *field = &job_fields[i];

        if (field->type == FIELD_TEXT && job_field_is_set(field, job))
            bytes += strlen(text_at(field, job)) * (field->home == FIELD_META ? ESCAPE_MAX : 1);
        else if (field->type == FIELD_TEXTS)
            bytes += counted_at(field, job).n * PAWL_NAME_MAX;
    }
    return bytes;
}

static void
put_meta(struct json_writer *w, const struct job_field *field, const struct pawl_job_new *job)
{
    struct counted list;

    json_key(w, field->name);
    if (field->type != FIELD_TEXTS) {
        json_str(w, text_at(field, job));
        return;
    }
    list = counted_at(field, job);
    json_array_begin(w);
    for (size_t i = 0; i < list.n; i++)
        json_str(w, ((const char *const *)list.data)[i]);
    json_array_end(w);
}

bool job_new_meta(const struct pawl_job_new *job, struct arena *arena, const char **ret_meta)
{
    struct buf out;
    struct json_writer w;
    bool any = false;

    *ret_meta = NULL;
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        const struct job_field *field = &job_fields[i];

        if (field->home != FIELD_META || !job_field_is_set(field, job))
            continue;
        if (!any) {
            buf_init(&out, META_MAX);
            json_init(&w, &out);
            json_object_begin(&w);
            any = true;
        }
        put_meta(&w, field, job);
    }
    if (!any)
        return true;
    json_object_end(&w);
    if (!out.failed)
        *ret_meta = arena_strdup(arena, buf_str(&out));
    buf_deinit(&out);
    return *ret_meta != NULL;
}
