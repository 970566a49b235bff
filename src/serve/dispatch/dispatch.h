/*
 * dispatch: WorkerService. Workers on streams are the hands of the server's coordinator: claimed
 * jobs are pushed to them, their reports are settled, and the jobs that a worker has move with it
 * from server to server.
 *
 *     dispatch_new ─► (the coordinator is made with dispatch_hands) ─► dispatch_start
 *     ─► dispatch_drain ─► `drained` ─► dispatch_close ─► `closed` ─► dispatch_free
 *
 * Loop's thread only.
 */
#ifndef SERVE_DISPATCH_DISPATCH_H
#define SERVE_DISPATCH_DISPATCH_H

#include "engine/coordinator.h"
#include "pg/primary.h"
#include "pg/target.h"
#include "serve/api/api.h"
#include "serve/transport.h"

struct dispatch;

struct dispatch_options {
    uv_loop_t *loop; /* all pointers are borrowed for the life of the dispatch */
    struct transport *transport;
    const struct target *target;
    struct primary *primary;
    struct log *log;
    int64_t lease_ms; /* how long a silent worker is believed alive */
    bool unprepared;  /* no prepared statements, no LISTEN */
};

/* Registers WorkerService and its metrics. After a failure the process should end. */
int dispatch_new(const struct dispatch_options *options,
                 struct dispatch **ret_dispatch,
                 struct pawl_err *err) MUST_CHECK;
struct hands *dispatch_hands(struct dispatch *d);
/* Before the first call comes. auth NULL: every call is allowed. */
void dispatch_start(struct dispatch *d, struct coordinator *coordinator, struct auth *auth);

/* Workers are told to finish and to connect elsewhere within grace_ms; after that their streams
 * are ended, and their jobs leave with them. drained: no stream and no leaving job is left. */
void dispatch_drain(struct dispatch *d, int64_t grace_ms, void (*drained)(void *data), void *data);
/* Ends all streams now. Running jobs are left to their lease. */
void dispatch_cut(struct dispatch *d);
void dispatch_close(struct dispatch *d, void (*closed)(void *data), void *data);
/* Only after the coordinator was freed. NULL accepted. */
void dispatch_free(struct dispatch *d);

/* The connection that renews leases of workers is up. */
bool dispatch_connected(const struct dispatch *d);

/* The workers with an open stream here, for QueueService.Stats: calls fn once for each. data:
 * the dispatch. */
void dispatch_workers(void *data, api_worker_fn *fn, void *fn_data);

#endif
