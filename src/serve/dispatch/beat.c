/* beat: Heartbeat. The leases of runs here are in memory, and the coordinator renews their
 * claims. Leases of jobs that other servers claimed are renewed in the database, those of many
 * workers in one statement. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "serve/dispatch/dispatch_internal.h"

#define PROGRESS_MAX 1000

typedef Pawl__V1__HeartbeatRequest Request;
typedef Pawl__V1__HeartbeatResponse Response;

struct beat {
    struct dispatch *d;
    struct rpc_call *call;
    struct take *take; /* under way; NULL: none */
    int64_t *lost;     /* owned, like the next */
    int64_t *cancelled;
    size_t n_lost;
    size_t n_cancelled;
};

/* ── jobs that are asked for ── */

struct take *take_new(const char *worker, size_t n_max)
{
    struct take *take = calloc(1, sizeof(*take));

    if (take == NULL)
        return NULL;
    list_init(&take->link);
    take->jobs = calloc(n_max + 1, sizeof(*take->jobs));
    take->answers = calloc(n_max + 1, sizeof(*take->answers));
    take->worker = strdup(worker);
    if (take->jobs == NULL || take->answers == NULL || take->worker == NULL) {
        take_free(take);
        return NULL;
    }
    return take;
}

void take_add(struct take *take, int64_t job_id, const struct ticket *ticket)
{
    take->jobs[take->n++] =
        (struct held_job){.id = job_id, .ticket = *ticket, .worker = take->worker};
}

void take_free(struct take *take)
{
    if (take == NULL)
        return;
    for (size_t i = 0; i < take->n; i++)
        free((char *)(uintptr_t)take->jobs[i].progress);
    free(take->jobs);
    free(take->answers);
    free(take->worker);
    free(take);
}

/* ── the call ── */

static void beat_free(struct beat *beat)
{
    if (beat == NULL)
        return;
    free(beat->lost);
    free(beat->cancelled);
    free(beat);
}

static void answer(struct beat *beat)
{
    Response response = PAWL__V1__HEARTBEAT_RESPONSE__INIT;

    response.lease_until_us = lease_until_us(beat->d);
    response.lost_job_ids = beat->lost;
    response.n_lost_job_ids = beat->n_lost;
    response.cancelled_job_ids = beat->cancelled;
    response.n_cancelled_job_ids = beat->n_cancelled;
    rpc_reply(beat->call, &response.base);
    beat_free(beat);
}

/* The stream of this worker at this server; NULL: its stream is elsewhere. */
static struct stream *stream_of(const struct beat *beat, const struct take *take)
{
    const void *client = rpc_call_client(beat->call);
    struct stream *stream = NULL;

    while ((stream = streams_next(&beat->d->streams, stream)) != NULL) {
        if (strcmp(stream->worker, take->worker) == 0 && stream->client == client)
            break;
    }
    return stream;
}

static void on_taken(struct take *take, bool known)
{
    struct beat *beat = take->data;

    if (!known) {
        struct rpc_call *call = beat->call;

        beat_free(beat);
        rpc_end(call, RPC_UNAVAILABLE, "the database did not answer; leases are as they were");
        return;
    }
    struct stream *stream = stream_of(beat, take);

    for (size_t i = 0; i < take->n; i++) {
        const struct held_job *job = &take->jobs[i];

        if (take->answers[i] == TAKE_LOST) {
            struct stream_run *run = dispatch_find(beat->d, job->id, &job->ticket);

            if (run != NULL && run->state == RUN_AWAY)
                streams_forget_away(&beat->d->streams, run);
            beat->lost[beat->n_lost++] = job->id;
            continue;
        }
        /* The job takes a credit of its worker's stream. That was forgotten here when the
         * heartbeats of a whole lease went to another server. */
        if (stream != NULL && streams_find(&beat->d->streams, job->id) == NULL)
            streams_add_away(&beat->d->streams, job->id, stream, &job->ticket);
        if (take->answers[i] == TAKE_CANCELLED)
            beat->cancelled[beat->n_cancelled++] = job->id;
    }
    answer(beat);
}

static void on_gone(struct rpc_call *call, void *data)
{
    struct beat *beat = data;

    (void)call;
    beat->take->done = NULL;
    beat->take->data = NULL;
    beat_free(beat);
}

static const struct rpc_call_ops beat_ops = {.gone = on_gone};

/* True: the run is here, and its sign of life is noted. */
static bool
note_alive(struct beat *beat, const Pawl__V1__RunningJob *job, const struct ticket *ticket)
{
    struct stream_run *run = dispatch_find(beat->d, job->job_id, ticket);

    if (run != NULL && run->state == RUN_AWAY)
        run->seen_us = dispatch_now_us(); /* the database decides whether the lease holds */
    if (run != NULL)
        run->named = beat->d->naming;
    if (run == NULL || run->state == RUN_AWAY || (run->state == RUN_LEAVING && run->on_its_way))
        return false;
    if (run->state != RUN_REPORTED && !coordinator_holds(run->run)) {
        beat->lost[beat->n_lost++] = job->job_id;
        return true;
    }
    run->seen_us = dispatch_now_us();
    if (run->cancelled)
        beat->cancelled[beat->n_cancelled++] = job->job_id;
    return true;
}

static void
note_progress(struct beat *beat, struct take *take, const Pawl__V1__JobProgress *progress)
{
    char text[PROGRESS_MAX + 1];
    struct ticket ticket;
    struct stream_run *run;

    if (!ticket_read(&progress->token, &ticket))
        return;
    int len = snprintf(text,
                       sizeof(text),
                       "%u%%%s%s",
                       progress->percent < 100 ? progress->percent : 100,
                       progress->note[0] != '\0' ? " " : "",
                       progress->note);

    if (len > PROGRESS_MAX)
        text[text_whole(text, PROGRESS_MAX)] = '\0';
    run = dispatch_find(beat->d, progress->job_id, &ticket);
    if (run != NULL && run->state == RUN_SENT) {
        coordinator_note(beat->d->coordinator, run->run, text);
        return;
    }
    for (size_t i = 0; i < take->n; i++) {
        if (take->jobs[i].id == progress->job_id && take->jobs[i].progress == NULL)
            take->jobs[i].progress = strdup(text);
    }
}

static struct beat *beat_new(struct dispatch *d, struct rpc_call *call, const Request *request)
{
    struct beat *beat = calloc(1, sizeof(*beat));

    if (beat == NULL)
        return NULL;
    beat->d = d;
    beat->call = call;
    beat->lost = calloc(request->n_running + 1, sizeof(*beat->lost));
    beat->cancelled = calloc(request->n_running + 1, sizeof(*beat->cancelled));
    if (beat->lost == NULL || beat->cancelled == NULL) {
        beat_free(beat);
        return NULL;
    }
    return beat;
}

void handle_heartbeat(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct dispatch *d = data;
    const Request *request = (const Request *)(const void *)message;

    if (!auth_allows(d->auth, call, AUTH_WORK, NULL) || dispatch_refuses(d, call) ||
        !dispatch_worker_id_ok(call, request->worker_id))
        return;
    if (request->n_running > RUNNING_MAX || request->n_progress > RUNNING_MAX) {
        rpc_end(call, RPC_INVALID_ARGUMENT, "more than %d jobs in one heartbeat", RUNNING_MAX);
        return;
    }
    struct beat *beat = beat_new(d, call, request);
    struct take *take = beat != NULL ? take_new(request->worker_id, request->n_running) : NULL;

    if (take == NULL) {
        beat_free(beat);
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory for the heartbeat");
        return;
    }
    d->counters.heartbeats++;
    d->naming++;
    for (size_t i = 0; i < request->n_running; i++) {
        struct ticket ticket;

        if (!ticket_read(&request->running[i]->token, &ticket))
            beat->lost[beat->n_lost++] = request->running[i]->job_id;
        else if (!note_alive(beat, request->running[i], &ticket))
            take_add(take, request->running[i]->job_id, &ticket);
    }
    if (request->left_stream) /* otherwise an assignment may be on its way */
        dispatch_all_named(d, request->worker_id, rpc_call_client(call));
    for (size_t i = 0; i < request->n_progress; i++)
        note_progress(beat, take, request->progress[i]);
    if (take->n == 0) {
        take_free(take);
        answer(beat);
        return;
    }
    take->done = on_taken;
    take->data = beat;
    beat->take = take;
    rpc_hold(call, &beat_ops, beat);
    away_take(d, take);
}
