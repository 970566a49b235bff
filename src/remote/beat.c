/*
 * beat: keeps the claims of what is held. Three times within a lease one call names all of it, and the answer tells what is lost
 * or cancelled. Without anything held there is nothing to say: the stream is the worker's presence.
 */
#include <stdlib.h>
#include <string.h>

#include "remote/remote_internal.h"

#define BEAT_PATH       "/pawl.v1.WorkerService/Heartbeat"
#define BEATS_PER_LEASE 3 /* two may fail before anything is lost */
#define SOON_MS         500
#define NOTES_MAX       1000 /* in one call */
#define GOODBYE_MS      2000 /* for the last words of a worker that leaves */

static void send_beat(struct remote *r);

static void on_beat(uv_timer_t *timer)
{
    struct remote *r = timer->data;

    uv_timer_start(timer, on_beat, (uint64_t)(r->lease_ms / BEATS_PER_LEASE), 0);
    send_beat(r);
}

void remote_beat_start(struct remote *r)
{
    uv_timer_start(&r->beat, on_beat, (uint64_t)(r->lease_ms / BEATS_PER_LEASE), 0);
}

void remote_beat_left(struct remote *r)
{
    send_beat(r);
}

void remote_beat_soon(struct remote *r)
{
    r->noted = true;
    if (uv_timer_get_due_in(&r->beat) > SOON_MS)
        uv_timer_start(&r->beat, on_beat, SOON_MS, 0);
}

static void renewed(struct list *slots, int64_t sent_us)
{
    LIST_FOREACH(link, slots) {
        struct remote_slot *slot = slot_of_remote_link(link);

        if (slot->leased_us < sent_us)
            slot->leased_us = sent_us;
    }
}

static void on_answer(void *data, const ProtobufCMessage *message)
{
    struct remote *r = data;
    const Pawl__V1__HeartbeatResponse *response = (const void *)message;

    renewed(&r->slots.at[SLOT_RUNNING], r->beat_sent_us);
    renewed(&r->slots.at[SLOT_BUFFERED], r->beat_sent_us);
    for (size_t i = 0; i < response->n_lost_job_ids; i++)
        remote_lost(r, response->lost_job_ids[i], "the server does not know it any more");
    for (size_t i = 0; i < response->n_cancelled_job_ids; i++)
        remote_cancelled(r, response->cancelled_job_ids[i]);
}

static void on_ended(void *data, const struct call_end *end)
{
    struct remote *r = data;

    r->beat_call = NULL;
    if (end->status != RPC_OK)
        log_warn(r->options.log,
                 "heartbeat",
                 LOG_STR("status", rpc_status_name((int)end->status)),
                 LOG_STR("error", end->message));
    if (r->state == REMOTE_DRAINING && !r->said_left)
        send_beat(r); /* it had to wait for this one */
}

static const struct call_ops beat_ops = {.message = on_answer, .ended = on_ended};

/* What was not renewed for a whole lease may be somebody else's by now. Losing one changes the lists, hence one at a time. */
static void give_up_expired(struct remote *r)
{
    int64_t before_us = clock_mono_us(r->options.clock) - r->lease_ms * US_PER_MS;
    struct list *lists[] = {&r->slots.at[SLOT_RUNNING], &r->slots.at[SLOT_BUFFERED]};

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        LIST_FOREACH_SAFE(link, after, lists[i]) {
            struct remote_slot *slot = slot_of_remote_link(link);

            if (!slot->lost && slot->leased_us < before_us)
                remote_lost(r, slot->run.job.id, "its lease could not be renewed");
        }
    }
}

/* Takes the notes into the request. They are freed by the caller, with the array. */
static void take_notes(struct remote *r, Pawl__V1__HeartbeatRequest *request)
{
    Pawl__V1__JobProgress *items;

    r->noted = false;
    request->progress = malloc(NOTES_MAX * (sizeof(*request->progress) + sizeof(*items)));
    if (request->progress == NULL)
        return;
    items = (Pawl__V1__JobProgress *)(void *)(request->progress + NOTES_MAX);
    LIST_FOREACH(link, &r->slots.at[SLOT_RUNNING]) {
        struct remote_slot *slot = slot_of_remote_link(link);
        Pawl__V1__JobProgress *item = &items[request->n_progress];

        if (slot->note == NULL || slot->lost)
            continue;
        if (request->n_progress == NOTES_MAX) {
            r->noted = true;
            break;
        }
        pawl__v1__job_progress__init(item);
        item->job_id = slot->run.job.id;
        item->token =
            (ProtobufCBinaryData){sizeof(slot->run.job.token.bytes), slot->run.job.token.bytes};
        item->note = slot->note;
        slot->note = NULL;
        request->progress[request->n_progress++] = item;
    }
}

static void send_beat(struct remote *r)
{
    Pawl__V1__HeartbeatRequest request;

    pawl__v1__heartbeat_request__init(&request);
    give_up_expired(r);
    if (r->beat_call != NULL || !channel_is_up(r->channel) || r->state >= REMOTE_CLOSING)
        return;
    request.running = remote_running_jobs(r, &request.n_running);
    if (r->noted)
        take_notes(r, &request);
    request.worker_id = r->worker_id;
    /* The stream is left, and all of it was read: what the server sent and we do not name never came here. */
    request.left_stream = r->state == REMOTE_DRAINING;
    if (request.n_running > 0 || (request.left_stream && !r->said_left)) {
        r->said_left = request.left_stream;
        r->beat_sent_us = clock_mono_us(r->options.clock);
        r->stats.beats++;
        int rc = call_start(
            r->channel,
            &(struct call_new){.path = BEAT_PATH,
                               .request = &request.base,
                               .response = &pawl__v1__heartbeat_response__descriptor,
                               .timeout_ms = request.left_stream ? GOODBYE_MS : r->lease_ms,
                               .ops = &beat_ops,
                               .data = r},
            &r->beat_call);

        if (rc < 0)
            log_warn(r->options.log, "heartbeat", LOG_STR("error", err_code_text(rc)));
    }
    for (size_t i = 0; i < request.n_progress; i++)
        free(request.progress[i]->note);
    free(request.progress);
    free(request.running);
}
