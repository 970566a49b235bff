/* queue: the statements about queues. Pairs of _bind and _row as in store/job.h. */
#ifndef STORE_QUEUE_H
#define STORE_QUEUE_H

#include <stdbool.h>

#include <libpq-fe.h>

#include "pg/params.h"

/* Pointers live as long as the result. Times that are not known are 0. */
struct queue_view {
    const char *name;
    int64_t ready;
    int64_t scheduled; /* for the first time */
    int64_t retrying;
    int64_t running;
    int64_t parked;
    int64_t oldest_due_at;
    int64_t paused_at; /* by itself or with all others */
    const char *paused_by;
    int32_t keep_days;
    bool capped; /* the counts stopped at the limit: there may be more */
    int64_t waiting;
    int64_t now; /* by the database's clock */
};

void queue_list_bind(struct params *p, int64_t count_max);
void queue_list_row(const PGresult *r, int row, struct queue_view *ret_queue);

void queue_next_due_bind(struct params *p, const char *const *queues, size_t n_queues);
/* INT64_MAX when nothing is scheduled; never negative. */
int64_t queue_next_due_ms(const PGresult *r);

/* Which role, of the members of pawl_enqueuer, may enqueue into it. */
void queue_allow_bind(struct params *p, const char *queue, const char *role);
bool queue_allow_row(const PGresult *r); /* it is such a member */
void queue_disallow_bind(struct params *p, const char *queue, const char *role);

void queue_pause_bind(struct params *p, const char *queue, const char *who);
bool queue_pause_row(const PGresult *r); /* it was paused before */
void queue_resume_bind(struct params *p, const char *queue);

#endif
