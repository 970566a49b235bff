/*
 * pawl.h: the public API of Pawl, a durable job and workflow engine on PostgreSQL. This header is
 * the manual of libpawl; a first program is in examples/hello.c.
 *
 * LIFE CYCLE. A producer needs only a connection of its own: pawl_enqueue writes the job in the
 * caller's transaction, and the job exists when that transaction commits. A worker is an object:
 *
 *     pawl_worker_new → pawl_worker_handle … → pawl_worker_start → … → pawl_worker_stop
 *                     → pawl_worker_exec …   → pawl_worker_wait → pawl_worker_free
 *
 * Instead of pawl_worker_start, pawl_worker_run works on the caller's thread, and pawl_worker_fd
 * with pawl_worker_turn inside another event loop.
 *
 * With a `pawl serve` in front of the database, producers and workers take the server's address
 * instead: pawl_server_enqueue, and `server` in the worker's options. The `pawl` command works and
 * produces only through these functions.
 *
 * THREADS. Functions on a connection follow libpq's rule: one thread at a time per connection. Of
 * the functions on a worker only pawl_worker_stop, _wake, _stats, _stats_each, _set_concurrency and
 * _wait may be called from any thread at the same time; pawl_worker_stop also from a signal handler
 * and from a job's handler. Handlers run on the worker's threads. Functions on a run belong to the
 * thread of its handler until the handler returns. After fork() a child must not touch what its
 * parent made; the library returns PAWL_ESTATE where it can notice.
 *
 * OWNERSHIP. The library copies the texts and bytes that it is given, or uses them only until the
 * call returns. What a run returns lives until its handler returns; other calls say who frees their
 * results.
 *
 * ERRORS. Every function that can fail returns 0 or a negative code from PAWL_CODES. If it is given
 * a `struct pawl_err`, it fills in what failed, what is known about it, and what to do; NULL is
 * accepted. Outputs are untouched on failure. The library never exits, prints or touches signal
 * handlers, and logs only where it was told to.
 *
 * GROWTH. A struct that a caller fills in begins with its own size, set by the initialiser of the
 * same name (struct pawl_job_new job = PAWL_JOB_NEW_INIT; also in C++). The library reads no
 * further than that size and takes the rest as zero, and zero always means the default, so programs
 * built against an older header keep working. A program built against a newer header works as long
 * as it leaves the fields that this library does not know at zero; otherwise it gets PAWL_EINVAL.
 * Structs that the library makes grow at their end.
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

/* All bytes zero; C and C++ need different initialisers. */
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

/* The connection of libpq, declared here so that pawl.h does not need its header. */
typedef struct pg_conn PGconn;

/* Maximum sizes in bytes. A refusal names the limit. */
#define PAWL_PAYLOAD_MAX      (16 * 1024 * 1024) /* a payload; a claim's batch fits in memory */
#define PAWL_RESULT_MAX       (1024 * 1024)      /* the result of a job */
#define PAWL_STATE_MAX        (1024 * 1024)      /* what a machine carries from step to step */
#define PAWL_NAME_MAX         128                /* a queue, a kind, a lane, a step or a signal */
#define PAWL_KEY_MAX          65536              /* a unique key; it is stored as a hash */
#define PAWL_CORRELATION_MAX  1024               /* what a job is about */
#define PAWL_PROGRESS_MAX     4000               /* progress of a job */
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

/* An error. Owns nothing, so it can be copied and dropped. Texts are cut, never overrun. */
struct pawl_err {
    int code;          /* 0 or a negative code of PAWL_CODES */
    char sqlstate[6];  /* of the database, or empty */
    char message[256]; /* what failed, in one line, without a final full stop */
    char detail[1024]; /* what is known about it, or empty */
    char hint[512];    /* what to do about it, or empty */
};

/* The version of the library that is running, which may be newer than PAWL_VERSION. */
PAWL_API const char *pawl_version(void);
/* The name of a code, such as "PAWL_ENOTFOUND"; "PAWL_UNKNOWN" for any other number. */
PAWL_API const char *pawl_code_name(int code);

/* --------------------------------------------------------------------------------------- producing
 *
 * These functions block, on a connection of the caller: inside the caller's transaction, if it has
 * begun one, else in a transaction of their own. In a transaction that has failed already they
 * return PAWL_ESTATE and change nothing.
 *
 * PAWL_EUNKNOWN: the connection was lost during the commit. Enqueueing again is safe with a unique
 * key; without one it may make a second job. PAWL_EUNKNOWN with the SQLSTATE 01000: the primary has
 * committed, and no synchronous standby has confirmed it, so a fail-over may lose the job.
 * Enqueueing again with a unique key is safe, and succeeds only once a standby has the job. A
 * program with its own notice receiver (PQsetNoticeReceiver) whose statements others may cancel
 * must look for that warning itself; with a notice processor it need not. A program that commits
 * its own transaction must look for it in any case.
 */

/* The delay before the next attempt. AUTO is the policy of the kind, EXPONENTIAL unless it was
 * set. */
enum pawl_retry {
    PAWL_RETRY_AUTO = 0,
    /* base × 2^(attempt - 1), at most cap, ± 20 % at random */
    PAWL_RETRY_EXPONENTIAL = 1,
    PAWL_RETRY_QUADRATIC = 2, /* base × attempt², also capped and random */
};

/* The states in which a job holds its unique key. */
enum pawl_unique_state {
    PAWL_UNIQUE_WAITING = 1, /* ready, scheduled, retrying, or waiting for something */
    PAWL_UNIQUE_RUNNING = 2,
    PAWL_UNIQUE_PARKED = 4,
    PAWL_UNIQUE_LIVE = 7, /* the default: until the job has ended */
};

/* Within what a unique key must be unique. */
enum pawl_unique_scope {
    PAWL_SCOPE_KIND = 0,   /* the queue and the kind */
    PAWL_SCOPE_QUEUE = 1,  /* the queue */
    PAWL_SCOPE_GLOBAL = 2, /* the database */
};

/* What happens when the unique key is taken. The call always returns the id of the job that
 * holds it. */
enum pawl_unique_mode {
    PAWL_UNIQUE_KEEP = 0, /* leave that job as it is */
    /* give that job the new payload, priority and due time, unless it runs */
    PAWL_UNIQUE_REPLACE = 1,
    PAWL_UNIQUE_RESCHEDULE = 2, /* give that job the new due time, unless it runs */
    PAWL_UNIQUE_REFUSE = 3,     /* fail with PAWL_EEXIST */
};

/* A job to enqueue. Start from PAWL_JOB_NEW_INIT; only kind is required. */
struct pawl_job_new {
    size_t size;
    const char *kind;
    const char *queue;   /* NULL: "default" */
    const void *payload; /* JSON or any bytes; NULL: {} */
    size_t payload_len;
    int priority;       /* PAWL_PRIORITY_MIN to _MAX */
    int max_attempts;   /* 0: 20 */
    int64_t delay_ms;   /* due this long after it was inserted; 0: at once */
    int64_t at_us;      /* due at this time, µs since 1970 UTC; 0: delay_ms decides */
    int64_t timeout_ms; /* limit for one attempt; 0: none */
    enum pawl_retry retry;
    int64_t retry_base_ms;  /* first delay; 0: the kind decides, 1 s by default */
    int64_t retry_cap_ms;   /* longest delay; 0: the kind decides, 1 h by default */
    const char *unique_key; /* at most one job at a time holds a key; NULL: no key */
    size_t unique_key_len;  /* 0: the key ends with a NUL */
    unsigned unique_states; /* of enum pawl_unique_state; 0: PAWL_UNIQUE_LIVE */
    enum pawl_unique_scope unique_scope;
    enum pawl_unique_mode unique_mode;
    int64_t unique_for_ms; /* the key stays taken this long after the job has ended */
    const char *lane;      /* jobs of a lane run one at a time, or by its rule; NULL: none */
    const char *const *tags;
    size_t n_tags;
    const char *trace; /* trace context (W3C traceparent), given to the handler; NULL: none */
    int64_t parent_id; /* a job that this one belongs to, which does not wait for it; 0: none */
    /* what the job is about: pawl_signal_all reaches all jobs with it; NULL: nothing */
    const char *correlation;
    /* the job fails this long after the transaction began, whatever it waits for; 0: never */
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

/* Enqueues a job. ret_id: the id of the new job, or of the job that holds its unique key;
 * ret_existed (may be NULL): true in the second case. */
PAWL_API PAWL_CHECK int pawl_enqueue(PGconn *conn,
                                     const struct pawl_job_new *job,
                                     int64_t *ret_id,
                                     bool *ret_existed,
                                     struct pawl_err *err);

/*
 * Enqueues many jobs, all or none, in as few statements as their size allows. `jobs` are n structs
 * of jobs[0].size each. ret_ids and ret_existed have room for n, in the order of the input, and may
 * be NULL. Of jobs of one call with the same unique key the first wins. Outside a transaction the
 * call begins and commits one if it needs several statements. Without ret_ids, thousands of plain
 * jobs travel by COPY, half as fast again, if the role of the connection is not bound to certain
 * queues (the owner of the schema is not).
 */
PAWL_API PAWL_CHECK int pawl_enqueue_many(PGconn *conn,
                                          const struct pawl_job_new *jobs,
                                          size_t n,
                                          int64_t *ret_ids,
                                          bool *ret_existed,
                                          struct pawl_err *err);

/* Checks a job without a database: fails as pawl_enqueue would, as far as that can be known. */
PAWL_API PAWL_CHECK int pawl_job_check(const struct pawl_job_new *job, struct pawl_err *err);

/* A job as it is now. Made by the library, freed by pawl_job_info_free. Times are µs since 1970
 * UTC; 0: not yet. */
struct pawl_job_info {
    int64_t id;
    /* ready, scheduled, retrying, running, waiting, parked; done, failed, cancelled */
    const char *state;
    bool finished; /* the state is one of the last three and never changes again */
    const char *queue;
    const char *kind;
    int priority;
    int attempt;
    int max_attempts;
    int64_t created_at_us;
    int64_t due_at_us;
    int64_t started_at_us; /* of the last attempt */
    int64_t finished_at_us;
    const char *worker; /* that runs or ran it; NULL: none */
    const void *payload;
    size_t payload_len;
    const void *result; /* NULL: none */
    size_t result_len;
    const char *errors;   /* of failed attempts, the newest last, as a JSON array; NULL: none */
    const char *progress; /* the last progress of its handler; NULL: none */
    const char *lane;     /* NULL: none */
    const char *tags;     /* a JSON array; NULL: none */
    const char *trace;
    int64_t parent_id;
    const char *cancel_by; /* who cancelled it, while it still runs; NULL: nobody */
};

/* Reads a job. PAWL_ENOTFOUND: the job does not exist, or has ended and is forgotten. */
PAWL_API PAWL_CHECK int
pawl_job_get(PGconn *conn, int64_t id, struct pawl_job_info **ret_info, struct pawl_err *err);
PAWL_API void pawl_job_info_free(struct pawl_job_info *info); /* NULL accepted */

/*
 * Waits until a job has ended, at most timeout_ms (-1: for ever; PAWL_ETIMEOUT). PAWL_ESTATE inside
 * a transaction, which would never see the end. The call sleeps on a notification and looks only
 * now and then, so many callers may wait. It consumes all notifications that arrive on the
 * connection meanwhile: use another connection to LISTEN.
 */
PAWL_API PAWL_CHECK int pawl_job_wait(PGconn *conn,
                                      int64_t id,
                                      int64_t timeout_ms,
                                      struct pawl_job_info **ret_info,
                                      struct pawl_err *err);

/*
 * Cancels a job. A waiting job ends at once. A running job is told (pawl_run_should_stop), and is
 * cancelled when its handler returns anything but done. ret_ended (may be NULL): whether the job
 * has ended. by: who cancels, for the record; NULL: the database user. PAWL_ESTATE: the job has
 * ended already. PAWL_ENOTFOUND: it does not exist.
 */
PAWL_API PAWL_CHECK int
pawl_job_cancel(PGconn *conn, int64_t id, const char *by, bool *ret_ended, struct pawl_err *err);

/*
 * Runs a job now. A parked, scheduled or retrying job is due at once with a fresh count of
 * attempts; a failed or cancelled job is enqueued again as a new job. ret_id (may be NULL): the job
 * that will run. PAWL_ESTATE: the job runs, or is done.
 */
PAWL_API PAWL_CHECK int
pawl_job_retry(PGconn *conn, int64_t id, int64_t *ret_id, struct pawl_err *err);

/*
 * Sends a signal to a machine. The signal arrives when the transaction commits. payload: JSON;
 * NULL: {}. key: a signal with the same key is stored once; NULL: no key. ret_sent (may be NULL):
 * false if it was sent before. PAWL_ESTATE: the job has ended; if it ends before the commit, the
 * commit fails. PAWL_ENOTFOUND: the job does not exist. PAWL_EFULL: its inbox is full (10 000
 * unconsumed signals or 8 MiB); nothing was sent.
 */
PAWL_API PAWL_CHECK int pawl_job_signal(PGconn *conn,
                                        int64_t id,
                                        const char *name,
                                        const char *payload,
                                        const char *key,
                                        bool *ret_sent,
                                        struct pawl_err *err);

/* Sends a signal to all live jobs with this correlation. ret_jobs (may be NULL): the number of
 * jobs that it was sent to, without those that have it already by its key. PAWL_EFULL: one inbox
 * is full; nothing was sent to any job. */
PAWL_API PAWL_CHECK int pawl_signal_all(PGconn *conn,
                                        const char *correlation,
                                        const char *name,
                                        const char *payload,
                                        const char *key,
                                        int64_t *ret_jobs,
                                        struct pawl_err *err);

/*
 * Restarts a machine at this step: a live one that does not run, or a failed or cancelled one,
 * which continues as a new job. state: JSON; NULL: as it was left. ret_id (may be NULL): the job
 * that continues. PAWL_ESTATE: the job runs, or is done. PAWL_ENOTFOUND: it does not exist.
 */
PAWL_API PAWL_CHECK int pawl_job_restart(PGconn *conn,
                                         int64_t id,
                                         const char *step,
                                         const char *state,
                                         int64_t *ret_id,
                                         struct pawl_err *err);

/*
 * Fails with PAWL_ESTALE unless this claim of the job is still valid, and keeps the claim valid
 * until the transaction ends. In the handler's own transaction it rolls back the work of a run that
 * lost its job. PAWL_ESTATE: there is no transaction. token: pawl_run_token.
 */
PAWL_API PAWL_CHECK int
pawl_assert_claim(PGconn *conn, int64_t id, const char *token, struct pawl_err *err);

/* --------------------------------------------------------------------------- producing by a server
 *
 * For programs that reach a `pawl serve` and no database. These functions block, too; one thread at
 * a time per server.
 */

struct pawl_server; /* an address and credentials; each call makes its own connection */

struct pawl_server_options {
    size_t size;
    const char *address; /* HOST:PORT, https://HOST:PORT or unix:/PATH */
    const char *token;   /* NULL: PAWL_TOKEN, or none if that is not set */
    /* switches TLS on: PEM file of the server's authority; NULL: with https:// the machine's */
    const char *tls_ca;
    const char *tls_certificate; /* PEM file to show to the server; NULL: none */
    const char *tls_key;         /* PEM file of its key; NULL: it is in the same file */
    int64_t timeout_ms;          /* for a call with all its tries; 0: 30 s */
};

static inline struct pawl_server_options pawl_server_options_init(void)
{
    struct pawl_server_options options = PAWL_ZERO;

    options.size = sizeof(options);
    return options;
}

#define PAWL_SERVER_OPTIONS_INIT pawl_server_options_init()

/* Makes a server object; does not connect yet. PAWL_EINVAL: an option is invalid, or this
 * library was built without the protocol of the server. */
PAWL_API PAWL_CHECK int pawl_server_new(const struct pawl_server_options *options,
                                        struct pawl_server **ret_server,
                                        struct pawl_err *err);
PAWL_API void pawl_server_free(struct pawl_server *server); /* NULL accepted */

/*
 * Enqueues through a server, otherwise as pawl_enqueue_many: all or none, committed when it
 * returns. At most 1000 jobs and PAWL_PAYLOAD_MAX bytes per call (PAWL_ELIMIT), and none with a
 * parent. The call reconnects and repeats itself as needed; the jobs are accepted once.
 * PAWL_EUNKNOWN (the connection stayed away) and PAWL_ETIMEOUT (no answer in time): the jobs may
 * have been accepted.
 */
PAWL_API PAWL_CHECK int pawl_server_enqueue(struct pawl_server *server,
                                            const struct pawl_job_new *jobs,
                                            size_t n,
                                            int64_t *ret_ids,
                                            bool *ret_existed,
                                            struct pawl_err *err);

/* -------------------------------------------------------------------------------------- working */

struct pawl_worker; /* a coordinator, its connections and its threads */
struct pawl_run;    /* one run of one job, as its handler sees it */

/* The outcome of a run. A handler returns what pawl_run_done, _retry … returned last; any other
 * number fails the job. These functions copy the texts and bytes that they are given. An error
 * is a text for people; up to PAWL_ERROR_MAX bytes of it are kept with the job, and bytes that
 * are not UTF-8 become question marks. Whatever a handler returns after its timeout counts as a
 * retry with the error "ran longer than its timeout"; after a cancellation it counts as
 * cancelled, unless it is done. */
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

/* Runs one job, on a thread of the worker, where all signals are blocked. Must be safe to run
 * twice for a job. In C++ it must not throw. */
typedef enum pawl_outcome (*pawl_handler_fn)(struct pawl_run *run, void *data);

/* About the job. Texts live until the handler returns. */
PAWL_API int64_t pawl_run_id(const struct pawl_run *run);
PAWL_API const char *pawl_run_queue(const struct pawl_run *run);
PAWL_API const char *pawl_run_kind(const struct pawl_run *run);
/* 1 in the first attempt, at most pawl_run_max_attempts. */
PAWL_API int pawl_run_attempt(const struct pawl_run *run);
PAWL_API int pawl_run_max_attempts(const struct pawl_run *run);
/* The payload; a NUL that is not counted follows it. ret_len may be NULL. */
PAWL_API const void *pawl_run_payload(const struct pawl_run *run, size_t *ret_len);
/* The token of the claim, for pawl_assert_claim. */
PAWL_API const char *pawl_run_token(const struct pawl_run *run);
/* The trace context of the job; NULL: none. */
PAWL_API const char *pawl_run_trace(const struct pawl_run *run);
/* The time left until the timeout of the job; negative: it has passed; INT64_MAX: none. */
PAWL_API int64_t pawl_run_left_ms(const struct pawl_run *run);

/* Whether the run should end: its lease is lost, it was cancelled, its timeout has passed, or
 * the worker stops and has waited long enough. Never becomes false again. Cheap; ask often. */
PAWL_API bool pawl_run_should_stop(const struct pawl_run *run);
/* Why the run should stop: "lost", "cancelled", "timeout", "shutdown"; NULL: it should not. */
PAWL_API const char *pawl_run_stop_reason(const struct pawl_run *run);

/* Reports progress: a short text or JSON, kept with the job. It is written with the next
 * heartbeat or settle, and the last report wins, so it may be called often. PAWL_ELIMIT beyond
 * PAWL_PROGRESS_MAX. */
PAWL_API PAWL_CHECK int
pawl_run_progress(struct pawl_run *run, const char *text, struct pawl_err *err);
/* Extends the timeout, counted from now. more_ms 0: by the timeout of the job. No effect on a
 * job without a timeout. PAWL_ESTATE: the timeout has passed already. */
PAWL_API PAWL_CHECK int
pawl_run_extend(struct pawl_run *run, int64_t more_ms, struct pawl_err *err);
/* Writes one line to the log of the worker, with the id and kind of the job. */
PAWL_API void pawl_run_log(struct pawl_run *run, const char *fmt, ...) PAWL_PRINTF(2, 3);

/* Done, with a result for those who wait for the job; NULL: none. A result beyond
 * PAWL_RESULT_MAX fails the job instead. */
PAWL_API enum pawl_outcome pawl_run_done(struct pawl_run *run, const void *result, size_t len);
/* A transient error: the job is retried. delay_ms -1: by the retry policy. */
PAWL_API enum pawl_outcome
pawl_run_retry(struct pawl_run *run, int64_t delay_ms, const char *fmt, ...) PAWL_PRINTF(3, 4);
/* A permanent error: no further attempt; parked if the kind says so. */
PAWL_API enum pawl_outcome pawl_run_fail(struct pawl_run *run, const char *fmt, ...)
    PAWL_PRINTF(2, 3);
/* A business rule says no: failed, never parked, not counted as trouble. */
PAWL_API enum pawl_outcome pawl_run_reject(struct pawl_run *run, const char *fmt, ...)
    PAWL_PRINTF(2, 3);
/* Run again later, without counting this attempt. Negative: at once. */
PAWL_API enum pawl_outcome pawl_run_snooze(struct pawl_run *run, int64_t delay_ms);
/* The job is no longer wanted: cancelled. */
PAWL_API enum pawl_outcome pawl_run_cancel(struct pawl_run *run);

/*
 * MACHINES. A job goes on in steps if its handler says so. The next step and its state are
 * committed before anything else happens, so the job continues there whatever dies. The same
 * handler runs all steps of its kind and asks pawl_run_step; it should fail a step that it does not
 * know. A step may run more than once, like any attempt. Done, fail, reject and cancel end a
 * machine; retry and snooze repeat the step. More: docs/guides/machines.md.
 */

/* The name of this step; NULL: the first step. */
PAWL_API const char *pawl_run_step(const struct pawl_run *run);
/* The state that the last step left; NULL: none. A NUL that is not counted follows it. */
PAWL_API const void *pawl_run_state(const struct pawl_run *run, size_t *ret_len);
/* The signals that this step awaited, as a JSON array of id, name and payload; NULL: none. At
 * most 1000 and 1 MiB, at least one; the next step is shown the rest. They are consumed when the
 * machine goes on with another step, and shown again when the step is retried or waits again. */
PAWL_API const char *pawl_run_signals(const struct pawl_run *run);
/* Whether the wait for a signal timed out. */
PAWL_API bool pawl_run_timed_out(const struct pawl_run *run);
/* Children that have ended, as a JSON array of id, kind, state, result and error; NULL: the step
 * waited for none. A result of more than 64 KiB is left out, and so are all results beyond 8 MiB
 * in total. */
PAWL_API const char *pawl_run_children(const struct pawl_run *run);
/* The number of children that have not ended, if the join did not wait for all. */
PAWL_API int pawl_run_children_left(const struct pawl_run *run);

/*
 * An invalid outcome (a step or a signal without a valid name, a state beyond PAWL_STATE_MAX, a
 * child that cannot be enqueued) fails only this step: it is retried by the retry policy, and the
 * error of the job says what is wrong. A worker of a server (`server` in its options) cannot leave
 * an empty state: it is taken for NULL there.
 */

/* Continue with this step, delay_ms from now. state NULL: unchanged. */
PAWL_API enum pawl_outcome pawl_run_next(
    struct pawl_run *run, const char *step, const void *state, size_t state_len, int64_t delay_ms);
/* Continue with this step when a signal with one of these names (separated by commas) has
 * arrived, or after timeout_ms (-1: wait for ever). A signal that arrived before counts, too. */
PAWL_API enum pawl_outcome pawl_run_await(struct pawl_run *run,
                                          const char *names,
                                          const char *step,
                                          const void *state,
                                          size_t state_len,
                                          int64_t timeout_ms);

/* When a parent continues. Start from PAWL_JOIN_INIT: when all children have ended, in whatever
 * state. */
struct pawl_join {
    size_t size;
    size_t quorum;  /* continue when this many have ended; 0: all */
    bool fail_fast; /* or when one has failed */
    /* cancel the children that are left then, or when the machine ends; otherwise they go on */
    bool cancel;
};

static inline struct pawl_join pawl_join_init(void)
{
    struct pawl_join join = PAWL_ZERO;

    join.size = sizeof(join);
    return join;
}

#define PAWL_JOIN_INIT pawl_join_init()

/* Enqueue children, and continue with this step when they have ended. A child has a kind, queue,
 * payload, priority and max_attempts, and nothing else of struct pawl_job_new. `children` are n
 * structs of children[0].size each, at most 100 000. join NULL: PAWL_JOIN_INIT. */
PAWL_API enum pawl_outcome pawl_run_spawn(struct pawl_run *run,
                                          const struct pawl_job_new *children,
                                          size_t n,
                                          const struct pawl_join *join,
                                          const char *step,
                                          const void *state,
                                          size_t state_len);

/* Receives the log: one event per line, without the end of the line. Called from any thread of
 * the worker, also from two at once; the line lives for the call. */
typedef void (*pawl_log_fn)(void *data, const char *line);

/* The lowest level that is logged. */
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

/* The committed outcome of a run. Made by the library; all of it lives for the call. */
struct pawl_settled {
    int64_t id;
    const char *queue;
    const char *kind;
    int attempt;
    int max_attempts;
    /* the new state of the job; NULL: the claim was lost, and the outcome did not count */
    const char *state;
    int64_t run_us;    /* how long it ran */
    const char *error; /* NULL: none */
    const void *result;
    size_t result_len; /* 0: none, and result may be NULL */
};

/* Called when the outcome is committed, on the thread that drives the worker. It must be quick,
 * because leases are renewed there. It may stop the worker, but neither wait for it nor free it. */
typedef void (*pawl_settled_fn)(void *data, const struct pawl_settled *settled);

struct pawl_worker_options {
    size_t size;
    const char *conninfo; /* as libpq takes it; NULL: PAWL_DATABASE_URL, else the PG* variables */
    const char *const *queues; /* claimed from in turn; n_queues 0: "default" */
    size_t n_queues;
    unsigned concurrency; /* handlers that run at a time; 0: 4 */
    /* 0: fixed; else the worker adapts between this and max_concurrency, by throughput, errors,
     * memory and time */
    unsigned min_concurrency;
    /* the highest concurrency, and the number of threads; 0: concurrency */
    unsigned max_concurrency;
    unsigned prefetch;   /* jobs claimed ahead of need: fewer, larger claims */
    unsigned min_demand; /* while busy, claim only for at least this many free slots */
    int64_t lease_ms;    /* after this long in silence its jobs go to others; 0: 30 s */
    /* without notifications: the first pause after an empty look, doubling …; 0: 200 ms */
    int64_t poll_ms;
    /* … up to this, which also bounds a lost notification; 0: 5 s, pooled 1 s */
    int64_t poll_max_ms;
    int64_t jitter_ms; /* random delay after a notification, at most */
    int64_t drain_ms;  /* a stop waits this long before it tells handlers to end; 0: 25 s */
    bool until_empty;  /* stop when nothing is due and nothing runs */
    bool pooled;       /* behind a pooler in transaction mode: nothing prepared, no LISTEN */
    unsigned memory_max_percent; /* of memory; claim nothing above; 0: no gate */
    /* stop claiming a kind if more of its runs fail; 0: no breaker */
    unsigned breaker_percent;
    pawl_log_fn log; /* NULL: no log */
    void *log_data;
    /* log when the loop has stood still this long; 0: 30 s, -1: off */
    int64_t watchdog_ms;
    /* how long a guarded change of the concurrency is watched; 0: 10 min */
    int64_t rollout_watch_ms;
    /* A `pawl serve` instead of a database: HOST:PORT, https://HOST:PORT or unix:/PATH; NULL: a
     * database. conninfo, pooled, min_concurrency, rollout, memory_max_percent,
     * memory_machine_max_percent and breaker_percent are refused with it; poll_ms, poll_max_ms,
     * jitter_ms and min_demand have no effect. */
    const char *server;
    const char *token; /* for the server; NULL: PAWL_TOKEN, or none if that is not set */
    /* switches TLS on: PEM file of the server's authority; NULL: with https:// the machine's */
    const char *tls_ca;
    const char *tls_certificate; /* PEM file to show to the server; NULL: none */
    const char *tls_key;         /* PEM file of its key; NULL: it is in the same file */
    enum pawl_log_level log_level;
    enum pawl_log_format log_format;
    pawl_settled_fn settled; /* called for each committed outcome; NULL: none */
    void *settled_data;
    /* raise concurrency to this, guarded (pawl_worker_set_concurrency), once runs succeed; 0: no */
    unsigned rollout;
    /* of the machine's memory, where no control group has a limit; 0: memory_max_percent */
    unsigned memory_machine_max_percent;
    /* for commands (pawl_worker_exec): from SIGTERM to SIGKILL; 0: 5 s */
    int64_t kill_ms;
    bool log_stderr; /* log what commands write to standard error */
};

static inline struct pawl_worker_options pawl_worker_options_init(void)
{
    struct pawl_worker_options options = PAWL_ZERO;

    options.size = sizeof(options);
    return options;
}

#define PAWL_WORKER_OPTIONS_INIT pawl_worker_options_init()

/* Makes a worker; does not connect yet. options NULL: all defaults. PAWL_EINVAL names the
 * invalid option. */
PAWL_API PAWL_CHECK int pawl_worker_new(const struct pawl_worker_options *options,
                                        struct pawl_worker **ret_worker,
                                        struct pawl_err *err);
/* Adds a handler before the worker starts; one handler per kind. Kinds without a handler are
 * never claimed. */
PAWL_API PAWL_CHECK int pawl_worker_handle(struct pawl_worker *worker,
                                           const char *kind,
                                           pawl_handler_fn fn,
                                           void *data,
                                           struct pawl_err *err);

/*
 * Adds a command as a handler. Each run is a process, `/bin/sh -c COMMAND`, so it may be written in
 * any language and can be killed. A worker may have functions and commands, one handler per kind. A
 * command gets
 *
 *     standard input   the payload
 *     environment      the worker's at its start, and PAWL_JOB_ID, _KIND, _QUEUE, _ATTEMPT,
 *                      _MAX_ATTEMPTS and _TOKEN; for a machine PAWL_JOB_STEP, _STATE,
 *                      _SIGNALS, _CHILDREN and _TIMED_OUT, too
 *     descriptor 3     to name the outcome of a machine's step, in one line of JSON
 *     descriptor 4     the situation of its job, as JSON; no other descriptors are open
 *
 * Its output is the result. Exit status 0 is done, 65 is fail, every other status and death by a
 * signal are a retry, with the end of standard error as the error. A run that should stop gets
 * SIGTERM, as a process group, and SIGKILL kill_ms later. When the command ends, the rest of its
 * group is killed. More: docs/guides/handlers.md.
 */
PAWL_API PAWL_CHECK int pawl_worker_exec(struct pawl_worker *worker,
                                         const char *kind,
                                         const char *command,
                                         struct pawl_err *err);

/* Connects once to check schema and rights, then works on threads of its own. Later failures of
 * the database are waited out. If the call fails the worker is unchanged and may be started
 * again; a worker that has stopped may not. */
PAWL_API PAWL_CHECK int pawl_worker_start(struct pawl_worker *worker, struct pawl_err *err);
/* Works on the calling thread (handlers have threads of their own), and returns when the worker
 * has stopped. */
PAWL_API PAWL_CHECK int pawl_worker_run(struct pawl_worker *worker, struct pawl_err *err);

/*
 * Works inside another event loop. pawl_worker_fd starts the worker and returns a descriptor to
 * watch for reading. Call pawl_worker_turn when it is readable or when pawl_worker_timeout_ms (-1:
 * no limit) have passed. pawl_worker_turn never blocks; it returns 1 while there is more to come, 0
 * when the worker has stopped, PAWL_EINTERRUPTED when it left jobs to their lease. Call all three
 * on one thread.
 */
PAWL_API PAWL_CHECK int
pawl_worker_fd(struct pawl_worker *worker, int *ret_fd, struct pawl_err *err);
PAWL_API int pawl_worker_timeout_ms(const struct pawl_worker *worker);
PAWL_API PAWL_CHECK int pawl_worker_turn(struct pawl_worker *worker, struct pawl_err *err);

/* Stops the worker. First call: it claims no more, gives back unstarted jobs, and lets handlers
 * end; after drain_ms they are told to. Second call: they are told at once, and unsettled jobs
 * are left to their lease. Returns at once. May be called from any thread, any number of times,
 * between new and free; also from a handler or a signal handler. Before the start: the worker
 * stops as soon as it has started. */
PAWL_API void pawl_worker_stop(struct pawl_worker *worker);
/* Waits until the worker has stopped and its handlers have returned, at most timeout_ms (-1: for
 * ever; PAWL_ETIMEOUT). PAWL_ESTATE before the start, and from a handler of the worker or the
 * thread that drives it, which would wait for themselves. PAWL_EINTERRUPTED: jobs were left to
 * their lease. */
PAWL_API PAWL_CHECK int
pawl_worker_wait(struct pawl_worker *worker, int64_t timeout_ms, struct pawl_err *err);
/* Stops the worker, waits for its handlers to return, and frees everything. NULL accepted. Does
 * nothing when called from a handler or a forked child. */
PAWL_API void pawl_worker_free(struct pawl_worker *worker);

/* Makes the worker look for jobs now. */
PAWL_API void pawl_worker_wake(struct pawl_worker *worker);

/* Sets the concurrency, at most max_concurrency. guarded: watch, and go back to the former
 * number if more than 5 % of the runs fail, runs take twice as long, or memory use exceeds 80 %. */
PAWL_API PAWL_CHECK int pawl_worker_set_concurrency(struct pawl_worker *worker,
                                                    unsigned concurrency,
                                                    bool guarded,
                                                    struct pawl_err *err);

/* Counters of a worker since it was made. Start from PAWL_STATS_INIT. */
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
    uint64_t run_p50_us, run_p95_us, run_p99_us; /* duration of recent runs */
    uint64_t claim_p99_us, settle_p99_us;
    double throughput; /* runs that ended per second, recently */
    uint64_t errors_transient, errors_permanent, errors_business;
    uint64_t memory_bytes, memory_limit_bytes;
    bool memory_gate_closed;
    unsigned breakers_open;
    uint64_t rollbacks;        /* guarded changes of the concurrency that were taken back */
    uint64_t stalls;           /* times that its loop stood still */
    uint64_t memory_closings;  /* times that the memory gate closed */
    uint64_t breaker_openings; /* times that a kind was left out because its runs failed */
    uint64_t steps;            /* of machines that went on */
};

static inline struct pawl_stats pawl_stats_init(void)
{
    struct pawl_stats stats = PAWL_ZERO;

    stats.size = sizeof(stats);
    return stats;
}

#define PAWL_STATS_INIT pawl_stats_init()

PAWL_API void pawl_worker_stats(struct pawl_worker *worker, struct pawl_stats *stats);

/* A counter or gauge of a worker. Its name ends in its unit, and lives for ever. */
typedef void (*pawl_stat_fn)(void *data, const char *name, int64_t value);
/* Calls `fn` for every counter and gauge, on the calling thread: what `pawl work --stats` logs.
 * The names depend on the version, and on whether there is a database or a server;
 * docs/guides/operating.md explains them. Gauges may be a second old. No calls before the worker
 * was started. */
PAWL_API void pawl_worker_stats_each(struct pawl_worker *worker, pawl_stat_fn fn, void *data);

/* --------------------------------------------------------------------------------------- resources
 *
 * A bounded pool of resources that are expensive to make (a connection, a browser, a model), lent
 * to handlers. Any thread may call.
 */

struct pawl_pool;

struct pawl_pool_options {
    size_t size;
    unsigned max;       /* resources at most; at least 1 */
    int64_t max_age_ms; /* older ones are destroyed instead of being lent again; 0: no limit */
    unsigned max_uses;  /* also after this many loans; 0: no limit */
    /* makes a resource; NULL in *ret_thing or a negative code: it could not */
    int (*create)(void *data, void **ret_thing, struct pawl_err *err);
    bool (*check)(void *data, void *thing); /* still good? asked before each loan; NULL: always */
    /* cleans up after use; false: destroy it; NULL: nothing to do */
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

/* Makes an empty pool: resources are made when they are asked for. */
PAWL_API PAWL_CHECK int pawl_pool_new(const struct pawl_pool_options *options,
                                      struct pawl_pool **ret_pool,
                                      struct pawl_err *err);
/* Lends a resource: makes one if there is room, else waits at most timeout_ms (-1: for ever;
 * PAWL_ETIMEOUT). */
PAWL_API PAWL_CHECK int
pawl_pool_take(struct pawl_pool *pool, int64_t timeout_ms, void **ret_thing, struct pawl_err *err);
/* Gives a resource back; broken: destroys it. */
PAWL_API void pawl_pool_give(struct pawl_pool *pool, void *thing, bool broken);
/* Frees the pool and its resources. All loans must have been given back. NULL accepted. */
PAWL_API void pawl_pool_free(struct pawl_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
