/* claim: the statements about leases. Pairs of _bind and _row as in store/job.h. */
#ifndef STORE_CLAIM_H
#define STORE_CLAIM_H

#include <stddef.h>

#include <libpq-fe.h>

#include "base/rand.h"
#include "pg/params.h"

void claim_renew_bind(struct params *p,
                      const struct uuid *worker,
                      const struct uuid *tokens,
                      size_t n_tokens,
                      int64_t lease_ms,
                      int32_t running);
struct uuid claim_renew_row(const PGresult *r, int row);

void claim_sweep_bind(struct params *p, int32_t limit);
/* ret_state points into the result. */
void claim_sweep_row(const PGresult *r, int row, int64_t *ret_id, const char **ret_state);

#endif
