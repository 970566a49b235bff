/* enqueue: one statement for many jobs, and transactions around several. */
#include "client/enqueue.h"

#include <assert.h>

#include "base/defer.h"
#include "client/query.h"
#include "store/statements.h"

/* The cheapest statement that can carry them. */
static const struct stmt *bind(struct params *p, const struct pawl_job_new *jobs, size_t n)
{
    bool plain = true;
    bool same = true;

    for (size_t i = 0; plain && i < n; i++) {
        plain = job_new_is_plain(&jobs[i]);
        same = same && job_new_is_same(&jobs[0], &jobs[i]);
    }
    if (!plain) {
        job_enqueue_options_bind(p, jobs, n);
        return STMT(job_enqueue_options);
    }
    if (n == 1) {
        job_enqueue_one_bind(p, jobs);
        return STMT(job_enqueue_one);
    }
    if (same) {
        job_enqueue_same_bind(p, jobs, n);
        return STMT(job_enqueue_same);
    }
    job_enqueue_bind(p, jobs, n);
    return STMT(job_enqueue);
}

int client_enqueue(PGconn *conn,
                   const struct pawl_job_new *jobs,
                   size_t n,
                   int64_t *ret_ids,
                   bool *ret_existed,
                   struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    size_t bytes = 0;

    assert(n > 0 && n <= JOB_ENQUEUE_MAX);
    for (size_t i = 0; i < n; i++)
        bytes += job_new_bytes(&jobs[i]);
    /* Each value once in the message, and the blocks of the arena around it. */
    query_begin(&q, 2 * bytes + n * JOB_ENQUEUE_SPARE);
    int rc = query_run(&q, conn, bind(&q.params, jobs, n), err);

    if (rc < 0)
        return rc;
    if ((size_t)query_rows(&q) != n) /* a trigger or a rule of somebody's on our table */
        return err_set(
            err, PAWL_EFAILED, "%zu jobs were enqueued and %d came back", n, query_rows(&q));
    job_enqueue_read(q.result, ret_ids, ret_existed);
    return 0;
}

int client_begin(PGconn *conn, struct pawl_err *err)
{
    return sync_exec(conn, STMT(tx_begin), NULL, NULL, err);
}

int client_commit(PGconn *conn, struct pawl_err *err)
{
    return confirm_exec(conn, STMT(tx_commit), NULL, NULL, err);
}

void client_rollback(PGconn *conn)
{
    (void)!sync_exec(conn, STMT(tx_rollback), NULL, NULL, NULL);
}
