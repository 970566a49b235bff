/*
 * accept: Enqueue calls on their way to a commit, many of them in one. A flush starts at once when none is under way, and
 * what arrives meanwhile is gathered into the next: under load hundreds of producers share a commit, and a single one
 * never waits for others.
 *
 * What is conserved: every call that was added is ended exactly once, by an answer after the commit that holds its jobs is
 * known, by an error, or by its client; and a call that is refused fails alone. A flush that the database refuses
 * is sent again in halves until the one that is to blame is found. One whose commit is unknown is asked again if the call
 * has an idempotency key; without one nobody can know, and that is the answer.
 *
 * There are two of these in a server: for plain calls, and for those that may have to wait for a lock that somebody holds
 * (unique keys, idempotency keys), so that the first kind never waits for the second. Loop's thread only.
 */
#ifndef SERVE_API_ACCEPT_H
#define SERVE_API_ACCEPT_H

#include "client/enqueue.h"
#include "pg/conn.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/rpc/rpc.h"

#define ACCEPT_JOBS_MAX          JOB_ENQUEUE_MAX    /* in one flush, and in one call */
#define ACCEPT_BYTES_MAX         (16 * 1024 * 1024) /* in one flush, unless a single call has more */
#define ACCEPT_FLIGHTS           2     /* flushes under way: one commits, the next is on its way */
#define ACCEPT_DEADLINE_MS       5000  /* of a flush, waiting for the database included */
#define ACCEPT_WAITING_MAX       50000 /* calls that wait; more are refused */
#define ACCEPT_WAITING_BYTES_MAX ((size_t)128 * 1024 * 1024)
#define ACCEPT_LOCK_TIMEOUT      "250ms" /* what a flush waits for somebody else's lock */
#define ACCEPT_TRIES_MAX         5       /* of one call, after conflicts and lost connections */

struct accept;

struct accept_options {
    uv_loop_t *loop;
    const struct target *target; /* borrowed */
    const char *name;            /* of its connection, for the log; static */
    bool once;                   /* for calls with keys */
    bool unprepared;
    struct primary *primary;                                  /* borrowed */
    struct log *log;                                          /* borrowed; may be NULL */
    void (*flushed)(void *data, const struct batch_end *end); /* how each ended */
    void *data;
};

/* Since the start, but for the last two. */
struct accept_stats {
    uint64_t calls;   /* answered OK */
    uint64_t jobs;    /* accepted with them */
    uint64_t commits; /* flushes that were committed */
    uint64_t splits;  /* flushes that were sent again in halves */
    uint64_t replays; /* calls whose key was used before */
    uint64_t unknown; /* calls that nobody knows the end of */
    uint64_t refused; /* because too many waited */
    size_t waiting;
    size_t waiting_bytes;
};

struct accept *accept_new(const struct accept_options *options) MUST_CHECK; /* NULL: no memory */
/* What still waits is ended with UNAVAILABLE; `closed` runs when it is gone. NULL: not at all. */
void accept_close(struct accept *accept, void (*closed)(void *data), void *data);

const struct accept_stats *accept_stats(const struct accept *accept);
/* The connection is up. */
bool accept_ready(const struct accept *accept);

/* A call whose jobs are read and checked, before it is added. */
struct accept_item;

/* Room for n jobs, zeroed; NULL: no memory. The texts of its jobs must live as long as the call. */
struct accept_item *accept_item_new(size_t n) MUST_CHECK;
void accept_item_free(struct accept_item *item); /* only for one that was not added */
struct pawl_job_new *accept_item_jobs(struct accept_item *item);
const char **accept_item_steps(struct accept_item *item); /* NULL: the first */
void accept_item_key(struct accept_item *item, const struct uuid *key, const struct uuid *request);
/* Called before it is answered OK, with how many of its jobs are new. */
void accept_item_counted(struct accept_item *item,
                         void (*fn)(struct rpc_call *call, size_t jobs, void *data),
                         void *data);

/* Takes the item, holds the call and answers it. */
void accept_add(struct accept *accept, struct rpc_call *call, struct accept_item *item);

#endif
