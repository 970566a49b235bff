/*
 * api: JobService and QueueService: the calls of programs that make jobs and of operators.
 * Connections: `accept` for Enqueue, `accept_once` for Enqueue with keys, `look` for lists and
 * counts, which may read much, `calls` for all other calls; and `access` when clients need access
 * tokens. Loop's thread only.
 */
#ifndef SERVE_API_API_H
#define SERVE_API_API_H

#include <stdbool.h>

#include "proto/pawl/v1/pawl.pb-c.h"
#include "serve/api/auth.h"
#include "serve/transport.h"

struct api;

/* The workers that are connected to this server, for Stats: calls fn once for each worker. */
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

/* Registers the services, adds to the metrics, and guards all calls when tokens are required.
 * After a failure ret_api is set and has to be closed, unless it is NULL: no memory. */
int api_new(const struct api_options *options,
            struct api **ret_api,
            struct pawl_err *err) MUST_CHECK;

/* NULL: jobs can be accepted, and the tokens are known. Otherwise the reason in a few words;
 * static. */
const char *api_why_not(const struct api *api);

/* For auth_allows in other services. NULL: every call is allowed. */
struct auth *api_auth(struct api *api);

/* After the transport has stopped: no call may come any more. `closed` runs when the api is
 * freed. */
void api_close(struct api *api, void (*closed)(void *data), void *data);

#endif
