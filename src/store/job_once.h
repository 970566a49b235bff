/*
 * job_once: the statements about jobs that only the server sends: calls that may be repeated, cancelling many, pages.
 * Pairs of _bind and _row as in store/job.h.
 */
#ifndef STORE_JOB_ONCE_H
#define STORE_JOB_ONCE_H

#include <libpq-fe.h>

#include "store/job.h"
#include "store/signal.h"

/* keys: none twice. */
void enqueue_key_take_bind(struct params *p,
                           const struct uuid *keys,
                           const struct uuid *requests,
                           size_t n);

/* once[i]: the idempotency key of job i's call, or NULL; steps[i]: where it begins, or NULL; plain[i]: all jobs of its call
 * are plain and begin at the beginning. */
void job_enqueue_once_bind(struct params *p,
                           const struct job_new *jobs,
                           const struct uuid *const *once,
                           const char *const *steps,
                           const bool *plain,
                           size_t n);

struct job_once {
    size_t i; /* among the jobs of the statement; of a replay: among those of the call */
    int64_t id;
    bool existed;
    bool replay; /* the key was used before */
    struct uuid key;
    struct uuid request; /* what was asked then */
};

void job_enqueue_once_row(const PGresult *r, int row, struct job_once *ret_once);

/* For waiting for locks, in this transaction. */
void tx_lock_timeout_bind(struct params *p, const char *timeout);
void tx_work_mem_bind(struct params *p, const char *size);

void job_cancel_many_bind(struct params *p, const int64_t *ids, size_t n, const char *by);

struct job_cancelled {
    int64_t id;
    const char *result; /* cancelled, cancelling, finished, missing */
    const char *state;  /* of one that is finished; or NULL */
};

void job_cancel_many_row(const PGresult *r, int row, struct job_cancelled *ret_cancelled);

void job_queues_bind(struct params *p, const int64_t *ids, size_t n);
const char *job_queues_row(const PGresult *r, int row, int64_t *ret_id);

/* error: a JSON object. */
void job_page_bind(struct params *p,
                   const struct job_list *list,
                   const char *const *tags,
                   size_t n_tags);
void job_page_row(const PGresult *r, int row, struct job_view *ret_job);

void signal_tell_bind(struct params *p, int64_t job_id, const struct signal_new *signal);
/* ret_waited: the job waited for it. False: it was sent before. */
bool signal_tell_row(const PGresult *r, bool *ret_waited);

#endif
