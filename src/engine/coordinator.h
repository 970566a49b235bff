/*
 * coordinator: the one place in a process that claims jobs, hands them out and sees them settled.
 * It claims what it has free slots for, gives each job on singly, claims again the moment a slot is
 * free, drains until a claim comes back empty, and only then sleeps. No batch is ever waited for.
 *
 * One thread, the one that runs the loop, owns it and calls everything here; so do the callbacks.
 *
 *     coordinator_new → coordinator_start → … coordinator_stop → `stopped` → coordinator_free
 */
#ifndef ENGINE_COORDINATOR_H
#define ENGINE_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/breaker.h"
#include "engine/hands.h"
#include "engine/memory.h"
#include "engine/stats.h"
#include "pg/primary.h"
#include "pg/target.h"

struct coordinator;

/* Jobs in one claim: bounds memory and the time its locks are held. */
#define COORDINATOR_CLAIM_MAX 2000

struct coordinator_options {
    const struct target *target; /* all pointers are borrowed for the coordinator's life */
    struct primary *primary;     /* shared with the process's other connections; NULL: its own */
    const char *const *queues;   /* claimed from in turn; none for hands with sources */
    size_t n_queues;
    struct hands *hands;
    size_t concurrency;     /* jobs that run at a time, to begin with; at least 1 */
    size_t max_concurrency; /* what it may be raised to: the hands' size; 0: concurrency */
    size_t min_concurrency; /* below max: between the two, as throughput, errors, memory and time
                               say (engine/tuner.h); 0: as it is set */
    size_t rollout;         /* raise to this once it is known how it goes without; 0: no */
    int64_t rollout_ms;     /* and watch for so long whether to go back; 0: 10 min */
    size_t prefetch;        /* jobs claimed ahead of need: fewer, larger claims */
    size_t min_demand;      /* while busy, claim only for at least so many */
    int64_t lease_ms;       /* how long a silent worker is believed alive */
    int64_t
        poll_ms; /* without LISTEN: sleep after the first empty round; doubles up to poll_max_ms */
    int64_t poll_max_ms; /* how long a lost notification goes unnoticed */
    int64_t
        jitter_ms; /* after a notification: wait up to so long by chance, so that not all claim at once */
    int64_t drain_ms; /* how long stop waits for running jobs before it ends them */
    bool until_empty; /* stop by itself when nothing is due and nothing runs */
    bool unprepared;  /* no prepared statements: for poolers in transaction mode */
    bool deaf;        /* no LISTEN, only polling: likewise */
    /* Memory in use above which nothing is claimed; running jobs go on. 0: no gate. */
    int memory_percent;         /* of a control group's limit */
    int memory_machine_percent; /* of the machine, where no control group has a limit */
    int (*memory_read)(void *data,
                       struct memory_sample *ret_sample,
                       struct pawl_err *err); /* NULL: memory_read of this machine */
    void *memory_data;
    struct breaker_options breaker; /* percent 0: none */
    int64_t stall_ms;   /* say so when the loop has not turned for so long; 0: nobody watches */
    int64_t overrun_ms; /* say so when a run goes on so long after its timeout; 0: 10 s */
    int64_t sweep_ms;   /* how long a sweep may take before it is cut in half; 0: 10 s */
    int64_t pulse_ms;   /* how often it looks after itself; 0: 1 s */
    int64_t window_ms;  /* what the number of jobs at a time is judged by; 0: 5 s */
    const struct clock *clock;
    struct log *log;
    void (*started)(void *data, const struct job *job); /* handed to the hands; may be NULL */
    void (*settled)(void *data, const struct settled *settled); /* may be NULL */
    /* Everything is closed. left: jobs that were running or unsettled and are left to their lease.
     */
    void (*stopped)(void *data, size_t left);
    void *data;
};

struct coordinator *coordinator_new(uv_loop_t *loop,
                                    const struct coordinator_options *options,
                                    struct pawl_err *err) MUST_CHECK;
void coordinator_start(struct coordinator *c);

/* First call: no more claims; running jobs go on, with their leases kept, until they end or
 * drain_ms is over. Second call: running jobs are ended at once, and what is not settled is left to
 * its lease. More calls change nothing. */
void coordinator_stop(struct coordinator *c);

/* Does now what follows from the events so far, which is otherwise done before the loop sleeps: for
 * a loop that sleeps in somebody else's. */
void coordinator_turn(struct coordinator *c);

/* For hands with `room`: what is claimed for this source comes from this queue and is of these kinds. Sources are
 * numbered from 0 without a gap; one that nobody needs any more may be set anew. queue must outlive the coordinator,
 * kinds are borrowed until then. PAWL_EFULL: a claim for it is on its way; PAWL_ENOMEM. */
int coordinator_set_source(struct coordinator *c,
                           size_t source,
                           const char *queue,
                           const char *const *kinds,
                           size_t n_kinds) MUST_CHECK;

/* For hands with `room`: this source is looked at again, whatever is known of it. */
void coordinator_wake_source(struct coordinator *c, size_t source);
/* It was, and nothing was found. */
bool coordinator_source_empty(const struct coordinator *c, size_t source);

/* Runs that another process claimed and whose outcomes come by this one: rows of job_held, which it takes. They count as running here, and
 * the caller reports each of them to `finished` at once: run i of the answer belongs to row i. Leases and claims stay
 * the other's. NULL: no memory, and the result is still the caller's. */
struct claim;
struct claim *coordinator_adopt(struct coordinator *c, PGresult *result) MUST_CHECK;
struct run *coordinator_adopted(struct claim *claim, size_t i);

/* The run is nobody's here any more: its job has a lease of its own in the database (pawl.held). */
void coordinator_let_go(struct coordinator *c, struct run *run);

/* Whether its claim holds, as far as is known. */
bool coordinator_holds(const struct run *run);

/* Looks for work now. */
void coordinator_wake(struct coordinator *c);

/* From now on so many at a time. Running jobs go on; what the hands have not started comes back.
 * PAWL_EINVAL: it is not between 1 and max_concurrency. */
int coordinator_set_concurrency(struct coordinator *c,
                                size_t concurrency,
                                struct pawl_err *err) MUST_CHECK;
/* The same, watched for watch_ms (0: rollout_ms): it goes back by itself when more than 5 % of the
 * runs fail, memory is used above 80 %, or runs take twice as long. */
int coordinator_rollout(struct coordinator *c,
                        size_t concurrency,
                        int64_t watch_ms,
                        struct pawl_err *err) MUST_CHECK;

/* What a run says about how far it is. A copy of text is taken. */
void coordinator_note(struct coordinator *c, struct run *run, const char *text);

/* Only after `stopped`, and after the hands are closed too: they report late runs to it. NULL
 * accepted. */
void coordinator_free(struct coordinator *c);

const struct coordinator_stats *coordinator_stats(const struct coordinator *c);
void coordinator_gauges(const struct coordinator *c, struct coordinator_gauges *ret_gauges);
size_t coordinator_running(const struct coordinator *c);
/* Who claims, as in pawl.worker. */
const struct uuid *coordinator_worker(const struct coordinator *c);
/* All its connections to the database are up. */
bool coordinator_connected(const struct coordinator *c);

#endif
