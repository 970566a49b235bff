/*
 * streams: the open streams of workers, the sources they share, and every job that a worker has
 * until its outcome is committed. Only the files of dispatch include this header: runs.c and
 * sources.c write the fields, the other files read them, except for the fields marked as the call's
 * or the ticket's.
 *
 * A worker asks for queues and kinds and grants credits: the number of jobs it may hold at once. A
 * queue with a set of kinds is a source; streams that want the same share a source. The coordinator
 * claims for one source at a time, and never more jobs than the streams of that source have free
 * credits. A job goes to the least loaded stream of its source.
 *
 *     run ─► FRESH ──flush──► SENT ──streams_report──► REPORTED ─► settled ─► freed
 *                 │            │                          ▲   └─ "running" ─► run (the same stream)
 *                 └─ no room   ├─ the stream ended: released if never sent, else LEAVING ─►
 *                              │  streams_left
 *                              └─ no sign of life for a lease: LEAVING, and still on its stream
 *                                 until the database has answered ─► streams_lost, or AWAY
 *     AWAY: the job has a lease of its own in pawl.held, and its worker has a stream here. The run
 *     takes a credit and nothing else.
 *
 * Coordinator's thread only.
 */
#ifndef SERVE_DISPATCH_STREAMS_H
#define SERVE_DISPATCH_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "engine/hands.h"
#include "serve/dispatch/ticket.h"

#define STREAMS_SOURCES_MAX 1024
#define STREAMS_NAMES_MAX   16384 /* distinct queues and kinds since the start */
#define STREAMS_RUNS_MAX    200000
#define STREAM_QUEUES_MAX   64
#define STREAM_KINDS_MAX    1000
#define STREAM_CREDITS_MAX  10000
#define STREAM_BATCH_MAX    256 /* jobs in one message */
#define STREAMS_PACE_MS     50
#define STREAM_LEVELS       16 /* of load: 0 has no job, 15 has hardly any free credit */

struct dispatch;
struct rpc_call;
struct take;
struct waiters;

/* A queue and kinds that some streams want. */
struct source {
    const char *queue;  /* a name of streams.names */
    const char **kinds; /* owned; names, sorted, without duplicates */
    size_t n_kinds;
    size_t n_streams;
    size_t room;                       /* free credits of its streams */
    struct list levels[STREAM_LEVELS]; /* seat.link: streams with free credits, by load */
};

/* The membership of a stream in one source. */
struct seat {
    struct list link;
    struct stream *stream;
    size_t source;
};

/* The open stream of one worker. */
struct stream {
    struct dispatch *d;
    struct list link;
    char *worker; /* owned, like name and the arrays below; the texts in the arrays are names */
    char *name;
    const char **queues;
    size_t n_queues;
    const char **kinds;
    size_t n_kinds;
    struct seat *seats; /* n_queues */
    struct list runs;   /* SENT and AWAY, in the order of sending */
    struct list
        outbox; /* FRESH runs of this stream, during a flush or while the worker does not read */
    struct list touched;
    uint32_t credits;
    uint32_t used;      /* credits that runs take */
    uint32_t free;      /* credits, as counted into the sources */
    int64_t per_1000_s; /* jobs assigned in 1000 seconds at most; 0: no limit */
    double allowed;     /* with that limit: jobs that may be assigned now */
    int64_t allowed_us; /* steady clock when `allowed` was computed */
    uint64_t ended;
    size_t n_reported; /* until_empty: reported runs that are not settled */
    bool until_empty;  /* the stream is over when nothing is due for it: streams_is_over */
    bool begun;
    bool draining;
    bool stuffed; /* the worker does not read; the outbox waits */
    int64_t stuffed_us;

    /* The call's: stream.c, assign.c, wish.c */
    struct rpc_call *call;
    const void *client; /* who opened the stream; compared, never dereferenced */
    struct take *take;  /* the jobs it brought are being looked up; NULL: none */
    uint64_t bytes;     /* of all messages so far */
    uint32_t asked;     /* credits that the worker asked for */
    int64_t since_us;   /* wall clock */
    bool all_left;      /* queued bytes will still be sent */
    bool broken;        /* there was no memory for a message */
    char address[64];
};

enum run_state { RUN_FRESH, RUN_SENT, RUN_REPORTED, RUN_LEAVING, RUN_AWAY };

/* One job that a worker has. */
struct stream_run {
    struct list link; /* FRESH, LEAVING: of streams; SENT, AWAY: of the stream */
    int64_t job_id;
    struct run *run; /* NULL: AWAY */
    struct stream
        *reporter; /* REPORTED: an until_empty stream that waits for the settle; NULL: none */
    struct stream *stream; /* whose credit it takes; NULL: the stream ended, or the outcome came */
    enum run_state state;
    int64_t sent_us;     /* steady clock */
    int64_t left_us;     /* LEAVING: since when; 0: the lease is over */
    char *worker;        /* owned; LEAVING: id of the worker */
    const void *client;  /* LEAVING: stream.client */
    bool cancelled;      /* a cancel was asked for */
    bool told_timeout;   /* the worker was told that the run takes too long */
    unsigned char steps; /* of a machine that went on here */

    /* The ticket's: assign.c, report.c, beat.c, away.c */
    struct ticket ticket;
    uint64_t at;     /* where its message begins in all bytes sent on the stream */
    int64_t seen_us; /* the worker's last sign of life for the job */
    uint64_t named;  /* dispatch.naming of the call in which the worker last named the job */
    bool on_its_way; /* LEAVING: held_put is under way */
    bool kept;       /* pawl.held has a lease for it that is not over */
    struct waiters *waiters; /* report.c: reports to answer after the settle; NULL: none */
};

struct streams {
    struct hands hands; /* first, so that a pointer to it is a pointer to this */
    struct dispatch *d;
    const struct clock *clock;
    struct list all;
    size_t n;
    size_t n_paced; /* streams with a rate */
    struct source *sources[STREAMS_SOURCES_MAX];
    size_t n_sources;
    struct map names; /* owned texts, kept until streams_deinit */
    struct map runs;  /* by job id */
    struct list fresh;
    struct list
        leaving; /* runs without a sign of life first, then in the order in which they left */
};

void streams_init(struct streams *streams, struct dispatch *d, const struct clock *clock);
/* No stream may be open. Frees all runs. */
void streams_deinit(struct streams *streams);

/* ── sources.c: streams, and the load of their sources ── */

struct stream_options {
    const char *worker; /* all texts are copied */
    const char *name;
    const char *const *queues;
    size_t n_queues;
    const char *const *kinds;
    size_t n_kinds;
    uint32_t credits;
    bool until_empty;
    const void *client;
};

/* The stream gets no job before streams_begin. PAWL_EINVAL, PAWL_ELIMIT, PAWL_EFULL,
 * PAWL_ENOMEM. */
int streams_open(struct streams *streams,
                 const struct stream_options *options,
                 struct stream **ret_stream,
                 struct pawl_err *err) MUST_CHECK;
void streams_begin(struct stream *stream);
/* Releases runs that were never sent; runs that may have started become LEAVING. */
void streams_close(struct stream *stream);

/* For a stream that is open until_empty: nothing is due for it, it has no job, and all its
 * reports are settled. */
bool streams_is_over(const struct stream *stream);

void streams_set_credits(struct stream *stream, uint32_t credits);
/* At most per_1000_s jobs in 1000 seconds; 0: no limit. Jobs that the worker has do not count. */
void streams_set_rate(struct stream *stream, int64_t per_1000_s);
/* Jobs that such a stream may get at once after a pause. */
uint32_t streams_burst(int64_t per_1000_s);
/* While n_paced > 0, to be called every STREAMS_PACE_MS. */
void streams_pace(struct streams *streams);
/* The stream gets no more jobs. */
void streams_drain(struct stream *stream);

/* Start with NULL; NULL after the last stream. */
struct stream *streams_next(const struct streams *streams, const struct stream *after);

/* To be called after every change: counts the free credits into the sources and orders them by
 * load. */
void stream_update(struct stream *stream);
/* A job is assigned: counts for the rate. */
void stream_count_given(struct stream *stream);
/* until_empty: what is known of the sources is out of date. */
void stream_look(const struct stream *stream);
/* The least loaded stream of a source; NULL: no stream has room. */
struct stream *streams_pick(struct streams *streams, size_t source);

/* ── runs.c: runs, and the hands of the coordinator ── */

/* By the id alone: dispatch_find compares the ticket. NULL: none. */
struct stream_run *streams_find(const struct streams *streams, int64_t job_id);
/* SENT or LEAVING: the worker reported the outcome, which is copied. */
void streams_report(struct streams *streams, struct stream_run *run, const struct outcome *outcome);
/* SENT or LEAVING: the worker came back and has the run on this stream. */
void streams_move(struct streams *streams, struct stream_run *run, struct stream *to);
/* A worker brought a job that has a lease in pawl.held. Without memory the job takes no credit. */
void streams_add_away(struct streams *streams,
                      int64_t job_id,
                      struct stream *stream,
                      const struct ticket *ticket);
/* The outcome of an AWAY run came, and the coordinator has adopted the job. away NULL: no run
 * was known. */
struct stream_run *
streams_adopt(struct streams *streams, struct stream_run *away, struct run *run) MUST_CHECK;
void streams_forget_away(struct streams *streams, struct stream_run *run);
/* LEAVING, and the worker says that the job never arrived: it is released. */
void streams_never_arrived(struct streams *streams, struct stream_run *run);
/* LEAVING, and pawl.held has a lease that is not over: the run is freed, or AWAY if its worker
 * has a stream here. The caller lets the coordinator's run go. */
void streams_left(struct streams *streams, struct stream_run *run);
/* The same, and the lease is over: the worker is told, if it has a stream here. */
void streams_lost(struct streams *streams, struct stream_run *run);

/* Runs without a sign of life for a lease become LEAVING. They keep their stream and its credit
 * until the database has answered whether the worker spoke to another server. Runs that take too
 * long are told to end. */
void streams_tick(struct streams *streams);
/* The writer of a stream has room again. */
void streams_writable(struct stream *stream);
/* The stream ends: releases its runs, or lets them leave. */
void stream_drop_runs(struct stream *stream);

#endif
