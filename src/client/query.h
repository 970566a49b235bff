/*
 * query: one statement of the client room with the memory it needs: begin, bind into `params`, run, read `result`.
 *
 *     CLEANUP(query_end) struct query q;
 *     query_begin(&q, 0);
 *     job_show_bind(&q.params, id);
 *     rc = query_run(&q, conn, STMT(job_show), err);
 */
#ifndef CLIENT_QUERY_H
#define CLIENT_QUERY_H

#include <libpq-fe.h>

#include "client/confirm.h"
#include "pg/result.h"
#include "pg/sync.h"

#define QUERY_BYTES (64 * 1024) /* parameters of an ordinary statement */

struct query {
    struct arena arena;
    struct params params;
    PGresult *result; /* owned; NULL before query_run */
};

/* more: bytes beyond QUERY_BYTES that the parameters may take. */
static inline void query_begin(struct query *q, size_t more)
{
    arena_init(&q->arena, QUERY_BYTES + more);
    params_init(&q->params, &q->arena);
    q->result = NULL;
}

static inline void query_end(struct query *q)
{
    PQclear(q->result);
    arena_deinit(&q->arena);
}

static inline int
query_run(struct query *q, PGconn *conn, const struct stmt *stmt, struct pawl_err *err)
{
    return confirm_exec(conn, stmt, &q->params, &q->result, err);
}

static inline int query_rows(const struct query *q)
{
    return PQntuples(q->result);
}

#endif
