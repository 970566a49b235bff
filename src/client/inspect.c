/* inspect: bind, execute, pass on the rows. */
#include "client/inspect.h"

#include <string.h>

#include "base/defer.h"
#include "pg/result.h"
#include "pg/sync.h"
#include "store/statements.h"

#define PARAMS_BYTES_MAX (64 * 1024)

int client_job_show(PGconn *conn, int64_t id, job_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    struct params params;
    struct job_view job;

    arena_init(&arena, PARAMS_BYTES_MAX);
    params_init(&params, &arena);
    job_show_bind(&params, id);
    int rc = sync_exec(conn, STMT(job_show), &params, &r, err);

    if (rc < 0)
        return rc;
    if (PQntuples(r) == 0) {
        err_set(err, PAWL_ENOTFOUND, "there is no job %lld", (long long)id);
        return err_hint(err, "Finished jobs are forgotten after the days their queue keeps them.");
    }
    job_show_row(r, 0, &job);
    fn(data, &job);
    return 0;
}

int client_job_list(
    PGconn *conn, const struct job_list *list, job_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    struct params params;

    arena_init(&arena, PARAMS_BYTES_MAX);
    params_init(&params, &arena);
    job_list_bind(&params, list);
    int rc = sync_exec(conn, STMT(job_list), &params, &r, err);

    if (rc < 0)
        return rc;
    for (int row = 0; row < PQntuples(r); row++) {
        struct job_view job;

        job_list_row(r, row, &job);
        fn(data, &job);
    }
    return 0;
}

int client_job_progress(PGconn *conn,
                        const int64_t *ids,
                        size_t n,
                        job_progress_fn fn,
                        void *data,
                        struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    struct params params;

    arena_init(&arena, PARAMS_BYTES_MAX + n * 16);
    params_init(&params, &arena);
    job_progress_bind(&params, ids, n);
    int rc = sync_exec(conn, STMT(job_progress), &params, &r, err);

    if (rc < 0)
        return rc;
    for (int row = 0; row < PQntuples(r); row++) {
        struct job_progress progress;

        job_progress_row(r, row, &progress);
        fn(data, &progress);
    }
    return 0;
}

int client_queue_list(
    PGconn *conn, int64_t count_max, queue_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    struct params params;

    arena_init(&arena, PARAMS_BYTES_MAX);
    params_init(&params, &arena);
    queue_list_bind(&params, count_max);
    int rc = sync_exec(conn, STMT(queue_list), &params, &r, err);

    if (rc < 0)
        return rc;
    for (int row = 0; row < PQntuples(r); row++) {
        struct queue_view queue;

        queue_list_row(r, row, &queue);
        fn(data, &queue);
    }
    return 0;
}

static int queue_check(const char *queue, struct pawl_err *err)
{
    return strcmp(queue, QUEUE_ALL) == 0 ? 0 : name_check("queue", queue, err);
}

int client_queue_pause(PGconn *conn, const char *queue, const char *who, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    struct params params;
    int rc = queue_check(queue, err);

    arena_init(&arena, PARAMS_BYTES_MAX);
    if (rc < 0)
        return rc;
    params_init(&params, &arena);
    queue_pause_bind(&params, queue, who);
    return sync_exec(conn, STMT(queue_pause), &params, NULL, err);
}

int client_queue_resume(PGconn *conn, const char *queue, bool *ret_was_paused, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    struct params params;
    int rc = queue_check(queue, err);

    arena_init(&arena, PARAMS_BYTES_MAX);
    if (rc < 0)
        return rc;
    params_init(&params, &arena);
    queue_resume_bind(&params, queue);
    rc = sync_exec(conn, STMT(queue_resume), &params, &r, err);
    if (rc == 0)
        *ret_was_paused = PQntuples(r) > 0;
    return rc;
}

int client_kind_list(PGconn *conn, kind_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(result_cleanup)
    PGresult *r = NULL;
    int rc = sync_exec(conn, STMT(kind_list), NULL, &r, err);

    if (rc < 0)
        return rc;
    for (int row = 0; row < PQntuples(r); row++) {
        struct kind_view kind;

        kind_list_row(r, row, &kind);
        fn(data, &kind);
    }
    return 0;
}

int client_kind_set(PGconn *conn, const struct kind_set *set, struct pawl_err *err)
{
    CLEANUP(arena_deinit)
    struct arena arena;
    struct params params;
    int rc = name_check("kind", set->name, err);

    arena_init(&arena, PARAMS_BYTES_MAX);
    if (rc < 0)
        return rc;
    params_init(&params, &arena);
    kind_set_bind(&params, set);
    return sync_exec(conn, STMT(kind_set), &params, NULL, err);
}
