/*
 * job: the statements about jobs, as pairs: _bind fills in the parameters, _read or _row takes a
 * result apart. How a statement is sent (blocking or on the loop) is somebody else's business. Pure
 * but for memory; any thread.
 */
#ifndef STORE_JOB_H
#define STORE_JOB_H

#include <stddef.h>

#include <libpq-fe.h>

#include "core/job.h"
#include "pg/params.h"

/* A job to be accepted. */
struct job_new {
    const char *queue;
    const char *kind;
    struct bytes payload;
    int16_t priority;
    int64_t delay_ms;
    int64_t at_us; /* 0: after delay_ms */
    int32_t max_attempts;
    int32_t timeout_ms; /* 0: none */
};

/* What one job_enqueue takes at most: bounds the size of one message. */
#define JOB_ENQUEUE_MAX 1000

void job_enqueue_bind(struct params *p, const struct job_new *jobs, size_t n);
void job_enqueue_read(const PGresult *r, int64_t *ret_ids);

/* How far one priority of a queue has been claimed: a short cut for the next claim, never a truth.
 */
struct job_watermark {
    int64_t due_us; /* INT64_MIN: from the beginning */
    int64_t id;
};

#define JOB_PRIORITIES (PAWL_PRIORITY_MAX - PAWL_PRIORITY_MIN + 1)

struct job_claim {
    const char *queue;
    const char *const *kinds;
    size_t n_kinds;
    int32_t limit;
    struct uuid token;
    struct uuid worker;
    int64_t lease_ms;
    struct job_watermark from[JOB_PRIORITIES]; /* by priority */
};

void job_claim_bind(struct params *p, const struct job_claim *claim);
/* Pointers in ret_job live as long as the result and the claim. */
void job_claim_row(const PGresult *r, int row, const struct job_claim *claim, struct job *ret_job);
/* Single columns, for who needs no whole job. */
int64_t job_claim_id(const PGresult *r, int row);
int16_t job_claim_priority(const PGresult *r, int row);
int64_t job_claim_due(const PGresult *r, int row);

/* One job's outcome on its way to the database. */
struct job_settle {
    const struct job *job;  /* id and token */
    struct outcome outcome; /* borrowed pointers */
};

/* `items` points to pointers, because outcomes live in their runs. */
void job_settle_bind(struct params *p,
                     const struct job_settle *const *items,
                     size_t n,
                     const char *worker,
                     const struct uuid *ended,
                     size_t n_ended);
/* ret_item: index into `items`; one that no row names was stale. ret_state points into the result.
 */
void job_settle_row(const PGresult *r, int row, size_t *ret_item, const char **ret_state);

/* The same for outcomes that are all OUTCOME_DONE, ascending by the id of their job, no job twice.
 */
void job_settle_done_bind(struct params *p,
                          const struct job_settle *const *items,
                          size_t n,
                          const char *worker,
                          const struct uuid *ended,
                          size_t n_ended);
size_t job_settle_done_row(const PGresult *r, int row);

/* A job as people see it. Pointers live as long as the result. Times that are not known are 0. */
struct job_view {
    int64_t id;
    const char *state;
    const char *queue;
    const char *kind;
    int16_t priority;
    int32_t attempt;
    int32_t max_attempts;
    int64_t created_at;
    int64_t due_at;
    int64_t started_at;
    int64_t finished_at;
    const char *worker;   /* or NULL */
    const char *error;    /* job_list: the newest; NULL */
    struct bytes payload; /* job_show only, like what follows */
    struct bytes result;
    const char *errors; /* a JSON array, or NULL */
    bool queue_paused;
    int64_t now; /* by the database's clock */
};

void job_show_bind(struct params *p, int64_t id);
void job_show_row(const PGresult *r, int row, struct job_view *ret_job);

struct job_list {
    const char *queue; /* NULL: any */
    const char *kind;
    const char *const *states; /* n_states 0: any */
    size_t n_states;
    int64_t before_id; /* INT64_MAX: from the newest */
    int32_t limit;
};

void job_list_bind(struct params *p, const struct job_list *list);
void job_list_row(const PGresult *r, int row, struct job_view *ret_job);

/* How many of a set of jobs are where. Pointers live as long as the result. */
struct job_progress {
    const char *queue;
    const char *state;
    int64_t jobs;
    int64_t attempts;
};

void job_progress_bind(struct params *p, const int64_t *ids, size_t n);
void job_progress_row(const PGresult *r, int row, struct job_progress *ret_progress);

#endif
