/*
 * produce: pawl_enqueue and pawl_enqueue_many. Everything is checked before anything is sent; what is
 * sent travels in as few statements as its size allows. Nothing is left on the caller's connection:
 * no setting, no prepared statement, no notice processor.
 */
#include "lib/produce.h"

#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "client/enqueue_copy.h"
#include "lib/lib.h"
#include "pawl.h"

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

/* Sends all chunks. The outputs are written to as it goes. */
static int
send_all(PGconn *conn, struct reader *r, int64_t *ids, bool *existed, struct pawl_err *err)
{
    int64_t ignored[JOB_ENQUEUE_MAX];
    size_t n;
    int rc = 0;

    while (rc == 0 && r->next < r->n) {
        size_t first = r->next;

        rc = reader_next(r, &n, err);
        if (rc == 0)
            rc = client_enqueue(conn,
                                r->jobs,
                                n,
                                ids != NULL ? ids + first : ignored,
                                existed != NULL ? existed + first : NULL,
                                err);
    }
    return rc;
}

static int chunk_for_copy(void *data,
                          const struct pawl_job_new **ret_jobs,
                          size_t *ret_n,
                          struct pawl_err *err)
{
    struct reader *r = data;

    *ret_jobs = r->jobs;
    return reader_next(r, ret_n, err);
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
        client_enqueue(conn, r->jobs, n, ret_ids != NULL ? ret_ids : ignored, ret_existed, err),
        err);
}

static int enqueue_checked(
    PGconn *conn, struct reader *r, int64_t *ret_ids, bool *ret_existed, struct pawl_err *err)
{
    size_t n = 0;
    size_t first = 0;
    int rc = 0;

    while (rc == 0 && r->next < r->n) {
        rc = reader_next(r, &n, err);
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
    struct reader r;

    if (err == NULL)
        err = &none;
    int rc = produce_check(conn, n == 1 ? "pawl_enqueue" : "pawl_enqueue_many", err);

    if (rc < 0 || n == 0)
        return rc;
    if (jobs == NULL)
        return lib_null("pawl_enqueue_many", "jobs", err);
    rc = reader_init(&r, conn, jobs, n, err);
    if (rc < 0)
        return rc;
    rc = enqueue_checked(conn, &r, ret_ids, ret_existed, err);
    reader_deinit(&r);
    return rc == PAWL_ETIMEOUT ? err_prefix(err, "could not enqueue") : rc;
}
