/*
 * remote: a worker without a database: jobs come from a server's stream, outcomes go back in batches. What the coordinator is for
 * a process with a database, at the same seam: it drives the same hands and tells its owner the same things.
 *
 *     remote_new → remote_start → … remote_stop → `stopped` → remote_free
 *
 * The server claims and settles; its leases are kept by heartbeats. A lost connection is made again: what runs goes on
 * meanwhile, its outcomes wait, and the new stream names all that is held, so that the server takes it up. A claim that nobody could renew
 * for the length of its lease counts as lost, by our own steady clock: another worker may have the job.
 *
 * One thread, the loop's.
 */
#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/hands.h"
#include "remote/address.h"
#include "wire/tls.h"

struct remote;

#define REMOTE_HELD_MAX 100000 /* jobs at once, started or not */

struct remote_options {
    const struct address *server; /* all pointers are borrowed for its life */
    const char *token;            /* NULL: none */
    struct tls *tls;              /* NULL: plain */
    const char *const *queues;
    size_t n_queues;
    struct hands *hands;
    size_t concurrency; /* jobs that run at a time */
    size_t prefetch;    /* jobs beyond those, to have the next ones at hand */
    int64_t lease_ms;
    int64_t drain_ms;
    bool until_empty; /* it stops by itself when nothing is due for it */
    const char *name; /* for people; NULL: host and process */
    const struct clock *clock;
    struct log *log;
    void (*started)(void *data, const struct job *job);         /* may be NULL */
    void (*settled)(void *data, const struct settled *settled); /* may be NULL */
    /* Everything is closed. left: jobs that are left to their lease. err: why it ended by itself; NULL: it was told to. */
    void (*stopped)(void *data, size_t left, const struct pawl_err *err);
    void *data;
};

/* X(name, what is counted) */
#define REMOTE_COUNTERS(X)                                    \
    X(streams, "streams that were opened")                    \
    X(assigned, "jobs that came")                             \
    X(reports, "calls that carried outcomes")                 \
    X(report_batch_max, "outcomes in the largest of them")    \
    X(report_errors, "of them, sent again")                   \
    X(beats, "heartbeats")                                    \
    X(lost, "jobs whose claim was lost while they were here") \
    X(done, "jobs that are done")                             \
    X(retried, "… that are tried again")                      \
    X(failed, "… that failed")                                \
    X(parked, "… that are parked")                            \
    X(snoozed, "… that come again later")                     \
    X(cancelled, "… that were cancelled")                     \
    X(released, "… that were not started")                    \
    X(steps, "steps of machines that went on")                \
    X(stale, "outcomes of runs that had lost their claim")

#define REMOTE_COUNTER_FIELD(name, what) uint64_t name;

struct remote_stats {
    REMOTE_COUNTERS(REMOTE_COUNTER_FIELD)
};

#undef REMOTE_COUNTER_FIELD

struct remote *
remote_new(uv_loop_t *loop, const struct remote_options *options, struct pawl_err *err) MUST_CHECK;
void remote_start(struct remote *r);
/* The server has taken it as a worker, at least once. Until then, what goes wrong ends it. */
bool remote_is_taken(const struct remote *r);
/* As coordinator_stop: first no more jobs, and what runs may end within drain_ms; then now. */
void remote_stop(struct remote *r);
void remote_turn(struct remote *r);
void remote_set_concurrency(struct remote *r, size_t concurrency);
/* What a run says about how far it is; a copy is taken. */
void remote_note(struct remote *r, struct run *run, const char *text);
/* After `stopped`, and after the hands are closed. NULL accepted. */
void remote_free(struct remote *r);

const struct remote_stats *remote_stats(const struct remote *r);
size_t remote_running(const struct remote *r);
size_t remote_buffered(const struct remote *r);

#endif
