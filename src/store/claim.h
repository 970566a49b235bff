/* claim: the statements about leases. Pairs of _bind and _row as in store/job.h. */
#ifndef STORE_CLAIM_H
#define STORE_CLAIM_H

#include <stddef.h>

#include <libpq-fe.h>

#include "base/rand.h"
#include "pg/params.h"

/* How a worker is, as its heartbeat tells. */
struct worker_beat {
    int32_t running;
    int32_t buffered;
    int32_t slots;
    int64_t memory_bytes; /* 0: not known */
};

void claim_renew_bind(struct params *p,
                      const struct uuid *worker,
                      const struct uuid *tokens,
                      size_t n_tokens,
                      int64_t lease_ms,
                      const struct worker_beat *beat);
struct uuid claim_renew_row(const PGresult *r, int row);
/* False: it is there, and another transaction holds it: the next renewal tells. */
bool claim_renew_renewed(const PGresult *r, int row);
/* Whose end was asked for: ids with commas between them, in the result; NULL: none. */
const char *claim_renew_cancelled(const PGresult *r, int row);

void claim_turn_bind(struct params *p, const char *queue);
bool claim_turn_row(const PGresult *r);

/* A job and the claim that it is of. */
struct claim_job {
    struct uuid token;
    int64_t id;
};

/* only: NULL, or this one alone. low: no claim has a lower seq. */
void claim_sweep_bind(struct params *p, int32_t limit, const struct claim_job *only, int64_t low);
/* What a sweep says beside the jobs: lanes have to be mended, there are more than its limit. Returns
 * how many jobs it took back; their rows come first. */
int claim_sweep_said(const PGresult *r, bool *ret_lanes, bool *ret_more);
/* ret_state points into the result. */
void claim_sweep_row(const PGresult *r, int row, int64_t *ret_id, const char **ret_state);

/* What a sweep of one would begin with; at most two rows. */
#define CLAIM_SWEEP_FIRST_MAX 2
void claim_sweep_first_bind(struct params *p, int64_t low);
struct claim_job claim_sweep_first_row(const PGresult *r, int row);

/* Whether it was parked is whether there is a row. */
void claim_sweep_park_bind(struct params *p, const struct claim_job *job, const char *error);
void claim_sweep_aside_bind(struct params *p, const struct claim_job *job);

/* The ledger's low mark. */
void claim_low_bind(struct params *p, int64_t low, int64_t end);
int64_t claim_low_row(const PGresult *r); /* the first claim in that part; 0: none */
int64_t claim_low_load_row(const PGresult *r);
void claim_low_store_bind(struct params *p, int64_t low);

/* Who writes: virtual transactions with spaces between them, in the result. */
struct writers {
    const char *jobs;   /* of pawl.job; may be empty */
    const char *claims; /* of pawl.claim */
    int64_t seq;        /* the ledger's last number */
};

struct writers writer_list_row(const PGresult *r);

#endif
