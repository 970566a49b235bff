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
void server_probe_bind(struct params *p, const struct uuid *worker);

void sleeper_set_bind(struct params *p,
                      const struct uuid *worker,
                      const char *const *queues,
                      size_t n_queues,
                      bool asleep);

/* A worker as people see it. Pointers live as long as the result. */
struct worker_view {
    const char *id;
    const char *name;
    const char
        *via; /* the server whose stream it is on; NULL: a process with a coordinator of its own */
    const char *queues; /* with commas */
    const char *kinds;  /* with commas; NULL: not known */
    int32_t slots;
    int32_t running;
    int64_t ended; /* -1: not known */
    bool draining;
    int64_t started_at;
    int64_t beat_at;
    const char *host;       /* NULL: not known */
    const char *version;    /* likewise */
    const char *rate_per_s; /* NULL: no limit */
};

void worker_list_row(const PGresult *r, int row, struct worker_view *ret_worker);

/* What an operator wants of a worker on a stream. */
struct worker_wish {
    bool drain;         /* false: as it is */
    int32_t credits;    /* -1: as they are, 0: as the worker asked for */
    int64_t per_1000_s; /* jobs it is given in 1000 seconds; -1: as it is, 0: no limit */
};

void worker_ask_bind(struct params *p, const char *worker, const struct worker_wish *wish);
bool worker_ask_row(const PGresult *r); /* its stream is open somewhere, as far as is known */
/* ret_worker lives as long as the result. Nothing in ret_wish is negative. */
void worker_wishes_row(const PGresult *r,
                       int row,
                       const char **ret_worker,
                       struct worker_wish *ret_wish);
void worker_streams_bind(struct params *p, const struct uuid *server, const char *json);

void history_maintain_row(const PGresult *r, int32_t *ret_made, int32_t *ret_dropped);

#endif
