/* queues: QueueService. */
#include <string.h>

#include "client/inspect.h"
#include "serve/api/api_internal.h"
#include "serve/api/view.h"
#include "store/statements.h"

#define STATS_COUNT_MAX 100000 /* jobs counted of each queue */
#define STATS_MAX       10000  /* queues, and workers, in one answer */

static bool queue_is_refused(struct rpc_call *call, const char *queue)
{
    struct pawl_err err;

    if (strcmp(queue, QUEUE_ALL) == 0 || name_check("queue", queue, &err) == 0)
        return false;
    err_prefix(&err, "queue: ");
    rpc_end_err(call, &err);
    return true;
}

/* All queues: only for a token without a restriction to queues. */
static bool may_hold(struct api *api, struct rpc_call *call, const char *queue)
{
    if (strcmp(queue, QUEUE_ALL) != 0 || auth_sees_all(api->auth, call))
        return auth_allows(
            api->auth, call, AUTH_ADMIN, strcmp(queue, QUEUE_ALL) == 0 ? NULL : queue);
    rpc_end(call, RPC_PERMISSION_DENIED, "queue: this access token is not for all queues");
    return false;
}

static void paused(struct transaction *tx, const struct batch_end *end)
{
    Pawl__V1__PauseQueueResponse response = PAWL__V1__PAUSE_QUEUE_RESPONSE__INIT;

    response.was_paused = queue_pause_row(end->results[0]);
    rpc_reply(tx->call, &response.base);
}

void api_pause_queue(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__PauseQueueRequest *request = (const Pawl__V1__PauseQueueRequest *)message;

    if (queue_is_refused(call, request->queue) || !may_hold(api, call, request->queue))
        return;
    struct transaction *tx = transaction_begin(call, api->calls, api);

    if (tx == NULL)
        return;
    const char *client = auth_client(api->auth, call);
    const char *who = request->reason[0] != '\0'
                          ? arena_printf(&tx->arena, "%s: %s", client, request->reason)
                          : client;

    if (who == NULL) {
        transaction_no_memory(tx);
        return;
    }
    queue_pause_bind(batch_add(tx->batch, STMT(queue_pause)), request->queue, who);
    tx->changes = true;
    transaction_send(tx, paused);
}

static void resumed(struct transaction *tx, const struct batch_end *end)
{
    Pawl__V1__ResumeQueueResponse response = PAWL__V1__RESUME_QUEUE_RESPONSE__INIT;

    response.was_paused = PQntuples(end->results[0]) > 0;
    rpc_reply(tx->call, &response.base);
}

void api_resume_queue(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__ResumeQueueRequest *request = (const Pawl__V1__ResumeQueueRequest *)message;

    if (queue_is_refused(call, request->queue) || !may_hold(api, call, request->queue))
        return;
    struct transaction *tx = transaction_begin(call, api->calls, api);

    if (tx == NULL)
        return;
    queue_resume_bind(batch_add(tx->batch, STMT(queue_resume)), request->queue);
    tx->changes = true;
    transaction_send(tx, resumed);
}

/* ── Stats ── */

struct stats_answer {
    struct arena *arena;
    Pawl__V1__StatsResponse response;
    bool failed;
};

static bool is_wanted(const Pawl__V1__StatsRequest *request, const char *queue)
{
    for (size_t i = 0; i < request->n_queues; i++) {
        if (strcmp(request->queues[i], queue) == 0)
            return true;
    }
    return request->n_queues == 0;
}

static void add_worker(void *data, const Pawl__V1__WorkerStats *worker)
{
    struct stats_answer *answer = data;
    Pawl__V1__WorkerStats *copy;

    if (answer->response.n_workers == STATS_MAX)
        return;
    copy = arena_memdup(answer->arena, worker, sizeof(*worker));
    if (copy == NULL) {
        answer->failed = true;
        return;
    }
    copy->worker_id = arena_strdup(answer->arena, worker->worker_id);
    copy->worker_name = arena_strdup(answer->arena, worker->worker_name);
    answer->failed |= copy->worker_id == NULL || copy->worker_name == NULL;
    answer->response.workers[answer->response.n_workers++] = copy;
}

static void stats_counted(struct transaction *tx, const struct batch_end *end)
{
    const struct api *api = tx->data;
    const Pawl__V1__StatsRequest *request = (const Pawl__V1__StatsRequest *)tx->request;
    const PGresult *rows = end->results[0];
    struct stats_answer answer = {.arena = &tx->arena, .response = PAWL__V1__STATS_RESPONSE__INIT};
    Pawl__V1__StatsResponse *response = &answer.response;

    response->queues = arena_new_array(&tx->arena, STATS_MAX, Pawl__V1__QueueStats *);
    response->workers = arena_new_array(&tx->arena, STATS_MAX, Pawl__V1__WorkerStats *);
    answer.failed = response->queues == NULL || response->workers == NULL;
    for (int row = 0; !answer.failed && row < PQntuples(rows) && response->n_queues < STATS_MAX;
         row++) {
        struct queue_view queue;

        queue_list_row(rows, row, &queue);
        if (!is_wanted(request, queue.name) || !auth_sees(api->auth, tx->call, queue.name))
            continue;
        response->queues[response->n_queues] = view_queue(&queue, &tx->arena);
        answer.failed = response->queues[response->n_queues++] == NULL;
    }
    /* Workers of other queues are not shown to a token that may not see those queues. */
    if (!answer.failed && api->options.workers != NULL && auth_sees_all(api->auth, tx->call))
        api->options.workers(api->options.data, add_worker, &answer);
    response->uptime_ms = (clock_mono_us(&clock_system) - api->started_us) / US_PER_MS;
    if (answer.failed)
        rpc_end(tx->call, RPC_RESOURCE_EXHAUSTED, "no memory for the answer");
    else
        rpc_reply(tx->call, &response->base);
}

void api_stats(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__StatsRequest *request = (const Pawl__V1__StatsRequest *)message;

    if (!auth_allows(api->auth, call, AUTH_READ, NULL))
        return;
    for (size_t i = 0; i < request->n_queues; i++) {
        if (queue_is_refused(call, request->queues[i]) ||
            !auth_allows(api->auth, call, AUTH_READ, request->queues[i]))
            return;
    }
    struct transaction *tx = transaction_begin(call, api->look, api);

    if (tx == NULL)
        return;
    tx->request = message;
    queue_list_bind(batch_add(tx->batch, STMT(queue_list)), STATS_COUNT_MAX);
    transaction_send(tx, stats_counted);
}
