/* stream: what comes from the server: jobs to run, and words about those that are here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/remote_internal.h"

#define SHORT_MAX   5 /* starts in vain before jobs are given back */
#define STREAM_PATH "/pawl.v1.WorkerService/StreamJobs"

static char *unconst(const char *text)
{
    return (
        char *)(uintptr_t)text; /* protobuf-c's messages have no const; packing only reads them */
}

/* --- what is held --- */

struct naming {
    Pawl__V1__RunningJob **list;
    Pawl__V1__RunningJob *items;
    size_t n;
};

static void name_all(struct naming *naming, struct list *slots)
{
    LIST_FOREACH(link, slots) {
        struct remote_slot *slot = slot_of_remote_link(link);
        Pawl__V1__RunningJob *item = &naming->items[naming->n];

        if (slot->lost)
            continue;
        pawl__v1__running_job__init(item);
        item->job_id = slot->run.job.id;
        item->token =
            (ProtobufCBinaryData){sizeof(slot->run.job.token.bytes), slot->run.job.token.bytes};
        naming->list[naming->n++] = item;
    }
}

Pawl__V1__RunningJob **remote_running_jobs(struct remote *r, size_t *ret_n)
{
    size_t n = remote_here(r);
    struct naming naming = {0};

    *ret_n = 0;
    if (n == 0)
        return NULL;
    naming.list = malloc(n * (sizeof(*naming.list) + sizeof(*naming.items)));
    if (naming.list == NULL)
        return NULL;
    naming.items = (Pawl__V1__RunningJob *)(void *)(naming.list + n);
    name_all(&naming, &r->slots.at[SLOT_RUNNING]);
    name_all(&naming, &r->slots.at[SLOT_BUFFERED]);
    name_all(&naming, &r->slots.at[SLOT_WAITING]);
    for (size_t i = 0; i < FLIGHTS_MAX; i++)
        name_all(&naming, &r->flights[i].slots);
    *ret_n = naming.n;
    return naming.list;
}

/* Lists change while slots end, and the same job may be here twice: a machine whose next step has come before the answer
 * to its last. */
static struct remote_slot *find(struct remote *r, enum slot_place place, int64_t job_id)
{
    LIST_FOREACH(link, &r->slots.at[place]) {
        struct remote_slot *slot = slot_of_remote_link(link);

        if (slot->run.job.id == job_id)
            return slot;
    }
    return NULL;
}

void remote_lost(struct remote *r, int64_t job_id, const char *why)
{
    struct remote_slot *slot = find(r, SLOT_BUFFERED, job_id);

    if (slot != NULL) { /* never started, and not ours any more */
        r->stats.lost++;
        remote_forget(r, slot);
    }
    slot = find(r, SLOT_RUNNING, job_id);
    if (slot == NULL || slot->lost)
        return;
    slot->lost = true;
    r->stats.lost++;
    log_warn(r->options.log, "job_lost", LOG_INT("job", job_id), LOG_STR("why", why));
    r->options.hands->ops->stop(r->options.hands, &slot->run, STOP_LOST);
}

static void release(struct remote *r, struct remote_slot *slot)
{
    remote_report(r, slot, &(struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1});
}

void remote_cancelled(struct remote *r, int64_t job_id)
{
    struct remote_slot *slot = find(r, SLOT_BUFFERED, job_id);

    if (slot != NULL)
        release(r, slot); /* which ends it: the database knows who asked */
    slot = find(r, SLOT_RUNNING, job_id);
    if (slot != NULL)
        r->options.hands->ops->stop(r->options.hands, &slot->run, STOP_CANCELLED);
}

void remote_release_buffered(struct remote *r)
{
    struct list *buffered = &r->slots.at[SLOT_BUFFERED];

    while (!list_empty(buffered))
        release(r, slot_of_remote_link(buffered->next));
}

/* --- handing out --- */

static void on_rested(uv_timer_t *timer)
{
    (void)timer; /* the turn that follows tries */
}

/* This process lacks what a start needs, which is no fault of the job's. It is tried again in a moment: given back at once, it
 * would come back at once. What still cannot be started then goes back with its attempt, for others to run. */
static void be_short(struct remote *r, struct run *run)
{
    slots_put(&r->slots, run, SLOT_BUFFERED, &r->slots.at[SLOT_BUFFERED], true);
    uv_timer_start(&r->rest, on_rested, remote_backoff_ms(r->slots.n_short - 1), 0);
    if (r->slots.n_short > SHORT_MAX)
        remote_release_buffered(r);
}

void remote_on_started(void *data, struct run *run)
{
    struct remote *r = data;

    if (r->options.started != NULL)
        r->options.started(r->options.data, &run->job);
}

bool remote_on_not_started(void *data, struct run *run, struct pawl_err *err)
{
    struct remote *r = data;
    struct outcome outcome = {.kind = OUTCOME_RETRY, .error = err->message, .delay_ms = -1};

    if (hands_are_short(err)) {
        be_short(r, run);
        return false;
    }
    remote_on_finished(r, run, &outcome);
    return true;
}

void remote_dispatch(struct remote *r)
{
    if (r->state == REMOTE_WORKING && !uv_is_active((uv_handle_t *)&r->rest))
        slots_dispatch(&r->slots, r->options.concurrency + r->options.hands->queue_max);
}

/* --- the stream --- */

static void on_opened(struct remote *r, const Pawl__V1__StreamOpened *opened)
{
    r->stream_open = true;
    r->stream_failures = 0;
    r->stats.streams++;
    if (opened->lease_ms > 0)
        r->lease_ms = opened->lease_ms;
    log_info(r->options.log,
             "stream_open",
             LOG_STR("server", opened->server_id),
             LOG_INT("credits", opened->credits),
             LOG_INT("lease_ms", r->lease_ms),
             LOG_INT("lost", opened->n_lost_job_ids));
    for (size_t i = 0; i < opened->n_lost_job_ids; i++)
        remote_lost(r, opened->lost_job_ids[i], "the server does not know it any more");
    r->taken = true;
    remote_beat_start(r);
}

static void on_assignment(struct remote *r, const Pawl__V1__Assignment *assignment)
{
    int64_t now_us = clock_mono_us(r->options.clock);

    for (size_t i = 0; i < assignment->n_jobs; i++) {
        const Pawl__V1__AssignedJob *job = assignment->jobs[i];
        bool wrong = job->token.len != sizeof(struct uuid) || job->job_id <= 0;
        struct remote_slot *slot = NULL;

        if (!wrong && remote_here(r) < REMOTE_HELD_MAX)
            slot = remote_slot_new(job, now_us);
        if (slot == NULL) {
            /* Its lease brings it to somebody else. */
            log_error(r->options.log,
                      "job_assign",
                      LOG_INT("job", job->job_id),
                      LOG_STR("why", wrong ? "it has no token" : "out of memory"));
            continue;
        }
        slots_move(&r->slots, &slot->run, SLOT_BUFFERED);
        r->stats.assigned++;
    }
}

static void on_drain(struct remote *r, const Pawl__V1__Drain *drain)
{
    log_info(r->options.log,
             "stream_drain",
             LOG_STR("reason", drain->reason),
             LOG_BOOL("reconnect", drain->reconnect));
    if (!drain->reconnect) {
        if (r->state == REMOTE_WORKING)
            remote_stop(r);
        return;
    }
    /* The server goes: what was not started is for others, what runs is reported to whoever is there. The stream ends by
     * the server's hand, and is opened again when there is a connection. */
    remote_release_buffered(r);
    slots_recall(&r->slots);
}

/* Credits and rates are the server's to keep: people may want to know. */
static void on_rate(struct remote *r, const Pawl__V1__RateChange *change)
{
    char rate[32];

    snprintf(rate, sizeof(rate), "%g", change->starts_per_second);
    log_info(r->options.log,
             "stream_rate",
             LOG_STR("per_second", change->starts_per_second > 0 ? rate : "no limit"));
}

static bool is_meant(const struct remote_slot *slot, const Pawl__V1__CancelRun *cancel)
{
    const struct uuid *token = &slot->run.job.token;

    return cancel->token.len == sizeof(token->bytes) &&
           memcmp(cancel->token.data, token->bytes, sizeof(token->bytes)) == 0;
}

static void on_cancel_run(struct remote *r, const Pawl__V1__CancelRun *cancel)
{
    struct remote_slot *slot = find(r, SLOT_RUNNING, cancel->job_id);
    struct remote_slot *waiting = find(r, SLOT_BUFFERED, cancel->job_id);

    /* What is not for the run that is here was for one before it. */
    if ((slot == NULL || !is_meant(slot, cancel)) &&
        (waiting == NULL || !is_meant(waiting, cancel)))
        return;
    switch (cancel->stop_reason) {
    case PAWL__V1__STOP_REASON__STOP_REASON_TIMEOUT:
        if (slot != NULL)
            r->options.hands->ops->stop(r->options.hands, &slot->run, STOP_TIMEOUT);
        break;
    case PAWL__V1__STOP_REASON__STOP_REASON_LOST:
        remote_lost(r, cancel->job_id, "the server has given it up");
        break;
    default:
        remote_cancelled(r, cancel->job_id);
        break;
    }
}

static void on_message(void *data, const ProtobufCMessage *message)
{
    struct remote *r = data;
    const Pawl__V1__StreamJobsResponse *response = (const void *)message;

    switch (response->message_case) {
    case PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_OPENED:
        on_opened(r, response->opened);
        break;
    case PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_ASSIGNMENT:
        on_assignment(r, response->assignment);
        break;
    case PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_DRAIN:
        on_drain(r, response->drain);
        break;
    case PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_CANCEL_RUN:
        on_cancel_run(r, response->cancel_run);
        break;
    case PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_CREDIT_CHANGE:
        log_info(
            r->options.log, "stream_credits", LOG_INT("credits", response->credit_change->credits));
        break;
    case PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_RATE_CHANGE:
        on_rate(r, response->rate_change);
        break;
    default:
        break; /* what is newer than we are is not for us */
    }
}

static void on_again(uv_timer_t *timer)
{
    remote_stream_open(timer->data);
}

static void on_ended(void *data, const struct call_end *end)
{
    struct remote *r = data;
    struct pawl_err err;

    r->stream = NULL;
    r->stream_open = false;
    if (r->state != REMOTE_WORKING)
        return;
    if (end->status != RPC_OK && channel_is_up(r->channel)) {
        call_error(end, r->options.server, "open a stream for jobs", &err);
        remote_trouble(r, "stream_end", &err);
    }
    /* A connection that is gone says `up` when it is back. */
    if (r->state == REMOTE_WORKING && channel_is_up(r->channel))
        uv_timer_start(&r->again, on_again, remote_backoff_ms(r->stream_failures++), 0);
}

static const struct call_ops stream_ops = {.message = on_message, .ended = on_ended};

void remote_stream_open(struct remote *r)
{
    Pawl__V1__StreamJobsRequest request;
    const char *const *kinds = r->options.hands->ops->kinds(r->options.hands);

    pawl__v1__stream_jobs_request__init(&request);
    if (r->state != REMOTE_WORKING || r->stream != NULL || !channel_is_up(r->channel))
        return;
    while (kinds[request.n_kinds] != NULL)
        request.n_kinds++;
    r->credits = r->options.concurrency + r->options.prefetch;
    request.kinds = (char **)(uintptr_t)kinds;
    request.queues = (char **)(uintptr_t)r->options.queues;
    request.n_queues = r->options.n_queues;
    request.worker_id = r->worker_id;
    request.worker_name = unconst(r->name);
    request.credits = (uint32_t)r->credits;
    request.lease_ms = r->options.lease_ms;
    request.until_empty = r->options.until_empty;
    request.running = remote_running_jobs(r, &request.n_running);
    int rc = call_start(r->channel,
                        &(struct call_new){.path = STREAM_PATH,
                                           .request = &request.base,
                                           .response = &pawl__v1__stream_jobs_response__descriptor,
                                           .streams = true,
                                           .ops = &stream_ops,
                                           .data = r},
                        &r->stream);

    free(request.running);
    if (rc < 0) {
        struct pawl_err err;

        err_set(&err, rc, "could not open a stream for jobs");
        remote_trouble(r, "stream_open", &err);
        uv_timer_start(&r->again, on_again, remote_backoff_ms(r->stream_failures++), 0);
    }
}

void remote_stream_close(struct remote *r)
{
    if (r->stream != NULL)
        call_cancel(r->stream);
    r->stream = NULL;
    r->stream_open = false;
}
