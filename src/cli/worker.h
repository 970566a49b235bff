/*
 * worker: a coordinator with process hands on a loop of its own, until it is done or told to stop
 * by a signal. What `pawl work` and `pawl demo` have in common.
 */
#ifndef CLI_WORKER_H
#define CLI_WORKER_H

#include <libpq-fe.h>
#include <uv.h>

#include "engine/coordinator.h"
#include "hands/processes.h"

struct remote;
struct server_access;

struct worker_options {
    const struct target *target;        /* NULL: there is a server */
    const struct server_access *server; /* NULL: there is a database */
    const char *const *queues;
    size_t n_queues;
    const struct processes_handler *handlers;
    size_t n_handlers;
    size_t concurrency;
    int64_t lease_ms;
    int64_t poll_ms;
    int64_t drain_ms;
    bool until_empty;
    size_t prefetch;
    size_t min_demand;
    int64_t jitter_ms;
    int64_t poll_max_ms;    /* 0: the default */
    size_t min_concurrency; /* below concurrency: it starts there and finds its own number */
    size_t rollout;         /* raise to this when all is well, and go back when it is not; 0: no */
    int64_t rollout_ms;     /* how long that is watched */
    int memory_percent;     /* of a control group's limit: claim nothing above; 0: no gate */
    int memory_machine_percent; /* of the machine, without one */
    int breaker_percent;        /* leave a kind alone when so many of its runs fail; 0: never */
    int64_t stall_ms;           /* say so when the loop stands still for so long; 0: no */
    bool unprepared;
    bool stats; /* logs its counters at the end, and at SIGUSR1 */
    bool log_stderr;
    struct log *log;
    void (*started)(void *data, const struct job *job);
    void (*settled)(void *data, const struct settled *settled);
    /* Called every tick_ms while it works, if tick_ms is not 0. */
    void (*tick)(void *data);
    int64_t tick_ms;
    void *data;
};

struct worker {
    uv_loop_t loop;
    struct coordinator *coordinator; /* one of the two */
    struct remote *remote;
    struct hands *hands;
    uv_signal_t signals[3];
    uv_signal_t stats_signal;
    uv_timer_t tick;
    const struct worker_options *options;
    bool stopping;
    size_t left;
    struct pawl_err err; /* why it ended by itself; code 0: it was told to */
};

/* Tries a claim of nothing on `conn`: what would keep every claim from succeeding (rights, a
 * read-only database, a schema of another version) is known before the worker starts. */
int worker_check(PGconn *conn,
                 const struct worker_options *options,
                 struct pawl_err *err) MUST_CHECK;

/* Works until stopped, or until empty. PAWL_EINTERRUPTED when it was told twice, or had to leave
 * jobs to their lease. */
int worker_run(struct worker *worker,
               const struct worker_options *options,
               struct pawl_err *err) MUST_CHECK;

/* From a callback: as a first signal would. Calling it again changes nothing; only a signal
 * insists. */
void worker_stop(struct worker *worker);

/* worker.c, for worker_remote.c: all is settled, and the hands may go. */
void worker_stopped(struct worker *worker, size_t left);

/* worker_remote.c */
int remote_work_open(struct worker *worker, struct pawl_err *err) MUST_CHECK;
void remote_work_start(struct worker *worker);
void remote_work_stop(struct worker *worker);
void remote_work_log(struct worker *worker); /* its counters */
void remote_work_free(struct worker *worker);

#endif
