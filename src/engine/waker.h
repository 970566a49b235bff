/*
 * waker: sleeping without missing anything, and without making those who enqueue pay for it.
 *
 *     AWAKE ──nothing due──► MARKING ──committed──► ASLEEP ──busy for a while──► AWAKE
 *
 * Whoever finds nothing, and still nothing some milliseconds later, says so in the database (pawl.sleeper), looks once more, and sleeps. An
 * enqueue that sees a sleeper notifies. Transactions that were under way when the mark was
 * committed did not see it: a few looks at growing intervals catch them, then the poll does. A job
 * that comes while asleep is worked on without taking the mark back; only who stays busy does, so
 * that a trickle of single jobs costs no writes at all.
 *
 * Once it has slept for a moment it also asks when the next scheduled job is due, and wakes for that.
 *
 * Without LISTEN (a pooler in transaction mode) it only polls, at growing intervals. Coordinator's
 * thread.
 */
#ifndef ENGINE_WAKER_H
#define ENGINE_WAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "pg/conn.h"

enum waker_state { WAKER_AWAKE, WAKER_MARKING, WAKER_ASLEEP };

struct waker_options {
    uv_loop_t *loop;
    struct conn *conn; /* borrowed; marks are written on it */
    struct uuid worker;
    const char *const *queues; /* borrowed */
    size_t n_queues;
    bool listening;
    int64_t poll_ms; /* without LISTEN: the first sleep; doubles up to poll_max_ms */
    int64_t poll_max_ms;
    const struct clock *clock;
    struct log *log;
    void (*look)(void *data); /* look at all queues once */
    void *data;
};

struct waker {
    struct waker_options options;
    enum waker_state state;
    uv_timer_t timer; /* the next look */
    size_t looks;     /* since the mark was committed */
    size_t lingers;   /* looks that found nothing, awake */
    int64_t sleep_ms; /* the length of the next sleep, without LISTEN */
    int64_t
        busy_us; /* steady clock at the first job since there was nothing for a while; 0: none yet */
    int64_t idle_us; /* since when there is nothing; 0: there is */
    bool unmarking;
    bool asking_due;  /* the question when the next job is due is on the wire */
    bool ask_due;     /* the timer is for that question, not for a look */
    bool doubted;     /* the mark under way may be gone by the time it is answered */
    bool lingering;   /* the timer is for a look of who is awake */
    uint64_t n_polls; /* looks by the timer, asleep or without LISTEN */
};

void waker_init(struct waker *waker, const struct waker_options *options);

/* A job of our queues is due in so many ms: a sleep that is longer is cut short. */
void waker_due(struct waker *waker, int64_t due_ms);

/* Nothing was due in any queue. */
void waker_idle(struct waker *waker);
/* Jobs were found. */
void waker_busy(struct waker *waker);
/* The mark may be gone: somebody may have taken us for dead. It is set again with the next idle. */
void waker_doubt(struct waker *waker);
/* Notifications cannot be trusted: from now on it only polls. */
void waker_deafen(struct waker *waker);
/* No more looks. */
void waker_stop(struct waker *waker);

#endif
