/* enqueue: checks, then one statement for many jobs. */
#include "client/enqueue.h"

#include <assert.h>

#include "base/defer.h"
#include "client/query.h"
#include "store/statements.h"

struct job_new job_new_default(void)
{
    return (struct job_new){
        .queue = "default",
        .priority = PAWL_PRIORITY_DEFAULT,
        .max_attempts = JOB_MAX_ATTEMPTS_DEFAULT,
        .payload = {"{}", 2},
    };
}

int job_new_check(const struct job_new *job, struct pawl_err *err)
{
    int rc = name_check("queue", job->queue, err);

    if (rc == 0)
        rc = name_check("kind", job->kind, err);
    if (rc == 0)
        rc = priority_check(job->priority, err);
    if (rc < 0)
        return rc;
    if (job->max_attempts < 1 || job->max_attempts > JOB_MAX_ATTEMPTS_LIMIT) {
        return err_set(err,
                       PAWL_EINVAL,
                       "max attempts %d is not between 1 and %d",
                       job->max_attempts,
                       JOB_MAX_ATTEMPTS_LIMIT);
    }
    if (job->timeout_ms < 0 || job->delay_ms < 0)
        return err_set(err, PAWL_EINVAL, "a timeout or a delay cannot be negative");
    if (job->payload.len > PAWL_PAYLOAD_MAX) {
        err_set(err,
                PAWL_ELIMIT,
                "the payload has %zu bytes, and the limit is %d",
                job->payload.len,
                PAWL_PAYLOAD_MAX);
        return err_hint(err, "Store it elsewhere and pass a reference to it.");
    }
    return 0;
}

int client_enqueue(
    PGconn *conn, const struct job_new *jobs, size_t n, int64_t *ret_ids, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    assert(n > 0 && n <= JOB_ENQUEUE_MAX);
    /* The payloads once in the message, and the arrays around them. */
    query_begin(&q, 2 * (ENQUEUE_BYTES_MAX + PAWL_PAYLOAD_MAX) + n * 1024);
    for (size_t i = 0; i < n; i++) {
        int rc = job_new_check(&jobs[i], err);

        if (rc < 0)
            return rc;
    }
    job_enqueue_bind(&q.params, jobs, n);
    int rc = query_run(&q, conn, STMT(job_enqueue), err);

    if (rc < 0)
        return rc;
    assert((size_t)query_rows(&q) == n);
    job_enqueue_read(q.result, ret_ids);
    return 0;
}

int client_begin(PGconn *conn, struct pawl_err *err)
{
    return sync_exec(conn, STMT(tx_begin), NULL, NULL, err);
}

int client_commit(PGconn *conn, struct pawl_err *err)
{
    return sync_exec(conn, STMT(tx_commit), NULL, NULL, err);
}

void client_rollback(PGconn *conn)
{
    (void)!sync_exec(conn, STMT(tx_rollback), NULL, NULL, NULL);
}
