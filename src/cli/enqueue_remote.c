/* enqueue_remote: from a job as the store takes it to a job as the server does. */
#include "cli/enqueue_remote.h"

#include "base/buf.h"
#include "cli/enqueue_rich.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "remote/ask.h"

static char *text(const char *s)
{
    return (char *)(uintptr_t)(s != NULL ? s : "");
}

static void fill(Pawl__V1__NewJob *to, const struct job_new *from, bool bytes)
{
    pawl__v1__new_job__init(to);
    to->kind = text(from->kind);
    to->queue = text(from->queue);
    to->payload =
        (ProtobufCBinaryData){from->payload.len, (uint8_t *)(uintptr_t)from->payload.data};
    to->payload_is_bytes = bytes;
    to->priority_choice_case = PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY;
    to->priority = (uint32_t)from->priority;
    to->delay_ms = from->delay_ms;
    to->due_at_us = from->at_us;
    to->max_attempts = (uint32_t)from->max_attempts;
    to->timeout_ms = from->timeout_ms;
    to->retry = text(from->retry);
    to->retry_base_ms = from->retry_base_ms;
    to->retry_cap_ms = from->retry_cap_ms;
    to->lane = text(from->lane);
    to->deadline_ms = from->deadline_ms;
    to->tags = (char **)(uintptr_t)from->tags;
    to->n_tags = from->n_tags;
    to->trace = text(from->trace);
    to->correlation = text(from->correlation);
    if (from->unique_key == NULL)
        return;
    to->unique_key = text(from->unique_key);
    to->unique_scope = text(from->unique_scope);
    to->unique_for_ms = from->unique_keep_ms;
    to->on_conflict = text(enqueue_conflicts[from->unique_mode]);
}

static void on_answer(void *data, const ProtobufCMessage *message)
{
    const Pawl__V1__EnqueueResponse *response = (const void *)message;

    for (size_t i = 0; i < response->n_accepted; i++)
        buf_append(data, &response->accepted[i]->job_id, sizeof(int64_t));
}

int enqueue_remotely(const struct server_access *access,
                     const struct job_new *jobs,
                     size_t n,
                     bool bytes,
                     struct buf *ids,
                     struct arena *arena,
                     struct pawl_err *err)
{
    Pawl__V1__NewJob *items = arena_new_array(arena, n + 1, Pawl__V1__NewJob);
    Pawl__V1__NewJob **list = arena_new_array(arena, n + 1, Pawl__V1__NewJob *);
    Pawl__V1__EnqueueRequest request;
    struct uuid key = uuid_random();
    char key_text[UUID_TEXT_LEN + 1];

    if (items == NULL || list == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].parent_id != 0)
            return err_set(err, PAWL_EINVAL, "--parent does not go with --server");
        fill(&items[i], &jobs[i], bytes);
        list[i] = &items[i];
    }
    uuid_format(&key, key_text);
    pawl__v1__enqueue_request__init(&request);
    request.jobs = list;
    request.n_jobs = n;
    request.idempotency_key = key_text;
    return remote_ask(&(struct ask){.server = &access->address,
                                    .token = access->token,
                                    .tls = access->tls,
                                    .what = "enqueue",
                                    .path = "/pawl.v1.JobService/Enqueue",
                                    .request = &request.base,
                                    .response = &pawl__v1__enqueue_response__descriptor,
                                    .repeatable = true,
                                    .answer = on_answer,
                                    .data = ids},
                      err);
}
