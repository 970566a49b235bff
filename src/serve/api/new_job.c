/* new_job: reads a message by the table of fields, then runs the checks that every job passes. */
#include "serve/api/new_job.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "core/json.h"

/* "jobs[3].priority: " in front of what is wrong. */
static int in_field(struct pawl_err *err, size_t i, const char *field)
{
    return err_prefix(err, "jobs[%zu].%s", i, field);
}

#define WIRE(member)                                    offsetof(Pawl__V1__NewJob, member)
#define NO_WIRE                                         SIZE_MAX
#define FIELD(how, name, type, home, member, wire, ...) [JOB_FIELD_##name] = (wire),

static const size_t wire_of[JOB_FIELDS_N] = {JOB_FIELDS(FIELD)};

/* A list of a message: how many stands before where, as protobuf-c has it. */
struct list {
    size_t n;
    char **items;
};

_Static_assert(offsetof(Pawl__V1__NewJob, tags) - offsetof(Pawl__V1__NewJob, n_tags) ==
                   offsetof(struct list, items),
               "the number of tags is before them");

static const struct list *list_of(const void *at)
{
    return (const void *)((const char *)at - offsetof(struct list, items));
}

/* Of a text that is empty, and of a list: left out. */
static int read_words(const struct job_field *field,
                      const void *at,
                      struct pawl_job_new *job,
                      struct pawl_err *err)
{
    const char *word = *(const char *const *)at;
    int rc = 0;

    if (field->type == FIELD_WORD)
        return word[0] != '\0' ? job_field_word(field, word, job, err) : 0;
    for (size_t i = 0; rc == 0 && i < list_of(at)->n; i++)
        rc = job_field_word(field, list_of(at)->items[i], job, err);
    return rc;
}

static int read_field(const struct job_field *field,
                      const void *at,
                      struct pawl_job_new *job,
                      struct pawl_err *err)
{
    void *to = job_field_to(field, job);
    const char *text;
    uint32_t number;

    switch (field->type) {
    case FIELD_NAME:
    case FIELD_KIND:
    case FIELD_TEXT:
        text = *(const char *const *)at;
        *(const char **)to = text[0] != '\0' ? text : NULL;
        break;
    case FIELD_BYTES:
        break; /* read_payload() */
    case FIELD_SMALL:
    case FIELD_INT:
        number = *(const uint32_t *)at;
        *(int *)to = number <= INT_MAX ? (int)number : INT_MAX;
        break;
    case FIELD_WORD:
    case FIELD_WORDS:
        return read_words(field, at, job, err);
    case FIELD_TEXTS:
        *(char ***)to = list_of(at)->items;
        ((size_t *)to)[1] = list_of(at)->n;
        break;
    default:
        *(int64_t *)to = *(const int64_t *)at;
        break;
    }
    return 0;
}

static int
read_fields(const Pawl__V1__NewJob *from, size_t i, struct pawl_job_new *job, struct pawl_err *err)
{
    for (size_t k = 0; k < JOB_FIELDS_N; k++) {
        const struct job_field *field = &job_fields[k];

        if (wire_of[k] == NO_WIRE)
            continue;
        if (read_field(field, (const char *)from + wire_of[k], job, err) < 0)
            return in_field(err, i, field->wire);
    }
    if (from->priority_choice_case != PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY)
        job->priority = PAWL_PRIORITY_DEFAULT;
    return 0;
}

/* Fields that depend on each other. */
static int check_fields(const Pawl__V1__NewJob *from, size_t i, struct pawl_err *err)
{
    if (from->due_at_us != 0 && from->delay_ms != 0) {
        err_set(err, PAWL_EINVAL, "delay and at cannot both be given");
        return in_field(err, i, "due_at_us");
    }
    if (from->unique_for_ms != 0 && from->unique_key[0] == '\0') {
        err_set(err, PAWL_EINVAL, "there is no unique_key to be kept");
        return in_field(err, i, "unique_for_ms");
    }
    if (from->step[0] != '\0' && name_check("step", from->step, err) < 0)
        return in_field(err, i, "step");
    return 0;
}

int new_job_check_json(const char *json, size_t len, size_t i, struct pawl_err *err)
{
    if (json_check(json, len, err) == 0)
        return 0;
    err_hint(err, "Set payload_is_bytes for a payload that is not JSON.");
    return in_field(err, i, "payload");
}

static int read_payload(const Pawl__V1__NewJob *from,
                        bool checked,
                        struct pawl_job_new *job,
                        size_t i,
                        struct pawl_err *err)
{
    /* Nothing at all is the default, unless it is said to be bytes. */
    if (from->payload.len > 0 || from->payload_is_bytes) {
        job->payload = from->payload.len > 0 ? (const char *)from->payload.data : "";
        job->payload_len = from->payload.len;
    }
    if (checked || from->payload_is_bytes || from->payload.len == 0 ||
        from->payload.len > PAWL_PAYLOAD_MAX)
        return 0; /* the last is refused with the other limits */
    return new_job_check_json(job->payload, job->payload_len, i, err);
}

int new_job_read(const Pawl__V1__NewJob *from,
                 size_t i,
                 bool checked,
                 struct pawl_job_new *ret_job,
                 const char **ret_step,
                 struct pawl_err *err)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    const struct job_field *wrong;
    int rc = read_fields(from, i, &job, err);

    if (rc == 0)
        rc = check_fields(from, i, err);
    if (rc == 0)
        rc = read_payload(from, checked, &job, i, err);
    if (rc < 0)
        return rc;
    if (job_new_check(&job, &wrong, err) < 0)
        return in_field(err, i, wrong->wire);
    job_new_fill(&job);
    *ret_job = job;
    *ret_step = from->step[0] != '\0' ? from->step : NULL;
    return 0;
}

bool new_job_is_child(const Pawl__V1__NewJob *from)
{
    struct pawl_job_new job = PAWL_JOB_NEW_INIT;
    struct pawl_err err;

    return from->step[0] == '\0' && read_fields(from, 0, &job, &err) == 0 && job_new_is_child(&job);
}

/* --- hashes -------------------------------------------------------------------------------------------------------- */

/* What protobuf-c packs goes into the hash instead of memory. */
struct hash_buffer {
    ProtobufCBuffer base;
    EVP_MD_CTX *md;
};

static void hash_append(ProtobufCBuffer *buffer, size_t len, const uint8_t *data)
{
    EVP_DigestUpdate(((struct hash_buffer *)(void *)buffer)->md, data, len);
}

static void hash_end(EVP_MD_CTX *md, struct uuid *ret_hash)
{
    unsigned char digest[EVP_MAX_MD_SIZE];

    EVP_DigestFinal_ex(md, digest, NULL);
    memcpy(ret_hash->bytes, digest, sizeof(ret_hash->bytes));
}

void new_job_hash(const Pawl__V1__EnqueueRequest *request,
                  const char *queue,
                  struct uuid *ret_key,
                  struct uuid *ret_request)
{
    struct hash_buffer buffer = {.base = {.append = hash_append}, .md = EVP_MD_CTX_new()};
    char head[32];

    /* Without memory no two calls are the same: a retry is not recognised, but nothing is lost. */
    *ret_key = uuid_random();
    *ret_request = uuid_random();
    if (buffer.md == NULL)
        return;
    /* Length first, so that no two pairs of texts come to the same bytes. */
    snprintf(head, sizeof(head), "%zu:", strlen(queue));
    if (EVP_DigestInit_ex(buffer.md, EVP_sha256(), NULL) == 1) {
        EVP_DigestUpdate(buffer.md, head, strlen(head));
        EVP_DigestUpdate(buffer.md, queue, strlen(queue));
        EVP_DigestUpdate(buffer.md, request->idempotency_key, strlen(request->idempotency_key));
        hash_end(buffer.md, ret_key);
    }
    if (EVP_DigestInit_ex(buffer.md, EVP_sha256(), NULL) == 1) {
        for (size_t i = 0; i < request->n_jobs; i++) {
            snprintf(head,
                     sizeof(head),
                     "%zu:",
                     protobuf_c_message_get_packed_size(&request->jobs[i]->base));
            EVP_DigestUpdate(buffer.md, head, strlen(head));
            protobuf_c_message_pack_to_buffer(&request->jobs[i]->base, &buffer.base);
        }
        hash_end(buffer.md, ret_request);
    }
    EVP_MD_CTX_free(buffer.md);
}
