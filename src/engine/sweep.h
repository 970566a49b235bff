/*
 * sweep: runs of claim_sweep, one after the other until nothing is left. A run has a bound in jobs.
 * One that took too long, or failed, is repeated with half of them, and what succeeds doubles the
 * bound again; so a sweep ends however slow the database is. A job that fails alone is parked with
 * the reason; where not even that works it goes behind all others. Coordinator's thread only.
 */
#ifndef ENGINE_SWEEP_H
#define ENGINE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "engine/stats.h"
#include "pg/conn.h"
#include "store/claim.h"

#define SWEEP_JOBS_MAX 500 /* jobs in one run: bounds how long its locks are held */

struct sweep_options {
    struct conn *conn; /* borrowed */
    int64_t deadline_ms;
    const int64_t *low; /* borrowed; where a sweep begins to read the ledger of claims */
    struct log *log;
    struct coordinator_stats *stats; /* borrowed */
    /* n jobs were taken back: the first rows of a claim_sweep; lanes: some have to be mended. */
    void (*taken)(void *data, const PGresult *r, int n, bool lanes);
    void *data;
};

struct sweep {
    struct sweep_options options;
    int32_t most;                                     /* jobs in the next run */
    bool flying;                                      /* a statement is on the wire */
    bool again;                                       /* somebody asked meanwhile */
    bool stopped;                                     /* nothing is sent any more */
    int n_empty;                                      /* full runs since one took something */
    int n_hunts;                                      /* culprits looked for since one did */
    struct claim_job suspects[CLAIM_SWEEP_FIRST_MAX]; /* to be tried alone: the last one next */
    int n_suspects;
    int64_t aside; /* the job put aside last; 0: none */
};

void sweep_init(struct sweep *sweep, const struct sweep_options *options);
/* Begins, or goes on after the run under way. */
void sweep_start(struct sweep *sweep);
void sweep_stop(struct sweep *sweep);

#endif
