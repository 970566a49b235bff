/*
 * pawl.h: the public face of Pawl, a durable job and workflow engine on PostgreSQL. This header is the manual of libpawl;
 * a first program is in examples/hello.c.
 *
 * LIFE CYCLE. A producer needs nothing but a connection of its own: pawl_enqueue writes the job in the caller's
 * transaction, and it exists when that transaction commits. A worker is an object of its own:
 *
 *     pawl_worker_new → pawl_worker_handle … → pawl_worker_start → … → pawl_worker_stop → pawl_worker_wait → pawl_worker_free
 *                     → pawl_worker_exec …   or pawl_worker_run (on the caller's thread)
 *                                            or pawl_worker_fd and pawl_worker_turn (inside another event loop)
 *
 * Where a `pawl serve` is in front of the database, both take its address instead: pawl_server_enqueue, and `server` in the
 * worker's options. The `pawl` command works and produces with these functions alone.
 *
 * THREADS. Functions on a connection follow libpq's rule: one thread at a time for a connection. Of a worker, only
 * pawl_worker_stop, _wake, _stats, _stats_each, _set_concurrency and _wait may be called from any thread, at the same time;
 * stop also from a signal handler and from a handler of a job. Handlers run on threads of the worker. Functions on a run belong to the thread
 * of its handler, until the handler returns. After fork() a child must not touch what its parent made; it gets PAWL_ESTATE
 * where that can be noticed.
 *
 * OWNERSHIP. Texts and bytes that go in are copied, or used only until the call returns. What comes out of a run lives until
 * its handler returns; what comes out of another call says who frees it.
 *
 * ERRORS. Every function that can fail returns 0 or a negative code from PAWL_CODES and, when it is given a
 * `struct pawl_err`, fills it with what went wrong, what is known about it and what to do. A caller that only wants to know
 * whether it worked may pass NULL. Outputs are untouched on failure. Nothing in the library exits, prints, or touches signal
 * handlers; it logs only where it was told to.
 *
 * GROWTH. A struct that a caller fills in begins with its own size, set by the initialiser of the same name
 * (struct pawl_job_new job = PAWL_JOB_NEW_INIT; likewise in C++). The library reads no further than that size and takes the
 * rest as zero, and zero always means the default, so programs built against an older header go on working. One built
 * against a newer header works as long as it leaves at zero what this library does not know; else PAWL_EINVAL. Structs that the
 * library makes grow at their end.
 */
#ifndef PAWL_H
#define PAWL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION "0.1.0"

#if defined(__GNUC__)
#    define PAWL_API          __attribute__((visibility("default")))
#    define PAWL_CHECK        __attribute__((warn_unused_result))
#    define PAWL_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#    define PAWL_API
#    define PAWL_CHECK
#    define PAWL_PRINTF(a, b)
#endif

/* All bytes zero, which C and C++ want to be told differently. */
#ifdef __cplusplus
#    define PAWL_ZERO \
        {             \
        }
#else
#    define PAWL_ZERO \
        {             \
            0         \
        }
#endif

/* libpq's connection, without its header: whoever has one has included that. */
typedef struct pg_conn PGconn;

/* What is accepted at most, in bytes. A refusal names the limit. */
#define PAWL_PAYLOAD_MAX      (16 * 1024 * 1024) /* one job's payload; fits a claim batch in memory */
#define PAWL_RESULT_MAX       (1024 * 1024)      /* what a finished job leaves behind */
#define PAWL_STATE_MAX        (1024 * 1024)      /* what a machine carries from step to step */
#define PAWL_NAME_MAX         128                /* a queue, a kind, a lane, a step or a signal */
#define PAWL_KEY_MAX          65536              /* a unique key; it is stored as a hash */
#define PAWL_CORRELATION_MAX  1024               /* what a job is about */
#define PAWL_PROGRESS_MAX     4000               /* what a handler says about how far it is */
#define PAWL_ERROR_MAX        4000               /* of an error that is kept; the rest is cut off */
#define PAWL_TAGS_MAX         32                 /* tags of one job, each a name */

#define PAWL_PRIORITY_MIN     0
#define PAWL_PRIORITY_MAX     9 /* higher is more urgent */
#define PAWL_PRIORITY_DEFAULT 4

/*
 * One table makes the codes, their names and the exit status of the `pawl` command.
 * X(name, value, exit status, what it means)
 */
#define PAWL_CODES(X)                                                                             \
    X(PAWL_OK, 0, 0, "it worked")                                                                 \
    X(PAWL_EFAILED, -1, 1, "it failed for a reason that has no code of its own")                  \
    X(PAWL_EINVAL, -2, 2, "the arguments or the input are wrong; nothing was done")               \
    X(PAWL_ENOTFOUND, -3, 3, "no such job, queue or file")                                        \
    X(PAWL_ECONN, -4, 4, "the database cannot be reached, or the connection was lost")            \
    X(PAWL_EAUTH, -5, 5, "the database refused the user or the password")                         \
    X(PAWL_EDENIED, -6, 6, "permission denied, by the database or by the file system")            \
    X(PAWL_ESCHEMA, -7, 7, "the schema is missing, older or newer than this pawl understands")    \
    X(PAWL_EREADONLY, -8, 8, "the database accepts no writes at present")                         \
    X(PAWL_EFULL, -9, 9, "no space or no other resource left at the database or on this machine") \
    X(PAWL_ELIMIT, -10, 10, "the input is larger than the limit")                                 \
    X(PAWL_EUNKNOWN,                                                                              \
      -11,                                                                                        \
      11,                                                                                         \
      "nobody knows whether it was committed, or whether the commit lasts")                       \
    X(PAWL_ERETRY, -12, 12, "a conflict that goes away by itself; try again")                     \
    X(PAWL_ETIMEOUT, -13, 13, "it took longer than allowed")                                      \
    X(PAWL_ESTATE, -14, 14, "not possible in the present state")                                  \
    X(PAWL_ESTALE, -15, 15, "the claim is no longer valid; another worker may own the job")       \
    X(PAWL_EMISSING, -16, 16, "a program that is needed is not installed")                        \
    X(PAWL_ENOMEM, -17, 17, "out of memory")                                                      \
    X(PAWL_EINTERRUPTED, -18, 130, "stopped by a signal")                                         \
    X(PAWL_EEXIST, -19, 19, "there is one already")

#define PAWL_CODE_ENUM(name, value, exit_status, text) name = (value),

enum pawl_code { PAWL_CODES(PAWL_CODE_ENUM) };

#undef PAWL_CODE_ENUM

/* What went wrong. Owns nothing, so it can be copied, kept and forgotten. Texts are cut, never overrun. */
struct pawl_err {
    int code;          /* 0, or one of the negative codes above */
    char sqlstate[6];  /* what the database called it, or empty */
    char message[256]; /* what failed, in one line, without a final full stop */
    char detail[1024]; /* what is known about it, or empty */
    char hint[512];    /* what to do about it, or empty */
};

/* The version of the library that is running, which may be newer than PAWL_VERSION. */
PAWL_API const char *pawl_version(void);
/* "PAWL_ENOTFOUND" and the like; "PAWL_UNKNOWN" for what is no code. */
PAWL_API const char *pawl_code_name(int code);

/* ------------------------------------------------------------------------------------------------------------ producing
 *
 * All of these block, on a connection of the caller's: inside its transaction, if it has begun one, else in one of
 * their own. In a transaction that has failed already they return PAWL_ESTATE and change nothing. PAWL_EUNKNOWN: the
 * connection was lost while the commit was under way; enqueueing again with a unique key is then safe, and without one may
 * make a second job. PAWL_EUNKNOWN with the SQLSTATE 01000: the primary has committed it, and no synchronous standby has
 * confirmed that, so a fail-over may lose it. Enqueueing again with a unique key is safe, and succeeds only once a standby has
 * it. A program with a notice receiver of its own (PQsetNoticeReceiver) that lets others cancel its statements must look for
 * that warning itself; one with a notice processor need not. A caller that commits a transaction of its own has to, in any case.
 */

/* How long to wait before the next attempt; AUTO is what the job's kind says, which is EXPONENTIAL unless it was set. */
enum pawl_retry {
    PAWL_RETRY_AUTO = 0,
    /* base, twice that, four times …, at most cap; by chance a fifth more or less */
    PAWL_RETRY_EXPONENTIAL = 1,
    PAWL_RETRY_QUADRATIC = 2, /* base × attempt², likewise */
};

/* States of the job that holds a unique key while which the key is taken. */
enum pawl_unique_state {
    PAWL_UNIQUE_WAITING = 1, /* ready, scheduled, retrying, or waiting for something */
    PAWL_UNIQUE_RUNNING = 2,
    PAWL_UNIQUE_PARKED = 4,
    PAWL_UNIQUE_LIVE = 7, /* the default: until it is finished */
};

/* Whose key it is: two keys are the same when they are equal within this. */
enum pawl_unique_scope {
    PAWL_SCOPE_KIND = 0,   /* the queue and the kind */
    PAWL_SCOPE_QUEUE = 1,  /* the queue */
    PAWL_SCOPE_GLOBAL = 2, /* the database */
};

/* What to do when the key is taken. In each case the id of the job that holds it is returned. */
enum pawl_unique_mode {
    PAWL_UNIQUE_KEEP = 0, /* leave it as it is */
    /* give it the new payload, priority and due time, unless it runs already */
    PAWL_UNIQUE_REPLACE = 1,
    PAWL_UNIQUE_RESCHEDULE = 2, /* give it the new due time, unless it runs already */
    PAWL_UNIQUE_REFUSE = 3,     /* PAWL_EEXIST */
};

/* A job to be accepted. Start from PAWL_JOB_NEW_INIT; only kind is needed. */
struct pawl_job_new {
    size_t size;
    const char *kind;
    const char *queue;   /* NULL: "default" */
    const void *payload; /* JSON or any bytes; NULL: {} */
    size_t payload_len;
    int priority;       /* PAWL_PRIORITY_MIN to _MAX */
    int max_attempts;   /* 0: 20 */
    int64_t delay_ms;   /* due so long after the transaction began; 0: at once */
    int64_t at_us;      /* or due at this time, µs since 1970 UTC; 0: by delay_ms */
    int64_t timeout_ms; /* how long one attempt may run; 0: no limit */
    enum pawl_retry retry;
    int64_t retry_base_ms;  /* 0: as the kind says, which is a second unless it was set */
    int64_t retry_cap_ms;   /* 0: as the kind says, an hour unless it was set */
    const char *unique_key; /* at most one job at a time holds it; NULL: no key */
    size_t unique_key_len;  /* 0: it ends with a NUL */
    unsigned unique_states; /* of enum pawl_unique_state; 0: PAWL_UNIQUE_LIVE */
    enum pawl_unique_scope unique_scope;
    enum pawl_unique_mode unique_mode;
    int64_t unique_for_ms; /* the key stays taken for so long after the job was finished */
    const char *lane;      /* jobs of a lane run one at a time, or as its limits say; NULL: none */
    const char *const *tags;
    size_t n_tags;
    const char *trace; /* trace context (W3C traceparent), given to the handler; NULL: none */
    int64_t parent_id; /* a job that this one belongs to, which does not wait for it; 0: none */
    /* what it is about, for signals to all jobs of the same (pawl.signal_all); NULL: nothing */
    const char *correlation;
    /* it fails so long after it was enqueued, whatever it does or waits for then; 0: never */
    int64_t deadline_ms;
};

static inline struct pawl_job_new pawl_job_new_init(void)
{
    struct pawl_job_new job = PAWL_ZERO;

    job.size = sizeof(job);
    job.priority = PAWL_PRIORITY_DEFAULT;
    return job;
}

#define PAWL_JOB_NEW_INIT pawl_job_new_init()

/* ret_id: of the new job, or of the one that holds its unique key. ret_existed (may be NULL): which of them. */
PAWL_API PAWL_CHECK int pawl_enqueue(PGconn *conn,
                                     const struct pawl_job_new *job,
                                     int64_t *ret_id,
                                     bool *ret_existed,
                                     struct pawl_err *err);

/*
 * All or nothing, in as few statements as their size allows. `jobs` are n structs of jobs[0].size each. ret_ids and
 * ret_existed have room for n, in the order of the input, and may be NULL. Of jobs of one call with the same unique key the
 * first one wins. Outside a transaction it begins and commits one when it needs several statements. Without ret_ids, thousands of plain
 * jobs travel by COPY, half as fast again, if the connection's role is not bound to certain queues: the owner of the schema, say.
 */
PAWL_API PAWL_CHECK int pawl_enqueue_many(PGconn *conn,
                                          const struct pawl_job_new *jobs,
                                          size_t n,
                                          int64_t *ret_ids,
                                          bool *ret_existed,
                                          struct pawl_err *err);

/* Whether it would be accepted, as far as that can be known without a database: what pawl_enqueue would refuse it for, said
 * where the input came from. */
PAWL_API PAWL_CHECK int pawl_job_check(const struct pawl_job_new *job, struct pawl_err *err);

/* A job as it is now. Made by the library, freed by pawl_job_info_free. Times are µs since 1970 UTC, 0: not (yet). */
struct pawl_job_info {
    int64_t id;
    /* ready, scheduled, retrying, running, waiting, parked; done, failed, cancelled */
    const char *state;
    bool finished; /* the state is one of the last three, and will never change */
    const char *queue;
    const char *kind;
    int priority;
    int attempt;
    int max_attempts;
    int64_t created_at_us;
    int64_t due_at_us;
    int64_t started_at_us; /* of the last attempt */
    int64_t finished_at_us;
    const char *worker; /* that has or had it; NULL: none */
    const void *payload;
    size_t payload_len;
    const void *result; /* NULL: none */
    size_t result_len;
    const char *errors;   /* of failed attempts, the newest last, as a JSON array; NULL: none */
    const char *progress; /* what the handler said last; NULL: nothing */
    const char *lane;     /* NULL: none */
    const char *tags;     /* a JSON array; NULL: none */
    const char *trace;
    int64_t parent_id;
    const char *cancel_by; /* who asked for its end, while it still runs; NULL: nobody */
};

/* PAWL_ENOTFOUND: there is no such job, or it was finished and is forgotten. */
PAWL_API PAWL_CHECK int
pawl_job_get(PGconn *conn, int64_t id, struct pawl_job_info **ret_info, struct pawl_err *err);
PAWL_API void pawl_job_info_free(struct pawl_job_info *info); /* NULL accepted */

/*
 * Waits until a job is finished, at most timeout_ms (-1: for ever): PAWL_ETIMEOUT. Not inside a transaction, which would
 * never see the end (PAWL_ESTATE). Sleeps on a notification and looks by itself only now and then, so many may wait.
 * Notifications that come in on this connection meanwhile are taken off it: who LISTENs to something takes another one.
 */
PAWL_API PAWL_CHECK int pawl_job_wait(PGconn *conn,
                                      int64_t id,
                                      int64_t timeout_ms,
                                      struct pawl_job_info **ret_info,
                                      struct pawl_err *err);

/*
 * Ends a job. One that waits is cancelled at once; one that runs is told (pawl_run_should_stop), and is cancelled when its
 * handler returns anything but done. ret_ended (may be NULL): whether it is over already. by: who asks, for the record; NULL:
 * the database user. PAWL_ESTATE: it is finished. PAWL_ENOTFOUND: there is none.
 */
PAWL_API PAWL_CHECK int
pawl_job_cancel(PGconn *conn, int64_t id, const char *by, bool *ret_ended, struct pawl_err *err);

/*
 * Lets a job run now: one that is parked, scheduled or retrying is due at once, with its attempts counted from the
 * beginning; one that failed or was cancelled is enqueued again, as a new job. ret_id (may be NULL): of the job that will run.
 * PAWL_ESTATE: it runs, or is done.
 */
PAWL_API PAWL_CHECK int
pawl_job_retry(PGconn *conn, int64_t id, int64_t *ret_id, struct pawl_err *err);

/*
 * Sends a signal to a machine; it arrives when the transaction commits. payload: JSON; NULL: {}. key: the same one is taken
 * only once; NULL: no key. ret_sent (may be NULL): false when it was sent before. PAWL_ESTATE: the job is finished; one
 * that ends before the commit fails the commit. PAWL_ENOTFOUND: there is none. PAWL_EFULL: its inbox is full (10 000 signals
 * or 8 MiB that are not consumed); nothing was sent.
 */
PAWL_API PAWL_CHECK int pawl_job_signal(PGconn *conn,
                                        int64_t id,
                                        const char *name,
                                        const char *payload,
                                        const char *key,
                                        bool *ret_sent,
                                        struct pawl_err *err);

/* The same signal to all live jobs that were enqueued with this correlation. ret_jobs (may be NULL): to how many it was sent,
 * those that have it already by its key not counted. PAWL_EFULL: the inbox of one is full; nothing was sent to any. */
PAWL_API PAWL_CHECK int pawl_signal_all(PGconn *conn,
                                        const char *correlation,
                                        const char *name,
                                        const char *payload,
                                        const char *key,
                                        int64_t *ret_jobs,
                                        struct pawl_err *err);

/*
 * Lets a machine go on from this step, whatever it was at: a live one that does not run, or one that failed or was cancelled,
 * which goes on as a new job. state: JSON; NULL: as it was left. ret_id (may be NULL): of the job that goes on. PAWL_ESTATE: it
 * runs, or is done. PAWL_ENOTFOUND: there is none.
 */
PAWL_API PAWL_CHECK int pawl_job_restart(PGconn *conn,
                                         int64_t id,
                                         const char *step,
                                         const char *state,
                                         int64_t *ret_id,
                                         struct pawl_err *err);

/*
 * Fails with PAWL_ESTALE unless this claim of the job is still valid, and keeps it valid until the transaction ends. Called
 * in the handler's own transaction, it makes the work of a run that lost its job roll back. PAWL_ESTATE: there is no
 * transaction. token: pawl_run_token.
 */
PAWL_API PAWL_CHECK int
pawl_assert_claim(PGconn *conn, int64_t id, const char *token, struct pawl_err *err);

/* --------------------------------------------------------------------------------------------------- producing by a server
 *
 * For programs that reach a `pawl serve` and no database. These block too; one thread at a time for a server.
 */

struct pawl_server; /* where it is and who we are; each call makes its own connection */

struct pawl_server_options {
    size_t size;
    const char *address; /* HOST:PORT, https://HOST:PORT or unix:/PATH */
    const char *token;   /* NULL: PAWL_TOKEN, and where that is not set none */
    /* PEM file of the authority of the server's certificate: TLS; NULL: with https:// the machine's */
    const char *tls_ca;
    const char *tls_certificate; /* PEM file to show to the server; NULL: none */
    const char *tls_key;         /* PEM file of its key; NULL: it is in the same file */
    int64_t timeout_ms;          /* of a call, with all its tries; 0: 30 s */
};

static inline struct pawl_server_options pawl_server_options_init(void)
{
    struct pawl_server_options options = PAWL_ZERO;

    options.size = sizeof(options);
    return options;
}

#define PAWL_SERVER_OPTIONS_INIT pawl_server_options_init()

/* Does not connect yet. PAWL_EINVAL: what makes no sense, or this library was built without the server's protocol. */
PAWL_API PAWL_CHECK int pawl_server_new(const struct pawl_server_options *options,
                                        struct pawl_server **ret_server,
                                        struct pawl_err *err);
PAWL_API void pawl_server_free(struct pawl_server *server); /* NULL accepted */

/*
 * Enqueues by a server, otherwise as pawl_enqueue_many: all or nothing, committed when it returns. At most 1000 jobs and
 * PAWL_PAYLOAD_MAX bytes in a call (PAWL_ELIMIT), and none with a parent. A connection that is lost is made again: however often
 * the call is tried, the jobs are accepted once. PAWL_EUNKNOWN: it stayed away, and PAWL_ETIMEOUT: no answer came in time; they
 * may have been accepted.
 */
PAWL_API PAWL_CHECK int pawl_server_enqueue(struct pawl_server *server,
                                            const struct pawl_job_new *jobs,
                                            size_t n,
                                            int64_t *ret_ids,
                                            bool *ret_existed,
                                            struct pawl_err *err);

/* -------------------------------------------------------------------------------------------------------------- working */

struct pawl_worker; /* a coordinator, its connections and its threads */
struct pawl_run;    /* one run of one job, as its handler sees it */

/* What a run came to. A handler returns what one of pawl_run_done, _retry … gave it last; any other number fails the job.
 * Texts and bytes that these are given are copied. An error is what went wrong, for people; it is kept with the job, up to
 * PAWL_ERROR_MAX bytes, and bytes that are not UTF-8 become question marks. Whatever a handler returns after its timeout
 * counts as a retry with the error "ran longer than its timeout"; after a cancellation, as cancelled unless it is done. */
enum pawl_outcome {
    PAWL_OUTCOME_DONE = 1,
    PAWL_OUTCOME_RETRY = 2,
    PAWL_OUTCOME_FAIL = 3,
    PAWL_OUTCOME_SNOOZE = 4,
    PAWL_OUTCOME_CANCEL = 5,
    PAWL_OUTCOME_REJECT = 7,
    PAWL_OUTCOME_NEXT = 8,
    PAWL_OUTCOME_AWAIT = 9,
    PAWL_OUTCOME_SPAWN = 10,
};

/* Runs one job, on one of the worker's threads, where all signals are blocked. Must be safe to run twice for a job, and in C++
 * let no exception out. */
typedef enum pawl_outcome (*pawl_handler_fn)(struct pawl_run *run, void *data);

/* About the job. Texts live until the handler returns. */
PAWL_API int64_t pawl_run_id(const struct pawl_run *run);
PAWL_API const char *pawl_run_queue(const struct pawl_run *run);
PAWL_API const char *pawl_run_kind(const struct pawl_run *run);
/* 1 at the first, at most pawl_run_max_attempts. */
PAWL_API int pawl_run_attempt(const struct pawl_run *run);
PAWL_API int pawl_run_max_attempts(const struct pawl_run *run);
/* What it was enqueued with; ends with a NUL that is not counted. ret_len may be NULL. */
PAWL_API const void *pawl_run_payload(const struct pawl_run *run, size_t *ret_len);
/* Of the claim, for pawl_assert_claim. */
PAWL_API const char *pawl_run_token(const struct pawl_run *run);
/* The trace context it was enqueued with; NULL: none. */
PAWL_API const char *pawl_run_trace(const struct pawl_run *run);
/* Time left until the timeout of the job; negative: it is over; INT64_MAX: there is none. */
PAWL_API int64_t pawl_run_left_ms(const struct pawl_run *run);

/* True once the run should end: its lease is lost, it was cancelled, its time is over, or the worker stops and has waited
 * long enough. Never goes back. Cheap; ask often. */
PAWL_API bool pawl_run_should_stop(const struct pawl_run *run);
/* Why: "lost", "cancelled", "timeout", "shutdown"; NULL: it should not. */
PAWL_API const char *pawl_run_stop_reason(const struct pawl_run *run);

/* How far it is, for those who look: any short text or JSON, kept with the job. Written with the next heartbeat or settle,
 * the last one counts, so it may be called often. PAWL_ELIMIT beyond PAWL_PROGRESS_MAX. */
PAWL_API PAWL_CHECK int
pawl_run_progress(struct pawl_run *run, const char *text, struct pawl_err *err);
/* More time: the timeout counts from now on. more_ms 0: as long as the job's timeout says. Nothing to do for a job without a
 * timeout. PAWL_ESTATE: it is over already. */
PAWL_API PAWL_CHECK int
pawl_run_extend(struct pawl_run *run, int64_t more_ms, struct pawl_err *err);
/* One line in the worker's log, with the job's id and kind. */
PAWL_API void pawl_run_log(struct pawl_run *run, const char *fmt, ...) PAWL_PRINTF(2, 3);

/* Done, with a result that whoever waits for it gets; NULL: none. One beyond PAWL_RESULT_MAX fails the job instead. */
PAWL_API enum pawl_outcome pawl_run_done(struct pawl_run *run, const void *result, size_t len);
/* A transient error. delay_ms -1: by the retry policy. */
PAWL_API enum pawl_outcome
pawl_run_retry(struct pawl_run *run, int64_t delay_ms, const char *fmt, ...) PAWL_PRINTF(3, 4);
/* A permanent one: no further attempt; parked where its kind says so. */
PAWL_API enum pawl_outcome pawl_run_fail(struct pawl_run *run, const char *fmt, ...)
    PAWL_PRINTF(2, 3);
/* A rule of the business says no: failed, never parked, and no sign of trouble. */
PAWL_API enum pawl_outcome pawl_run_reject(struct pawl_run *run, const char *fmt, ...)
    PAWL_PRINTF(2, 3);
/* Later, without counting this attempt. Negative: at once. */
PAWL_API enum pawl_outcome pawl_run_snooze(struct pawl_run *run, int64_t delay_ms);
/* Not wanted any more: cancelled. */
PAWL_API enum pawl_outcome pawl_run_cancel(struct pawl_run *run);

/*
 * MACHINES. A job goes on in steps when its handler says so: the next step, and a state for it, are stored with the job before
 * anything else happens, so whatever dies, it goes on from there. The same handler runs all steps of its kind, and looks
 * at pawl_run_step; one that it does not know is a failure of that job. A step may be run more than once, like any attempt.
 * What ends a machine is done, fail, reject or cancel; retry and snooze repeat the step. docs/guides/machines.md tells more.
 */

/* Which step this is; NULL: the first, before anything was said. */
PAWL_API const char *pawl_run_step(const struct pawl_run *run);
/* What the last step left for it; NULL: nothing. Ends with a NUL that is not counted. */
PAWL_API const void *pawl_run_state(const struct pawl_run *run, size_t *ret_len);
/* The signals this step waited for, as a JSON array of id, name and payload; NULL: none. At most 1000 and 1 MiB, at least one;
 * the next step is shown the rest. They are consumed when the machine
 * goes on with another step, and shown again when it is tried again or waits on. */
PAWL_API const char *pawl_run_signals(const struct pawl_run *run);
/* It waited for a signal, and none came in time. */
PAWL_API bool pawl_run_timed_out(const struct pawl_run *run);
/* Children that are finished, as a JSON array of id, kind, state, result and error; NULL: it waited for none. A result of more
 * than 64 KiB is left out, and all from where they would come to more than 8 MiB. */
PAWL_API const char *pawl_run_children(const struct pawl_run *run);
/* Children that are not: when the join did not wait for all. */
PAWL_API int pawl_run_children_left(const struct pawl_run *run);

/*
 * An outcome that is not possible (a step or a signal without a valid name, a state beyond PAWL_STATE_MAX, a child that could
 * not be enqueued) fails this step alone: it is tried again by the retry policy, and the job's error says what is wrong.
 * A worker of a server (`server` in its options) cannot leave a state without any bytes: it is taken for NULL there.
 */

/* Goes on with this step, delay_ms from now. state NULL: as it is. */
PAWL_API enum pawl_outcome pawl_run_next(
    struct pawl_run *run, const char *step, const void *state, size_t state_len, int64_t delay_ms);
/* Goes on with this step when a signal of one of these names (with commas between them) has come, or after timeout_ms
 * (-1: waits for ever). One that came before counts too. */
PAWL_API enum pawl_outcome pawl_run_await(struct pawl_run *run,
                                          const char *names,
                                          const char *step,
                                          const void *state,
                                          size_t state_len,
                                          int64_t timeout_ms);

/* When a machine goes on that waits for its children. Start from PAWL_JOIN_INIT: when all are finished, whatever they came
 * to. */
struct pawl_join {
    size_t size;
    size_t quorum;  /* when so many are finished; 0: all */
    bool fail_fast; /* or when one has failed */
    /* those that are left then, or when the machine ends, are cancelled; else they go on */
    bool cancel;
};

static inline struct pawl_join pawl_join_init(void)
{
    struct pawl_join join = PAWL_ZERO;

    join.size = sizeof(join);
    return join;
}

#define PAWL_JOIN_INIT pawl_join_init()

/* Enqueues children, and goes on with this step when they are finished. Each has a kind, queue, payload, priority and
 * max_attempts, and nothing else of struct pawl_job_new; `children` are n structs of children[0].size each, at most 100 000.
 * join NULL: PAWL_JOIN_INIT. */
PAWL_API enum pawl_outcome pawl_run_spawn(struct pawl_run *run,
                                          const struct pawl_job_new *children,
                                          size_t n,
                                          const struct pawl_join *join,
                                          const char *step,
                                          const void *state,
                                          size_t state_len);

/* Where log lines go: one event a line, without the line's end. Called from any thread of the worker, also from two at once;
 * the line lives for the call. */
typedef void (*pawl_log_fn)(void *data, const char *line);

/* The least that is logged. */
enum pawl_log_level {
    PAWL_LOG_INFO = 0,
    PAWL_LOG_DEBUG = 1,
    PAWL_LOG_WARN = 2,
    PAWL_LOG_ERROR = 3,
};

enum pawl_log_format {
    PAWL_LOG_JSON = 0,  /* for programs: an object a line */
    PAWL_LOG_TEXT = 1,  /* for people: local time, level, event, key=value … */
    PAWL_LOG_COLOR = 2, /* likewise, with the colours of a terminal */
};

/* What became of a run. Made by the library; all of it lives for the call. */
struct pawl_settled {
    int64_t id;
    const char *queue;
    const char *kind;
    int attempt;
    int max_attempts;
    /* what the job is now; NULL: the claim had been lost, and what the run came to counted for nothing */
    const char *state;
    int64_t run_us;    /* how long it ran */
    const char *error; /* NULL: none */
    const void *result;
    size_t result_len; /* 0: none, and result may be NULL */
};

/* Called when it is committed, on the thread that drives the worker, so it must be quick: the leases are renewed there. It may
 * stop the worker; waiting for it or freeing it is refused as in a handler. */
typedef void (*pawl_settled_fn)(void *data, const struct pawl_settled *settled);

struct pawl_worker_options {
    size_t size;
    const char *conninfo; /* as libpq takes it; NULL: PAWL_DATABASE_URL, else the PG* variables */
    const char *const *queues; /* claimed from in turn; n_queues 0: "default" */
    size_t n_queues;
    unsigned concurrency; /* handlers that run at a time; 0: 4 */
    /* 0: fixed. Else it changes by itself between this and max_concurrency, as throughput, errors, memory and time say. */
    unsigned min_concurrency;
    /* what it may be raised to; so many threads there are; 0: concurrency */
    unsigned max_concurrency;
    unsigned prefetch;   /* jobs claimed ahead of need: fewer, larger claims */
    unsigned min_demand; /* while busy, claim only for at least so many */
    int64_t lease_ms;    /* how long a silent worker is believed alive; 0: 30 s */
    /* without notifications, sleep after the first empty look, doubling …; 0: 200 ms */
    int64_t poll_ms;
    /* … up to this; so long a lost notification goes unnoticed; 0: 5 s, pooled 1 s */
    int64_t poll_max_ms;
    int64_t jitter_ms; /* after a notification wait up to so long by chance */
    int64_t drain_ms;  /* how long a stop waits for handlers before it tells them to end; 0: 25 s */
    bool until_empty;  /* stop by itself when nothing is due and nothing runs */
    bool pooled;       /* behind a pooler in transaction mode: nothing prepared, no LISTEN */
    unsigned memory_max_percent; /* claim nothing above it; 0: no gate */
    /* leave out a kind of which more runs fail than this; 0: no breaker */
    unsigned breaker_percent;
    pawl_log_fn log; /* NULL: no log */
    void *log_data;
    /* say so in the log when its loop has stood still for so long; 0: 30 s, -1: nobody watches */
    int64_t watchdog_ms;
    /* how long a guarded change of the concurrency is watched; 0: 10 min */
    int64_t rollout_watch_ms;
    /* A `pawl serve` instead of a database: HOST:PORT, https://HOST:PORT or unix:/PATH. Jobs are pushed by it and outcomes
     * settled there, so conninfo, pooled, min_concurrency, rollout, memory_max_percent, memory_machine_max_percent
     * and breaker_percent are not for it, and poll_ms, poll_max_ms, jitter_ms and min_demand mean nothing. NULL: a database */
    const char *server;
    const char *token; /* for the server; NULL: PAWL_TOKEN, and where that is not set none */
    const char *
        tls_ca; /* PEM file of the authority of the server's certificate: TLS; NULL: with https:// the machine's */
    const char *tls_certificate; /* PEM file to show to the server; NULL: none */
    const char *tls_key;         /* PEM file of its key; NULL: it is in the same file */
    enum pawl_log_level log_level;
    enum pawl_log_format log_format;
    pawl_settled_fn settled; /* what became of each run; NULL: nobody wants to know */
    void *settled_data;
    /* once it goes well with concurrency, raise that to this, guarded (pawl_worker_set_concurrency); 0: no */
    unsigned rollout;
    /* as memory_max_percent, where no control group has a limit and it is of the machine's memory; 0: the same */
    unsigned memory_machine_max_percent;
    /* Of commands (pawl_worker_exec): from SIGTERM to SIGKILL; 0: 5 s */
    int64_t kill_ms;
    bool log_stderr; /* and what they write to their standard error is logged as well */
};

static inline struct pawl_worker_options pawl_worker_options_init(void)
{
    struct pawl_worker_options options = PAWL_ZERO;

    options.size = sizeof(options);
    return options;
}

#define PAWL_WORKER_OPTIONS_INIT pawl_worker_options_init()

/* Does not connect yet. options NULL: all defaults. PAWL_EINVAL names the option that makes no sense. */
PAWL_API PAWL_CHECK int pawl_worker_new(const struct pawl_worker_options *options,
                                        struct pawl_worker **ret_worker,
                                        struct pawl_err *err);
/* Before it starts; one handler for a kind. Kinds without a handler are never claimed. */
PAWL_API PAWL_CHECK int pawl_worker_handle(struct pawl_worker *worker,
                                           const char *kind,
                                           pawl_handler_fn fn,
                                           void *data,
                                           struct pawl_err *err);

/*
 * A command as a handler, in the place of a function: each run is a process of its own, `/bin/sh -c COMMAND`, so it may be
 * written in any language and can be killed. A worker may have both kinds of handlers, and one for a kind. A command gets
 *
 *     standard input   the payload
 *     environment      the worker's at its start, and PAWL_JOB_ID, _KIND, _QUEUE, _ATTEMPT,
 *                      _MAX_ATTEMPTS and _TOKEN; for a machine PAWL_JOB_STEP, _STATE,
 *                      _SIGNALS, _CHILDREN and _TIMED_OUT, too
 *     descriptor 3     to say how a machine goes on, in one line of JSON
 *     descriptor 4     where its job is, as JSON; no others are open
 *
 * What it prints is the result. Exit status 0 is done, 65 is fail, all others and death by a signal are a retry, with the end of
 * its standard error as the error. A run that should stop gets SIGTERM, as a process group, and kill_ms later SIGKILL. What is
 * left of the group when the command ends is killed. docs/guides/handlers.md tells more.
 */
PAWL_API PAWL_CHECK int pawl_worker_exec(struct pawl_worker *worker,
                                         const char *kind,
                                         const char *command,
                                         struct pawl_err *err);

/* Connects once to see that it can work (schema, rights), then works on threads of its own. Later troubles of the database are
 * waited out. When it fails the worker is as before, and may be started again; a worker that has stopped may not. */
PAWL_API PAWL_CHECK int pawl_worker_start(struct pawl_worker *worker, struct pawl_err *err);
/* The same on the caller's thread (handlers still have threads of their own); returns when it has stopped. */
PAWL_API PAWL_CHECK int pawl_worker_run(struct pawl_worker *worker, struct pawl_err *err);

/*
 * The same inside another event loop: pawl_worker_fd begins, and gives a descriptor to watch for reading. Call
 * pawl_worker_turn when it is readable or when pawl_worker_timeout_ms (-1: no need) have passed; it never blocks, and
 * returns 1 while there is more to come, 0 when the worker has stopped, PAWL_EINTERRUPTED when it left jobs to their lease.
 * All three on one thread.
 */
PAWL_API PAWL_CHECK int
pawl_worker_fd(struct pawl_worker *worker, int *ret_fd, struct pawl_err *err);
PAWL_API int pawl_worker_timeout_ms(const struct pawl_worker *worker);
PAWL_API PAWL_CHECK int pawl_worker_turn(struct pawl_worker *worker, struct pawl_err *err);

/* First call: claims no more, gives back what was not started, and lets handlers end; after drain_ms they are told to.
 * Second call: told at once, and what is not settled is left to its lease. Returns at once. Any thread, any number of
 * times, at any time between new and free; also from a handler or a signal handler. Before the start: it stops as soon as
 * it has started. */
PAWL_API void pawl_worker_stop(struct pawl_worker *worker);
/* Until it has stopped and its handlers have returned, at most timeout_ms (-1: for ever): PAWL_ETIMEOUT. PAWL_ESTATE from
 * one of its own handlers or the thread that drives it, which would wait for themselves, and before it was started. How it
 * ended: PAWL_EINTERRUPTED when jobs were left to their lease. */
PAWL_API PAWL_CHECK int
pawl_worker_wait(struct pawl_worker *worker, int64_t timeout_ms, struct pawl_err *err);
/* Stops it, waits for its handlers to return, frees everything. NULL accepted. From a handler or a forked child it does
 * nothing. */
PAWL_API void pawl_worker_free(struct pawl_worker *worker);

/* Looks for work now. */
PAWL_API void pawl_worker_wake(struct pawl_worker *worker);

/* From now on so many at a time, at most max_concurrency. guarded: watch, and go back to the former number by itself when
 * more than 5 % of the runs fail or memory is used to more than 80 %. */
PAWL_API PAWL_CHECK int pawl_worker_set_concurrency(struct pawl_worker *worker,
                                                    unsigned concurrency,
                                                    bool guarded,
                                                    struct pawl_err *err);

/* What a worker counted since it was made. Start from PAWL_STATS_INIT. */
struct pawl_stats {
    size_t size;
    uint64_t claims, claimed, empty_claims, short_claims, claim_errors;
    uint64_t notify_wakeups, poll_wakeups;
    uint64_t settles, settle_batch_max, settle_errors;
    uint64_t done, retried, failed, parked, snoozed, cancelled, released;
    uint64_t stale;   /* outcomes of runs that had lost their claim */
    uint64_t expired; /* jobs taken back from other workers */
    uint64_t renewals, lost_claims, full_scans;
    uint64_t overruns; /* runs that went beyond their timeout */
    unsigned running, buffered, concurrency;
    uint64_t run_p50_us, run_p95_us, run_p99_us; /* how long handlers took, lately */
    uint64_t claim_p99_us, settle_p99_us;
    double throughput; /* runs that ended per second, lately */
    uint64_t errors_transient, errors_permanent, errors_business;
    uint64_t memory_bytes, memory_limit_bytes;
    bool memory_gate_closed;
    unsigned breakers_open;
    uint64_t rollbacks;        /* guarded changes of the concurrency that were taken back */
    uint64_t stalls;           /* times that its loop stood still */
    uint64_t memory_closings;  /* times that the memory gate closed */
    uint64_t breaker_openings; /* times that a kind was left out because its runs failed */
    uint64_t steps;            /* of machines, that went on */
};

static inline struct pawl_stats pawl_stats_init(void)
{
    struct pawl_stats stats = PAWL_ZERO;

    stats.size = sizeof(stats);
    return stats;
}

#define PAWL_STATS_INIT pawl_stats_init()

PAWL_API void pawl_worker_stats(struct pawl_worker *worker, struct pawl_stats *stats);

/* One of the things that a worker counts or measures; a name ends in its unit, and lives for ever. */
typedef void (*pawl_stat_fn)(void *data, const char *name, int64_t value);
/* Everything it counts and measures, by name, a call of `fn` for each on the caller's thread: what `pawl work --stats` shows.
 * Which names there are depends on the version, and on whether there is a database or a server; docs/guides/operating.md tells
 * what they mean. What is measured and not counted may be a second old. Nothing before it was started. */
PAWL_API void pawl_worker_stats_each(struct pawl_worker *worker, pawl_stat_fn fn, void *data);

/* ------------------------------------------------------------------------------------------------------------ resources
 *
 * A bounded pool of things that are expensive to make (a connection, a browser, a model), lent to handlers. Any thread.
 */

struct pawl_pool;

struct pawl_pool_options {
    size_t size;
    unsigned max;       /* things there are at most; at least 1 */
    int64_t max_age_ms; /* older ones are destroyed instead of being lent again; 0: no limit */
    unsigned max_uses;  /* likewise after so many loans; 0: no limit */
    /* Makes one; NULL in *ret_thing or a negative code: it could not. */
    int (*create)(void *data, void **ret_thing, struct pawl_err *err);
    bool (*check)(void *data, void *thing); /* still good? asked before it is lent; NULL: always */
    /* made as new after use; false: destroy it; NULL: nothing to do */
    bool (*reset)(void *data, void *thing);
    void (*destroy)(void *data, void *thing);
    void *data;
};

static inline struct pawl_pool_options pawl_pool_options_init(void)
{
    struct pawl_pool_options options = PAWL_ZERO;

    options.size = sizeof(options);
    return options;
}

#define PAWL_POOL_OPTIONS_INIT pawl_pool_options_init()

/* An empty one: things are made when they are asked for. */
PAWL_API PAWL_CHECK int pawl_pool_new(const struct pawl_pool_options *options,
                                      struct pawl_pool **ret_pool,
                                      struct pawl_err *err);
/* Lends one, making it if there is room, else waiting at most timeout_ms (-1: for ever): PAWL_ETIMEOUT. */
PAWL_API PAWL_CHECK int
pawl_pool_take(struct pawl_pool *pool, int64_t timeout_ms, void **ret_thing, struct pawl_err *err);
/* Gives it back; broken: it is destroyed. */
PAWL_API void pawl_pool_give(struct pawl_pool *pool, void *thing, bool broken);
/* Destroys what is in it. All loans must have been given back. NULL accepted. */
PAWL_API void pawl_pool_free(struct pawl_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
