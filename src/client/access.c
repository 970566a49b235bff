/* access: bind, run, read. */
#include "client/access.h"

#include <string.h>

#include "base/defer.h"
#include "client/query.h"
#include "core/job.h"
#include "store/statements.h"

/* A queue, or the beginning of one and a star. */
static int queue_check(const char *queue, struct pawl_err *err)
{
    char name[PAWL_NAME_MAX + 2];
    size_t len = strlen(queue);

    if (len > 0 && queue[len - 1] == '*' && len < sizeof(name)) {
        /* Any character will do in its place: then the whole must be a name. */
        memcpy(name, queue, len + 1);
        name[len - 1] = 'x';
        return name_check("queue", name, err);
    }
    return name_check("queue", queue, err);
}

int client_access_create(PGconn *conn,
                         const struct access_new *access,
                         int64_t *ret_id,
                         struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;
    int rc = name_check("token", access->name, err);

    query_begin(&q, 0);
    for (size_t i = 0; rc == 0 && i < access->n_queues; i++)
        rc = queue_check(access->queues[i], err);
    if (rc < 0)
        return rc;
    access_create_bind(&q.params, access);
    rc = query_run(&q, conn, STMT(access_create), err);
    if (rc < 0 && strcmp(err->sqlstate, "23505") == 0) {
        rc = err_set(err, PAWL_EEXIST, "there is an access token %s already", access->name);
        err_hint(err, "Choose another name, or revoke that one first.");
        return rc;
    }
    if (rc == 0 && !access_create_row(q.result, ret_id))
        rc = err_set(err, PAWL_ELIMIT, "there are %d access tokens already", ACCESS_MAX);
    return rc;
}

int client_access_list(PGconn *conn, bool all, access_view_fn fn, void *data, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    access_list_bind(&q.params, all);
    int rc = query_run(&q, conn, STMT(access_list), err);

    for (int row = 0; rc == 0 && row < query_rows(&q); row++) {
        struct access_view view;

        access_list_row(q.result, row, &view);
        fn(data, &view);
    }
    return rc;
}

int client_access_revoke(PGconn *conn, const char *which, struct pawl_err *err)
{
    CLEANUP(query_end)
    struct query q;

    query_begin(&q, 0);
    access_revoke_bind(&q.params, which);
    int rc = query_run(&q, conn, STMT(access_revoke), err);

    if (rc == 0 && query_rows(&q) == 0) {
        err_set(err, PAWL_ENOTFOUND, "there is no access token %s that is valid", which);
        return err_hint(err, "pawl token list --all shows all of them.");
    }
    return rc;
}
