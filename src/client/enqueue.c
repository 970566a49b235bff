/* enqueue: checks, then one statement for many jobs. */
#include "client/enqueue.h"

#include <assert.h>
#include <string.h>

#include "base/defer.h"
#include "client/query.h"
#include "store/statements.h"

#define JOB_NAMES_BYTES 1024 /* names, numbers and array headers of one job, amply */

/* The cheapest statement that can carry them. */
static const struct stmt *bind(struct params *p, const struct job_new *jobs, size_t n)
{
    bool same = true;

    for (size_t i = 0; i < n; i++) {
        if (!job_new_is_plain(&jobs[i])) {
            job_enqueue_rich_bind(p, jobs, n);
            return STMT(job_enqueue_rich);
        }
        same = same && job_new_is_same(&jobs[0], &jobs[i]);
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

int client_enqueue_checked(PGconn *conn,
                           const struct job_new *jobs,
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
    query_begin(&q, 2 * bytes + n * JOB_NAMES_BYTES);
    const struct stmt *stmt = bind(&q.params, jobs, n);
    int rc = query_run(&q, conn, stmt, err);

    if (rc < 0)
        return rc;
    if ((size_t)query_rows(&q) != n) /* a trigger or a rule of somebody's on our table */
        return err_set(
            err, PAWL_EFAILED, "%zu jobs were enqueued and %d came back", n, query_rows(&q));
    if (stmt == STMT(job_enqueue_rich)) {
        job_enqueue_rich_read(q.result, ret_ids, ret_existed);
        return 0;
    }
    job_enqueue_read(q.result, ret_ids);
    if (ret_existed != NULL)
        memset(ret_existed, 0, n * sizeof(*ret_existed));
    return 0;
}

int client_enqueue(PGconn *conn,
                   const struct job_new *jobs,
                   size_t n,
                   int64_t *ret_ids,
                   bool *ret_existed,
                   struct pawl_err *err)
{
    for (size_t i = 0; i < n; i++) {
        int rc = job_new_check(&jobs[i], err);

        if (rc < 0)
            return rc;
    }
    return client_enqueue_checked(conn, jobs, n, ret_ids, ret_existed, err);
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
