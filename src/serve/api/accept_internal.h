/* accept_internal: what accept.c (the queue and its flushes) and accept_flight.c (one flush: its statements and its end) share. */
#ifndef SERVE_API_ACCEPT_INTERNAL_H
#define SERVE_API_ACCEPT_INTERNAL_H

#include "base/list.h"
#include "base/map.h"
#include "serve/api/accept.h"

struct accept_item {
    struct list link; /* accept.waiting; on no list while it flies */
    struct accept *accept;
    struct rpc_call *call; /* NULL: its client is gone, and so is what its jobs point to */
    bool has_key;
    struct uuid key;
    struct uuid request;
    size_t bytes;
    size_t most; /* of how many its flush may be at most: it was in one that was refused; 0: any */
    unsigned tries;
    bool
        uncertain; /* a commit of it is unknown: from then on nobody may say that nothing was accepted */
    bool unconfirmed; /* … and known to be committed by the primary */
    bool replayed;
    bool mismatch; /* its key was used for something else */
    void (*counted)(struct rpc_call *call, size_t jobs, void *data);
    void *counted_data;
    size_t n;
    size_t n_answers;          /* of its jobs that have an id */
    struct pawl_job_new *jobs; /* these four: n each, behind the struct */
    int64_t *ids;
    const char **steps;
    bool *existed;
};

struct flight {
    struct accept *accept;
    bool busy;
    size_t n;
    size_t n_plain; /* of its jobs; the others follow in a statement of their own */
    size_t n_rich;
    struct accept_item *items[ACCEPT_JOBS_MAX];
};

struct accept {
    struct accept_options options;
    struct conn *conn;
    struct list waiting;
    struct map keys; /* idempotency keys in flight: a second call with one waits for the first */
    struct flight flights[ACCEPT_FLIGHTS];
    struct accept_stats stats;
    uv_prepare_t before; /* whichever comes first after something was added */
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

/* Sends what waits, as far as flights are free. */
void accept_flush(struct accept *accept);

/* First in line again. */
void accept_requeue(struct accept *accept, struct accept_item *item);
void accept_item_destroy(struct accept_item *item);
/* Ends its call, if there is one, and it. */
void accept_item_fail(struct accept_item *item, enum rpc_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void accept_item_reply(struct accept_item *item);

/* Makes a batch of the flight's items and submits it. False: no memory; nothing was sent. */
bool flight_start(struct flight *flight) MUST_CHECK;
/* Reads the results into the items: ids, or replayed. */
void flight_read(struct flight *flight, const struct batch_end *end);
/* accept.c: how it ended. */
void flight_ended(void *data, const struct batch_end *end);

#endif
