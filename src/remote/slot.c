/* slot: a job that came by the stream, in one piece of memory with its texts. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "core/json.h"
#include "remote/remote_internal.h"

#define LIST_JSON_MAX \
    ((size_t)64 * 1024 * 1024) /* of signals or children: more than a message can hold */

/* Copies texts behind each other; the room was counted before by the same calls without a place. */
struct packer {
    char *at; /* NULL: only counting */
    size_t len;
};

static const char *pack(struct packer *p, const void *data, size_t len)
{
    char *copy = p->at;

    p->len += len + 1;
    if (copy == NULL)
        return NULL;
    if (len > 0)
        memcpy(copy, data, len);
    copy[len] = '\0';
    p->at += len + 1;
    return copy;
}

/* NULL for what is empty: that is how texts that are not there travel. */
static const char *pack_text(struct packer *p, const char *text)
{
    return text != NULL && text[0] != '\0' ? pack(p, text, strlen(text)) : NULL;
}

/* What a handler in C expects: one JSON value, whatever the bytes are. */
static void put_bytes(struct json_writer *w, const ProtobufCBinaryData *bytes)
{
    const char *data = (const char *)bytes->data;

    if (bytes->len == 0)
        json_none(w);
    else if (json_is_valid(data, bytes->len))
        json_raw(w, data, bytes->len);
    else
        json_strn(w, data, bytes->len);
}

static void put_signals(struct buf *out, const Pawl__V1__AssignedJob *job)
{
    struct json_writer w;

    if (job->n_signals == 0)
        return;
    json_init(&w, out);
    json_array_begin(&w);
    for (size_t i = 0; i < job->n_signals; i++) {
        const Pawl__V1__ReceivedSignal *signal = job->signals[i];

        json_object_begin(&w);
        json_key(&w, "id");
        json_int(&w, signal->id);
        json_key(&w, "name");
        json_str(&w, signal->name);
        json_key(&w, "payload");
        put_bytes(&w, &signal->payload);
        json_object_end(&w);
    }
    json_array_end(&w);
}

static void put_children(struct buf *out, const Pawl__V1__AssignedJob *job)
{
    struct json_writer w;

    if (job->n_children == 0)
        return;
    json_init(&w, out);
    json_array_begin(&w);
    for (size_t i = 0; i < job->n_children; i++) {
        const Pawl__V1__ChildResult *child = job->children[i];

        json_object_begin(&w);
        json_key(&w, "id");
        json_int(&w, child->job_id);
        json_key(&w, "kind");
        json_str(&w, child->kind);
        json_key(&w, "state");
        json_str(&w, job_state_text((int)child->state));
        if (child->result.len > 0) {
            json_key(&w, "result");
            put_bytes(&w, &child->result);
        }
        if (child->error[0] != '\0') {
            json_key(&w, "error");
            json_str(&w, child->error);
        }
        json_object_end(&w);
    }
    json_array_end(&w);
}

static bool is_machine(const Pawl__V1__AssignedJob *job)
{
    return job->step[0] != '\0' || job->machine_data.len > 0 || job->n_signals > 0 ||
           job->n_children > 0 || job->timed_out;
}

/* Twice: without a slot it counts. */
static void fill(struct remote_slot *slot,
                 struct packer *p,
                 const Pawl__V1__AssignedJob *job,
                 const struct buf *signals,
                 const struct buf *children,
                 const struct buf *shown)
{
    struct machine machine = {0};
    struct job view = {
        .id = job->job_id,
        .kind = pack(p, job->kind, strlen(job->kind)),
        .queue = pack(p, job->queue, strlen(job->queue)),
        .priority = (int16_t)job->priority,
        .attempt = (int32_t)job->attempt,
        .max_attempts = (int32_t)job->max_attempts,
        .timeout_ms = job->timeout_ms,
        .payload = pack(p, job->payload.data, job->payload.len),
        .payload_len = job->payload.len,
        .trace = pack_text(p, job->trace),
        .lane = pack_text(p, job->lane),
    };

    if (is_machine(job)) {
        machine.step = pack_text(p, job->step);
        if (job->machine_data.len > 0)
            machine.state = pack(p, job->machine_data.data, job->machine_data.len);
        machine.state_len = job->machine_data.len;
        machine.signals = pack_text(p, buf_str(signals));
        machine.children = pack_text(p, buf_str(children));
        machine.shown = pack_text(p, buf_str(shown));
        machine.timed_out = job->timed_out;
        machine.children_left = (int32_t)job->children_left;
    }
    if (slot == NULL)
        return;
    memcpy(view.token.bytes, job->token.data, sizeof(view.token.bytes));
    slot->machine = machine;
    slot->run.job = view;
    if (is_machine(job))
        slot->run.job.machine = &slot->machine;
}

struct remote_slot *remote_slot_new(const Pawl__V1__AssignedJob *job, int64_t now_us)
{
    struct packer count = {0};
    struct buf signals;
    struct buf children;
    struct buf shown;
    struct remote_slot *slot = NULL;

    buf_init(&signals, LIST_JSON_MAX);
    buf_init(&children, LIST_JSON_MAX);
    buf_init(&shown, LIST_JSON_MAX);
    put_signals(&signals, job);
    put_children(&children, job);
    for (size_t i = 0; i < job->n_signals; i++)
        buf_printf(&shown, "%s%lld", i > 0 ? "," : "", (long long)job->signals[i]->id);
    if (!signals.failed && !children.failed && !shown.failed) {
        fill(NULL, &count, job, &signals, &children, &shown);
        slot = malloc(sizeof(*slot) + count.len);
    }
    if (slot != NULL) {
        memset(slot, 0, sizeof(*slot));
        slot->leased_us = now_us;
        fill(slot, &(struct packer){.at = (char *)(slot + 1)}, job, &signals, &children, &shown);
    }
    buf_deinit(&signals);
    buf_deinit(&children);
    buf_deinit(&shown);
    return slot;
}

void remote_slot_free(struct remote_slot *slot)
{
    outcome_clear(&slot->outcome);
    free(slot->note);
    free(slot);
}
