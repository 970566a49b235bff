/*
 * accept: Enqueue calls on their way to a commit, many calls in one transaction. A flush starts at
 * once when none is under way, and calls that arrive meanwhile are gathered into the next flush:
 * under load hundreds of producers share a commit, and a single producer never waits for others.
 *
 * Conserved: every call that was added is ended exactly once, by an answer after the commit that
 * has its jobs is known, by an error, or by its client; and a call that is refused fails alone. A
 * flush that the database refuses is sent again in halves until the call to blame is found. A call
 * whose commit is unknown is sent again if it has an idempotency key; without a key the answer is
 * that the end is unknown.
 *
 * A server has two of these: one for plain calls, one for calls that may have to wait for a lock of
 * somebody else (unique keys, idempotency keys), so that plain calls never wait for such locks.
 * Loop's thread only.
 */
#ifndef SERVE_API_ACCEPT_H
#define SERVE_API_ACCEPT_H

#include "client/enqueue.h"
#include "pg/conn.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/rpc/rpc.h"

#define ACCEPT_JOBS_MAX JOB_ENQUEUE_MAX /* jobs in one flush, and in one call */
/* bytes in one flush, unless a single call has more */
#define ACCEPT_BYTES_MAX         (16 * 1024 * 1024)
#define ACCEPT_FLUSHES_MAX       2     /* under way: one commits while the next is sent */
#define ACCEPT_DEADLINE_MS       5000  /* of a flush, including the wait for the database */
#define ACCEPT_WAITING_MAX       50000 /* calls that wait; more are refused */
#define ACCEPT_WAITING_BYTES_MAX ((size_t)128 * 1024 * 1024)
#define ACCEPT_LOCK_TIMEOUT      "250ms" /* how long a flush waits for a lock of somebody else */
#define ACCEPT_TRIES_MAX         5       /* of one call, after conflicts and lost connections */

struct accept;

struct accept_options {
    uv_loop_t *loop;
    const struct target *target; /* borrowed */
    const char *name;            /* of the connection, for the log; static */
    bool once;                   /* for calls with unique or idempotency keys */
    bool unprepared;
    struct primary *primary; /* borrowed */
    struct log *log;         /* borrowed; may be NULL */
    /* called with the end of each flush */
    void (*flushed)(void *data, const struct batch_end *end);
    void *data;
};

/* Counted since the start, except for the last two. */
struct accept_stats {
    uint64_t calls;   /* answered OK */
    uint64_t jobs;    /* accepted with them */
    uint64_t commits; /* flushes that were committed */
    uint64_t splits;  /* flushes that were sent again in halves */
    uint64_t replays; /* calls whose key was used before */
    uint64_t unknown; /* calls whose end is unknown */
    uint64_t refused; /* calls refused because too many waited */
    size_t waiting;
    size_t waiting_bytes;
};

struct accept *accept_new(const struct accept_options *options) MUST_CHECK; /* NULL: no memory */
/* Calls that still wait are ended with UNAVAILABLE; `closed` runs when the accept is freed.
 * NULL: `closed` is not called. */
void accept_close(struct accept *accept, void (*closed)(void *data), void *data);

const struct accept_stats *accept_stats(const struct accept *accept);
/* The connection is up. */
bool accept_ready(const struct accept *accept);

/* A call whose jobs are read and checked, before it is added. */
struct accept_item;

/* Room for n jobs, zeroed; NULL: no memory. The texts of the jobs must live as long as the call. */
struct accept_item *accept_item_new(size_t n) MUST_CHECK;
void accept_item_free(struct accept_item *item); /* only for an item that was not added */
struct pawl_job_new *accept_item_jobs(struct accept_item *item);
const char **accept_item_steps(struct accept_item *item); /* a NULL entry: the first step */
void accept_item_key(struct accept_item *item, const struct uuid *key, const struct uuid *request);
/* Called before the call is answered OK, with the number of its jobs that are new. */
void accept_item_counted(struct accept_item *item,
                         void (*fn)(struct rpc_call *call, size_t jobs, void *data),
                         void *data);

/* Takes the item, holds the call and answers it. */
void accept_add(struct accept *accept, struct rpc_call *call, struct accept_item *item);

#endif
