/* api_internal: what the handlers share. */
#ifndef SERVE_API_API_INTERNAL_H
#define SERVE_API_API_INTERNAL_H

#include "serve/api/accept.h"
#include "serve/api/api.h"
#include "serve/api/checker.h"
#include "serve/api/probe.h"
#include "serve/api/transaction.h"

struct api {
    struct api_options options;
    struct auth *auth; /* NULL: every call is allowed */
    struct checker checker;
    struct accept *plain;
    struct accept *once;
    struct conn *calls; /* for calls that are quick */
    struct probe probe; /* uses the connection `calls` */
    struct conn *look;  /* ListJobs and Stats, which may read much */
    struct rpc_service jobs;
    struct rpc_service queues;
    int64_t started_us;
    int n_open; /* while closing */
    void (*closed)(void *data);
    void *closed_data;
};

/* Handlers; data is the api. enqueue.c */
rpc_handler api_enqueue;
/* jobs.c */
rpc_handler api_signal;
rpc_handler api_cancel;
rpc_handler api_get_job;
rpc_handler api_list_jobs;
/* queues.c */
rpc_handler api_pause_queue;
rpc_handler api_resume_queue;
rpc_handler api_stats;

#endif
