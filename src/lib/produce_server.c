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

#define WORDS_MAX 8 /* in all fields of words of one job */

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

/* ---- from a job as callers describe it to a message */

static char *text(const char *s)
{
    return (char *)(uintptr_t)(s != NULL ? s : "");
}

#define WIRE(member)                                    offsetof(Pawl__V1__NewJob, member)
#define NO_WIRE                                         SIZE_MAX
#define FIELD(how, name, type, home, member, wire, ...) [JOB_FIELD_##name] = (wire),

static const size_t wire_of[JOB_FIELDS_N] = {JOB_FIELDS(FIELD)};

/* A list of a message: how many stands before where, as protobuf-c has it. */
struct list {
    size_t n;
    char **items;
};

#define LIST_OF(at) ((struct list *)(void *)((char *)(at)-offsetof(struct list, items)))

_Static_assert(offsetof(Pawl__V1__NewJob, tags) - offsetof(Pawl__V1__NewJob, n_tags) ==
                   offsetof(struct list, items),
               "the number of tags is before them");

/* room: for the words of fields of words; moved on. */
static void fill_field(const struct job_field *field, const void *from, void *at, char ***room)
{
    struct list *list = LIST_OF(at);

    switch (field->type) {
    case FIELD_NAME:
    case FIELD_KIND:
    case FIELD_TEXT:
        *(char **)at = text(*(const char *const *)from);
        break;
    case FIELD_BYTES:
        *(ProtobufCBinaryData *)at =
            (ProtobufCBinaryData){((const size_t *)from)[1], *(uint8_t *const *)from};
        break;
    case FIELD_SMALL:
    case FIELD_INT:
        *(uint32_t *)at = *(const uint32_t *)from;
        break;
    case FIELD_WORD: /* the first is the default */
        *(char **)at = text(*(const int *)from > 0 ? field->words[*(const int *)from] : NULL);
        break;
    case FIELD_WORDS:
        list->items = *room;
        for (unsigned i = 0; field->words[i] != NULL; i++) {
            if ((*(const unsigned *)from & (1u << i)) != 0)
                list->items[list->n++] = text(field->words[i]);
        }
        *room += list->n;
        break;
    case FIELD_TEXTS:
        *list = (struct list){((const size_t *)from)[1], *(char **const *)from};
        break;
    default:
        *(int64_t *)at = *(const int64_t *)from;
        break;
    }
}

/* Whether a payload is JSON is nothing that libpawl minds, by a database or by a server. */
static void fill(Pawl__V1__NewJob *to, const struct pawl_job_new *from, char **room)
{
    pawl__v1__new_job__init(to);
    to->payload_is_bytes = true;
    to->priority_choice_case = PAWL__V1__NEW_JOB__PRIORITY_CHOICE_PRIORITY;
    for (size_t i = 0; i < JOB_FIELDS_N; i++) {
        const struct job_field *field = &job_fields[i];

        if (wire_of[i] != NO_WIRE)
            fill_field(field, job_field_at(field, from), (char *)to + wire_of[i], &room);
    }
    if (from->unique_key == NULL)
        to->unique_for_ms = 0; /* means nothing without a key, and a server refuses it */
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
        for (size_t k = 0; k < JOB_FIELDS_N; k++) {
            if (wire_of[k] == NO_WIRE && job_field_is_set(&job_fields[k], &r->jobs[i]))
                return err_set(err, PAWL_EINVAL, "%s does not go by a server", job_fields[k].name);
        }
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
    char **words = calloc(r->n * WORDS_MAX, sizeof(*words));
    size_t n = 0;
    int rc = reader_next(r, &n, err);

    if (rc == 0)
        rc = n < r->n ? too_much(err) : check(r, err);
    if (rc == 0 && (items == NULL || list == NULL || words == NULL))
        rc = err_set(err, PAWL_ENOMEM, "out of memory");
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        fill(&items[i], &r->jobs[i], words + i * WORDS_MAX);
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
