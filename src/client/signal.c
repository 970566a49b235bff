/* signal: checks first, so that what is wrong is said in our words; then bind, run, read. */
#include "client/signal.h"

#include <string.h>

#include "base/defer.h"
#include "client/inspect.h"
#include "client/query.h"
#include "core/json.h"
#include "store/statements.h"

static int check(const struct signal_new *signal, struct pawl_err *err)
{
    size_t len = strlen(signal->payload);
    int rc = name_check("signal", signal->name, err);

    if (rc < 0)
        return rc;
    if (len > SIGNAL_PAYLOAD_MAX)
        return err_set(err,
                       PAWL_ELIMIT,
                       "the payload has %zu bytes, and the limit is %d",
                       len,
                       SIGNAL_PAYLOAD_MAX);
    if (signal->key != NULL && (signal->key[0] == '\0' || strlen(signal->key) > SIGNAL_KEY_MAX))
        return err_set(err,
                       signal->key[0] == '\0' ? PAWL_EINVAL : PAWL_ELIMIT,
                       "the key of a signal has 1 to %d bytes, not %zu",
                       SIGNAL_KEY_MAX,
                       strlen(signal->key));
    return json_check(signal->payload, len, err);
}

int client_signal_send(PGconn *conn,
                       int64_t job_id,
                       const struct signal_new *signal,
                       bool *ret_sent,
                       struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = check(signal, err);

    query_begin(&q, SIGNAL_PAYLOAD_MAX);
    if (rc < 0)
        return rc;
    signal_send_bind(&q.params, job_id, signal);
    rc = query_run(&q, conn, STMT(signal_send), err);
    if (rc == 0)
        *ret_sent = signal_send_row(q.result);
    return rc;
}

int client_signal_broadcast(PGconn *conn,
                            const char *correlation,
                            const struct signal_new *signal,
                            int64_t *ret_jobs,
                            struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = check(signal, err);

    query_begin(&q, SIGNAL_PAYLOAD_MAX);
    if (rc < 0)
        return rc;
    signal_broadcast_bind(&q.params, correlation, signal);
    rc = query_run(&q, conn, STMT(signal_broadcast), err);
    if (rc == 0)
        *ret_jobs = signal_broadcast_row(q.result);
    return rc;
}

static void ignore(void *data, const struct job_view *job)
{
    (void)data;
    (void)job;
}

int client_signal_list(
    PGconn *conn, int64_t job_id, signal_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    signal_list_bind(&q.params, job_id);
    int rc = query_run(&q, conn, STMT(signal_list), err);

    for (int row = 0; rc == 0 && row < query_rows(&q); row++) {
        struct signal_view view;

        signal_list_row(q.result, row, &view);
        fn(data, &view);
    }
    /* An empty inbox, or no job at all. */
    if (rc == 0 && query_rows(&q) == 0)
        rc = client_job_show(conn, job_id, ignore, NULL, err);
    return rc;
}

int client_machine_restart(PGconn *conn,
                           int64_t job_id,
                           const char *step,
                           const char *state,
                           int64_t *ret_id,
                           struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    size_t len = state != NULL ? strlen(state) : 0;
    int rc = name_check("step", step, err);

    query_begin(&q, PAWL_STATE_MAX);
    if (rc == 0 && len > PAWL_STATE_MAX)
        rc = err_set(
            err, PAWL_ELIMIT, "the state has %zu bytes, and the limit is %d", len, PAWL_STATE_MAX);
    if (rc == 0 && state != NULL)
        rc = json_check(state, len, err);
    if (rc < 0)
        return rc;
    machine_restart_bind(&q.params, job_id, step, (struct bytes){state, len});
    rc = query_run(&q, conn, STMT(machine_restart), err);
    if (rc == 0)
        *ret_id = machine_restart_row(q.result);
    return rc;
}
