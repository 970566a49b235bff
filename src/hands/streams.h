/*
 * streams: hands that are workers somewhere else, each on a stream of its own. Who has room for what, who gets which job, and where each
 * job is until its outcome is committed. How a stream speaks is the owner's business: this knows neither gRPC nor
 * sockets.
 *
 * A worker asks for queues and kinds and grants credits: jobs it may hold at once. A queue with a set of kinds is a
 * source; streams that want the same share it. The coordinator claims for one source at a time, and never for more than
 * its streams have credits for. A job goes to the least loaded stream of its source.
 *
 *     run ─► FRESH ──flush──► SENT ──streams_report──► REPORTED ─► settled ─► gone
 *                 │            │                          ▲   └─ "running" ─► run (the same stream)
 *                 └─ no room   ├─ its stream ended: released if it never left, else LEAVING ─► streams_left
 *                              └─ nothing was heard of it for a lease: LEAVING, and on its stream until that
 *                                 is known to be true ─► streams_lost, or AWAY
 *     AWAY: it has a lease of its own, and its worker is on a stream here: takes a credit, nothing more
 *
 * Coordinator's thread only.
 */
#ifndef HANDS_STREAMS_H
#define HANDS_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "engine/hands.h"

#define STREAMS_SOURCES_MAX 1024
#define STREAMS_NAMES_MAX   16384 /* queues and kinds that were ever asked for */
#define STREAMS_RUNS_MAX    200000
#define STREAM_QUEUES_MAX   64
#define STREAM_KINDS_MAX    1000
#define STREAM_CREDITS_MAX  10000
#define STREAM_BATCH_MAX    256 /* jobs in one message */
#define STREAM_TICKET_LEN   16
#define STREAMS_PACE_MS     50

struct streams;
struct stream;

enum stream_place { PLACE_FRESH, PLACE_SENT, PLACE_REPORTED, PLACE_LEAVING, PLACE_AWAY };

/* One job in a worker's hands. Owned by streams. */
struct stream_run {
    struct list
        link; /* FRESH, LEAVING: of all; SENT, AWAY: of its stream, in the order of sending */
    int64_t job_id;
    struct run *run;         /* NULL: AWAY */
    struct stream *reporter; /* REPORTED: one that waits for its settling to end; NULL: none */
    struct stream
        *stream; /* whose credit it takes; NULL: its stream has ended, or its outcome has come */
    enum stream_place place;
    uint64_t at;     /* where its message begins in all that was sent on the stream; the owner's */
    int64_t sent_us; /* steady clock */
    int64_t seen_us; /* the worker's last sign of life for it */
    char *worker;    /* owned; LEAVING: whose it was */
    const void *client;  /* likewise */
    int64_t left_us;     /* LEAVING: since when; 0: its lease is over */
    uint64_t named;      /* the owner's: when its worker last named it */
    bool on_its_way;     /* LEAVING: the owner's statement is under way */
    bool kept;           /* the owner's: a lease that is not over stands for it */
    bool cancelled;      /* its end was asked for */
    unsigned char steps; /* of a machine that went on here */
    bool told_timeout;   /* it was said that it runs too long */
    unsigned char ticket[STREAM_TICKET_LEN]; /* the owner's */
    void *data;                              /* the owner's: who waits for its answer */
};

struct streams_options {
    const struct clock *clock;
    struct log *log;
    int64_t lease_ms;
    /* A source that the coordinator shall know: coordinator_set_source. */
    int (*set_source)(
        void *data, size_t source, const char *queue, const char *const *kinds, size_t n_kinds);
    /* For streams that are to end: looks at a source again; nothing was found there: coordinator_wake_source, coordinator_source_empty. */
    void (*look)(void *data, size_t source);
    bool (*empty)(void *data, size_t source);
    /* Sends jobs as one message. PAWL_EFULL: the worker does not read, nothing was sent, and streams_writable follows.
     * Any other error: nothing was sent, and nothing can be: the owner closes the stream soon. */
    int (*assign)(void *data, struct stream *stream, struct stream_run *const *runs, size_t n);
    /* Bytes of a stream that have left this process, to compare `at` with. */
    uint64_t (*left)(void *data, struct stream *stream);
    /* The worker shall end this run. */
    void (*stop)(void *data, struct stream_run *run, enum stop_reason reason);
    /* Some are LEAVING: see to it. */
    void (*leaving)(void *data);
    /* What became of a report. state and unsure as in hands_ops.settled. */
    void (*settled)(void *data, struct stream_run *run, const char *state, bool unsure);
    /* At the end of all: it will never be settled here. May be NULL. */
    void (*forget)(void *data, struct stream_run *run);
    void *data;
};

struct streams *streams_new(const struct streams_options *options) MUST_CHECK;
/* No stream may be open. Forgets the runs there are. NULL accepted. */
void streams_free(struct streams *streams);
struct hands *streams_hands(struct streams *streams);

struct stream_options {
    const char *worker; /* all are copied */
    const char *name;
    const char *const *queues;
    size_t n_queues;
    const char *const *kinds;
    size_t n_kinds;
    uint32_t credits;
    bool until_empty;   /* it is over when nothing is due for it: streams_is_over */
    const void *client; /* the owner's: who has opened it; compared, not looked into */
    void *data;         /* the owner's */
};

/* A stream that gets nothing until streams_begin. PAWL_EINVAL, PAWL_ELIMIT, PAWL_EFULL, PAWL_ENOMEM. */
int streams_open(struct streams *streams,
                 const struct stream_options *options,
                 struct stream **ret_stream,
                 struct pawl_err *err) MUST_CHECK;
void streams_begin(struct stream *stream);
/* What never left is released, what may have started is LEAVING. */
void streams_close(struct stream *stream);

/* One that is open until_empty: nothing is due for it, it holds nothing, and what it reported is settled. */
bool streams_is_over(const struct stream *stream);

void streams_set_credits(struct stream *stream, uint32_t credits);
/* So many jobs in 1000 seconds at most; 0: no limit. Those it has count for nothing. */
void streams_set_rate(struct stream *stream, int64_t per_1000_s);
/* How many of them may come at once after a pause. */
uint32_t streams_burst(int64_t per_1000_s);
/* Whether some stream has such a limit: then streams_pace is to be called every STREAMS_PACE_MS. */
bool streams_paced(const struct streams *streams);
void streams_pace(struct streams *streams);
/* No more jobs. */
void streams_drain(struct stream *stream);
/* The worker reads again. */
void streams_writable(struct stream *stream);

/* Not taken as the answer to anything but this id: the owner compares the ticket. NULL: none. */
struct stream_run *streams_find(const struct streams *streams, int64_t job_id);
/* SENT or LEAVING: this is how it ended. The outcome is copied. */
void streams_report(struct streams *streams, struct stream_run *run, const struct outcome *outcome);
/* A worker has come back with a run that is SENT or LEAVING here. */
void streams_move(struct streams *streams, struct stream_run *run, struct stream *to);
/* A worker has come with a run that has a lease of its own. Without memory it takes no credit. */
void streams_add_away(struct streams *streams,
                      int64_t job_id,
                      struct stream *stream,
                      const unsigned char ticket[STREAM_TICKET_LEN]);
/* Its outcome has come, and the coordinator has adopted it. run NULL: nobody holds it; it is forgotten. */
struct stream_run *streams_adopt(struct streams *streams,
                                 struct stream_run *away, /* NULL: none was known */
                                 struct run *run) MUST_CHECK;
void streams_forget_away(struct streams *streams, struct stream_run *run);
/* LEAVING, and its worker says that it has never seen it: it is released. */
void streams_never_arrived(struct streams *streams, struct stream_run *run);
/* LEAVING, and its lease is in the database, and not over: it is forgotten, or AWAY if its worker has a stream here. The caller lets the
 * coordinator's run go. */
void streams_left(struct streams *streams, struct stream_run *run);
/* The same, and its lease is over: its worker is told, if it has a stream here. */
void streams_lost(struct streams *streams, struct stream_run *run);
/* Those of which nothing was heard first, then in the order in which they left. */
struct list *streams_leaving(struct streams *streams);

/* Runs of which no sign of life came for a lease become LEAVING, and keep their stream and its credit until it is known whether their
 * worker spoke to another server; those that run too long are told to end. */
void streams_tick(struct streams *streams);
/* Nothing is taken any more. */
void streams_stop(struct streams *streams);

/* --- what is known of them --- */

struct stream_view {
    const char *worker;
    const char *name;
    const char *const *queues; /* as asked for */
    size_t n_queues;
    const char *const *kinds;
    size_t n_kinds;
    uint32_t credits;
    uint32_t held;
    int64_t per_1000_s; /* 0: no limit */
    uint64_t ended;
    bool draining;
    void *data;
};

void streams_view(const struct stream *stream, struct stream_view *ret_view);
void *streams_data(const struct stream *stream);
const char *streams_worker(const struct stream *stream);
size_t streams_count(const struct streams *streams);
size_t streams_count_runs(const struct streams *streams);
/* Start with NULL; NULL after the last. */
struct stream *streams_next(const struct streams *streams, const struct stream *after);

#endif
