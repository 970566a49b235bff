/*
 * remote_internal: what remote.c (its life), stream.c (what comes), report.c (what goes) and beat.c
 * (leases) share.
 *
 * A slot is a job that is here. Where it may be, and how it moves: engine/slots.h. Those whose
 * outcome is on the wire are in line in their flight.
 */
#ifndef REMOTE_REMOTE_INTERNAL_H
#define REMOTE_REMOTE_INTERNAL_H

#include "base/list.h"
#include "core/machine.h"
#include "engine/slots.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "remote/channel.h"
#include "remote/remote.h"

#define FLIGHTS_MAX \
    12 /* reports on the wire: what a slow disk of the server's keeps from its commit */

enum remote_state {
    REMOTE_NEW,
    REMOTE_WORKING,
    REMOTE_DRAINING,
    REMOTE_CLOSING,
    REMOTE_STOPPED,
};

struct remote_slot {
    struct run run; /* what the hands see, and where the slot is; texts are behind the slot */
    struct machine machine;
    struct outcome outcome; /* from its end on: a copy */
    char *note;             /* owned; not sent yet */
    int64_t leased_us;      /* steady clock when its lease was last known to begin */
    bool lost;
    int refused; /* reports of it that were */
    bool alone;  /* goes in a report of its own */
};

/* One report on the wire. */
struct flight {
    struct remote *remote;
    struct list slots; /* in the order of the reports */
    size_t n;
    struct call *call; /* NULL: free */
};

struct remote {
    struct remote_options options;
    uv_loop_t *loop;
    enum remote_state state;
    struct channel *channel;
    char worker_id[UUID_TEXT_LEN + 1];
    char name[128];
    bool taken;
    size_t left;
    struct pawl_err err; /* why it ends by itself; code 0: it does not */

    struct call *stream;
    bool stream_open;         /* the server has agreed */
    unsigned stream_failures; /* in a row */
    size_t credits;           /* what the stream was opened with */
    int64_t lease_ms;         /* what the server grants */

    struct slots slots;
    struct flight flights[FLIGHTS_MAX];
    size_t n_flights;
    unsigned report_failures; /* in a row */
    bool report_resting;      /* until the timer says so */

    struct call *beat_call;
    int64_t beat_sent_us;
    bool noted;     /* somebody has something to tell */
    bool said_left; /* that the stream is left for good */

    uv_prepare_t turn;
    uv_timer_t beat;
    uv_timer_t again;  /* the stream, after it was refused */
    uv_timer_t resend; /* for reports */
    uv_timer_t rest;   /* nothing is started while it runs */
    size_t n_closing;
    struct remote_stats stats;
};

static inline struct remote_slot *slot_of_remote_run(struct run *run)
{
    return LIST_ENTRY(run, struct remote_slot, run);
}

static inline struct remote_slot *slot_of_remote_link(struct list *link)
{
    return slot_of_remote_run(run_of_link(link));
}

/* Jobs that are here. */
static inline size_t remote_here(const struct remote *r)
{
    const size_t *n = r->slots.n;

    return n[SLOT_BUFFERED] + n[SLOT_RUNNING] + n[SLOT_WAITING] + n[SLOT_FLYING];
}

/* remote.c */
/* It ends by itself, if it has never worked; else it is told in the log and waited out. */
void remote_trouble(struct remote *r, const char *event, const struct pawl_err *err);
uint64_t remote_backoff_ms(unsigned failures);

/* slot.c */
struct remote_slot *remote_slot_new(const Pawl__V1__AssignedJob *job, int64_t now_us) MUST_CHECK;
void remote_slot_free(struct remote_slot *slot);

/* stream.c */
void remote_stream_open(struct remote *r);
void remote_stream_close(struct remote *r);
/* Hands out what is buffered. */
void remote_dispatch(struct remote *r);
void remote_on_started(void *data, struct run *run);
bool remote_on_not_started(void *data, struct run *run, struct pawl_err *err);
/* What was not started goes back. */
void remote_release_buffered(struct remote *r);
void remote_lost(struct remote *r, int64_t job_id, const char *why);
void remote_cancelled(struct remote *r, int64_t job_id);
/* Everything that is held, named by its claim; the array and its items are one piece of memory: free() it. NULL: none, or
 * no memory, which the number tells. */
Pawl__V1__RunningJob **remote_running_jobs(struct remote *r, size_t *ret_n);

/* report.c */
void remote_on_finished(void *data, struct run *run, const struct outcome *outcome);
/* Its outcome, of which copies are taken, is to be reported. Without memory it is a retry without a
 * text. */
void remote_report(struct remote *r, struct remote_slot *slot, const struct outcome *outcome);
/* It is nobody's here any more. */
void remote_forget(struct remote *r, struct remote_slot *slot);
void remote_report_flush(struct remote *r);

/* outcome.c: an outcome in the words of the wire. PAWL_ENOMEM. */
struct arena;
int remote_outcome_pack(const struct remote_slot *slot,
                        Pawl__V1__Report *report,
                        struct arena *arena) MUST_CHECK;

/* beat.c */
void remote_beat_start(struct remote *r);
void remote_beat_soon(struct remote *r);
/* The stream is left for good: once, at once, also when nothing is held. */
void remote_beat_left(struct remote *r);

#endif
