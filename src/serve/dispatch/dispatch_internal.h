/*
 * dispatch_internal: what the files of dispatch share: dispatch.c (life), stream.c (StreamJobs),
 * assign.c (jobs as messages), report.c (ReportResult), beat.c (Heartbeat), outcome.c (from a
 * report to an outcome), away.c (jobs that other servers claimed), wish.c (operators' wishes,
 * presence), runs.c and sources.c (streams.h).
 */
#ifndef SERVE_DISPATCH_DISPATCH_INTERNAL_H
#define SERVE_DISPATCH_DISPATCH_INTERNAL_H

#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "pg/conn.h"
#include "serve/dispatch/dispatch.h"
#include "serve/dispatch/streams.h"
#include "store/held.h"
#include "store/worker.h"

#define DISPATCH_DEADLINE_MS 10000
#define REPORTS_MAX          10000 /* in one call */
#define RUNNING_MAX          10000 /* jobs named in one call */
#define WORKER_ID_MAX        128
#define LINGER_MAX_US \
    (2LL * US_PER_S)   /* time for a worker whose stream ended to come back, or to name its jobs */
#define LINGER_SHARE 4 /* and at most this part of a lease */
#define RECENT_MAX   32768 /* answers kept for reports that are repeated; a power of two */

/* X(name, what it counts) */
#define DISPATCH_COUNTERS(X)                                                              \
    X(streams_opened, "Streams of workers that were opened.")                             \
    X(streams_broken, "Streams that ended without a word.")                               \
    X(jobs_assigned, "Jobs sent to workers.")                                             \
    X(messages_assigned, "Messages with jobs sent to workers.")                           \
    X(reports, "Outcomes reported.")                                                      \
    X(reports_elsewhere, "Outcomes of jobs that another server, or nobody, had claimed.") \
    X(reports_again, "Outcomes that had been reported before.")                           \
    X(reports_stale, "Outcomes that came too late and counted for nothing.")              \
    X(heartbeats, "Heartbeats of workers.")                                               \
    X(jobs_left, "Jobs whose worker went away while it had them.")                        \
    X(jobs_taken, "Jobs that workers brought along from elsewhere.")

#define DISPATCH_COUNTER_FIELD(name, what) uint64_t name;

struct dispatch_counters {
    DISPATCH_COUNTERS(DISPATCH_COUNTER_FIELD)
};

#undef DISPATCH_COUNTER_FIELD

/* Jobs that a worker says it has and that this server did not claim. The database is asked about
 * many at once. */
enum take_answer { TAKE_LOST, TAKE_HELD, TAKE_CANCELLED };

struct take {
    struct list link;
    struct held_job *jobs; /* owned, with their texts */
    enum take_answer *answers;
    size_t n;
    char *worker; /* owned */
    /* known false: the database did not answer. The take is freed after the call. NULL: the
     * caller is gone. */
    void (*done)(struct take *take, bool known);
    void *data;
};

/* A report of a job that this server did not claim. */
struct lookup {
    struct list link;
    struct held_job job;
    struct report_item *item; /* NULL: the caller is gone */
};

/* One report of a call. */
struct report_item {
    struct list link; /* waiters.items of the run */
    struct report_call *owner;
    struct lookup *lookup; /* under way; NULL: none */
    size_t i;
    bool open;
    bool again; /* the outcome had no effect, and the job is looked up once more */
    Pawl__V1__ItemStatus status;
    Pawl__V1__JobState state;
    char *error; /* owned */
};

/* One ReportResult. */
struct report_call {
    struct dispatch *d;
    struct rpc_call *call;
    const Pawl__V1__ReportResultRequest *request; /* lives as long as the call */
    size_t n;
    size_t n_open;
    struct report_item items[];
};

/* A recent answer: the outcome was committed, and led to this state. */
struct recent {
    int64_t job_id;
    struct ticket ticket;
    Pawl__V1__JobState state;
};

struct dispatch {
    struct dispatch_options options;
    struct coordinator *coordinator; /* borrowed, like auth; NULL until dispatch_start */
    struct auth *auth;               /* NULL: every call is allowed */
    struct rpc_service service;
    struct streams streams;
    struct conn *conn;
    struct arena scratch; /* for one message at a time */
    uv_timer_t tick;
    uv_timer_t pace;   /* while some stream has a rate */
    uv_timer_t retry;  /* after a statement failed */
    uv_timer_t linger; /* until the next leaving run is due */
    uv_prepare_t turn;
    char server_id[UUID_TEXT_LEN + 1];

    /* away.c: one batch is under way at a time */
    struct list takes;   /* waiting */
    struct list lookups; /* waiting */
    struct list sent_takes;
    struct list sent_lookups;

    bool busy;
    bool leaving_sent, takes_sent, lookups_sent;

    struct map wishes; /* by worker; values owned */
    bool asking_wishes;
    bool wishes_again;
    char *presence; /* owned: as the database has it */
    char *presence_sent;
    int64_t presence_us;
    bool crowd_changed; /* a worker came or went since */

    size_t n_until_empty;  /* streams that end when nothing is due for them */
    uint64_t naming;       /* counts calls in which workers name their jobs */
    struct recent *recent; /* owned */
    struct dispatch_counters counters;
    bool draining;
    bool stopped; /* reports and heartbeats are refused */
    int64_t grace_ms;
    bool cutting; /* the server ends the streams */
    bool any_broken;
    void (*drained)(void *data);
    void *drained_data;
    int closing; /* parts that are not closed yet */
    void (*closed)(void *data);
    void *closed_data;
};

static inline char *unconst(const char *text)
{
    return (char *)(uintptr_t)(text != NULL ? text : "");
}

static inline int64_t dispatch_now_us(void)
{
    return clock_mono_us(&clock_system);
}

/* The end of a lease that is renewed now; wall clock. */
static inline int64_t lease_until_us(const struct dispatch *d)
{
    return clock_wall_us(&clock_system) + d->options.lease_ms * US_PER_MS;
}

/* False: the token has the wrong length. */
bool ticket_read(const ProtobufCBinaryData *token, struct ticket *ret_ticket);
/* The run with this ticket; NULL: none is here. */
struct stream_run *
dispatch_find(const struct dispatch *d, int64_t job_id, const struct ticket *ticket);
/* True: the server takes no more reports and heartbeats, and the call was ended. */
bool dispatch_refuses(struct dispatch *d, struct rpc_call *call);
bool dispatch_worker_id_ok(struct rpc_call *call, const char *worker_id);

/* The worker has named all its jobs, with d->naming: leaving jobs that it did not name never
 * arrived. */
void dispatch_all_named(struct dispatch *d, const char *worker, const void *client);

/* stream.c */
void handle_stream_jobs(struct rpc_call *call, const ProtobufCMessage *request, void *data);
void stream_tell_drain(struct stream *stream, const char *reason, bool reconnect);
void stream_end(struct stream *stream, enum rpc_status status, const char *why);
void stream_apply_wish(struct stream *stream, const struct worker_wish *wish);
/* Bytes of a stream that have left this process, to compare stream_run.at with. */
uint64_t stream_left(const struct stream *stream);
/* Tells the worker to end a run. */
void stream_stop_run(struct stream_run *run, enum stop_reason reason);
/* PAWL_EFULL: the worker does not read, nothing was sent, and streams_writable follows. Any other
 * error: nothing was sent, and the stream is ended soon. */
int stream_send(struct stream *stream, const Pawl__V1__StreamJobsResponse *message);
/* The message of a stream that is this member: STREAM_MESSAGE(DRAIN, drain, &drain). */
#define STREAM_MESSAGE(which, member, value)                                          \
    (&(const Pawl__V1__StreamJobsResponse){                                           \
        .base = PROTOBUF_C_MESSAGE_INIT(&pawl__v1__stream_jobs_response__descriptor), \
        .message_case = PAWL__V1__STREAM_JOBS_RESPONSE__MESSAGE_##which,              \
        .member = (value)})

/* assign.c */
/* Sends jobs in one message; errors as stream_send. */
int stream_assign(struct stream *stream, struct stream_run *const *runs, size_t n);

/* report.c */
void handle_report_result(struct rpc_call *call, const ProtobufCMessage *request, void *data);
/* A reported run is settled; state as in hands_ops.settled. */
void report_settled(struct dispatch *d, struct stream_run *run, const char *state);
/* What the database answered: job_held had a row, which was adopted as run; or it had none, and
 * `reported` is the row of job_reported (queue NULL: there is no such job; reported NULL: no
 * answer). */
void report_found(struct dispatch *d, struct lookup *lookup, struct run *run);
void report_not_found(struct dispatch *d,
                      struct lookup *lookup,
                      const struct job_reported *reported);
/* The run is freed without a settle. */
void report_forget(struct stream_run *run);

/* beat.c */
void handle_heartbeat(struct rpc_call *call, const ProtobufCMessage *request, void *data);
struct take *take_new(const char *worker, size_t n_max) MUST_CHECK;
void take_add(struct take *take, int64_t job_id, const struct ticket *ticket);
void take_free(struct take *take);

/* outcome.c */
/* The outcome lives in the arena. PAWL_EINVAL or PAWL_ELIMIT with what is wrong, PAWL_ENOMEM.
 * queue: of the job, for its children. */
int outcome_of_report(const Pawl__V1__Report *report,
                      const char *queue,
                      struct arena *arena,
                      struct outcome *ret_outcome,
                      struct pawl_err *err) MUST_CHECK;

/* away.c */
void away_take(struct dispatch *d, struct take *take);
void away_look_up(struct dispatch *d, struct lookup *lookup);
void away_turn(struct dispatch *d); /* sends work that waits, unless a transaction is under way */
void away_deinit(struct dispatch *d);

/* wish.c */
void wish_on_notify(struct dispatch *d, const char *channel, const char *payload);
const struct worker_wish *wish_of(const struct dispatch *d, const char *worker);
void wish_tick(struct dispatch *d); /* writes presence every few seconds */
void wish_deinit(struct dispatch *d);

/* dispatch.c */
void dispatch_pace(struct dispatch *d); /* some stream has a rate */
void dispatch_check_drained(struct dispatch *d);

#endif
