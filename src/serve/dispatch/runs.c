/*
 * runs: the state of each run, and the hands of the coordinator. Conserved: the hands report each
 * run exactly once, and a run that takes a credit gives it back exactly once (run_uncount).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/machine.h"
#include "serve/dispatch/dispatch_internal.h"

#define STUFFED_MS    5000 /* how long claimed jobs wait for a worker that does not read */
#define JOB_BYTES_MAX ((size_t)19 * 1024 * 1024) /* clients accept messages of 20 MiB */
/* Payloads in one message, unless the first one alone is larger. */
#define BATCH_BYTES_MAX ((size_t)256 * 1024)

static struct streams *from_hands(struct hands *hands)
{
    return (struct streams *)(void *)hands;
}

static struct stream_run *of_link(struct list *link)
{
    return LIST_ENTRY(link, struct stream_run, link);
}

static int64_t now_us(const struct streams *streams)
{
    return clock_mono_us(streams->clock);
}

/* ── runs ── */

/* Gives the credit of the run back. */
static void run_uncount(struct stream_run *run)
{
    struct stream *stream = run->stream;

    run->stream = NULL;
    if (stream == NULL)
        return;
    assert(stream->used > 0);
    stream->used--;
    stream_update(stream);
}

/* This stream reported the outcome. An until_empty stream may not end before the commit: the job
 * may be due again then. */
static void run_reported_by(struct stream_run *run, struct stream *stream)
{
    stream->ended++;
    if (!stream->until_empty)
        return;
    run->reporter = stream;
    stream->n_reported++;
}

static void run_forget_reporter(struct stream_run *run)
{
    struct stream *stream = run->reporter;

    run->reporter = NULL;
    if (stream == NULL)
        return;
    stream->n_reported--;
    stream_look(stream);
}

static struct stream_run *run_new(struct streams *streams, int64_t job_id)
{
    struct stream_run *run = calloc(1, sizeof(*run));
    struct stream_run *old = map_get(&streams->runs, &job_id, sizeof(job_id));

    if (run == NULL)
        return NULL;
    list_init(&run->link);
    run->job_id = job_id;
    /* The older run, a step that is being settled, is on no list. Once the map has the new run,
     * the stream of the older one could not find it when it closes. */
    if (old != NULL && old->state == RUN_REPORTED) {
        run_uncount(old);
        run_forget_reporter(old);
    }
    if (map_put(&streams->runs, &job_id, sizeof(job_id), run) < 0) {
        free(run);
        return NULL;
    }
    return run;
}

static void run_free(struct streams *streams, struct stream_run *run)
{
    /* A job that was lost and claimed again has another run by now. */
    if (map_get(&streams->runs, &run->job_id, sizeof(run->job_id)) == run)
        map_remove(&streams->runs, &run->job_id, sizeof(run->job_id));
    list_remove(&run->link);
    free(run->worker);
    free(run);
}

static void run_count(struct stream_run *run, struct stream *stream)
{
    run->stream = stream;
    stream->used++;
    stream_update(stream);
}

static void finish(struct streams *streams, struct stream_run *run, const struct outcome *outcome)
{
    list_remove(&run->link);
    run->state = RUN_REPORTED;
    streams->hands.finished(streams->hands.finished_data, run->run, outcome);
}

static void release(struct streams *streams, struct stream_run *run)
{
    run_uncount(run);
    finish(streams, run, &(struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1});
}

struct stream_run *streams_find(const struct streams *streams, int64_t job_id)
{
    return map_get(&streams->runs, &job_id, sizeof(job_id));
}

void streams_report(struct streams *streams, struct stream_run *run, const struct outcome *outcome)
{
    assert(run->state == RUN_SENT || run->state == RUN_LEAVING);
    if (run->stream != NULL)
        run_reported_by(run, run->stream);
    /* A step that goes on at once may stay on the stream, and then needs its credit. */
    if (outcome->kind != OUTCOME_NEXT || outcome->delay_ms > 0)
        run_uncount(run);
    finish(streams, run, outcome);
}

void streams_move(struct streams *streams, struct stream_run *run, struct stream *to)
{
    assert(run->state == RUN_SENT || run->state == RUN_LEAVING);
    run_uncount(run);
    run_count(run, to);
    run->state = RUN_SENT;
    run->at = 0; /* its message left long ago */
    run->seen_us = now_us(streams);
    list_remove(&run->link);
    list_push(&to->runs, &run->link);
}

void streams_add_away(struct streams *streams,
                      int64_t job_id,
                      struct stream *stream,
                      const struct ticket *ticket)
{
    struct stream_run *run = run_new(streams, job_id);

    if (run == NULL)
        return;
    run->ticket = *ticket;
    run->state = RUN_AWAY;
    run->seen_us = now_us(streams);
    run_count(run, stream);
    list_push(&stream->runs, &run->link);
}

struct stream_run *streams_adopt(struct streams *streams, struct stream_run *away, struct run *run)
{
    struct stream_run *found = away != NULL ? away : run_new(streams, run->job.id);

    if (found == NULL)
        return NULL;
    if (found->stream != NULL)
        run_reported_by(found, found->stream);
    run_uncount(found);
    list_remove(&found->link);
    found->state = RUN_REPORTED;
    found->run = run;
    run->hands_data = found;
    return found;
}

void streams_forget_away(struct streams *streams, struct stream_run *run)
{
    assert(run->state == RUN_AWAY);
    run_uncount(run);
    run_free(streams, run);
}

/* ── leaving ── */

/* silent: the lease is over as far as this server knows, and the run leaves at once. */
static void leave(struct streams *streams, struct stream_run *run, bool silent)
{
    free(run->worker);
    run->worker = strdup(run->stream->worker);
    run->client = run->stream->client;
    if (!silent)
        run_uncount(run);
    run->state = RUN_LEAVING;
    run->on_its_way = false;
    run->left_us = silent ? 0 : now_us(streams);
    list_remove(&run->link);
    if (silent)
        list_unshift(&streams->leaving, &run->link);
    else
        list_push(&streams->leaving, &run->link);
}

void streams_left(struct streams *streams, struct stream_run *run)
{
    assert(run->state == RUN_LEAVING);
    if (run->stream == NULL) {
        run_free(streams, run);
        return;
    }
    run->state = RUN_AWAY;
    run->run = NULL;
    run->seen_us = now_us(streams);
    list_remove(&run->link);
    list_push(&run->stream->runs, &run->link);
}

void streams_lost(struct streams *streams, struct stream_run *run)
{
    assert(run->state == RUN_LEAVING);
    if (run->stream != NULL)
        stream_stop_run(run, STOP_LOST);
    run_uncount(run);
    run_free(streams, run);
}

void streams_never_arrived(struct streams *streams, struct stream_run *run)
{
    assert(run->state == RUN_LEAVING);
    release(streams, run);
}

static void release_outbox(struct stream *stream);

void stream_drop_runs(struct stream *stream)
{
    struct streams *streams = &stream->d->streams;
    uint64_t left = stream_left(stream);
    size_t pos = 0;
    struct stream_run *run;

    release_outbox(stream);
    while (!list_empty(&stream->runs)) {
        run = of_link(stream->runs.next);
        if (run->state == RUN_AWAY) {
            run->stream = NULL;
            run_free(streams, run);
        } else if (run->at >= left) {
            release(streams, run);
        } else {
            leave(streams, run, false);
        }
    }
    /* Steps that are being settled and would have gone on here, and silent runs. */
    while ((stream->used > 0 || stream->n_reported > 0) &&
           (run = map_next(&streams->runs, &pos, NULL, NULL)) != NULL) {
        if (run->stream == stream)
            run_uncount(run);
        if (run->reporter == stream)
            run_forget_reporter(run);
    }
}

void streams_tick(struct streams *streams)
{
    int64_t now = now_us(streams);

    LIST_FOREACH(link, &streams->all) {
        struct stream *stream = LIST_ENTRY(link, struct stream, link);

        if (stream->stuffed && now - stream->stuffed_us > STUFFED_MS * US_PER_MS)
            release_outbox(stream);
        LIST_FOREACH_SAFE(at, after, &stream->runs) {
            struct stream_run *run = of_link(at);
            bool silent = now - run->seen_us > streams->d->options.lease_ms * US_PER_MS;

            /* The job was reported elsewhere or lost; a worker that names it brings it back. */
            if (run->state == RUN_AWAY) {
                if (silent)
                    streams_forget_away(streams, run);
                continue;
            }
            if (silent) {
                leave(streams, run, true);
                continue;
            }
            int64_t timeout_ms = run->run->job.timeout_ms;

            if (timeout_ms > 0 && !run->told_timeout &&
                now - run->sent_us > timeout_ms * US_PER_MS) {
                run->told_timeout = true;
                stream_stop_run(run, STOP_TIMEOUT);
            }
        }
    }
}

/* ── the hands interface ── */

static int streams_run(struct hands *hands, struct run *run, struct pawl_err *err)
{
    struct streams *streams = from_hands(hands);
    struct stream_run *mine = run->hands_data;

    if (mine == NULL) {
        mine = run_new(streams, run->job.id);
        if (mine == NULL)
            return err_set(err, PAWL_ENOMEM, "no memory for a run");
        mine->run = run;
        run->hands_data = mine;
    }
    mine->state = RUN_FRESH;
    mine->cancelled = mine->told_timeout = false;
    list_push(&streams->fresh, &mine->link);
    return 0;
}

/* The parts of a job that can make a message large. */
static size_t job_bytes(const struct job *job)
{
    const struct machine *machine = job->machine;
    size_t bytes = job->payload_len;

    if (machine == NULL)
        return bytes;
    bytes += machine->state_len;
    bytes += machine->signals != NULL ? strlen(machine->signals) : 0;
    return bytes + (machine->children != NULL ? strlen(machine->children) : 0);
}

/* Sent, such a job would end the stream, be released and come back, for ever. */
static void refuse_giants(struct stream *stream)
{
    LIST_FOREACH_SAFE(link, after, &stream->outbox) {
        struct stream_run *run = of_link(link);

        if (job_bytes(&run->run->job) <= JOB_BYTES_MAX)
            continue;
        run_uncount(run);
        finish(
            &stream->d->streams,
            run,
            &(struct outcome){
                .kind = OUTCOME_FAIL,
                .error =
                    "its payload, state, signals and results of children are too large for a worker on a stream",
                .delay_ms = -1,
            });
    }
}

/* As many as fit into one message. */
static size_t gather(struct stream *stream, struct stream_run *runs[STREAM_BATCH_MAX])
{
    size_t bytes = 0;
    size_t n = 0;

    LIST_FOREACH(link, &stream->outbox) {
        const struct job *job = &of_link(link)->run->job;

        bytes += job_bytes(job);
        if (n == STREAM_BATCH_MAX || (n > 0 && bytes > BATCH_BYTES_MAX))
            break;
        runs[n++] = of_link(link);
    }
    return n;
}

static void release_outbox(struct stream *stream)
{
    while (!list_empty(&stream->outbox))
        release(&stream->d->streams, of_link(stream->outbox.next));
}

/* Jobs that the worker does not read yet wait: released, they would be claimed again and again. */
static void send_outbox(struct stream *stream)
{
    struct streams *streams = &stream->d->streams;
    struct stream_run *runs[STREAM_BATCH_MAX];
    int64_t now = now_us(streams);

    refuse_giants(stream);
    while (!list_empty(&stream->outbox)) {
        size_t n = gather(stream, runs);
        int rc = stream_assign(stream, runs, n);

        if (rc < 0) {
            stream->stuffed = true;
            stream->stuffed_us = now;
            if (rc != PAWL_EFULL)
                release_outbox(stream);
            stream_update(stream);
            return;
        }
        for (size_t i = 0; i < n; i++) {
            runs[i]->state = RUN_SENT;
            runs[i]->sent_us = runs[i]->seen_us = now;
            list_remove(&runs[i]->link);
            list_push(&stream->runs, &runs[i]->link);
        }
    }
}

void streams_writable(struct stream *stream)
{
    stream->stuffed = false;
    send_outbox(stream);
    stream_update(stream);
}

static void streams_flush(struct hands *hands)
{
    struct streams *streams = from_hands(hands);
    struct list touched;
    struct list back;

    list_init(&touched);
    list_init(&back);
    while (!list_empty(&streams->fresh)) {
        struct stream_run *run = of_link(streams->fresh.next);
        struct stream *stream =
            run->stream != NULL ? run->stream : streams_pick(streams, run->run->source);

        list_remove(&run->link);
        if (stream == NULL || stream->stuffed) {
            list_push(&back, &run->link);
            continue;
        }
        if (run->stream == NULL) {
            stream_count_given(stream);
            run_count(run, stream);
        }
        list_push(&stream->outbox, &run->link);
        if (list_empty(&stream->touched))
            list_push(&touched, &stream->touched);
    }
    while (!list_empty(&touched)) {
        struct stream *stream = LIST_ENTRY(touched.next, struct stream, touched);

        list_remove(&stream->touched);
        send_outbox(stream);
    }
    /* The streams that these jobs were claimed for have gone or are full. */
    while (!list_empty(&back))
        release(streams, of_link(back.next));
}

static void streams_stop_run(struct hands *hands, struct run *run, enum stop_reason reason)
{
    struct streams *streams = from_hands(hands);
    struct stream_run *mine = run->hands_data;

    if (mine == NULL)
        return;
    mine->cancelled |= reason == STOP_CANCELLED; /* a heartbeat tells the worker, too */
    if (mine->state == RUN_FRESH && reason == STOP_LOST)
        release(streams, mine);
    if (mine->state != RUN_SENT)
        return;
    stream_stop_run(mine, reason);
}

static const char *const *streams_kinds(struct hands *hands)
{
    static const char *const none[] = {NULL};

    (void)hands;
    return none; /* each source has its kinds */
}

static size_t streams_room(struct hands *hands, size_t source)
{
    const struct streams *streams = from_hands(hands);

    return source < streams->n_sources ? streams->sources[source]->room : 0;
}

static void streams_on_settled(struct hands *hands, struct run *run, const char *state, bool unsure)
{
    struct streams *streams = from_hands(hands);
    struct stream_run *mine = run->hands_data;

    (void)unsure;
    if (mine == NULL)
        return;
    report_settled(streams->d, mine, state);
    run_forget_reporter(mine);
    if (state != NULL && strcmp(state, "running") == 0) {
        mine->steps++;
        return;
    }
    run_uncount(mine);
    run->hands_data = NULL;
    run_free(streams, mine);
}

static const struct hands_ops ops = {
    .run = streams_run,
    .flush = streams_flush,
    .stop = streams_stop_run,
    .kinds = streams_kinds,
    .room = streams_room,
    .settled = streams_on_settled,
};

void streams_init(struct streams *streams, struct dispatch *d, const struct clock *clock)
{
    streams->hands.ops = &ops;
    streams->d = d;
    streams->clock = clock;
    list_init(&streams->all);
    list_init(&streams->fresh);
    list_init(&streams->leaving);
    map_init(&streams->names, STREAMS_NAMES_MAX);
    map_init(&streams->runs, STREAMS_RUNS_MAX);
}
