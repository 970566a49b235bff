/* coordinator_internal: what coordinator.c (life), claim.c (finding work) and finish.c (from the
 * hands to the settle) share. */
#ifndef ENGINE_COORDINATOR_INTERNAL_H
#define ENGINE_COORDINATOR_INTERNAL_H

#include "engine/coordinator.h"
#include "engine/lease.h"
#include "engine/settle.h"
#include "engine/slot.h"
#include "engine/sweeper.h"
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

    struct conn *claim_conn;  /* claims and sweeps */
    struct conn *settle_conn; /* settles, renewals and the worker's own row: a slow claim must not
                                 cost a lease */
    struct settle settle;
    struct lease lease;
    struct sweeper sweeper;

    struct list running; /* slots in the hands */
    size_t n_running;

    struct claim *asking;  /* the claim on the wire, or NULL */
    size_t next_queue;     /* whose turn it is */
    size_t n_empty;        /* empty claims in a row; a round of all queues means: sleep */
    bool look_again;       /* there may be work that the claim on the wire is too early to see */
    int64_t sleep_ms;      /* the length of the next sleep */
    uv_timer_t poll_timer; /* runs while asleep or backing off */
    uv_timer_t drain_timer;

    size_t n_closing; /* handles and connections that are still open */
    size_t left;      /* jobs left to their lease */
    struct coordinator_stats stats;
};

/* claim.c */
void coordinator_pump(struct coordinator *c); /* claims if it may and there is room; else makes sure
                                                 something wakes it */
void coordinator_look_again(struct coordinator *c); /* forgets that the queues were empty */

/* finish.c */
void coordinator_on_finished(void *data, struct run *run, const struct outcome *outcome);
void coordinator_on_settled(void *data, struct slot *slot, const char *state);
void coordinator_on_lost(void *data, struct claim *claim);

/* coordinator.c */
void coordinator_check_end(
    struct coordinator *c); /* moves on when stopping and nothing is left to wait for */

#endif
