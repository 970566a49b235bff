/* inspect: bind, run, pass on the rows. */
#include "client/inspect.h"

#include <string.h>

#include "base/defer.h"
#include "client/query.h"
#include "store/statements.h"

int client_job_show(PGconn *conn, int64_t id, job_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    struct job_view job;

    query_begin(&q, 0);
    job_show_bind(&q.params, id);
    int rc = query_run(&q, conn, STMT(job_show), err);

    if (rc < 0)
        return rc;
    if (query_rows(&q) == 0) {
        err_set(err, PAWL_ENOTFOUND, "there is no job %lld", (long long)id);
        return err_hint(err, "Finished jobs are forgotten after the days their queue keeps them.");
    }
    job_show_row(q.result, 0, &job);
    fn(data, &job);
    return 0;
}

int client_job_list(
    PGconn *conn, const struct job_list *list, job_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    job_list_bind(&q.params, list);
    int rc = query_run(&q, conn, STMT(job_list), err);

    for (int row = 0; rc == 0 && row < query_rows(&q); row++) {
        struct job_view job;

        job_list_row(q.result, row, &job);
        fn(data, &job);
    }
    return rc;
}

int client_job_progress(PGconn *conn,
                        const int64_t *ids,
                        size_t n,
                        job_progress_fn fn,
                        void *data,
                        struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, n * 16);
    job_progress_bind(&q.params, ids, n);
    int rc = query_run(&q, conn, STMT(job_progress), err);

    for (int row = 0; rc == 0 && row < query_rows(&q); row++) {
        struct job_progress progress;

        job_progress_row(q.result, row, &progress);
        fn(data, &progress);
    }
    return rc;
}

int client_queue_list(
    PGconn *conn, int64_t count_max, queue_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    queue_list_bind(&q.params, count_max);
    int rc = query_run(&q, conn, STMT(queue_list), err);

    for (int row = 0; rc == 0 && row < query_rows(&q); row++) {
        struct queue_view queue;

        queue_list_row(q.result, row, &queue);
        fn(data, &queue);
    }
    return rc;
}

static int queue_check(const char *queue, struct pawl_err *err)
{
    return strcmp(queue, QUEUE_ALL) == 0 ? 0 : name_check("queue", queue, err);
}

int client_queue_pause(PGconn *conn, const char *queue, const char *who, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = queue_check(queue, err);

    query_begin(&q, 0);
    queue_pause_bind(&q.params, queue, who);
    return rc < 0 ? rc : query_run(&q, conn, STMT(queue_pause), err);
}

int client_queue_resume(PGconn *conn, const char *queue, bool *ret_was_paused, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = queue_check(queue, err);

    query_begin(&q, 0);
    queue_resume_bind(&q.params, queue);
    if (rc == 0)
        rc = query_run(&q, conn, STMT(queue_resume), err);
    if (rc == 0)
        *ret_was_paused = query_rows(&q) > 0;
    return rc;
}

int client_queue_allow(
    PGconn *conn, const char *queue, const char *role, bool *ret_member, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = name_check("queue", queue, err);

    query_begin(&q, 0);
    queue_allow_bind(&q.params, queue, role);
    if (rc == 0)
        rc = query_run(&q, conn, STMT(queue_allow), err);
    if (rc == 0 && query_rows(&q) == 0)
        rc = err_set(err, PAWL_ENOTFOUND, "there is no role %s", role);
    if (rc == 0)
        *ret_member = queue_allow_row(q.result);
    return rc;
}

int client_queue_disallow(
    PGconn *conn, const char *queue, const char *role, bool *ret_was, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = name_check("queue", queue, err);

    query_begin(&q, 0);
    queue_disallow_bind(&q.params, queue, role);
    if (rc == 0)
        rc = query_run(&q, conn, STMT(queue_disallow), err);
    if (rc == 0)
        *ret_was = query_rows(&q) > 0;
    return rc;
}

int client_kind_list(PGconn *conn, kind_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    int rc = query_run(&q, conn, STMT(kind_list), err);

    for (int row = 0; rc == 0 && row < query_rows(&q); row++) {
        struct kind_view kind;

        kind_list_row(q.result, row, &kind);
        fn(data, &kind);
    }
    return rc;
}

int client_kind_set(PGconn *conn, const struct kind_set *set, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = name_check("kind", set->name, err);

    query_begin(&q, 0);
    kind_set_bind(&q.params, set);
    return rc < 0 ? rc : query_run(&q, conn, STMT(kind_set), err);
}
