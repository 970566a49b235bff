/* enqueue: reads and checks an Enqueue call, and gives it to accept. */
#include <string.h>

#include "serve/api/api_internal.h"
#include "serve/api/new_job.h"

static void counted(struct rpc_call *call, size_t jobs, void *data)
{
    const struct api *api = data;

    auth_count_jobs(api->auth, call, jobs);
}

/* Checks the call as a whole. True: something was wrong, and the call was ended. */
static bool is_refused(struct rpc_call *call, const Pawl__V1__EnqueueRequest *request)
{
    if (request->n_jobs == 0)
        rpc_end(call, RPC_INVALID_ARGUMENT, "jobs: there are none");
    else if (request->n_jobs > ACCEPT_JOBS_MAX)
        rpc_end(call,
                RPC_INVALID_ARGUMENT,
                "jobs: %zu are more than %d, which is the most in one call",
                request->n_jobs,
                ACCEPT_JOBS_MAX);
    else if (strlen(request->idempotency_key) > NEW_JOB_KEY_MAX)
        rpc_end(call,
                RPC_INVALID_ARGUMENT,
                "idempotency_key: it has %zu bytes, and the limit is %d",
                strlen(request->idempotency_key),
                NEW_JOB_KEY_MAX);
    else
        return false;
    return true;
}

/* False: the call was ended. ret_keys: some job has a unique key or begins at a step. */
static bool read_jobs(struct api *api,
                      struct rpc_call *call,
                      const Pawl__V1__EnqueueRequest *request,
                      bool checked,
                      struct accept_item *item,
                      bool *ret_keys)
{
    struct pawl_job_new *jobs = accept_item_jobs(item);
    const char **steps = accept_item_steps(item);
    const char *queue = NULL;
    struct pawl_err err;

    *ret_keys = false;
    for (size_t i = 0; i < request->n_jobs; i++) {
        if (new_job_read(request->jobs[i], i, checked, &jobs[i], &steps[i], &err) < 0) {
            rpc_end_err(call, &err);
            return false;
        }
        *ret_keys |= jobs[i].unique_key != NULL || steps[i] != NULL;
        /* Most calls are about one queue. */
        if ((queue == NULL || strcmp(queue, jobs[i].queue) != 0) &&
            !auth_allows(api->auth, call, AUTH_ENQUEUE, jobs[i].queue))
            return false;
        queue = jobs[i].queue;
    }
    return true;
}

static void enqueue(struct api *api,
                    struct rpc_call *call,
                    const Pawl__V1__EnqueueRequest *request,
                    bool checked)
{
    struct accept_item *item = accept_item_new(request->n_jobs);
    bool once;

    if (item == NULL) {
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "no memory for the call");
        return;
    }
    if (!read_jobs(api, call, request, checked, item, &once)) {
        accept_item_free(item);
        return;
    }
    if (request->idempotency_key[0] != '\0') {
        struct uuid key, content;

        new_job_hash(request, accept_item_jobs(item)[0].queue, &key, &content);
        accept_item_key(item, &key, &content);
        once = true;
    }
    accept_item_counted(item, counted, api);
    accept_add(once ? api->once : api->plain, call, item);
}

static void enqueue_checked(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    enqueue(data, call, (const Pawl__V1__EnqueueRequest *)message, true);
}

void api_enqueue(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    struct api *api = data;
    const Pawl__V1__EnqueueRequest *request = (const Pawl__V1__EnqueueRequest *)message;

    if (is_refused(call, request) || !auth_allows(api->auth, call, AUTH_ENQUEUE, NULL))
        return;
    if (checker_wants(request))
        checker_check(&api->checker, call, request, enqueue_checked, api);
    else
        enqueue(api, call, request, false);
}
