/* new_job: field by field, so that an error names the field; then the checks that every job passes. */
#include "serve/api/new_job.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "core/json.h"

/* "jobs[3].priority: " in front of what is wrong. */
static int in_field(struct pawl_err *err, size_t i, const char *field)
{
    return err_prefix(err, "jobs[%zu].%s: ", i, field);
}

static int
check_names(const Pawl__V1__NewJob *from, const struct job_new *job, size_t i, struct pawl_err *err)
{
    if (kind_check(job->kind, err) < 0)
        return in_field(err, i, "kind");
    if (name_check("queue", job->queue, err) < 0)
        return in_field(err, i, "queue");
    if (job->lane != NULL && name_check("lane", job->lane, err) < 0)
        return in_field(err, i, "lane");
    if (from->step[0] != '\0' && name_check("step", from->step, err) < 0)
        return in_field(err, i, "step");
    return 0;
}

/* Numbers that the stored ones are narrower than, or that exclude each other. */
static int check_numbers(const Pawl__V1__NewJob *from, size_t i, struct pawl_err *err)
{
    bool chosen = from->priority_choice_case == PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY;
    const char *field = NULL;

    if (chosen && priority_check(from->priority, err) < 0)
        return in_field(err, i, "priority");
    if (from->delay_ms < 0 || from->delay_ms > JOB_DELAY_MAX_MS) {
        err_set(err, PAWL_EINVAL, "a delay is between 0 and ten years");
        field = "delay_ms";
    } else if (from->due_at_us < 0 || from->due_at_us > JOB_TIME_MAX_US) {
        err_set(err, PAWL_EINVAL, "a due time is between 1970 and 9999, in microseconds");
        field = "due_at_us";
    } else if (from->due_at_us != 0 && from->delay_ms != 0) {
        err_set(err, PAWL_EINVAL, "due_at_us and delay_ms cannot both be given");
        field = "due_at_us";
    } else if (from->max_attempts > JOB_MAX_ATTEMPTS_LIMIT) {
        err_set(err,
                PAWL_EINVAL,
                "%u is not between 1 and %d (0 is the default)",
                from->max_attempts,
                JOB_MAX_ATTEMPTS_LIMIT);
        field = "max_attempts";
    } else if (from->timeout_ms < 0 || from->timeout_ms > INT32_MAX) {
        err_set(err, PAWL_EINVAL, "a timeout is between 0 and %d ms", INT32_MAX);
        field = "timeout_ms";
    } else if (from->unique_for_ms < 0 || from->unique_for_ms > JOB_DELAY_MAX_MS) {
        err_set(err, PAWL_EINVAL, "a unique key is kept for at most ten years");
        field = "unique_for_ms";
    } else if (from->unique_for_ms != 0 && from->unique_key[0] == '\0') {
        err_set(err, PAWL_EINVAL, "there is no unique_key to be kept");
        field = "unique_for_ms";
    }
    return field != NULL ? in_field(err, i, field) : 0;
}

static int word_check(const char *word, const char *const *words, struct pawl_err *err)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    }
    return err_set(err, PAWL_EINVAL, "\"%.64s\" is not known here", word);
}

static int check_delay(int64_t value_ms, struct pawl_err *err)
{
    if (value_ms >= 0 && value_ms <= INT32_MAX)
        return 0;
    return err_set(err, PAWL_EINVAL, "a delay is between 0 and %d ms", INT32_MAX);
}

/* How it is tried again, and until when. */
static int
read_retry(const Pawl__V1__NewJob *from, struct job_new *job, size_t i, struct pawl_err *err)
{
    static const char *const policies[] = {"exponential", "quadratic", NULL};

    if (from->retry[0] != '\0' && word_check(from->retry, policies, err) < 0)
        return in_field(err, i, "retry");
    if (check_delay(from->retry_base_ms, err) < 0)
        return in_field(err, i, "retry_base_ms");
    if (check_delay(from->retry_cap_ms, err) < 0)
        return in_field(err, i, "retry_cap_ms");
    if (from->deadline_ms < 0 || from->deadline_ms > JOB_DELAY_MAX_MS) {
        err_set(err, PAWL_EINVAL, "a deadline is between 0 and ten years ahead");
        return in_field(err, i, "deadline_ms");
    }
    job->retry = from->retry[0] != '\0' ? from->retry : NULL;
    job->retry_base_ms = (int32_t)from->retry_base_ms;
    job->retry_cap_ms = (int32_t)from->retry_cap_ms;
    job->deadline_ms = from->deadline_ms;
    return 0;
}

static int
read_unique(const Pawl__V1__NewJob *from, struct job_new *job, size_t i, struct pawl_err *err)
{
    static const char *const scopes[] = {"kind", "queue", "global", NULL};
    static const char *const states[] = {"waiting", "running", "parked", NULL};
    static const char *const modes[] = {"keep", "replace", "reschedule", "refuse", NULL};

    if (from->unique_scope[0] != '\0') {
        if (word_check(from->unique_scope, scopes, err) < 0)
            return in_field(err, i, "unique_scope");
        job->unique_scope = from->unique_scope;
    }
    if (from->n_unique_states > 0)
        job->unique_states = 0;
    for (size_t k = 0; k < from->n_unique_states; k++) {
        int state = word_check(from->unique_states[k], states, err);

        if (state < 0)
            return in_field(err, i, "unique_states");
        job->unique_states |= 1 << state;
    }
    if (from->on_conflict[0] != '\0') {
        job->unique_mode = word_check(from->on_conflict, modes, err);
        if (job->unique_mode < 0)
            return in_field(err, i, "on_conflict");
    }
    if (from->unique_key[0] != '\0')
        job->unique_key = from->unique_key;
    job->unique_keep_ms = from->unique_for_ms;
    return 0;
}

int new_job_check_json(const char *json, size_t len, size_t i, struct pawl_err *err)
{
    if (json_check(json, len, err) == 0)
        return 0;
    err_hint(err, "Set payload_is_bytes for a payload that is not JSON.");
    return in_field(err, i, "payload");
}

static int read_payload(
    const Pawl__V1__NewJob *from, bool checked, struct job_new *job, size_t i, struct pawl_err *err)
{
    /* Nothing at all is the default, unless it is said to be bytes. */
    if (from->payload.len > 0 || from->payload_is_bytes)
        job->payload = (struct bytes){from->payload.len > 0 ? (const char *)from->payload.data : "",
                                      from->payload.len};
    if (checked || from->payload_is_bytes || from->payload.len == 0 ||
        from->payload.len > PAWL_PAYLOAD_MAX)
        return 0; /* the last is refused with the other limits */
    return new_job_check_json(job->payload.data, job->payload.len, i, err);
}

int new_job_read(const Pawl__V1__NewJob *from,
                 size_t i,
                 bool checked,
                 struct arena *arena,
                 struct job_new *ret_job,
                 const char **ret_step,
                 struct pawl_err *err)
{
    struct job_new job = job_new_default();

    job.kind = from->kind;
    if (from->queue[0] != '\0')
        job.queue = from->queue;
    if (from->priority_choice_case == PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY)
        job.priority = from->priority <= PAWL_PRIORITY_MAX ? (int16_t)from->priority : -1;
    if (from->lane[0] != '\0')
        job.lane = from->lane;
    int rc = check_names(from, &job, i, err);
    if (rc == 0)
        rc = check_numbers(from, i, err);
    if (rc == 0)
        rc = read_payload(from, checked, &job, i, err);
    if (rc == 0)
        rc = read_retry(from, &job, i, err);
    if (rc == 0)
        rc = read_unique(from, &job, i, err);
    if (rc < 0)
        return rc;
    job.delay_ms = from->delay_ms;
    job.at_us = from->due_at_us;
    if (from->max_attempts != 0)
        job.max_attempts = (int32_t)from->max_attempts;
    job.timeout_ms = (int32_t)from->timeout_ms;
    job.tags = (const char *const *)from->tags;
    job.n_tags = from->n_tags;
    job.trace = from->trace[0] != '\0' ? from->trace : NULL;
    job.correlation = from->correlation[0] != '\0' ? from->correlation : NULL;
    if (job_new_check(&job, err) < 0)
        return err_prefix(err, "jobs[%zu]: ", i);
    if (job_new_meta(&job, arena, err) < 0)
        return in_field(err, i, "tags, trace or correlation");
    *ret_job = job;
    *ret_step = from->step[0] != '\0' ? from->step : NULL;
    return 0;
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
