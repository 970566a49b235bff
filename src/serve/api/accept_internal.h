/* accept_internal: what accept.c (the line and its flushes) and accept_flush.c (the statements
 * and the end of one flush) share. */
#ifndef SERVE_API_ACCEPT_INTERNAL_H
#define SERVE_API_ACCEPT_INTERNAL_H

#include "base/list.h"
#include "base/map.h"
#include "serve/api/accept.h"

struct accept_item {
    struct list link; /* accept.waiting; on no list while it is in a flush */
    struct accept *accept;
    struct rpc_call *call; /* NULL: the client is gone, and so is what the jobs point to */
    bool has_key;
    struct uuid key;
    struct uuid request;
    size_t bytes;
    size_t most; /* largest flush it may be in, after a refused one; 0: any */
    unsigned tries;
    bool uncertain;   /* a commit of it is unknown: no answer may say that nothing was accepted */
    bool unconfirmed; /* uncertain, and the primary has committed it */
    bool replayed;
    bool mismatch; /* the key was used for other jobs */
    void (*counted)(struct rpc_call *call, size_t jobs, void *data);
    void *counted_data;
    size_t n;
    size_t n_answers;          /* jobs of the call that have an id */
    struct pawl_job_new *jobs; /* this and the next three: n each, behind the struct */
    int64_t *ids;
    const char **steps;
    bool *existed;
};

struct flush {
    struct accept *accept;
    bool busy;
    size_t n;
    size_t n_plain; /* plain jobs; the others are in a second statement */
    size_t n_rich;
    struct accept_item *items[ACCEPT_JOBS_MAX];
};

struct accept {
    struct accept_options options;
    struct conn *conn;
    struct list waiting;
    struct map keys; /* idempotency keys in flushes: a second call with one of them waits */
    struct flush flushes[ACCEPT_FLUSHES_MAX];
    struct accept_stats stats;
    uv_prepare_t before; /* the handle that runs first after a call was added sends */
    uv_check_t after;
    bool closing;
    int n_open; /* handles and the connection, while closing */
    void (*closed)(void *data);
    void *closed_data;
    /* Scratch for one flush. */
    struct pawl_job_new plain[ACCEPT_JOBS_MAX];
    struct pawl_job_new rich[ACCEPT_JOBS_MAX];
    const struct uuid *once[ACCEPT_JOBS_MAX];
    const char *steps[ACCEPT_JOBS_MAX];
    bool all_plain[ACCEPT_JOBS_MAX];
    struct uuid key_list[ACCEPT_JOBS_MAX];
    struct uuid request_list[ACCEPT_JOBS_MAX];
    int64_t ids[ACCEPT_JOBS_MAX];
    bool existed[ACCEPT_JOBS_MAX];
    Pawl__V1__Accepted accepted[ACCEPT_JOBS_MAX];
    Pawl__V1__Accepted *accepted_list[ACCEPT_JOBS_MAX];
};

/* Makes a batch of the flush's items and submits it. False: no memory; nothing was sent. */
bool flush_start(struct flush *flush) MUST_CHECK;
/* Reads the results into the items: ids, or replayed. */
void flush_read(struct flush *flush, const struct batch_end *end);
/* accept.c: the batch of the flush ended. */
void flush_ended(void *data, const struct batch_end *end);

#endif
