/*
 * inspect: looking at jobs and queues, and holding a queue. Blocking, on a connection of the
 * caller's. Rows are passed one by one; what they point to lives for the call.
 */
#ifndef CLIENT_INSPECT_H
#define CLIENT_INSPECT_H

#include <libpq-fe.h>

#include "store/job.h"
#include "store/kind.h"
#include "store/queue.h"

typedef void (*job_view_fn)(void *data, const struct job_view *job);
typedef void (*queue_view_fn)(void *data, const struct queue_view *queue);

/* PAWL_ENOTFOUND when there is none. */
int client_job_show(PGconn *conn, int64_t id, job_view_fn fn, void *data, struct pawl_err *err)
    MUST_CHECK;
int client_job_list(PGconn *conn,
                    const struct job_list *list,
                    job_view_fn fn,
                    void *data,
                    struct pawl_err *err) MUST_CHECK;

/* One call of fn for each queue and state that occurs among the jobs; jobs that are forgotten are
 * left out. */
typedef void (*job_progress_fn)(void *data, const struct job_progress *progress);
int client_job_progress(PGconn *conn,
                        const int64_t *ids,
                        size_t n,
                        job_progress_fn fn,
                        void *data,
                        struct pawl_err *err) MUST_CHECK;

/* Counts stop at count_max for each queue. */
int client_queue_list(
    PGconn *conn, int64_t count_max, queue_view_fn fn, void *data, struct pawl_err *err) MUST_CHECK;

int client_queue_pause(PGconn *conn, const char *queue, const char *who, struct pawl_err *err)
    MUST_CHECK;
/* ret_was_paused: false when there was nothing to resume. */
int client_queue_resume(PGconn *conn, const char *queue, bool *ret_was_paused, struct pawl_err *err)
    MUST_CHECK;

/* Who, of the members of pawl_enqueuer, may enqueue into it. PAWL_ENOTFOUND: no such role. ret_member: it is one. */
int client_queue_allow(PGconn *conn,
                       const char *queue,
                       const char *role,
                       bool *ret_member,
                       struct pawl_err *err) MUST_CHECK;
int client_queue_disallow(PGconn *conn,
                          const char *queue,
                          const char *role,
                          bool *ret_was,
                          struct pawl_err *err) MUST_CHECK;

typedef void (*kind_view_fn)(void *data, const struct kind_view *kind);
int client_kind_list(PGconn *conn, kind_view_fn fn, void *data, struct pawl_err *err) MUST_CHECK;
int client_kind_set(PGconn *conn, const struct kind_set *set, struct pawl_err *err) MUST_CHECK;

/* Stands for all queues in client_queue_pause and client_queue_resume. */
#define QUEUE_ALL "*"

#endif
