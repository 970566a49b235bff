/* worker: a worker's own row, and the maintenance every worker takes part in. */
#ifndef STORE_WORKER_H
#define STORE_WORKER_H

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

#include "base/rand.h"
#include "pg/params.h"

struct worker_start {
    struct uuid id;
    const char *name;
    const char *host;
    int32_t pid;
    const char *const *queues;
    size_t n_queues;
    int32_t slots;
};

void worker_start_bind(struct params *p, const struct worker_start *worker);
void worker_stop_bind(struct params *p, const struct uuid *worker);

void sleeper_set_bind(struct params *p,
                      const struct uuid *worker,
                      const char *const *queues,
                      size_t n_queues,
                      bool asleep);

void history_maintain_row(const PGresult *r, int32_t *ret_made, int32_t *ret_dropped);

#endif
