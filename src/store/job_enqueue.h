/*
 * job_enqueue: the statements that accept jobs, as pairs of _bind and _read or _row (store/job.h).
 * The parameters are made from the table of fields (core/job_fields.h), in its order. Jobs have
 * passed job_new_check and job_new_fill.
 */
#ifndef STORE_JOB_ENQUEUE_H
#define STORE_JOB_ENQUEUE_H

#include <libpq-fe.h>

#include "core/job_fields.h"
#include "pg/params.h"

/* What one statement takes at most: bounds the size of one message. */
#define JOB_ENQUEUE_MAX 1000

/* What a job takes of an arena beside job_new_bytes: names, numbers and array headers, amply. */
#define JOB_ENQUEUE_SPARE 1024

/* Plain ones. */
void job_enqueue_bind(struct params *p, const struct pawl_job_new *jobs, size_t n);
/* Any jobs. */
void job_enqueue_options_bind(struct params *p, const struct pawl_job_new *jobs, size_t n);
/* A plain one. */
void job_enqueue_one_bind(struct params *p, const struct pawl_job_new *job);
/* Plain ones that are job_new_is_same. */
void job_enqueue_same_bind(struct params *p, const struct pawl_job_new *jobs, size_t n);
/* Of all four. ret_existed (may be NULL): another job holds the unique key; ret_ids names it. */
void job_enqueue_read(const PGresult *r, int64_t *ret_ids, bool *ret_existed);

/* keys: none twice. */
void enqueue_key_take_bind(struct params *p,
                           const struct uuid *keys,
                           const struct uuid *requests,
                           size_t n);

/* once[i]: the idempotency key of job i's call, or NULL; steps[i]: where the job begins, or NULL;
 * plain[i]: all jobs of its call are plain and begin at the beginning. */
void job_enqueue_once_bind(struct params *p,
                           const struct pawl_job_new *jobs,
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

#endif
