/*
 * produce: pawl_enqueue and pawl_enqueue_many. Everything is checked before anything is sent; what is
 * sent travels in as few statements as its size allows. Nothing is left on the caller's connection:
 * no setting, no prepared statement, no notice processor.
 */
#include "lib/produce.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/defer.h"
#include "base/json.h"
#include "client/enqueue.h"
#include "client/enqueue_copy.h"
#include "lib/lib.h"
#include "pawl.h"

/* Copies of unique keys and meta of one statement; keys are the largest of them. */
#define CHUNK_TEXT_MAX (ENQUEUE_BYTES_MAX + 4 * PAWL_KEY_MAX)

int produce_check(PGconn *conn, const char *function, struct pawl_err *err)
{
    if (conn == NULL)
        return lib_null(function, "the connection", err);
    if (PQstatus(conn) != CONNECTION_OK) {
        err_set(err, PAWL_ECONN, "%s: the connection is lost, or was never made", function);
        return err_hint(err, "Connect again.");
    }
    if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        return err_set(err, PAWL_ESTATE, "%s: the connection is in pipeline mode", function);
    if (PQtransactionStatus(conn) == PQTRANS_ACTIVE) {
        err_set(err, PAWL_ESTATE, "%s: the connection is busy with another statement", function);
        return err_hint(err, "Take its results until there are no more, or end the COPY.");
    }
    if (PQtransactionStatus(conn) == PQTRANS_INERROR) {
        err_set(err, PAWL_ESTATE, "%s: the transaction has failed already", function);
        return err_hint(err, "Roll it back, and begin again.");
    }
    return 0;
}

int produce_encoding(const PGconn *conn, const char *text, struct pawl_err *err)
{
    const char *encoding = PQparameterStatus(conn, "client_encoding");

    while (*text != '\0' && (unsigned char)*text < 0x80)
        text++;
    if (*text == '\0' || encoding == NULL || strcmp(encoding, "UTF8") == 0 ||
        strcmp(encoding, "SQL_ASCII") == 0)
        return 0;
    err_set(err, PAWL_EINVAL, "the connection speaks %s, and the text is UTF-8", encoding);
    return err_hint(err, "PQsetClientEncoding(conn, \"UTF8\")");
}

int produce_lost(bool in_transaction, int rc, struct pawl_err *err)
{
    if (rc != PAWL_EUNKNOWN || !in_transaction)
        return rc;
    err->code = PAWL_ECONN;
    err_hint(err, "Nothing of the transaction was committed. Connect and begin again.");
    return PAWL_ECONN;
}

static int unique_key_read(const struct pawl_job_new *from,
                           struct job_new *to,
                           struct arena *arena,
                           struct pawl_err *err)
{
    static const char *const scopes[] = {"kind", "queue", "global"};

    if (from->unique_key == NULL)
        return 0;
    if (from->unique_scope < PAWL_SCOPE_KIND || from->unique_scope > PAWL_SCOPE_GLOBAL)
        return err_set(err, PAWL_EINVAL, "%d is no unique scope", (int)from->unique_scope);
    if (from->unique_states > PAWL_UNIQUE_LIVE)
        return err_set(err, PAWL_EINVAL, "%u are no states of a unique key", from->unique_states);
    to->unique_key = from->unique_key;
    if (from->unique_key_len > PAWL_KEY_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "the unique key has %zu bytes, and the limit is %d",
                       from->unique_key_len,
                       PAWL_KEY_MAX);
    if (from->unique_key_len > 0) {
        if (memchr(from->unique_key, '\0', from->unique_key_len) != NULL)
            return err_set(err, PAWL_EINVAL, "the unique key holds a NUL");
        to->unique_key = arena_strndup(arena, from->unique_key, from->unique_key_len);
        if (to->unique_key == NULL)
            return err_set(err, PAWL_ENOMEM, "out of memory");
    }
    to->unique_scope = scopes[from->unique_scope];
    to->unique_states = from->unique_states != 0 ? (int32_t)from->unique_states : PAWL_UNIQUE_LIVE;
    to->unique_mode = (int32_t)from->unique_mode;
    to->unique_keep_ms = from->unique_for_ms;
    return 0;
}

static int number_read(const char *what, int64_t value, int32_t *ret_value, struct pawl_err *err)
{
    if (value < 0 || value > INT32_MAX)
        return err_set(
            err, PAWL_EINVAL, "%s %lld is not between 0 and %d", what, (long long)value, INT32_MAX);
    *ret_value = (int32_t)value;
    return 0;
}

static int payload_read(const struct pawl_job_new *from, struct job_new *to, struct pawl_err *err)
{
    if (from->payload == NULL && from->payload_len > 0)
        return err_set(err, PAWL_EINVAL, "the payload is NULL and has a length");
    if (from->payload != NULL)
        to->payload = (struct bytes){from->payload, from->payload_len};
    return 0;
}

/* What the caller asks for, as the store knows it, and checked. Borrows the caller's texts; what has
 * to be made is in the arena. */
static int job_read(const PGconn *conn,
                    const struct pawl_job_new *from,
                    struct arena *arena,
                    struct job_new *ret_job,
                    struct pawl_err *err)
{
    static const char *const retries[] = {NULL, "exponential", "quadratic"};
    struct job_new job = job_new_default();
    int rc = 0;

    if (from->kind == NULL)
        return err_set(err, PAWL_EINVAL, "a job has no kind");
    if (from->retry < PAWL_RETRY_AUTO || from->retry > PAWL_RETRY_QUADRATIC)
        return err_set(err, PAWL_EINVAL, "%d is no retry policy", (int)from->retry);
    if (from->tags == NULL && from->n_tags > 0)
        return err_set(err, PAWL_EINVAL, "tags is NULL and n_tags is not 0");
    for (size_t i = 0; i < from->n_tags && from->n_tags <= PAWL_TAGS_MAX; i++) {
        if (from->tags[i] == NULL)
            return err_set(err, PAWL_EINVAL, "tag %zu is NULL", i);
    }
    rc = priority_check(from->priority, err);
    job.kind = from->kind;
    if (from->queue != NULL)
        job.queue = from->queue;
    job.priority = (int16_t)from->priority;
    if (from->max_attempts != 0)
        job.max_attempts = from->max_attempts;
    job.delay_ms = from->delay_ms;
    job.at_us = from->at_us;
    job.retry = retries[from->retry];
    job.lane = from->lane;
    job.parent_id = from->parent_id;
    job.deadline_ms = from->deadline_ms;
    job.tags = from->tags;
    job.n_tags = from->n_tags;
    job.trace = from->trace;
    job.correlation = from->correlation;
    if (rc == 0)
        rc = payload_read(from, &job, err);
    if (rc == 0)
        rc = number_read("timeout_ms", from->timeout_ms, &job.timeout_ms, err);
    if (rc == 0)
        rc = number_read("retry_base_ms", from->retry_base_ms, &job.retry_base_ms, err);
    if (rc == 0)
        rc = number_read("retry_cap_ms", from->retry_cap_ms, &job.retry_cap_ms, err);
    if (rc == 0)
        rc = unique_key_read(from, &job, arena, err);
    if (rc == 0)
        rc = job_new_meta(&job, arena, err);
    if (rc == 0)
        rc = job_new_check(&job, err);
    if (rc == 0 && job.unique_key != NULL)
        rc = produce_encoding(conn, job.unique_key, err);
    if (rc == 0 && job.meta != NULL)
        rc = produce_encoding(conn, job.meta, err);
    if (rc == 0)
        *ret_job = job;
    return rc;
}

int pawl_enqueue(PGconn *conn,
                 const struct pawl_job_new *job,
                 int64_t *ret_id,
                 bool *ret_existed,
                 struct pawl_err *err)
{
    if (job == NULL) {
        struct pawl_err none;

        return lib_null("pawl_enqueue", "job", err != NULL ? err : &none);
    }
    return pawl_enqueue_many(conn, job, 1, ret_id, ret_existed, err);
}

/* The jobs of one call, read one after the other; the same twice: once to check them all, once to
 * send them. */
struct reader {
    const PGconn *conn;
    const unsigned char *at; /* structs of the caller's, `stride` apart */
    size_t stride;
    size_t n;
    size_t next;
    bool rich;            /* one that is not plain has come by */
    struct arena arena;   /* of the texts of one chunk */
    struct job_new *jobs; /* of one chunk; owned; room for JOB_ENQUEUE_MAX or n */
};

/* The next ones that fit into a statement: how many, or an error that says which. */
static int next_chunk(struct reader *r, size_t *ret_n, struct pawl_err *err)
{
    size_t bytes = 0;
    size_t n = 0;

    arena_clear(&r->arena);
    while (r->next < r->n && n < JOB_ENQUEUE_MAX && bytes < ENQUEUE_BYTES_MAX) {
        const unsigned char *from = r->at + r->next * r->stride;
        struct pawl_job_new job;
        size_t size;

        memcpy(&size, from, sizeof(size));
        int rc =
            size == r->stride
                ? lib_struct_read(&job, sizeof(job), LIB_JOB_NEW_LEAST, from, "pawl_job_new", err)
                : err_set(err, PAWL_EINVAL, "its size differs from that of the first");
        if (rc == 0)
            rc = job_read(r->conn, &job, &r->arena, &r->jobs[n], err);
        if (rc < 0 && r->n > 1)
            err_prefix(err, "job %zu of %zu", r->next + 1, r->n);
        if (rc < 0)
            return rc;
        r->rich = r->rich || !job_new_is_plain(&r->jobs[n]);
        bytes += job_new_bytes(&r->jobs[n]);
        r->next++;
        n++;
    }
    *ret_n = n;
    return 0;
}

static void reader_rewind(struct reader *r)
{
    r->next = 0;
}

/* Sends all chunks. The outputs are written to as it goes. */
static int
send_all(PGconn *conn, struct reader *r, int64_t *ids, bool *existed, struct pawl_err *err)
{
    int64_t ignored[JOB_ENQUEUE_MAX];
    size_t n;
    int rc = 0;

    while (rc == 0 && r->next < r->n) {
        size_t first = r->next;

        rc = next_chunk(r, &n, err);
        if (rc == 0)
            rc = client_enqueue_checked(conn,
                                        r->jobs,
                                        n,
                                        ids != NULL ? ids + first : ignored,
                                        existed != NULL ? existed + first : NULL,
                                        err);
    }
    return rc;
}

static int
chunk_for_copy(void *data, const struct job_new **ret_jobs, size_t *ret_n, struct pawl_err *err)
{
    struct reader *r = data;

    *ret_jobs = r->jobs;
    return next_chunk(r, ret_n, err);
}

/* By COPY, where nobody wants to know their ids and PostgreSQL allows it. */
static int
send_fast(PGconn *conn, struct reader *r, int64_t *ids, bool *existed, struct pawl_err *err)
{
    bool done = false;
    int rc = 0;

    if (ids == NULL && !r->rich && r->n >= ENQUEUE_COPY_MIN)
        rc = client_enqueue_copy(conn, chunk_for_copy, r, &done, err);
    return rc < 0 || done ? rc : send_all(conn, r, ids, existed, err);
}

/* Several statements outside a transaction: in one of our own. Outputs of the caller's are touched
 * only once it is committed. */
static int send_in_transaction(
    PGconn *conn, struct reader *r, int64_t *ret_ids, bool *ret_existed, struct pawl_err *err)
{
    CLEANUP(free_cleanup)
    int64_t *ids = ret_ids != NULL ? calloc(r->n, sizeof(*ids)) : NULL;
    CLEANUP(free_cleanup)
    bool *existed = ret_existed != NULL ? calloc(r->n, sizeof(*existed)) : NULL;

    if ((ret_ids != NULL && ids == NULL) || (ret_existed != NULL && existed == NULL))
        return err_set(err, PAWL_ENOMEM, "out of memory");
    bool begun = PQtransactionStatus(conn) == PQTRANS_IDLE;
    int rc = begun ? client_begin(conn, err) : 0;

    if (rc == 0)
        rc = send_fast(conn, r, ids, existed, err);
    if (rc == 0 && begun)
        rc = client_commit(conn, err);
    else
        rc = produce_lost(true, rc, err);
    if (rc < 0) {
        if (begun && PQtransactionStatus(conn) != PQTRANS_IDLE)
            client_rollback(conn);
        return rc;
    }
    if (ret_ids != NULL)
        memcpy(ret_ids, ids, r->n * sizeof(*ids));
    if (ret_existed != NULL)
        memcpy(ret_existed, existed, r->n * sizeof(*existed));
    return 0;
}

/* One statement: as it is, in whatever transaction there is. */
static int send_chunk(PGconn *conn,
                      struct reader *r,
                      size_t n,
                      int64_t *ret_ids,
                      bool *ret_existed,
                      struct pawl_err *err)
{
    int64_t ignored[JOB_ENQUEUE_MAX];
    bool in_transaction = PQtransactionStatus(conn) == PQTRANS_INTRANS;

    return produce_lost(
        in_transaction,
        client_enqueue_checked(
            conn, r->jobs, n, ret_ids != NULL ? ret_ids : ignored, ret_existed, err),
        err);
}

static int enqueue_checked(
    PGconn *conn, struct reader *r, int64_t *ret_ids, bool *ret_existed, struct pawl_err *err)
{
    size_t n = 0;
    size_t first = 0;
    int rc = 0;

    while (rc == 0 && r->next < r->n) {
        rc = next_chunk(r, &n, err);
        first = first == 0 ? n : first;
    }
    if (rc < 0)
        return rc;
    if (first == r->n) /* and still in the reader's hands */
        return send_chunk(conn, r, n, ret_ids, ret_existed, err);
    reader_rewind(r);
    return send_in_transaction(conn, r, ret_ids, ret_existed, err);
}

int pawl_enqueue_many(PGconn *conn,
                      const struct pawl_job_new *jobs,
                      size_t n,
                      int64_t *ret_ids,
                      bool *ret_existed,
                      struct pawl_err *err)
{
    struct pawl_err none;
    struct reader r = {.conn = conn, .at = (const void *)jobs, .n = n};

    if (err == NULL)
        err = &none;
    int rc = produce_check(conn, n == 1 ? "pawl_enqueue" : "pawl_enqueue_many", err);

    if (rc < 0 || n == 0)
        return rc;
    if (jobs == NULL)
        return lib_null("pawl_enqueue_many", "jobs", err);
    memcpy(&r.stride, jobs, sizeof(r.stride));
    r.jobs = calloc(n < JOB_ENQUEUE_MAX ? n : JOB_ENQUEUE_MAX, sizeof(*r.jobs));
    if (r.jobs == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    arena_init(&r.arena, CHUNK_TEXT_MAX);
    rc = enqueue_checked(conn, &r, ret_ids, ret_existed, err);
    arena_deinit(&r.arena);
    free(r.jobs);
    return rc;
}
