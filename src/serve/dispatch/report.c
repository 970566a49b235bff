/*
 * report: ReportResult. Each report is for a run here, for a job that another server claimed, or
 * for no claim any more. The call is answered when each outcome is committed or known to have no
 * effect. Conserved: each item is closed exactly once; an item that waits is on the list of one
 * run, or in one lookup.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/machine.h"
#include "serve/dispatch/dispatch_internal.h"

typedef Pawl__V1__ReportResultRequest Request;
typedef Pawl__V1__ReportResultResponse Response;

/* The contract's names, shorter. */
#define ITEM_INVALID   PAWL__V1__ITEM_STATUS__ITEM_STATUS_INVALID
#define ITEM_NOT_FOUND PAWL__V1__ITEM_STATUS__ITEM_STATUS_NOT_FOUND
#define ITEM_OK        PAWL__V1__ITEM_STATUS__ITEM_STATUS_OK
#define ITEM_RETRY     PAWL__V1__ITEM_STATUS__ITEM_STATUS_RETRY
#define ITEM_STALE     PAWL__V1__ITEM_STATUS__ITEM_STATUS_STALE
#define NO_STATE       PAWL__V1__JOB_STATE__JOB_STATE_UNSPECIFIED

/* The reports that wait until a run is settled. */
struct waiters {
    struct list items;
    char *shown; /* owned: machine.shown of an adopted run */
};

/* ── answering ── */

static void call_free(struct report_call *owner)
{
    for (size_t i = 0; i < owner->n; i++)
        free(owner->items[i].error);
    free(owner);
}

static void reply(struct report_call *owner)
{
    size_t n = owner->n;
    Pawl__V1__ReportAnswer *answers = calloc(n + 1, sizeof(*answers));
    Pawl__V1__ReportAnswer **pointers = calloc(n + 1, sizeof(Pawl__V1__ReportAnswer *));
    Response response = PAWL__V1__REPORT_RESULT_RESPONSE__INIT;

    for (size_t i = 0; answers != NULL && pointers != NULL && i < n; i++) {
        pawl__v1__report_answer__init(&answers[i]);
        answers[i].job_id = owner->request->reports[i]->job_id;
        answers[i].status = owner->items[i].status;
        answers[i].state = owner->items[i].state;
        answers[i].error = unconst(owner->items[i].error);
        pointers[i] = &answers[i];
    }
    response.answers = pointers;
    response.n_answers = n;
    if (answers != NULL && pointers != NULL)
        rpc_reply(owner->call, &response.base);
    else
        rpc_end(owner->call, RPC_RESOURCE_EXHAUSTED, "no memory for the answer; ask again");
    free(pointers);
    free(answers);
    call_free(owner);
}

/* The answer is known. Replies when the item was the last. */
static void item_close(struct report_item *item,
                       Pawl__V1__ItemStatus status,
                       Pawl__V1__JobState state,
                       const char *error)
{
    struct report_call *owner = item->owner;

    list_remove(&item->link);
    item->status = status;
    item->state = state;
    item->error = error != NULL ? strdup(error) : NULL;
    item->open = false;
    item->lookup = NULL;
    owner->d->counters.reports_stale += status == ITEM_STALE;
    if (--owner->n_open == 0)
        reply(owner);
}

static Pawl__V1__JobState state_of(const char *text)
{
    enum job_state state;

    return text != NULL && job_state_parse(text, &state) == 0 ? (Pawl__V1__JobState)state
                                                              : NO_STATE;
}

static struct recent *recent_of(struct dispatch *d, int64_t job_id)
{
    return &d->recent[(uint64_t)job_id & (RECENT_MAX - 1)];
}

static void remember(struct dispatch *d, const struct stream_run *run, Pawl__V1__JobState state)
{
    struct recent *recent = recent_of(d, run->job_id);

    recent->job_id = run->job_id;
    recent->ticket = run->ticket;
    recent->state = state;
}

void report_forget(struct stream_run *run)
{
    struct waiters *waiters = run->waiters;

    run->waiters = NULL;
    if (waiters != NULL)
        free(waiters->shown);
    free(waiters);
}

/* ── runs here ── */

static bool wait_for(struct stream_run *run, struct report_item *item)
{
    struct waiters *waiters = run->waiters;

    if (waiters == NULL) {
        waiters = calloc(1, sizeof(*waiters));
        if (waiters == NULL)
            return false;
        list_init(&waiters->items);
        run->waiters = waiters;
    }
    list_push(&waiters->items, &item->link);
    return true;
}

static void close_err(struct report_item *item, const struct pawl_err *err)
{
    item_close(item, err->code == PAWL_ENOMEM ? ITEM_RETRY : ITEM_INVALID, NO_STATE, err->message);
}

static void close_no_memory(struct report_item *item)
{
    struct pawl_err err = {0};

    err_set(&err, PAWL_ENOMEM, "no memory for the outcome; send it again");
    close_err(item, &err);
}

/* A worker's token may be for some queues only; then the children of its jobs must be in these
 * queues, too. */
static bool may_spawn(const struct dispatch *d,
                      const struct report_item *item,
                      const char *queue,
                      const struct outcome *outcome,
                      struct pawl_err *err)
{
    const struct going_on *on = outcome->on;

    for (size_t i = 0; on != NULL && i < on->n_children; i++) {
        const char *other = on->children[i].queue;

        if (strcmp(other, queue) == 0 || auth_sees(d->auth, item->owner->call, other))
            continue;
        err_set(err, PAWL_EDENIED, "the access token is not for queue %s of a child", other);
        return false;
    }
    return true;
}

static void report_run(struct dispatch *d,
                       struct stream_run *run,
                       const Pawl__V1__Report *report,
                       struct report_item *item)
{
    struct outcome outcome;
    struct pawl_err err = {0};

    if (run->state == RUN_REPORTED || run->state == RUN_FRESH) {
        d->counters.reports_again++;
        if (!wait_for(run, item))
            close_no_memory(item);
        return;
    }
    arena_clear(&d->scratch);
    if (outcome_of_report(report, run->run->job.queue, &d->scratch, &outcome, &err) < 0 ||
        !may_spawn(d, item, run->run->job.queue, &outcome, &err)) {
        close_err(item, &err);
        return;
    }
    if (!wait_for(run, item)) {
        close_no_memory(item);
        return;
    }
    streams_report(&d->streams, run, &outcome);
}

/* ── runs elsewhere ── */

static void look_up(struct dispatch *d, struct report_item *item, const struct ticket *ticket)
{
    const Pawl__V1__Report *report = item->owner->request->reports[item->i];
    struct lookup *lookup = calloc(1, sizeof(*lookup));

    if (lookup == NULL) {
        close_no_memory(item);
        return;
    }
    d->counters.reports_elsewhere += !item->again;
    list_init(&lookup->link);
    lookup->job = (struct held_job){.id = report->job_id, .ticket = *ticket};
    lookup->item = item;
    item->lookup = lookup;
    away_look_up(d, lookup);
}

/*
 * A report without an effect is looked up once more: a server that ended before it answered may
 * have committed the same outcome.
 */
void report_settled(struct dispatch *d, struct stream_run *run, const char *state)
{
    struct waiters *waiters = run->waiters;

    if (waiters == NULL)
        return; /* the server released the run */
    if (state != NULL)
        remember(d, run, state_of(state));
    run->waiters = NULL;
    while (!list_empty(&waiters->items)) {
        struct report_item *item = LIST_ENTRY(waiters->items.next, struct report_item, link);

        list_remove(&item->link);
        if (state == NULL && !item->again) {
            item->again = true;
            look_up(d, item, &run->ticket);
            continue;
        }
        item_close(item,
                   state != NULL ? ITEM_OK : ITEM_STALE,
                   state_of(state),
                   state != NULL ? NULL : "the claim was lost before the outcome came");
    }
    free(waiters->shown);
    free(waiters);
}

/* The ids of the signals that the step was shown, as the worker names them. */
static int show(struct run *run, const Pawl__V1__Report *report, struct waiters *waiters)
{
    struct machine *machine = (struct machine *)(uintptr_t)run->job.machine;
    struct buf out;

    if (machine == NULL)
        return 0;
    machine->shown = NULL;
    machine->seen = 0; /* so that signals that came since are looked at */
    if (report->n_signal_ids == 0)
        return 0;
    buf_init(&out, 64 * 1024);
    for (size_t i = 0; i < report->n_signal_ids; i++)
        buf_printf(&out, "%s%lld", i > 0 ? "," : "", (long long)report->signal_ids[i]);
    if (out.failed) {
        buf_deinit(&out);
        return PAWL_ENOMEM;
    }
    waiters->shown = buf_take(&out, NULL);
    machine->shown = waiters->shown;
    return 0;
}

/* An adopted run must be finished in any case. */
static void finish_adopted(struct dispatch *d, struct run *run, const struct outcome *outcome)
{
    struct hands *hands = &d->streams.hands;

    hands->finished(hands->finished_data, run, outcome);
}

/* The caller is gone, or the report is not valid: without a token the settle changes nothing. */
static void drop_adopted(struct dispatch *d, struct run *run)
{
    memset(&run->job.token, 0, sizeof(run->job.token));
    finish_adopted(d, run, &(struct outcome){.kind = OUTCOME_RELEASE, .delay_ms = -1});
}

void report_found(struct dispatch *d, struct lookup *lookup, struct run *run)
{
    struct report_item *item = lookup->item;
    const Pawl__V1__Report *report = item != NULL ? item->owner->request->reports[item->i] : NULL;
    struct stream_run *known = dispatch_find(d, lookup->job.id, &lookup->job.ticket);
    struct outcome outcome;
    struct pawl_err err = {0};
    struct stream_run *mine;

    /* The same report came twice, and the first lookup has adopted the job already. */
    if (known != NULL && known->state == RUN_REPORTED && item != NULL && wait_for(known, item)) {
        item->lookup = NULL;
        drop_adopted(d, run);
        return;
    }
    if (known != NULL && known->state != RUN_AWAY)
        known = NULL;
    arena_clear(&d->scratch);
    mine = item != NULL &&
                   outcome_of_report(report, run->job.queue, &d->scratch, &outcome, &err) == 0 &&
                   may_spawn(d, item, run->job.queue, &outcome, &err)
               ? streams_adopt(&d->streams, known, run)
               : NULL;
    bool waits = mine != NULL && wait_for(mine, item);

    if (!waits || show(run, report, mine->waiters) < 0) {
        drop_adopted(d, run);
        if (item == NULL || !item->open || waits)
            return;
        item->lookup = NULL;
        if (err.code != 0)
            close_err(item, &err);
        else
            close_no_memory(item);
        return;
    }
    mine->ticket = lookup->job.ticket;
    item->lookup = NULL;
    finish_adopted(d, run, &outcome);
}

/* Whether this outcome may have led to the state. */
static bool leads_to(const Pawl__V1__Report *report, const char *state)
{
    switch (report->outcome_case) {
    case PAWL__V1__REPORT__OUTCOME_DONE:
        return strcmp(state, "done") == 0;
    case PAWL__V1__REPORT__OUTCOME_RETRY:
    case PAWL__V1__REPORT__OUTCOME_FAIL:
    case PAWL__V1__REPORT__OUTCOME_REJECT:
        return strcmp(state, "done") != 0;
    default:
        return strcmp(state, "cancelled") == 0;
    }
}

void report_not_found(struct dispatch *d,
                      struct lookup *lookup,
                      const struct job_reported *reported)
{
    struct report_item *item = lookup->item;

    if (item == NULL)
        return;
    const Pawl__V1__Report *report = item->owner->request->reports[item->i];
    struct stream_run *away = dispatch_find(d, lookup->job.id, &lookup->job.ticket);

    if (reported == NULL) {
        item_close(item, ITEM_RETRY, NO_STATE, "the database did not answer; send it again");
        return;
    }
    if (away != NULL && away->state == RUN_AWAY)
        streams_forget_away(&d->streams, away);
    /* A client without a ticket for the job learns nothing of a job in a queue that its access
     * token does not let it see. */
    if (reported->queue == NULL || !auth_sees(d->auth, item->owner->call, reported->queue)) {
        item_close(item, ITEM_NOT_FOUND, NO_STATE, "there is no such job");
    } else if (reported->state != NULL && !reported->other &&
               reported->attempt == ticket_attempt(&lookup->job.ticket) &&
               leads_to(report, reported->state)) {
        d->counters.reports_again++;
        item_close(item, ITEM_OK, state_of(reported->state), NULL);
    } else {
        item_close(item, ITEM_STALE, state_of(reported->state), "the claim does not hold any more");
    }
}

/* ── the call ── */

static void report_one(struct dispatch *d, struct report_item *item)
{
    const Pawl__V1__Report *report = item->owner->request->reports[item->i];
    const struct recent *recent = recent_of(d, report->job_id);
    struct stream_run *run;
    struct ticket ticket;

    if (!ticket_read(&report->token, &ticket)) {
        item_close(item,
                   ITEM_INVALID,
                   NO_STATE,
                   "the token is not one that was assigned: it has 16 bytes");
        return;
    }
    /* Looked at first: until the next step of a machine is sent, its run is found by the ticket
     * of the step before. */
    if (recent->job_id == report->job_id && memcmp(&recent->ticket, &ticket, sizeof(ticket)) == 0) {
        d->counters.reports_again++;
        item_close(item, ITEM_OK, recent->state, NULL);
        return;
    }
    run = dispatch_find(d, report->job_id, &ticket);
    if (run != NULL && run->state != RUN_AWAY)
        report_run(d, run, report, item);
    else
        look_up(d, item, &ticket);
}

static void on_gone(struct rpc_call *call, void *data)
{
    struct report_call *owner = data;

    (void)call;
    for (size_t i = 0; i < owner->n; i++) {
        struct report_item *item = &owner->items[i];

        list_remove(&item->link);
        if (item->lookup != NULL)
            item->lookup->item = NULL;
    }
    call_free(owner);
}

static const struct rpc_call_ops report_ops = {.gone = on_gone};

void handle_report_result(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct dispatch *d = data;
    const Request *request = (const Request *)(const void *)message;
    struct report_call *owner;

    if (!auth_allows(d->auth, call, AUTH_WORK, NULL) || dispatch_refuses(d, call))
        return;
    if (request->n_reports > REPORTS_MAX) {
        rpc_end(call,
                RPC_INVALID_ARGUMENT,
                "%zu reports in one call, and the limit is %d",
                request->n_reports,
                REPORTS_MAX);
        return;
    }
    owner = calloc(1, sizeof(*owner) + request->n_reports * sizeof(owner->items[0]));
    if (owner == NULL) {
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory for the reports");
        return;
    }
    *owner = (struct report_call){.d = d,
                                  .call = call,
                                  .request = request,
                                  .n = request->n_reports,
                                  .n_open = request->n_reports + 1};
    rpc_hold(call, &report_ops, owner);
    d->counters.reports += request->n_reports;
    for (size_t i = 0; i < request->n_reports; i++) {
        list_init(&owner->items[i].link);
        owner->items[i].owner = owner;
        owner->items[i].i = i;
        owner->items[i].open = true;
    }
    for (size_t i = 0; i < request->n_reports; i++)
        report_one(d, &owner->items[i]);
    /* n_open counts one more, so that no answer goes out while the loop runs. */
    if (--owner->n_open == 0)
        reply(owner);
}
