/*
 * coordinator_internal: what coordinator.c (life), claim.c (finding work), suspect.c (claims that fail), release.c (giving it back), finish.c (from the hands
 * to the settle), pulse.c (memory, kinds that fail) and concurrency.c share.
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
#include "engine/marks.h"
#include "engine/notes.h"
#include "engine/scan.h"
#include "engine/settle.h"
#include "engine/slot.h"
#include "engine/sweeper.h"
#include "engine/tuner.h"
#include "engine/vacuum.h"
#include "engine/waker.h"
#include "engine/watch.h"
#include "pg/conn.h"

enum coordinator_state {
    COORDINATOR_NEW,
    COORDINATOR_WORKING,
    COORDINATOR_DRAINING, /* stop was called: claims no more */
    COORDINATOR_ENDING,   /* nothing runs and nothing waits to be settled: saying good-bye */
    COORDINATOR_CLOSING,  /* handles are closing */
    COORDINATOR_STOPPED,
};

/* What the number of jobs at a time is judged by. */
struct window {
    int64_t since_us; /* steady clock */
    uint64_t runs;
    uint64_t errors;
    bool full; /* all slots were in use at some time */
    struct quantile took;
};

/* The claim on the wire, and what it was for. One at a time. */
struct claiming {
    struct claim *claim;   /* NULL: none is under way */
    size_t queue;          /* the scan that it is for */
    bool full;             /* from its beginning */
    bool turn;             /* when nobody else does: claim_turn goes before it */
    bool called;           /* somebody says that there is work; the answer may not know of it */
    struct breaker *probe; /* only for probes of this kind; NULL: for all kinds */
};

/* How the worker looks after itself: pulse.c. */
struct pulse {
    uv_timer_t timer;
    struct memory_gate gate;
    struct memory_sample memory; /* the last one; limit 0: none yet */
    bool unreadable;             /* it was said that memory cannot be read */
    int64_t closed_us;           /* steady clock when the gate closed; 0: it is open */
    int64_t reminded_us;         /* and when that was said last */
    struct breakers breakers;
    struct tuner tuner; /* .now is how many jobs may run at a time */
    bool rollout_due;   /* asked for in the options, and not begun yet */
    struct window window;
    struct quantile recent[2]; /* of this minute and the last */
    int64_t recent_us;         /* when this one began */
    int64_t rate_us;           /* since when rate_runs are counted */
    uint64_t rate_runs;
    int64_t runs_per_minute;
    struct watch *watch; /* owned; NULL: nobody watches */
};

struct coordinator {
    struct coordinator_options options;
    uv_loop_t *loop;
    enum coordinator_state state;
    struct uuid worker;
    char host[64];
    char name[128]; /* host:pid */

    struct primary primary;   /* unless it is shared with others: options.primary */
    int64_t timeline;         /* of the primary that settles went to last; 0: none */
    struct conn *claim_conn;  /* claims, notifications, who sleeps */
    struct conn *settle_conn; /* settles, renewals and the worker's own rows: a slow claim must not
                                 cost a lease */
    struct conn
        *upkeep_conn; /* sweeps, lanes, history, strays: what is slow must not hold up claims */
    struct conn *
        care_conn; /* vacuum, and the look at everything: what may take minutes. Not before it is needed */
    struct settle settle;
    struct lease lease;
    struct sweeper sweeper;
    struct marks marks;
    struct vacuum vacuum;
    struct notes notes;
    struct waker waker;
    struct pulse pulse;

    struct slots slots; /* all jobs that are here, by where they are */

    struct scan *scans; /* owned; one for each queue, or source */
    size_t n_scans;
    size_t scans_size;
    const char **source_queues; /* owned; the queues of all sources, each once */
    size_t n_source_queues;
    size_t next_queue; /* the first that is looked at for the next claim */
    struct claiming claiming;
    const char **kinds; /* owned; those that may be claimed while some may not */
    size_t kinds_size;
    bool idle; /* all queues are empty and the waker knows */
    int64_t backoff_ms;
    /* Runs after a claim that failed, or a start that this process is too short of something for. */
    uv_timer_t backoff_timer;
    /* Runs while a queue is not asked because a job of it cannot be claimed. */
    uv_timer_t held_timer;
    uv_prepare_t turn; /* before the loop sleeps */

    size_t n_closing; /* handles and connections that are still open */
    size_t left;      /* jobs left to their lease */
    struct coordinator_stats stats;
};

/* Outcomes that are not known to be committed. */
static inline size_t coordinator_unsettled(const struct coordinator *c)
{
    return c->slots.n[SLOT_WAITING] + c->slots.n[SLOT_FLYING] + c->slots.n[SLOT_ASIDE];
}

/* A claim for this queue is on the wire. */
static inline bool claiming_from(const struct coordinator *c, size_t queue)
{
    return c->claiming.claim != NULL && c->claiming.queue == queue;
}

/* Somebody says that there is work in the queue: the answer that is on its way may not know of it.
 */
static inline void claiming_call(struct coordinator *c, size_t queue)
{
    c->claiming.called |= claiming_from(c, queue);
}

/* claim.c */
void coordinator_pump(struct coordinator *c);     /* claims, if there is room and may be work */
void coordinator_dispatch(struct coordinator *c); /* from the buffer to the hands */
void coordinator_on_started(void *data, struct run *run);
bool coordinator_on_not_started(void *data, struct run *run, struct pawl_err *err);
bool coordinator_all_empty(const struct coordinator *c);
void coordinator_look(void *data);
void coordinator_on_notify(void *data, const char *channel, const char *payload);

void coordinator_back_off(struct coordinator *c); /* no claim for a while */
/* The primary may have moved since the last call: see claim.left_to_lease. */
void coordinator_note_timeline(struct coordinator *c);
/* What may be claimed: all that the hands can run, or of that source, but for kinds that are left alone. Without
 * memory for the list, nothing. */
const char *const *coordinator_kinds(struct coordinator *c, const struct scan *scan, size_t *ret_n);

/* suspect.c */
void coordinator_suspect_init(struct coordinator *c);
/* A claim failed: what is asked for next. The claim becomes this function's. */
void coordinator_claim_failed(struct coordinator *c,
                              struct claim *claim,
                              const struct batch_end *end);

/* release.c */
/* Its outcome is known: to the settle. */
void coordinator_settle(struct coordinator *c, struct slot *slot, const struct outcome *outcome);
void coordinator_release(struct coordinator *c, struct slot *slot);  /* it was not started */
void coordinator_release_buffered(struct coordinator *c);            /* and those behind them */
void coordinator_release_job(struct coordinator *c, int64_t job_id); /* if it was not started */
void coordinator_release_claim(struct coordinator *c,
                               struct claim *claim); /* what was not started of it */
/* It does not run any more: the next of its group may, if there is one. */
void coordinator_pass_lane(struct coordinator *c, struct slot *slot);
/* Gives back what was claimed and not started, where its kind is left alone now. */
void coordinator_release_open(struct coordinator *c);

/* marks.c */
void coordinator_marks_init(struct coordinator *c);
void coordinator_marks_start(struct coordinator *c);
void coordinator_marks_deinit(struct coordinator *c);
/* Whether the queue may be claimed from: where to start is known. Else it is asked for. */
bool coordinator_marks_ready(struct coordinator *c, size_t queue);
bool coordinator_marks_loading(const struct coordinator *c); /* of some queue */
/* A connection is new, perhaps to another server: what is known of the old one does not count. */
void coordinator_marks_reset(struct coordinator *c);
/* Another worker released jobs: "DUE_US QUEUE", from when on they are due. */
void coordinator_marks_put_back(struct coordinator *c, const char *text);
/* For who ends when nothing is left: whether all was looked at, also behind the marks. Else it is. */
bool coordinator_marks_seen_all(struct coordinator *c);
/* The connection for what may take minutes, which is opened when it is first needed. */
struct conn *coordinator_care_conn(struct coordinator *c);

/* pulse.c */
void coordinator_pulse_init(struct coordinator *c);
void coordinator_pulse_start(struct coordinator *c);
void coordinator_pulse_stop(struct coordinator *c); /* the watch; the timer is closed elsewhere */
void coordinator_pulse_deinit(struct coordinator *c);
/* Whether there is memory for another run, and its kind is not left alone. */
bool coordinator_may_start(const struct coordinator *c, const struct slot *slot);
/* A run ended, as the hands say. */
void coordinator_note_finished(struct coordinator *c,
                               struct slot *slot,
                               const struct outcome *outcome);
/* A slot is over, as it was settled. */
void coordinator_note_settled(struct coordinator *c, struct slot *slot, const char *state);
/* Gives back all that was claimed and not started, also what waits in the hands. */
void coordinator_recall(struct coordinator *c);

/* concurrency.c */
void coordinator_tune(struct coordinator *c, int64_t now_us);

/* source.c */
/* The queues that are listened for and claimed from. */
const char *const *coordinator_queues(const struct coordinator *c, size_t *ret_n);

/* finish.c */
/* It is nobody's here any more; with the last of its slots the claim goes. */
void coordinator_forget(struct coordinator *c, struct slot *slot);
void coordinator_on_finished(void *data, struct run *run, const struct outcome *outcome);
void coordinator_on_settled(void *data, struct slot *slot, const char *state);
void coordinator_on_due(void *data, const struct slot *slot, int64_t due_ms);
void coordinator_on_called(void *data); /* into lanes */
void coordinator_on_missed(void *data);
void coordinator_on_lost(void *data, struct claim *claim);
void coordinator_on_cancelled(void *data, int64_t job_id);

/* machine.c */
/* Whether it is settled without having been run. */
bool coordinator_screen(struct coordinator *c, struct slot *slot);
/* Whether its next step runs here, under the claim it has. */
bool coordinator_may_stick(struct coordinator *c, struct slot *slot);
void coordinator_on_went_on(void *data, struct slot *slot, bool cancelled);

#endif
