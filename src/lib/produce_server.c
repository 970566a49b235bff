/* produce_server: jobs to a `pawl serve` instead of a database, all of them in one call. */
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "lib/lib.h"
#include "lib/produce.h"
#include "lib/server.h"
#include "pawl.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "remote/blocking.h"

#define STATES_MAX 3 /* of a unique key */

struct pawl_server {
    struct server server;
    int64_t timeout_ms;
};

int pawl_server_new(const struct pawl_server_options *options,
                    struct pawl_server **ret_server,
                    struct pawl_err *err)
{
    struct pawl_server_options known;

    if (options == NULL || ret_server == NULL)
        return lib_null("pawl_server_new", options == NULL ? "options" : "ret_server", err);
    int rc = lib_struct_read(&known,
                             sizeof(known),
                             offsetof(struct pawl_server_options, token),
                             options,
                             "pawl_server_options",
                             err);

    if (rc == 0 && known.address == NULL)
        rc = lib_null("pawl_server_new", "the address", err);
    if (rc == 0 && known.timeout_ms < 0)
        rc = err_set(err, PAWL_EINVAL, "timeout_ms of a server is negative");
    if (rc < 0)
        return rc;
    struct pawl_server *server = calloc(1, sizeof(*server));

    if (server == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    server->timeout_ms = known.timeout_ms;
    rc = server_init(&server->server, &known, err);
    if (rc < 0) {
        pawl_server_free(server);
        return rc;
    }
    *ret_server = server;
    return 0;
}

void pawl_server_free(struct pawl_server *server)
{
    if (server == NULL)
        return;
    server_deinit(&server->server);
    free(server);
}

/* ---- from a job as the store takes it to a job as the server does */

static char *text(const char *s)
{
    return (char *)(uintptr_t)(s != NULL ? s : "");
}

static void fill_unique(Pawl__V1__NewJob *to, const struct job_new *from, char **ret_states)
{
    static const char *const conflicts[] = {"keep", "replace", "reschedule", "refuse"};
    static const char *const states[STATES_MAX] = {"waiting", "running", "parked"};

    to->unique_key = text(from->unique_key);
    to->unique_scope = text(from->unique_scope);
    to->unique_for_ms = from->unique_keep_ms;
    to->on_conflict = text(conflicts[from->unique_mode]);
    to->unique_states = ret_states;
    for (unsigned i = 0; i < STATES_MAX; i++) {
        if (((unsigned)from->unique_states & (1u << i)) != 0)
            ret_states[to->n_unique_states++] = text(states[i]);
    }
}

/* Whether a payload is JSON is nothing that libpawl minds, by a database or by a server. */
static void fill(Pawl__V1__NewJob *to, const struct job_new *from, char **ret_states)
{
    pawl__v1__new_job__init(to);
    to->kind = text(from->kind);
    to->queue = text(from->queue);
    to->payload =
        (ProtobufCBinaryData){from->payload.len, (uint8_t *)(uintptr_t)from->payload.data};
    to->payload_is_bytes = true;
    to->priority_choice_case = PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY;
    to->priority = (uint32_t)from->priority;
    to->delay_ms = from->delay_ms;
    to->due_at_us = from->at_us;
    to->max_attempts = (uint32_t)from->max_attempts;
    to->timeout_ms = from->timeout_ms;
    to->retry = text(from->retry);
    to->retry_base_ms = from->retry_base_ms;
    to->retry_cap_ms = from->retry_cap_ms;
    to->lane = text(from->lane);
    to->deadline_ms = from->deadline_ms;
    to->tags = (char **)(uintptr_t)from->tags;
    to->n_tags = from->n_tags;
    to->trace = text(from->trace);
    to->correlation = text(from->correlation);
    if (from->unique_key != NULL)
        fill_unique(to, from, ret_states);
}

/* ---- the call */

struct answer {
    size_t n;
    int64_t *ids;  /* NULL: nobody wants them */
    bool *existed; /* likewise */
    bool whole;    /* there was one for each job */
};

static void on_answer(void *data, const ProtobufCMessage *message)
{
    const Pawl__V1__EnqueueResponse *response = (const void *)message;
    struct answer *answer = data;

    answer->whole = response->n_accepted == answer->n;
    for (size_t i = 0; answer->whole && i < answer->n; i++) {
        if (answer->ids != NULL)
            answer->ids[i] = response->accepted[i]->job_id;
        if (answer->existed != NULL)
            answer->existed[i] = response->accepted[i]->existed;
    }
}

static int call(const struct pawl_server *server,
                Pawl__V1__NewJob **jobs,
                struct answer *answer,
                struct pawl_err *err)
{
    Pawl__V1__EnqueueRequest request;
    struct uuid key = uuid_random();
    char key_text[UUID_TEXT_LEN + 1];

    uuid_format(&key, key_text);
    pawl__v1__enqueue_request__init(&request);
    request.jobs = jobs;
    request.n_jobs = answer->n;
    request.idempotency_key = key_text;
    int rc =
        call_blocking(&(struct blocking_call){.server = &server->server.address,
                                              .token = server_token(&server->server),
                                              .tls = server->server.tls,
                                              .what = "enqueue",
                                              .path = "/pawl.v1.JobService/Enqueue",
                                              .request = &request.base,
                                              .response = &pawl__v1__enqueue_response__descriptor,
                                              .timeout_ms = server->timeout_ms,
                                              .repeatable = true,
                                              .answer = on_answer,
                                              .data = answer},
                      err);

    if (rc == 0 && !answer->whole)
        rc = err_set(err, PAWL_EUNKNOWN, "the server did not answer for every job");
    return rc;
}

static int too_much(struct pawl_err *err)
{
    err_set(err,
            PAWL_ELIMIT,
            "a server takes at most %d jobs and %d MiB at once",
            JOB_ENQUEUE_MAX,
            PAWL_PAYLOAD_MAX / (1024 * 1024));
    return err_hint(err, "Nothing was enqueued. Enqueue them in parts.");
}

/* All of them were read, and are in the reader's hands. */
static int check(const struct reader *r, struct pawl_err *err)
{
    size_t bytes = 0;

    for (size_t i = 0; i < r->n; i++) {
        if (r->jobs[i].parent_id != 0)
            return err_set(err, PAWL_EINVAL, "a job with a parent cannot go by a server");
        bytes += job_new_bytes(&r->jobs[i]);
        if (i > 0 && bytes > PAWL_PAYLOAD_MAX)
            return too_much(err);
    }
    return 0;
}

static int enqueue(const struct pawl_server *server,
                   struct reader *r,
                   struct answer *answer,
                   struct pawl_err *err)
{
    CLEANUP(free_cleanup)
    Pawl__V1__NewJob *items = calloc(r->n, sizeof(*items));
    CLEANUP(free_cleanup)
    Pawl__V1__NewJob **list = calloc(r->n, sizeof(*list));
    CLEANUP(free_cleanup)
    char **states = calloc(r->n * STATES_MAX, sizeof(*states));
    size_t n = 0;
    int rc = reader_next(r, &n, err);

    if (rc == 0)
        rc = n < r->n ? too_much(err) : check(r, err);
    if (rc == 0 && (items == NULL || list == NULL || states == NULL))
        rc = err_set(err, PAWL_ENOMEM, "out of memory");
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        fill(&items[i], &r->jobs[i], states + i * STATES_MAX);
        list[i] = &items[i];
    }
    return call(server, list, answer, err);
}

int pawl_server_enqueue(struct pawl_server *server,
                        const struct pawl_job_new *jobs,
                        size_t n,
                        int64_t *ret_ids,
                        bool *ret_existed,
                        struct pawl_err *err)
{
    struct answer answer = {.n = n, .ids = ret_ids, .existed = ret_existed};
    struct pawl_err none;
    struct reader r;

    err = err != NULL ? err : &none;
    if (server == NULL || (jobs == NULL && n > 0))
        return lib_null("pawl_server_enqueue", server == NULL ? "server" : "jobs", err);
    if (n == 0)
        return 0;
    if (n > JOB_ENQUEUE_MAX)
        return too_much(err);
    int rc = reader_init(&r, NULL, jobs, n, err);

    if (rc < 0)
        return rc;
    rc = enqueue(server, &r, &answer, err);
    reader_deinit(&r);
    return rc;
}
