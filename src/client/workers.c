/* workers: asking about them, and of them. */
#include "client/workers.h"

#include "base/defer.h"
#include "client/query.h"
#include "store/statements.h"

int client_worker_list(PGconn *conn, worker_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc;

    query_begin(&q, 0);
    rc = query_run(&q, conn, STMT(worker_list), err);
    for (int row = 0; rc == 0 && row < query_rows(&q); row++) {
        struct worker_view worker;

        worker_list_row(q.result, row, &worker);
        fn(data, &worker);
    }
    return rc;
}

int client_worker_ask(PGconn *conn,
                      const char *worker,
                      const struct worker_wish *wish,
                      bool *ret_found,
                      struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc;

    query_begin(&q, 0);
    worker_ask_bind(&q.params, worker, wish);
    rc = query_run(&q, conn, STMT(worker_ask), err);
    if (rc == 0)
        *ret_found = worker_ask_row(q.result);
    return rc;
}
