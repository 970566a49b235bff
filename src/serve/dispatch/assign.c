/* assign: claimed jobs as messages. The signals and children of a machine come as JSON, whose
 * values are copied as they are. */
#include <stdlib.h>

#include "core/json_walk.h"
#include "core/machine.h"
#include "serve/dispatch/dispatch_internal.h"

typedef Pawl__V1__AssignedJob AssignedJob;

static bool is_key(struct json_span key, const char *name)
{
    size_t len = strlen(name);

    return key.len == len + 2 && memcmp(key.data + 1, name, len) == 0;
}

static bool is_null(struct json_span value)
{
    return value.len == 4 && memcmp(value.data, "null", 4) == 0;
}

static int64_t to_int(struct json_span value)
{
    return strtoll(value.data, NULL, 10);
}

/* The text of a string; "" for null and for any other value. */
static char *to_text(struct json_span value, struct arena *arena)
{
    const char *text = NULL;
    struct pawl_err ignored;

    if (is_null(value) || json_span_string(value, arena, &text, &ignored) < 0)
        return unconst(NULL);
    return unconst(text);
}

static ProtobufCBinaryData to_bytes(struct json_span value)
{
    if (is_null(value))
        return (ProtobufCBinaryData){0, NULL};
    return (ProtobufCBinaryData){value.len, (uint8_t *)(uintptr_t)value.data};
}

static size_t count_items(const char *json, size_t len)
{
    size_t pos = 0, n = 0;
    struct json_span item;

    while (json_walk_item(json, len, &pos, &item))
        n++;
    return n;
}

static int add_signals(AssignedJob *job, const char *json, struct arena *arena)
{
    size_t len = strlen(json), pos = 0;
    struct json_span item, key, value;

    job->signals = arena_new_array(arena, count_items(json, len), Pawl__V1__ReceivedSignal *);
    if (job->signals == NULL)
        return PAWL_ENOMEM;
    while (json_walk_item(json, len, &pos, &item)) {
        Pawl__V1__ReceivedSignal *signal = arena_new(arena, Pawl__V1__ReceivedSignal);
        size_t at = 0;

        if (signal == NULL)
            return PAWL_ENOMEM;
        pawl__v1__received_signal__init(signal);
        while (json_walk(item.data, item.len, &at, &key, &value)) {
            if (is_key(key, "id"))
                signal->id = to_int(value);
            else if (is_key(key, "name"))
                signal->name = to_text(value, arena);
            else if (is_key(key, "payload"))
                signal->payload = to_bytes(value);
        }
        job->signals[job->n_signals++] = signal;
    }
    return 0;
}

static int add_children(AssignedJob *job, const char *json, struct arena *arena)
{
    size_t len = strlen(json), pos = 0;
    struct json_span item, key, value;

    job->children = arena_new_array(arena, count_items(json, len), Pawl__V1__ChildResult *);
    if (job->children == NULL)
        return PAWL_ENOMEM;
    while (json_walk_item(json, len, &pos, &item)) {
        Pawl__V1__ChildResult *child = arena_new(arena, Pawl__V1__ChildResult);
        enum job_state state;
        size_t at = 0;

        if (child == NULL)
            return PAWL_ENOMEM;
        pawl__v1__child_result__init(child);
        while (json_walk(item.data, item.len, &at, &key, &value)) {
            if (is_key(key, "id"))
                child->job_id = to_int(value);
            else if (is_key(key, "kind"))
                child->kind = to_text(value, arena);
            else if (is_key(key, "state") && job_state_parse(to_text(value, arena), &state) == 0)
                child->state = (Pawl__V1__JobState)state;
            else if (is_key(key, "result"))
                child->result = to_bytes(value);
            else if (is_key(key, "error"))
                child->error = to_text(value, arena);
        }
        job->children[job->n_children++] = child;
    }
    return 0;
}

static int add_machine(AssignedJob *job, const struct machine *machine, struct arena *arena)
{
    int rc = 0;

    job->step = unconst(machine->step);
    job->machine_data =
        (ProtobufCBinaryData){machine->state_len, (uint8_t *)(uintptr_t)machine->state};
    job->timed_out = machine->timed_out;
    job->children_left = machine->children_left > 0 ? (uint32_t)machine->children_left : 0;
    if (machine->signals != NULL)
        rc = add_signals(job, machine->signals, arena);
    if (rc == 0 && machine->children != NULL)
        rc = add_children(job, machine->children, arena);
    return rc;
}

static int fill(AssignedJob *message, struct stream_run *run, struct arena *arena)
{
    const struct job *job = &run->run->job;

    run->ticket = ticket_make(job, run->steps);
    pawl__v1__assigned_job__init(message);
    message->job_id = job->id;
    message->token = (ProtobufCBinaryData){sizeof(run->ticket.bytes), run->ticket.bytes};
    message->kind = unconst(job->kind);
    message->queue = unconst(job->queue);
    message->payload = (ProtobufCBinaryData){job->payload_len, (uint8_t *)(uintptr_t)job->payload};
    message->attempt = (uint32_t)job->attempt;
    message->max_attempts = (uint32_t)job->max_attempts;
    message->timeout_ms = job->timeout_ms;
    message->priority = (uint32_t)job->priority;
    message->lane = unconst(job->lane);
    message->trace = unconst(job->trace);
    return job->machine != NULL ? add_machine(message, job->machine, arena) : 0;
}

int stream_assign(struct stream *stream, struct stream_run *const *runs, size_t n)
{
    struct dispatch *d = stream->d;
    AssignedJob jobs[STREAM_BATCH_MAX];
    AssignedJob *pointers[STREAM_BATCH_MAX];
    Pawl__V1__Assignment assignment = PAWL__V1__ASSIGNMENT__INIT;
    int64_t until_us = lease_until_us(d);
    uint64_t at = stream->bytes;

    arena_clear(&d->scratch);
    for (size_t i = 0; i < n; i++) {
        if (fill(&jobs[i], runs[i], &d->scratch) < 0) {
            stream->broken = d->any_broken = true; /* no `writable` would follow */
            return PAWL_ENOMEM;
        }
        jobs[i].lease_until_us = until_us;
        pointers[i] = &jobs[i];
        runs[i]->at = at;
    }
    assignment.jobs = pointers;
    assignment.n_jobs = n;
    int rc = stream_send(stream, STREAM_MESSAGE(ASSIGNMENT, assignment, &assignment));

    if (rc == 0) {
        d->counters.jobs_assigned += n;
        d->counters.messages_assigned++;
    }
    return rc;
}
