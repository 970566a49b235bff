/* remote_fixture: a worker service that says what the test wants, hands that do what it says, and a remote worker between them,
 * all on one loop. For one test at a time; include it in one file. */
#ifndef TESTS_SERVE_REMOTE_FIXTURE_H
#define TESTS_SERVE_REMOTE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/transport.h"
#include "support/cmocka.h"

#define PATIENCE_MS 60000
#define RUNS_MAX    64

struct fixture {
    uv_loop_t loop;
    struct transport *server;
    struct address address;
    bool late;
    bool transport_stopped;

    /* The server's side. */
    struct rpc_call *stream;
    int streams;
    uint32_t credits;
    size_t n_named; /* running[] of the newest stream */
    int64_t lost_at_open;
    int64_t lease_ms;
    int beats;
    int said_left; /* heartbeats of a worker that has left its stream */
    int64_t lost_by_beat;
    int64_t cancelled_by_beat;
    char progress[64];
    int reports; /* calls */
    size_t n_reported;
    Pawl__V1__ItemStatus answer;        /* to all; 0: OK */
    int answers;                        /* how many such answers before OK; -1: always */
    enum rpc_status report_status;      /* the next call ends with it */
    Pawl__V1__Report__OutcomeCase last; /* outcome of the newest report */
    char last_error[256];
    int64_t first_id;

    /* The worker's side. */
    struct hands hands;
    struct remote *remote;
    struct run *runs[RUNS_MAX];
    size_t n_runs;
    int stops[STOP_SHUTDOWN + 1];
    int settled;
    int stale;
    char state[32];
    bool stopped;
    size_t left;
    struct pawl_err err;
};

static struct fixture
    *here; /* handlers of services have no other way to it but data; hands have none */

static void on_late(uv_timer_t *timer)
{
    struct fixture *f = timer->data;

    f->late = true;
}

#define UNTIL(condition)                                 \
    do {                                                 \
        uv_timer_t late_;                                \
        uv_timer_init(&here->loop, &late_);              \
        late_.data = here;                               \
        uv_timer_start(&late_, on_late, PATIENCE_MS, 0); \
        while (!(condition) && !here->late)              \
            uv_run(&here->loop, UV_RUN_ONCE);            \
        uv_close((uv_handle_t *)&late_, NULL);           \
        uv_run(&here->loop, UV_RUN_NOWAIT);              \
        if (here->late)                                  \
            fail_msg("never: %s", #condition);           \
    } while (0)

/* ── the server ── */

static void stream_gone(struct rpc_call *call, void *data)
{
    (void)data;
    if (here->stream == call)
        here->stream = NULL;
}

static const struct rpc_call_ops stream_ops = {.gone = stream_gone};

static void stream_jobs(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const Pawl__V1__StreamJobsRequest *request = (const void *)message;
    Pawl__V1__StreamJobsResponse response;
    Pawl__V1__StreamOpened opened;

    (void)data;
    here->stream = call;
    here->streams++;
    here->credits = request->credits;
    here->n_named = request->n_running;
    pawl__v1__stream_jobs_response__init(&response);
    pawl__v1__stream_opened__init(&opened);
    opened.lease_ms = here->lease_ms;
    opened.credits = request->credits;
    opened.lost_job_ids = &here->lost_at_open;
    opened.n_lost_job_ids = here->lost_at_open > 0;
    response.message_case = PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_OPENED;
    response.opened = &opened;
    rpc_hold(call, &stream_ops, NULL);
    assert_int_equal(0, rpc_send(call, &response.base));
}

static void heartbeat(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const Pawl__V1__HeartbeatRequest *request = (const void *)message;
    Pawl__V1__HeartbeatResponse response;

    (void)data;
    here->beats++;
    here->said_left += request->left_stream;
    if (request->n_progress > 0)
        snprintf(here->progress, sizeof(here->progress), "%s", request->progress[0]->note);
    pawl__v1__heartbeat_response__init(&response);
    response.lost_job_ids = &here->lost_by_beat;
    response.n_lost_job_ids = here->lost_by_beat > 0;
    response.cancelled_job_ids = &here->cancelled_by_beat;
    response.n_cancelled_job_ids = here->cancelled_by_beat > 0;
    rpc_reply(call, &response.base);
}

static void note_report(const Pawl__V1__Report *report)
{
    here->last = report->outcome_case;
    here->last_error[0] = '\0';
    if (report->outcome_case == PAWL__V1__REPORT__OUTCOME_FAIL)
        snprintf(here->last_error, sizeof(here->last_error), "%s", report->fail->error);
}

static void report_result(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const Pawl__V1__ReportResultRequest *request = (const void *)message;
    Pawl__V1__ReportResultResponse response;
    Pawl__V1__ReportAnswer answers[RUNS_MAX];
    Pawl__V1__ReportAnswer *list[RUNS_MAX];
    bool special = here->answer != 0 && here->answers != 0;

    (void)data;
    here->reports++;
    here->n_reported += request->n_reports;
    here->first_id = request->reports[0]->job_id;
    note_report(request->reports[0]);
    if (here->report_status != RPC_OK) {
        rpc_end(call, here->report_status, "not now");
        here->report_status = RPC_OK;
        return;
    }
    for (size_t i = 0; i < request->n_reports; i++) {
        pawl__v1__report_answer__init(&answers[i]);
        answers[i].job_id = request->reports[i]->job_id;
        answers[i].status = special ? here->answer : PAWL__V1__ITEM_STATUS__ITEM_STATUS_OK;
        answers[i].state = PAWL__V1__JOB_STATE__JOB_STATE_DONE;
        answers[i].error = (char *)(uintptr_t)(special ? "the result is too large" : "");
        list[i] = &answers[i];
    }
    if (special && here->answers > 0)
        here->answers--;
    pawl__v1__report_result_response__init(&response);
    response.answers = list;
    response.n_answers = request->n_reports;
    rpc_reply(call, &response.base);
}

static const struct rpc_method methods[] = {
    {.name = "StreamJobs",
     .request = &pawl__v1__stream_jobs_request__descriptor,
     .response = &pawl__v1__stream_jobs_response__descriptor,
     .server_streams = true,
     .handle = stream_jobs},
    {.name = "Heartbeat",
     .request = &pawl__v1__heartbeat_request__descriptor,
     .response = &pawl__v1__heartbeat_response__descriptor,
     .handle = heartbeat},
    {.name = "ReportResult",
     .request = &pawl__v1__report_result_request__descriptor,
     .response = &pawl__v1__report_result_response__descriptor,
     .handle = report_result},
};

static const struct rpc_service service = {
    .name = "pawl.v1.WorkerService", .methods = methods, .n_methods = 3};

static void assign(int64_t id)
{
    Pawl__V1__StreamJobsResponse response;
    Pawl__V1__Assignment assignment;
    Pawl__V1__AssignedJob job;
    Pawl__V1__AssignedJob *jobs[] = {&job};
    uint8_t token[16] = {(uint8_t)id};

    pawl__v1__stream_jobs_response__init(&response);
    pawl__v1__assignment__init(&assignment);
    pawl__v1__assigned_job__init(&job);
    job.job_id = id;
    job.token = (ProtobufCBinaryData){sizeof(token), token};
    job.kind = (char *)(uintptr_t) "k";
    job.queue = (char *)(uintptr_t) "q";
    job.attempt = 1;
    job.max_attempts = 20;
    assignment.jobs = jobs;
    assignment.n_jobs = 1;
    response.message_case = PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_ASSIGNMENT;
    response.assignment = &assignment;
    assert_int_equal(0, rpc_send(here->stream, &response.base));
}

static void cancel(int64_t id, Pawl__V1__StopReason reason)
{
    Pawl__V1__StreamJobsResponse response;
    Pawl__V1__CancelRun run;
    uint8_t token[16] = {(uint8_t)id};

    pawl__v1__stream_jobs_response__init(&response);
    pawl__v1__cancel_run__init(&run);
    run.job_id = id;
    run.token = (ProtobufCBinaryData){sizeof(token), token};
    run.stop_reason = reason;
    response.message_case = PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_CANCEL_RUN;
    response.cancel_run = &run;
    assert_int_equal(0, rpc_send(here->stream, &response.base));
}

static void drain(bool reconnect)
{
    Pawl__V1__StreamJobsResponse response;
    Pawl__V1__Drain words;

    pawl__v1__stream_jobs_response__init(&response);
    pawl__v1__drain__init(&words);
    words.reconnect = reconnect;
    response.message_case = PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_DRAIN;
    response.drain = &words;
    assert_int_equal(0, rpc_send(here->stream, &response.base));
}

/* ── hands that do what the test says ── */

static int hands_run(struct hands *hands, struct run *run, struct pawl_err *err)
{
    (void)hands;
    (void)err;
    assert_true(here->n_runs < RUNS_MAX);
    here->runs[here->n_runs++] = run;
    return 0;
}

static void hands_stop(struct hands *hands, struct run *run, enum stop_reason reason)
{
    (void)hands;
    (void)run;
    here->stops[reason]++;
}

static const char *const *hands_kinds(struct hands *hands)
{
    static const char *const kinds[] = {"k", NULL};

    (void)hands;
    return kinds;
}

static const struct hands_ops hands_ops = {
    .run = hands_run, .stop = hands_stop, .kinds = hands_kinds};

/* The oldest ends. */
static void finish(enum outcome_kind kind)
{
    struct run *run = here->runs[0];

    memmove(here->runs, here->runs + 1, --here->n_runs * sizeof(*here->runs));
    here->hands.finished(
        here->hands.finished_data, run, &(struct outcome){.kind = kind, .delay_ms = -1});
}

/* ── the worker ── */

static void on_settled(void *data, const struct settled *settled)
{
    (void)data;
    here->settled++;
    here->stale += settled->state == NULL;
    snprintf(here->state, sizeof(here->state), "%s", settled->state != NULL ? settled->state : "");
}

static void on_stopped(void *data, size_t left, const struct pawl_err *err)
{
    (void)data;
    here->stopped = true;
    here->left = left;
    if (err != NULL)
        here->err = *err;
}

static void transport_stopped(void *data)
{
    (void)data;
    transport_free(here->server);
    here->server = NULL;
    here->transport_stopped = true;
}

static void stop_server(void)
{
    if (here->server == NULL)
        return;
    transport_stop(here->server, 0, transport_stopped, NULL);
    transport_stop(here->server, 0, transport_stopped, NULL);
    UNTIL(here->server == NULL);
}

static void serve(const char *listen)
{
    struct pawl_err err;
    char address[128];

    assert_int_equal(0,
                     transport_new(&(struct transport_options){.loop = &here->loop,
                                                               .limits = serve_limits_default()},
                                   &here->server,
                                   &err));
    assert_int_equal(0, rpc_register(transport_rpc(here->server), &service, &err));
    assert_int_equal(0, transport_listen(here->server, listen, NULL, false, &err));
    assert_true(transport_address(here->server, 0, address, sizeof(address)));
    assert_int_equal(0, address_parse(address, &here->address, &err));
}

static void work(size_t concurrency, size_t prefetch)
{
    static const char *const queues[] = {"q"};
    struct pawl_err err;

    here->remote = remote_new(&here->loop,
                              &(struct remote_options){.server = &here->address,
                                                       .queues = queues,
                                                       .n_queues = 1,
                                                       .hands = &here->hands,
                                                       .concurrency = concurrency,
                                                       .prefetch = prefetch,
                                                       .lease_ms = 30000,
                                                       .drain_ms = 30000,
                                                       .clock = &clock_system,
                                                       .settled = on_settled,
                                                       .stopped = on_stopped},
                              &err);
    assert_non_null(here->remote);
    remote_start(here->remote);
}

static int begin(void **state)
{
    here = calloc(1, sizeof(*here));
    *state = here;
    here->hands.ops = &hands_ops;
    here->lease_ms = 30000;
    uv_loop_init(&here->loop);
    serve("127.0.0.1:0");
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (here->late)
        return -1; /* what is left of it is not worth taking apart */
    if (here->remote != NULL && !here->stopped) {
        remote_stop(here->remote);
        remote_stop(here->remote);
        UNTIL(here->stopped);
    }
    remote_free(here->remote);
    stop_server();
    for (int i = 0; i < 1000 && uv_run(&here->loop, UV_RUN_NOWAIT) != 0; i++)
        ;
    assert_int_equal(0, uv_loop_close(&here->loop));
    free(here);
    here = NULL;
    return 0;
}

#endif
