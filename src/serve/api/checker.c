/* checker: copies the payloads, checks them on a thread, and comes back. The call may be gone by
 * then. */
#include "serve/api/checker.h"

#include <stdlib.h>
#include <string.h>

#include "serve/api/new_job.h"

struct check {
    uv_work_t work;
    struct checker *checker;
    struct rpc_call *call; /* NULL: the client is gone */
    const Pawl__V1__EnqueueRequest *request;
    rpc_handler *fine;
    void *data;
    struct pawl_err err; /* written by the thread */
    size_t bytes;
    char *copy; /* the payloads, one after the other */
    size_t n;
    size_t lens[]; /* 0: nothing to check */
};

void checker_init(struct checker *checker, uv_loop_t *loop)
{
    *checker = (struct checker){.loop = loop};
}

void checker_close(struct checker *checker, void (*closed)(void *data), void *data)
{
    checker->closing = true;
    checker->closed = closed;
    checker->closed_data = data;
    if (checker->n == 0)
        closed(data);
}

static size_t json_len(const Pawl__V1__NewJob *job)
{
    return job->payload_is_bytes || job->payload.len > PAWL_PAYLOAD_MAX ? 0 : job->payload.len;
}

static size_t json_bytes(const Pawl__V1__EnqueueRequest *request)
{
    size_t bytes = 0;

    for (size_t i = 0; i < request->n_jobs; i++)
        bytes += json_len(request->jobs[i]);
    return bytes;
}

bool checker_wants(const Pawl__V1__EnqueueRequest *request)
{
    return json_bytes(request) > CHECKER_FROM_BYTES;
}

static void check_gone(struct rpc_call *call, void *data)
{
    (void)call;
    ((struct check *)data)->call = NULL; /* the thread has its own copy */
}

static const struct rpc_call_ops check_ops = {.gone = check_gone};

static void check_work(uv_work_t *work)
{
    struct check *check = work->data;
    const char *at = check->copy;

    for (size_t i = 0; i < check->n; i++) {
        if (check->lens[i] > 0 && new_job_check_json(at, check->lens[i], i, &check->err) < 0)
            return;
        at += check->lens[i];
    }
}

static void check_done(uv_work_t *work, int status)
{
    struct check *check = work->data;
    struct checker *checker = check->checker;
    struct rpc_call *call = check->call;

    checker->n--;
    checker->bytes -= check->bytes;
    if (call != NULL && status < 0)
        rpc_end(call, RPC_UNAVAILABLE, "the server stops; connect again");
    else if (call != NULL && check->err.code < 0)
        rpc_end_err(call, &check->err);
    else if (call != NULL)
        check->fine(call, &check->request->base, check->data);
    free(check->copy);
    free(check);
    if (checker->closing && checker->n == 0)
        checker->closed(checker->closed_data);
}

static struct check *check_new(const Pawl__V1__EnqueueRequest *request, size_t bytes)
{
    struct check *check = calloc(1, sizeof(*check) + request->n_jobs * sizeof(check->lens[0]));
    char *at = malloc(bytes);

    if (check == NULL || at == NULL) {
        free(check);
        free(at);
        return NULL;
    }
    check->copy = at;
    check->bytes = bytes;
    check->n = request->n_jobs;
    for (size_t i = 0; i < request->n_jobs; i++) {
        check->lens[i] = json_len(request->jobs[i]);
        if (check->lens[i] > 0)
            memcpy(at, request->jobs[i]->payload.data, check->lens[i]);
        at += check->lens[i];
    }
    return check;
}

void checker_check(struct checker *checker,
                   struct rpc_call *call,
                   const Pawl__V1__EnqueueRequest *request,
                   rpc_handler *fine,
                   void *data)
{
    size_t bytes = json_bytes(request);
    struct check *check = NULL;

    if (checker->bytes + bytes <= CHECKER_BYTES_MAX)
        check = check_new(request, bytes);
    if (check == NULL) {
        rpc_end(call,
                RPC_RESOURCE_EXHAUSTED,
                "too many large payloads are being checked; nothing was accepted, try again later");
        return;
    }
    check->checker = checker;
    check->call = call;
    check->request = request;
    check->fine = fine;
    check->data = data;
    check->work.data = check;
    checker->n++;
    checker->bytes += bytes;
    rpc_hold(call, &check_ops, check);
    /* uv_queue_work fails only without a callback. */
    (void)uv_queue_work(checker->loop, &check->work, check_work, check_done);
}
