/*
 * app: `pawl serve`: transport, coordinator and services on one loop, and the order in which they
 * start and stop.
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
#include "pg/target.h"
#include "serve/api/rules.h"
#include "serve/transport.h"

struct serve_options {
    const struct target *target; /* all pointers are borrowed for the app's life */
    const char *const *listen;   /* as transport_listen; at least one */
    size_t n_listen;
    const char *tls_certificate; /* PEM files; NULL: no TLS */
    const char *tls_key;
    const char *tls_authority; /* clients must show a certificate of this authority; NULL: none */
    bool open;                 /* listens beyond this machine without TLS and tokens */
    enum serve_tokens tokens;  /* whether clients need access tokens */
    int64_t lease_ms;          /* how long a silent worker is believed alive */
    int64_t drain_ms;          /* time for running jobs to end after a stop */
    int64_t poll_max_ms;       /* how long a lost notification goes unnoticed; 0: 5 s */
    int memory_percent;        /* as in coordinator_options */
    int memory_machine_percent;
    bool unprepared; /* no prepared statements, no LISTEN: for poolers in transaction mode */
    struct serve_limits limits;
    struct log *log;
    /* Everything is closed. left: number of jobs that are left to their lease. */
    void (*stopped)(void *data, size_t left);
    void *data;
};

struct serve_app;

/* After a failure the process should end: what was opened stays open. */
int serve_app_start(uv_loop_t *loop,
                    const struct serve_options *options,
                    struct serve_app **ret_app,
                    struct pawl_err *err) MUST_CHECK;

/* The i-th address that the server listens on; false: there are fewer. */
bool serve_app_address(const struct serve_app *app, size_t i, char *address, size_t size);

/* First call: workers are asked to finish and to connect elsewhere, and their reports are
 * settled. Second call: the server ends now, and running jobs are left to their lease. Further
 * calls change nothing. */
void serve_app_stop(struct serve_app *app);

/* Reads the certificate again; a bad certificate changes nothing and is logged. */
void serve_app_reload(struct serve_app *app);

/* Only after `stopped`. NULL accepted. */
void serve_app_free(struct serve_app *app);

#endif
