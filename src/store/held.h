/*
 * held: the statements about jobs that workers on streams hold: leases of their own for those that left their claim, and
 * what a server that did not claim them has to know. Pairs of _bind and _row as in store/job.h.
 */
#ifndef STORE_HELD_H
#define STORE_HELD_H

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

#include "core/job.h"
#include "pg/params.h"

/* What a worker gets in the place of a token: how it is made is the server's business; its last 13 bytes are pawl.ticket. */
#define TICKET_LEN 16

struct ticket {
    unsigned char bytes[TICKET_LEN];
};

/* A job in a worker's hands, as the worker names it. */
struct held_job {
    int64_t id;
    struct ticket ticket;
    const char *worker;   /* borrowed */
    const char *progress; /* borrowed; NULL: nothing new */
};

void held_put_bind(struct params *p,
                   const int64_t *ids,
                   const struct uuid *tokens,
                   const char *const *workers,
                   const int64_t *left_ms,
                   size_t n);
/* A job whose lease is not over; 0: none, its is; negative: a job that another transaction holds, and
 * nothing was done. */
int64_t held_put_row(const PGresult *r, int row);

void held_take_bind(struct params *p, const struct held_job *jobs, size_t n, int64_t lease_ms);
/* ret_item: index into `jobs`. */
void held_take_row(const PGresult *r, int row, size_t *ret_item, bool *ret_cancelled);

void job_held_bind(struct params *p, const struct held_job *jobs, size_t n);
/* Pointers live as long as the result. Where a machine is: job_claim_machine. */
void job_held_row(const PGresult *r, int row, struct job *ret_job);
size_t job_held_item(const PGresult *r, int row);

void job_reported_bind(struct params *p, const struct held_job *jobs, size_t n);

/* What is known of a job that is reported and not held. Pointers live as long as the result. */
struct job_reported {
    const char *queue;
    const char *state; /* NULL: it lives */
    int32_t attempt;
    bool other; /* a machine that is over, and was not by an outcome under this ticket */
};

void job_reported_row(const PGresult *r,
                      int row,
                      size_t *ret_item,
                      struct job_reported *ret_reported);

#endif
