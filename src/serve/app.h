/*
 * app: `pawl serve`: the transport, the coordinator and the services on one loop, and the order in which they start and
 * stop. What a part needs of the others it finds in struct serve_app.
 *
 *     serve_app_start ─► … serve_app_stop ─► `stopped` ─► serve_app_free
 *
 * Loop's thread only.
 */
#ifndef SERVE_APP_H
#define SERVE_APP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/log.h"
#include "engine/coordinator.h"
#include "pg/primary.h"
#include "pg/target.h"
#include "serve/api/rules.h"
#include "serve/server.h"

struct api;
struct dispatch;

struct serve_options {
    const struct target *target; /* all pointers are borrowed for the app's life */
    const char *const *listen;   /* as server_listen; at least one */
    size_t n_listen;
    const char *tls_certificate; /* PEM files; NULL: no TLS */
    const char *tls_key;
    const char *tls_authority; /* clients must show a certificate of it; NULL: they need none */
    bool open;                 /* listens beyond this machine without TLS and tokens */
    enum serve_tokens tokens;  /* whether clients need access tokens */
    int64_t lease_ms;          /* how long a silent worker is believed alive */
    int64_t drain_ms;          /* what running jobs get after a stop */
    int64_t poll_max_ms;       /* how long a lost notification goes unnoticed; 0: 5 s */
    int memory_percent;        /* as in coordinator_options */
    int memory_machine_percent;
    bool unprepared; /* no prepared statements, no LISTEN: for poolers in transaction mode */
    struct serve_limits limits;
    struct log *log;
    /* Everything is closed. left: jobs that are left to their lease. */
    void (*stopped)(void *data, size_t left);
    void *data;
};

enum serve_state {
    SERVE_RUNNING,
    SERVE_DRAINING, /* streams are asked to end; reports are taken */
    SERVE_SETTLING, /* no stream is left; the coordinator settles what there is */
    SERVE_CLOSING,  /* connections say goodbye */
    SERVE_STOPPED,
};

struct serve_app {
    const struct serve_options *options; /* borrowed */
    uv_loop_t *loop;
    struct log *log;
    const struct target *target;
    struct primary primary; /* of all its connections */
    struct server *server;
    struct tls *tls; /* NULL: none */
    struct coordinator *coordinator;
    struct dispatch *dispatch; /* WorkerService and the hands it is */
    struct api *api;           /* JobService and QueueService; NULL while there is none */
    enum serve_state state;
    int64_t started_us; /* steady clock */
    uv_timer_t look;    /* whether it is ready */
    const char *why;    /* static; why it is not. NULL: it is */
    bool insist;        /* it was told twice to stop */
    int n_closing;      /* parts that are not closed yet */
    size_t left;
};

/* After a failure the process should end: what was opened is not taken apart. */
int serve_app_start(uv_loop_t *loop,
                    const struct serve_options *options,
                    struct serve_app **ret_app,
                    struct pawl_err *err) MUST_CHECK;

/* First call: workers are asked to finish and to connect elsewhere, what they report is settled. Second call: it ends
 * now, and what runs is left to its lease. More calls change nothing. */
void serve_app_stop(struct serve_app *app);

/* Reads the certificate again; a bad one changes nothing and is logged. */
void serve_app_reload(struct serve_app *app);

/* Only after `stopped`. NULL accepted. */
void serve_app_free(struct serve_app *app);

#endif
