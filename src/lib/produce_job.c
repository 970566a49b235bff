/* produce_job: a job of somebody's: looking at it, waiting for it, ending it, running it again, and
 * the proof that a claim of it is still valid. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/inspect.h"
#include "client/job.h"
#include "client/signal.h"
#include "lib/lib.h"
#include "lib/produce.h"
#include "pawl.h"

/* Where the texts of an info go: behind the struct, in the same piece of memory. */
struct packer {
    char *at; /* NULL: only counting */
    size_t len;
};

static const void *pack(struct packer *p, const void *data, size_t len)
{
    char *to = p->at;

    p->len += len + 1;
    if (data == NULL || to == NULL)
        return NULL;
    memcpy(to, data, len);
    to[len] = '\0';
    p->at += len + 1;
    return to;
}

static const char *pack_text(struct packer *p, const char *text)
{
    return text != NULL ? pack(p, text, strlen(text)) : NULL;
}

static const void *pack_bytes(struct packer *p, struct bytes bytes)
{
    return bytes.data != NULL ? pack(p, bytes.data, bytes.len) : NULL;
}

static bool is_finished(const char *state)
{
    enum job_state parsed;

    return job_state_parse(state, &parsed) == 0 && parsed >= JOB_DONE && parsed <= JOB_CANCELLED;
}

static void fill(struct pawl_job_info *info, const struct job_view *job, struct packer *p)
{
    *info = (struct pawl_job_info){
        .id = job->id,
        .state = pack_text(p, job->state),
        .finished = is_finished(job->state),
        .queue = pack_text(p, job->queue),
        .kind = pack_text(p, job->kind),
        .priority = job->priority,
        .attempt = job->attempt,
        .max_attempts = job->max_attempts,
        .created_at_us = job->created_at,
        .due_at_us = job->due_at,
        .started_at_us = job->started_at,
        .finished_at_us = job->finished_at,
        .worker = pack_text(p, job->worker),
        .payload = pack_bytes(p, job->payload),
        .payload_len = job->payload.len,
        .result = pack_bytes(p, job->result),
        .result_len = job->result.len,
        .errors = pack_text(p, job->errors),
        .progress = pack_text(p, job->progress),
        .lane = pack_text(p, job->lane),
        .tags = pack_text(p, job->tags),
        .trace = pack_text(p, job->trace),
        .parent_id = job->parent_id,
        .cancel_by = pack_text(p, job->cancel_by),
    };
}

static void take(void *data, const struct job_view *job)
{
    struct pawl_job_info **info = data;
    struct pawl_job_info measured;
    struct packer p = {0};

    fill(&measured, job, &p);
    *info = malloc(sizeof(**info) + p.len);
    if (*info == NULL)
        return;
    p = (struct packer){.at = (char *)(*info + 1)};
    fill(*info, job, &p);
}

static int get(PGconn *conn, int64_t id, struct pawl_job_info **ret_info, struct pawl_err *err)
{
    struct pawl_job_info *info = NULL;
    int rc = produce_lost(true, client_job_show(conn, id, take, &info, err), err);

    if (rc < 0)
        return rc;
    if (info == NULL)
        return err_set(err, PAWL_ENOMEM, "out of memory");
    *ret_info = info;
    return 0;
}

int pawl_job_get(PGconn *conn, int64_t id, struct pawl_job_info **ret_info, struct pawl_err *err)
{
    struct pawl_err none;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_job_get", err);

    if (rc == 0 && ret_info == NULL)
        rc = lib_null("pawl_job_get", "ret_info", err);
    return rc == 0 ? get(conn, id, ret_info, err) : rc;
}

void pawl_job_info_free(struct pawl_job_info *info)
{
    free(info);
}

int pawl_job_wait(PGconn *conn,
                  int64_t id,
                  int64_t timeout_ms,
                  struct pawl_job_info **ret_info,
                  struct pawl_err *err)
{
    struct pawl_err none;
    struct pawl_job_info *info = NULL;
    int64_t now_us = clock_mono_us(&clock_system);
    int64_t until_us = INT64_MAX;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_job_wait", err);

    if (timeout_ms >= 0 && timeout_ms < (INT64_MAX - now_us) / US_PER_MS)
        until_us = now_us + timeout_ms * US_PER_MS;
    if (rc == 0)
        rc = produce_lost(true, client_job_await(conn, id, until_us, err), err);
    if (rc == 0)
        rc = get(conn, id, &info, err);
    if (rc < 0)
        return rc;
    if (ret_info != NULL)
        *ret_info = info;
    else
        pawl_job_info_free(info);
    return 0;
}

int pawl_job_cancel(PGconn *conn, int64_t id, const char *by, bool *ret_ended, struct pawl_err *err)
{
    struct pawl_err none;
    bool ended = false;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_job_cancel", err);

    if (rc == 0 && by != NULL && strlen(by) > PAWL_NAME_MAX)
        rc = err_set(err, PAWL_ELIMIT, "who cancels is longer than %d bytes", PAWL_NAME_MAX);
    if (rc == 0 && by != NULL && !utf8_valid(by, strlen(by)))
        rc = err_set(err, PAWL_EINVAL, "who cancels is not valid UTF-8");
    if (rc == 0 && by != NULL)
        rc = produce_encoding(conn, by, err);
    if (rc < 0)
        return rc;
    bool in_transaction = PQtransactionStatus(conn) == PQTRANS_INTRANS;

    rc = produce_lost(in_transaction, client_job_cancel(conn, id, by, &ended, err), err);
    if (rc == 0 && ret_ended != NULL)
        *ret_ended = ended;
    return rc;
}

int pawl_job_retry(PGconn *conn, int64_t id, int64_t *ret_id, struct pawl_err *err)
{
    struct pawl_err none;
    int64_t next = 0;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_job_retry", err);

    if (rc < 0)
        return rc;
    bool in_transaction = PQtransactionStatus(conn) == PQTRANS_INTRANS;

    rc = produce_lost(in_transaction, client_job_retry(conn, id, &next, err), err);
    if (rc == 0 && ret_id != NULL)
        *ret_id = next;
    return rc;
}

/* What a signal is made of, as far as that can be known here. */
static int signal_read(const PGconn *conn,
                       const char *function,
                       const char *name,
                       const char *payload,
                       const char *key,
                       struct signal_new *ret_signal,
                       struct pawl_err *err)
{
    int rc = 0;

    if (name == NULL)
        return lib_null(function, "name", err);
    if (key != NULL && !utf8_valid(key, strlen(key)))
        return err_set(err, PAWL_EINVAL, "the key of a signal is not valid UTF-8");
    *ret_signal =
        (struct signal_new){.name = name, .payload = payload != NULL ? payload : "{}", .key = key};
    if (key != NULL)
        rc = produce_encoding(conn, key, err);
    return rc == 0 ? produce_encoding(conn, ret_signal->payload, err) : rc;
}

int pawl_job_signal(PGconn *conn,
                    int64_t id,
                    const char *name,
                    const char *payload,
                    const char *key,
                    bool *ret_sent,
                    struct pawl_err *err)
{
    struct pawl_err none;
    struct signal_new signal;
    bool sent = false;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_job_signal", err);

    if (rc == 0)
        rc = signal_read(conn, "pawl_job_signal", name, payload, key, &signal, err);
    if (rc < 0)
        return rc;
    bool in_transaction = PQtransactionStatus(conn) == PQTRANS_INTRANS;

    rc = produce_lost(in_transaction, client_signal_send(conn, id, &signal, &sent, err), err);
    if (rc == 0 && ret_sent != NULL)
        *ret_sent = sent;
    return rc;
}

int pawl_signal_all(PGconn *conn,
                    const char *correlation,
                    const char *name,
                    const char *payload,
                    const char *key,
                    int64_t *ret_jobs,
                    struct pawl_err *err)
{
    struct pawl_err none;
    struct signal_new signal;
    int64_t jobs = 0;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_signal_all", err);

    if (rc == 0 && correlation == NULL)
        rc = lib_null("pawl_signal_all", "correlation", err);
    if (rc == 0 && strlen(correlation) > PAWL_CORRELATION_MAX)
        rc = err_set(
            err, PAWL_ELIMIT, "the correlation is longer than %d bytes", PAWL_CORRELATION_MAX);
    if (rc == 0 && !utf8_valid(correlation, strlen(correlation)))
        rc = err_set(err, PAWL_EINVAL, "the correlation is not valid UTF-8");
    if (rc == 0)
        rc = produce_encoding(conn, correlation, err);
    if (rc == 0)
        rc = signal_read(conn, "pawl_signal_all", name, payload, key, &signal, err);
    if (rc < 0)
        return rc;
    bool in_transaction = PQtransactionStatus(conn) == PQTRANS_INTRANS;

    rc = produce_lost(
        in_transaction, client_signal_broadcast(conn, correlation, &signal, &jobs, err), err);
    if (rc == 0 && ret_jobs != NULL)
        *ret_jobs = jobs;
    return rc;
}

int pawl_job_restart(PGconn *conn,
                     int64_t id,
                     const char *step,
                     const char *state,
                     int64_t *ret_id,
                     struct pawl_err *err)
{
    struct pawl_err none;
    int64_t next = 0;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_job_restart", err);

    if (rc == 0 && step == NULL)
        rc = lib_null("pawl_job_restart", "step", err);
    if (rc < 0)
        return rc;
    bool in_transaction = PQtransactionStatus(conn) == PQTRANS_INTRANS;

    rc = produce_lost(
        in_transaction, client_machine_restart(conn, id, step, state, &next, err), err);
    if (rc == 0 && ret_id != NULL)
        *ret_id = next;
    return rc;
}

int pawl_assert_claim(PGconn *conn, int64_t id, const char *token, struct pawl_err *err)
{
    struct pawl_err none;
    struct uuid uuid;

    err = err != NULL ? err : &none;
    int rc = produce_check(conn, "pawl_assert_claim", err);

    if (rc == 0 && token == NULL)
        rc = lib_null("pawl_assert_claim", "token", err);
    if (rc < 0)
        return rc;
    if (PQtransactionStatus(conn) != PQTRANS_INTRANS) {
        err_set(err, PAWL_ESTATE, "pawl_assert_claim: there is no transaction");
        return err_hint(err, "Without one the proof holds for no longer than the call.");
    }
    if (!uuid_parse(token, &uuid))
        return err_set(err, PAWL_EINVAL, "pawl_assert_claim: the token is none");
    return produce_lost(true, client_claim_assert(conn, id, &uuid, err), err);
}
