/*
 * report: outcomes on their way to the server. Those that come while a report is under way go
 * together in the next one; so one call carries as many as the server settles at a time. Conserved:
 * a slot waits or is in one flight until the server has answered for it, or its lease is given up;
 * a report that may or may not have counted is sent again, which its token makes safe.
 */
#include <string.h>

#include "base/arena.h"
#include "remote/remote_internal.h"

#define REPORT_PATH      "/pawl.v1.WorkerService/ReportResult"
#define REPORT_MAX       1000                       /* outcomes in one */
#define REPORT_BYTES_MAX ((size_t)1024 * 1024)      /* of results and states, beyond the first */
#define REPORT_ARENA_MAX ((size_t)64 * 1024 * 1024) /* their messages, without the bytes */
#define REPORT_MS        30000
#define FLIGHT_MIN \
    32 /* while one is under way, another goes only for so many; twice as many for each more */
#define REFUSED_MAX 3

static size_t bytes_of(const struct remote_slot *slot)
{
    const struct outcome *outcome = &slot->outcome;

    return outcome->result_len + (outcome->error != NULL ? strlen(outcome->error) : 0) +
           (outcome->on != NULL ? outcome->on->state_len : 0);
}

/* Again, as it is. */
static void wait(struct remote *r, struct remote_slot *slot)
{
    slots_move(&r->slots, &slot->run, SLOT_WAITING);
}

void remote_report(struct remote *r, struct remote_slot *slot, const struct outcome *outcome)
{
    struct outcome copy;

    outcome_copy(outcome, &copy);
    outcome_clear(&slot->outcome); /* only now: the outcome may point into the one before */
    slot->outcome = copy;
    wait(r, slot);
}

void remote_forget(struct remote *r, struct remote_slot *slot)
{
    slots_move(&r->slots, &slot->run, SLOT_FREE);
    remote_slot_free(slot);
}

void remote_on_finished(void *data, struct run *run, const struct outcome *outcome)
{
    struct remote *r = data;
    struct remote_slot *slot = slot_of_remote_run(run);

    if (r->state >= REMOTE_CLOSING)
        remote_forget(r, slot); /* too late: it is left to its lease */
    else
        remote_report(r, slot, outcome); /* also when the claim is lost: the token decides */
}

static void count(struct remote_stats *stats, const struct remote_slot *slot, const char *state)
{
    switch (slot->outcome.kind) {
    case OUTCOME_RELEASE:
        stats->released++;
        break;
    case OUTCOME_SNOOZE:
        stats->snoozed++;
        break;
    case OUTCOME_NEXT:
    case OUTCOME_AWAIT:
    case OUTCOME_SPAWN:
        stats->steps++;
        break;
    case OUTCOME_DONE:
        stats->done++;
        break;
    case OUTCOME_CANCEL:
        stats->cancelled++;
        break;
    default:
        if (strcmp(state, "failed") == 0)
            stats->failed++;
        else if (strcmp(state, "parked") == 0)
            stats->parked++;
        else
            stats->retried++;
    }
}

/* state NULL: it counted for nothing. */
static void settle(struct remote *r, struct remote_slot *slot, const char *state)
{
    if (state != NULL)
        count(&r->stats, slot, state);
    else {
        r->stats.stale++;
        log_warn(r->options.log,
                 "job_stale",
                 LOG_INT("job", slot->run.job.id),
                 LOG_STR("kind", slot->run.job.kind));
    }
    if (r->options.settled != NULL && slot->outcome.kind != OUTCOME_RELEASE)
        r->options.settled(
            r->options.data,
            &(struct settled){.job = &slot->run.job, .outcome = &slot->outcome, .state = state});
    remote_forget(r, slot);
}

/* The server will never take it as it is: the job fails with its words, or tries the step again. */
static void refused(struct remote *r, struct remote_slot *slot, const char *why)
{
    struct outcome outcome = {
        .kind = slot->outcome.kind == OUTCOME_DONE ? OUTCOME_FAIL : OUTCOME_RETRY,
        .error = why[0] != '\0' ? why : "the server refused the outcome",
        .delay_ms = -1,
        .run_us = slot->outcome.run_us,
    };

    log_error(r->options.log, "job_refused", LOG_INT("job", slot->run.job.id), LOG_STR("why", why));
    if (++slot->refused >= REFUSED_MAX) {
        settle(r, slot, NULL);
        return;
    }
    if (slot->outcome.kind == OUTCOME_RELEASE || slot->outcome.kind == OUTCOME_FAIL)
        outcome.kind = OUTCOME_RETRY;
    slot->alone = true;
    remote_report(r, slot, &outcome);
}

static void
answered(struct remote *r, struct remote_slot *slot, const Pawl__V1__ReportAnswer *answer)
{
    switch (answer->status) {
    case PAWL__V1__ITEM_STATUS__ITEM_STATUS_OK:
        settle(r, slot, job_state_text((int)answer->state));
        break;
    case PAWL__V1__ITEM_STATUS__ITEM_STATUS_INVALID:
    case PAWL__V1__ITEM_STATUS__ITEM_STATUS_WRONG_STATE:
        refused(r, slot, answer->error);
        break;
    case PAWL__V1__ITEM_STATUS__ITEM_STATUS_RETRY:
        wait(r, slot);
        break;
    default:
        settle(r, slot, NULL);
        break;
    }
}

/* --- flights --- */

static void on_resend(uv_timer_t *timer)
{
    struct remote *r = timer->data;

    r->report_resting = false;
}

static void rest(struct remote *r)
{
    r->stats.report_errors++;
    r->report_resting = true;
    uv_timer_start(&r->resend, on_resend, remote_backoff_ms(r->report_failures++), 0);
}

static void land(struct flight *flight)
{
    struct remote *r = flight->remote;

    r->n_flights--;
    flight->n = 0;
    flight->call = NULL;
}

static void on_answers(void *data, const ProtobufCMessage *message)
{
    struct flight *flight = data;
    struct remote *r = flight->remote;
    const Pawl__V1__ReportResultResponse *response = (const void *)message;

    if (response->n_answers != flight->n)
        return; /* the end will say so */
    bool again = false;

    for (size_t i = 0; i < response->n_answers; i++) {
        struct remote_slot *slot = slot_of_remote_link(flight->slots.next);

        flight->n--;
        again |= response->answers[i]->status == PAWL__V1__ITEM_STATUS__ITEM_STATUS_RETRY;
        answered(r, slot, response->answers[i]);
    }
    if (again)
        rest(r); /* the server's database is away, or busy */
    else
        r->report_failures = 0;
}

/* Words of the call, and not of its items, that will be the same next time. */
static bool is_hopeless(enum rpc_status status)
{
    return status == RPC_INVALID_ARGUMENT || status == RPC_OUT_OF_RANGE ||
           status == RPC_RESOURCE_EXHAUSTED;
}

static void on_report_ended(void *data, const struct call_end *end)
{
    struct flight *flight = data;
    struct remote *r = flight->remote;
    bool single = flight->n == 1;

    land(flight);
    if (list_empty(&flight->slots))
        return;
    log_warn(r->options.log,
             "job_report",
             LOG_STR("status", rpc_status_name((int)end->status)),
             LOG_STR("error", end->message));
    rest(r);
    while (!list_empty(&flight->slots)) {
        struct remote_slot *slot = slot_of_remote_link(flight->slots.next);

        if (is_hopeless(end->status) && single) {
            refused(r, slot, end->message);
            continue;
        }
        slot->alone |= is_hopeless(end->status);
        wait(r, slot);
    }
}

static const struct call_ops report_ops = {.message = on_answers, .ended = on_report_ended};

/* Moves what goes together from waiting to the flight. */
static void board(struct remote *r, struct flight *flight)
{
    size_t bytes = 0;
    struct list *waiting = &r->slots.at[SLOT_WAITING];

    while (!list_empty(waiting) && flight->n < REPORT_MAX) {
        struct remote_slot *slot = slot_of_remote_link(waiting->next);

        bytes += bytes_of(slot);
        if (flight->n > 0 && (bytes > REPORT_BYTES_MAX || slot->alone))
            break;
        slots_put(&r->slots, &slot->run, SLOT_FLYING, &flight->slots, false);
        flight->n++;
        if (slot->alone)
            break;
    }
}

static int pack(struct flight *flight, Pawl__V1__ReportResultRequest *request, struct arena *arena)
{
    Pawl__V1__Report *reports = arena_new_array(arena, flight->n, Pawl__V1__Report);

    request->reports = arena_new_array(arena, flight->n, Pawl__V1__Report *);
    if (reports == NULL || request->reports == NULL)
        return PAWL_ENOMEM;
    LIST_FOREACH(link, &flight->slots) {
        Pawl__V1__Report *report = &reports[request->n_reports];
        int rc = remote_outcome_pack(slot_of_remote_link(link), report, arena);

        if (rc < 0)
            return rc;
        request->reports[request->n_reports++] = report;
    }
    return 0;
}

static void depart(struct remote *r, struct flight *flight)
{
    struct arena arena;
    Pawl__V1__ReportResultRequest request;

    pawl__v1__report_result_request__init(&request);
    board(r, flight);
    r->n_flights++;
    r->stats.reports++;
    if (flight->n > r->stats.report_batch_max)
        r->stats.report_batch_max = flight->n;
    arena_init(&arena, REPORT_ARENA_MAX);
    request.worker_id = r->worker_id;
    int rc = pack(flight, &request, &arena);

    if (rc == 0)
        rc =
            call_start(r->channel,
                       &(struct call_new){.path = REPORT_PATH,
                                          .request = &request.base,
                                          .response = &pawl__v1__report_result_response__descriptor,
                                          .timeout_ms = REPORT_MS,
                                          .ops = &report_ops,
                                          .data = flight},
                       &flight->call);
    arena_deinit(&arena);
    if (rc < 0)
        on_report_ended(flight,
                        &(struct call_end){.status = rc == PAWL_ELIMIT ? RPC_RESOURCE_EXHAUSTED
                                                                       : RPC_UNAVAILABLE,
                                           .message = err_code_text(rc)});
}

/* How many outcomes are worth a call now. */
static size_t worth(const struct remote *r)
{
    size_t n = r->n_flights > 0 ? (size_t)FLIGHT_MIN << (r->n_flights - 1) : 1;

    return n < REPORT_MAX ? n : REPORT_MAX;
}

void remote_report_flush(struct remote *r)
{
    for (size_t i = 0; i < FLIGHTS_MAX; i++) {
        struct flight *flight = &r->flights[i];

        if (r->slots.n[SLOT_WAITING] < worth(r) || r->report_resting || !channel_is_up(r->channel))
            return;
        if (flight->call == NULL)
            depart(r, flight);
    }
}
