/*
 * api: JobService and QueueService: what programs that make jobs, and people who look after them, ask of the server. Four
 * connections: `accept` for Enqueue, `accept_once` for Enqueue with keys, `look` for lists and counts, which may read much, `ask`
 * for everything else; and `access` when clients need access tokens. Loop's thread only.
 */
#ifndef SERVE_API_API_H
#define SERVE_API_API_H

#include <stdbool.h>

#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/api/auth.h"
#include "serve/transport.h"

struct api;

/* Workers that are connected to this server, for Stats: calls fn once for each. */
typedef void api_worker_fn(void *data, const Pawl__V1__WorkerStats *worker);

struct api_options {
    uv_loop_t *loop;
    struct transport *transport; /* borrowed */
    const struct target *target; /* borrowed */
    const struct uuid *worker;   /* borrowed; the server's row in pawl.worker */
    bool tokens;                 /* clients need access tokens */
    bool unprepared;
    struct primary *primary;                                       /* borrowed */
    struct log *log;                                               /* borrowed; may be NULL */
    void (*workers)(void *data, api_worker_fn *fn, void *fn_data); /* NULL: none */
    void *data;
};

/* Registers the services, adds to the metrics, and puts a guard in front of all calls when tokens are asked for. ret_api is
 * also given on failure, to be closed; NULL: there was no memory even for that. */
int api_new(const struct api_options *options,
            struct api **ret_api,
            struct pawl_err *err) MUST_CHECK;

/* NULL: jobs can be accepted, and tokens are known. Else why not, in a few words; static. */
const char *api_why_not(const struct api *api);

/* For auth_allows in other services. NULL: everybody may everything. */
struct auth *api_auth(struct api *api);

/* After the server has stopped: no call may come any more. `closed` runs when it is gone. */
void api_close(struct api *api, void (*closed)(void *data), void *data);

#endif
