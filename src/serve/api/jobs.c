/*
 * jobs: JobService except for Enqueue. A token for some queues does not see jobs of other queues:
 * for such a job the answer is the same as for a job that does not exist. The queue of a job never
 * changes, so it is looked up first, where it matters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "serve/api/api_internal.h"
#include "serve/api/view.h"
#include "store/job.h"
#include "store/signal.h"
#include "store/statements.h"
#include "store/tx.h"

#define CANCEL_MAX         1000
#define LIST_LIMIT_DEFAULT 100
#define LIST_LIMIT_MAX     1000
#define LIST_TAGS_MAX      PAWL_TAGS_MAX
#define REASON_MAX         1000
#define SIGNAL_BYTES_MAX   (1024 * 1024) /* of a signal's payload; pawl.signal has the same limit */
#define SIGNAL_KEY_BYTES   1024

#define NO_SUCH_JOB        "there is no job %lld. Hint: It never was, or was finished and is forgotten."

static void no_memory(struct rpc_call *call)
{
    rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory for the answer");
}

static bool id_is_refused(struct rpc_call *call, int64_t id, const char *field)
{
    if (id > 0)
        return false;
    rpc_end(call, RPC_INVALID_ARGUMENT, "%s: %lld is no id of a job", field, (long long)id);
    return true;
}

/* ── GetJob ── */

static void got_job(struct transaction *tx, const struct batch_end *end)
{
    const struct api *api = tx->data;
    const Pawl__V1__GetJobRequest *request = (const Pawl__V1__GetJobRequest *)tx->request;
    Pawl__V1__GetJobResponse response = PAWL__V1__GET_JOB_RESPONSE__INIT;
    struct job_view job;

    if (PQntuples(end->results[0]) > 0)
        job_show_row(end->results[0], 0, &job);
    if (PQntuples(end->results[0]) == 0 || !auth_sees(api->auth, tx->call, job.queue)) {
        rpc_end(tx->call, RPC_NOT_FOUND, NO_SUCH_JOB, (long long)request->job_id);
        return;
    }
    response.job = view_job(&job, !request->without_data, &tx->arena);
    if (response.job == NULL)
        no_memory(tx->call);
    else
        rpc_reply(tx->call, &response.base);
}

void api_get_job(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__GetJobRequest *request = (const Pawl__V1__GetJobRequest *)message;

    if (!auth_allows(api->auth, call, AUTH_READ, NULL) ||
        id_is_refused(call, request->job_id, "job_id"))
        return;
    struct transaction *tx = transaction_begin(call, api->calls, api);

    if (tx == NULL)
        return;
    job_show_bind(batch_add(tx->batch, STMT(job_show)), request->job_id);
    tx->request = message;
    transaction_send(tx, got_job);
}

/* ── ListJobs ── */

static void listed(struct transaction *tx, const struct batch_end *end)
{
    Pawl__V1__ListJobsResponse response;
    const PGresult *rows = end->results[0];
    size_t limit = (size_t)tx->number;
    size_t n = (size_t)PQntuples(rows);
    bool more = n > limit;
    char page[32];

    pawl__v1__list_jobs_response__init(&response);
    response.jobs = arena_new_array(&tx->arena, n + 1, Pawl__V1__JobView *);
    for (size_t i = 0; response.jobs != NULL && i < n && i < limit; i++) {
        struct job_view job;

        job_page_row(rows, (int)i, &job);
        response.jobs[i] = view_job(&job, false, &tx->arena);
        if (response.jobs[i] == NULL)
            response.jobs = NULL;
        else
            response.n_jobs++;
    }
    if (response.jobs == NULL) {
        no_memory(tx->call);
        return;
    }
    if (more && response.n_jobs > 0) {
        snprintf(page, sizeof(page), "%lld", (long long)response.jobs[response.n_jobs - 1]->job_id);
        response.next_page = page;
    }
    rpc_reply(tx->call, &response.base);
}

/* Where the last page ended; false: the text is no page token of ours. */
static bool page_parse(const char *text, int64_t *ret_before)
{
    char *end;

    *ret_before = INT64_MAX;
    if (text[0] == '\0')
        return true;
    *ret_before = strtoll(text, &end, 10);
    return *end == '\0' && *ret_before > 0;
}

static bool list_is_refused(struct rpc_call *call, const Pawl__V1__ListJobsRequest *request)
{
    struct pawl_err err;

    err_clear(&err);
    if (request->queue[0] != '\0' && name_check("queue", request->queue, &err) < 0)
        err_prefix(&err, "queue: ");
    else if (request->kind[0] != '\0' && kind_check(request->kind, &err) < 0)
        err_prefix(&err, "kind: ");
    else if (request->limit > LIST_LIMIT_MAX)
        err_set(&err, PAWL_EINVAL, "limit: at most %d", LIST_LIMIT_MAX);
    else if (request->n_tags > LIST_TAGS_MAX)
        err_set(&err, PAWL_EINVAL, "tags: a job has at most %d", LIST_TAGS_MAX);
    for (size_t i = 0; err.code == 0 && i < request->n_states; i++) {
        if (strcmp(job_state_text((int)request->states[i]), "unknown") == 0)
            err_set(&err, PAWL_EINVAL, "states[%zu]: %d is no state", i, (int)request->states[i]);
    }
    if (err.code < 0)
        rpc_end_err(call, &err);
    return err.code < 0;
}

void api_list_jobs(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__ListJobsRequest *request = (const Pawl__V1__ListJobsRequest *)message;
    int64_t before;

    if (!auth_allows(api->auth, call, AUTH_READ, NULL) || list_is_refused(call, request))
        return;
    if (request->queue[0] == '\0' && !auth_sees_all(api->auth, call)) {
        rpc_end(
            call, RPC_PERMISSION_DENIED, "queue: this access token is for some queues; name one");
        return;
    }
    if (request->queue[0] != '\0' && !auth_allows(api->auth, call, AUTH_READ, request->queue))
        return;
    if (!page_parse(request->page, &before)) {
        rpc_end(call, RPC_INVALID_ARGUMENT, "page: it is not the next_page of an answer");
        return;
    }
    struct transaction *tx = transaction_begin(call, api->look, api);

    if (tx == NULL)
        return;
    const char **states = arena_new_array(&tx->arena, request->n_states + 1, const char *);

    if (states == NULL) {
        transaction_no_memory(tx);
        return;
    }
    for (size_t i = 0; i < request->n_states; i++)
        states[i] = job_state_text((int)request->states[i]);
    tx->number = request->limit > 0 ? (int64_t)request->limit : LIST_LIMIT_DEFAULT;
    job_page_bind(batch_add(tx->batch, STMT(job_page)),
                  &(struct job_list){
                      .queue = request->queue[0] != '\0' ? request->queue : NULL,
                      .kind = request->kind[0] != '\0' ? request->kind : NULL,
                      .states = states,
                      .n_states = request->n_states,
                      .before_id = before,
                      .limit = (int32_t)tx->number + 1,
                  },
                  (const char *const *)request->tags,
                  request->n_tags);
    transaction_send(tx, listed);
}

/* ── Signal ── */

static void signalled(struct transaction *tx, const struct batch_end *end)
{
    Pawl__V1__SignalResponse response = PAWL__V1__SIGNAL_RESPONSE__INIT;
    bool waited;
    bool sent = signal_tell_row(end->results[1], &waited);

    response.woken = sent && waited;
    rpc_reply(tx->call, &response.base);
}

static bool signal_is_refused(struct rpc_call *call, const Pawl__V1__SignalRequest *request)
{
    struct pawl_err err;

    err_clear(&err);
    if (name_check("signal", request->name, &err) < 0)
        err_prefix(&err, "name: ");
    else if (request->payload.len > SIGNAL_BYTES_MAX)
        err_set(&err,
                PAWL_ELIMIT,
                "payload: it has %zu bytes, and the limit is %d",
                request->payload.len,
                SIGNAL_BYTES_MAX);
    else if (request->payload.len > 0 &&
             json_check((const char *)request->payload.data, request->payload.len, &err) < 0)
        err_prefix(&err, "payload: ");
    else if (strlen(request->idempotency_key) > SIGNAL_KEY_BYTES)
        err_set(&err, PAWL_ELIMIT, "idempotency_key: at most %d bytes", SIGNAL_KEY_BYTES);
    if (err.code < 0)
        rpc_end_err(call, &err);
    return err.code < 0;
}

/* The call does not wait for a row that somebody's open transaction has locked: other calls
 * would wait behind it. */
static void set_lock_timeout(struct transaction *tx)
{
    tx_lock_timeout_bind(batch_add(tx->batch, STMT(tx_lock_timeout)), TRANSACTION_LOCK_TIMEOUT);
}

static bool signal_bind(struct transaction *tx, const Pawl__V1__SignalRequest *request)
{
    const char *payload =
        request->payload.len > 0
            ? arena_strndup(&tx->arena, (const char *)request->payload.data, request->payload.len)
            : "{}";

    if (payload == NULL)
        return false;
    set_lock_timeout(tx);
    signal_tell_bind(
        batch_add(tx->batch, STMT(signal_tell)),
        request->job_id,
        &(struct signal_new){
            .name = request->name,
            .payload = payload,
            .key = request->idempotency_key[0] != '\0' ? request->idempotency_key : NULL,
        });
    tx->changes = true;
    return true;
}

/* The client may see the queue of the job. */
static void signal_seen(struct transaction *tx, const struct batch_end *end)
{
    const struct api *api = tx->data;
    const Pawl__V1__SignalRequest *request = (const Pawl__V1__SignalRequest *)tx->request;
    int64_t id;

    if (PQntuples(end->results[0]) == 0 ||
        !auth_sees(api->auth, tx->call, job_queues_row(end->results[0], 0, &id)))
        rpc_end(tx->call, RPC_NOT_FOUND, NO_SUCH_JOB, (long long)request->job_id);
    else if (!transaction_again(tx, signalled))
        no_memory(tx->call);
    else if (!signal_bind(tx, request)) {
        /* The batch is freed with the transaction. */
        no_memory(tx->call);
        tx->call = NULL;
    }
}

void api_signal(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__SignalRequest *request = (const Pawl__V1__SignalRequest *)message;

    if (!auth_allows(api->auth, call, AUTH_ENQUEUE, NULL) ||
        id_is_refused(call, request->job_id, "job_id") || signal_is_refused(call, request))
        return;
    struct transaction *tx = transaction_begin(call, api->calls, api);

    if (tx == NULL)
        return;
    if (!auth_sees_all(api->auth, call)) {
        tx->request = message;
        job_queues_bind(batch_add(tx->batch, STMT(job_queues)), &request->job_id, 1);
        transaction_send(tx, signal_seen);
    } else if (signal_bind(tx, request))
        transaction_send(tx, signalled);
    else
        transaction_no_memory(tx);
}

/* ── Cancel ── */

static void answer_of(const struct job_cancelled *row, Pawl__V1__CancelAnswer *answer)
{
    if (strcmp(row->result, "cancelled") == 0) {
        answer->status = PAWL__V1__ITEM_STATUS__ITEM_STATUS_OK;
        answer->state = PAWL__V1__JOB_STATE__JOB_STATE_CANCELLED;
    } else if (strcmp(row->result, "cancelling") == 0) {
        answer->status = PAWL__V1__ITEM_STATUS__ITEM_STATUS_OK;
        answer->state = PAWL__V1__JOB_STATE__JOB_STATE_RUNNING;
    } else if (strcmp(row->result, "finished") == 0) {
        answer->state = view_state(row->state);
        answer->status = answer->state == PAWL__V1__JOB_STATE__JOB_STATE_CANCELLED
                             ? PAWL__V1__ITEM_STATUS__ITEM_STATUS_OK
                             : PAWL__V1__ITEM_STATUS__ITEM_STATUS_WRONG_STATE;
    }
}

static void cancelled(struct transaction *tx, const struct batch_end *end)
{
    const Pawl__V1__CancelRequest *request = (const Pawl__V1__CancelRequest *)tx->request;
    Pawl__V1__CancelResponse response = PAWL__V1__CANCEL_RESPONSE__INIT;
    const PGresult *rows = end->results[1];
    size_t n = request->n_job_ids;
    Pawl__V1__CancelAnswer *answers = arena_new_array(&tx->arena, n, Pawl__V1__CancelAnswer);

    response.answers = arena_new_array(&tx->arena, n, Pawl__V1__CancelAnswer *);
    if (answers == NULL || response.answers == NULL) { /* the cancel is committed */
        rpc_end_unknown(tx->call, RPC_RESOURCE_EXHAUSTED, "no memory for the answer");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int low = 0;
        int high = PQntuples(rows);

        pawl__v1__cancel_answer__init(&answers[i]);
        answers[i].job_id = request->job_ids[i];
        answers[i].status = PAWL__V1__ITEM_STATUS__ITEM_STATUS_NOT_FOUND;
        /* Rows ascend by id. */
        while (low < high) {
            int middle = low + (high - low) / 2;
            struct job_cancelled row;

            job_cancel_many_row(rows, middle, &row);
            if (row.id == request->job_ids[i])
                answer_of(&row, &answers[i]);
            if (row.id <= request->job_ids[i])
                low = middle + 1;
            else
                high = middle;
        }
        response.answers[i] = &answers[i];
    }
    response.n_answers = n;
    rpc_reply(tx->call, &response.base);
}

static bool cancel_bind(struct transaction *tx,
                        const Pawl__V1__CancelRequest *request,
                        const int64_t *ids,
                        size_t n)
{
    const struct api *api = tx->data;
    const char *client = auth_client(api->auth, tx->call);
    const char *by = request->reason[0] != '\0'
                         ? arena_printf(&tx->arena, "%s: %s", client, request->reason)
                         : client;

    if (by == NULL)
        return false;
    set_lock_timeout(tx);
    job_cancel_many_bind(batch_add(tx->batch, STMT(job_cancel_many)), ids, n, by);
    tx->changes = true;
    return true;
}

/* Only jobs in queues that the client may see; the others do not exist for it. */
static void cancel_seen(struct transaction *tx, const struct batch_end *end)
{
    const struct api *api = tx->data;
    const Pawl__V1__CancelRequest *request = (const Pawl__V1__CancelRequest *)tx->request;
    const PGresult *rows = end->results[0];
    int64_t *ids = arena_new_array(&tx->arena, (size_t)PQntuples(rows) + 1, int64_t);
    size_t n = 0;

    for (int row = 0; ids != NULL && row < PQntuples(rows); row++) {
        int64_t id;

        if (auth_sees(api->auth, tx->call, job_queues_row(rows, row, &id)))
            ids[n++] = id;
    }
    if (ids == NULL || !transaction_again(tx, cancelled))
        no_memory(tx->call);
    else if (!cancel_bind(tx, request, ids, n)) {
        no_memory(tx->call);
        tx->call = NULL;
    }
}

void api_cancel(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__CancelRequest *request = (const Pawl__V1__CancelRequest *)message;

    if (!auth_allows(api->auth, call, AUTH_ENQUEUE, NULL))
        return;
    if (request->n_job_ids == 0 || request->n_job_ids > CANCEL_MAX) {
        rpc_end(call, RPC_INVALID_ARGUMENT, "job_ids: 1 to %d in one call", CANCEL_MAX);
        return;
    }
    if (strlen(request->reason) > REASON_MAX) {
        rpc_end(call, RPC_INVALID_ARGUMENT, "reason: at most %d bytes", REASON_MAX);
        return;
    }
    struct transaction *tx = transaction_begin(call, api->calls, api);

    if (tx == NULL)
        return;
    tx->request = message;
    if (!auth_sees_all(api->auth, call)) {
        job_queues_bind(
            batch_add(tx->batch, STMT(job_queues)), request->job_ids, request->n_job_ids);
        transaction_send(tx, cancel_seen);
    } else if (cancel_bind(tx, request, request->job_ids, request->n_job_ids))
        transaction_send(tx, cancelled);
    else
        transaction_no_memory(tx);
}
