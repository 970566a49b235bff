/*
 * coordinator_internal: what coordinator.c (life), claim.c (finding work) and finish.c (from the
 * hands to the settle) share.
 *
 * Callbacks only change the state and add to lists. What follows from it happens once at the end of
 * the loop turn, in coordinator_turn: dispatch, flush, pump, check for the end. So no callback runs
 * inside another, and what happened in one turn is sent together. The one exception is a claim that
 * found jobs: it asks for the next at once.
 */
#ifndef ENGINE_COORDINATOR_INTERNAL_H
#define ENGINE_COORDINATOR_INTERNAL_H

#include "engine/coordinator.h"
#include "engine/lease.h"
#include "engine/scan.h"
#include "engine/settle.h"
#include "engine/slot.h"
#include "engine/sweeper.h"
#include "engine/waker.h"
#include "pg/conn.h"

enum coordinator_state {
    COORDINATOR_NEW,
    COORDINATOR_WORKING,
    COORDINATOR_DRAINING, /* stop was called: claims no more */
    COORDINATOR_ENDING,   /* nothing runs and nothing waits to be settled: saying good-bye */
    COORDINATOR_CLOSING,  /* handles are closing */
    COORDINATOR_STOPPED,
};

struct coordinator {
    struct coordinator_options options;
    uv_loop_t *loop;
    enum coordinator_state state;
    struct uuid worker;
    char name[128]; /* host:pid */

    struct conn *claim_conn;  /* claims, sweeps, notifications */
    struct conn *settle_conn; /* settles, renewals and the worker's own rows: a slow claim must not
                                 cost a lease */
    struct settle settle;
    struct lease lease;
    struct sweeper sweeper;
    struct waker waker;

    struct list buffered; /* slots claimed ahead of need */
    struct list running;  /* slots in the hands */
    size_t n_buffered;
    size_t n_running;

    struct scan *scans;       /* owned; one for each queue */
    size_t next_queue;        /* whose turn it is */
    struct claim *asking;     /* the claim on the wire, or NULL */
    size_t asking_queue;      /* for which queue */
    bool asking_full;         /* from its beginning */
    bool called_while_asking; /* somebody says that there is work; the answer may not know of it */
    bool idle;                /* all queues are empty and the waker knows */
    int64_t backoff_ms;
    uv_timer_t backoff_timer; /* runs after a claim that failed */
    uv_timer_t drain_timer;
    uv_prepare_t turn; /* before the loop sleeps */

    size_t n_closing; /* handles and connections that are still open */
    size_t left;      /* jobs left to their lease */
    struct coordinator_stats stats;
};

/* claim.c */
void coordinator_pump(struct coordinator *c);     /* claims, if there is room and may be work */
void coordinator_dispatch(struct coordinator *c); /* from the buffer to the hands */
void coordinator_release_buffered(struct coordinator *c);
bool coordinator_all_empty(const struct coordinator *c);
void coordinator_look(void *data);
void coordinator_on_notify(void *data, const char *channel, const char *payload);

/* finish.c */
void coordinator_on_finished(void *data, struct run *run, const struct outcome *outcome);
void coordinator_on_settled(void *data, struct slot *slot, const char *state);
void coordinator_on_lost(void *data, struct claim *claim);

#endif
