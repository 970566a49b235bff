/*
 * job: what a job is, and the names of its states and outcomes. Pure: no I/O, no clock.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rand.h"

/*
 * States as people see them. Live ones are worked out from the row (the view pawl.jobs does it), terminal
 * ones are stored in history, by these names.
 * X(name, number, text, terminal)
 */
#define JOB_STATES(X)                                                               \
    X(JOB_READY, 1, "ready", false)         /* due, waits for a slot */             \
    X(JOB_SCHEDULED, 2, "scheduled", false) /* due later, never tried */            \
    X(JOB_RETRYING, 3, "retrying", false)   /* due later, after a failed attempt */ \
    X(JOB_RUNNING, 4, "running", false)     /* claimed */                           \
    X(JOB_PARKED, 5, "parked", false)       /* waits for an operator */             \
    X(JOB_DONE, 6, "done", true)                                                    \
    X(JOB_FAILED, 7, "failed", true)                                                \
    X(JOB_CANCELLED, 8, "cancelled", true)                                          \
    X(JOB_WAITING, 9, "waiting", false) /* for a signal, its children or its lane */

#define JOB_STATE_ENUM(name, number, text, terminal) name = (number),

enum job_state { JOB_STATES(JOB_STATE_ENUM) };

#undef JOB_STATE_ENUM

const char *job_state_text(int state); /* "unknown" for what is none */
int job_state_parse(const char *text, enum job_state *ret_state) MUST_CHECK;

/*
 * What a handler's run came to. The number travels to job_settle.sql, which acts on it.
 * X(name, number, text)
 */
#define JOB_OUTCOMES(X)                                                                           \
    X(OUTCOME_DONE, 1, "done")       /* with a result; the job moves to history */                \
    X(OUTCOME_RETRY, 2, "retry")     /* transient error: due again later, until exhausted */      \
    X(OUTCOME_FAIL, 3, "fail")       /* permanent error: no further attempt */                    \
    X(OUTCOME_SNOOZE, 4, "snooze")   /* due again later, the attempt given back */                \
    X(OUTCOME_CANCEL, 5, "cancel")   /* the job moves to history as cancelled */                  \
    X(OUTCOME_RELEASE, 6, "release") /* was not started: due as before, the attempt given back */ \
    X(OUTCOME_REJECT, 7, "reject")   /* a rule of the business says no: failed, never parked */   \
    X(OUTCOME_NEXT, 8, "next")       /* a machine goes on with another step */                    \
    X(OUTCOME_AWAIT, 9, "await")     /* … when a signal has come, or its time is over */        \
    X(OUTCOME_SPAWN, 10, "spawn")    /* … when its children are finished */                     \
    X(OUTCOME_WAIT_ON, 11, "wait")   /* was woken for nothing: not run, waits as before */

/* A job that is exhausted or fails becomes failed, or parked where its kind says so (pawl.kind). */

#define JOB_OUTCOME_ENUM(name, number, text) name = (number),

enum outcome_kind { JOB_OUTCOMES(JOB_OUTCOME_ENUM) };

#undef JOB_OUTCOME_ENUM

const char *outcome_text(int kind);

/* Names of queues and kinds: 1 to PAWL_NAME_MAX bytes of letters, digits and _ . : / -, beginning with a letter, a digit
 * or _. They stand in shells, URLs, log lines and metrics, so nothing that needs quoting. what: "queue" or "kind". */
int name_check(const char *what, const char *name, struct pawl_err *err) MUST_CHECK;
/* A kind may carry a version behind its name: order@2. A worker that knows order@1 does not claim it. */
int kind_check(const char *kind, struct pawl_err *err) MUST_CHECK;
int priority_check(int64_t priority, struct pawl_err *err) MUST_CHECK;

#define JOB_MAX_ATTEMPTS_DEFAULT 20 /* about eight hours of retries with the default back-off */
#define JOB_MAX_ATTEMPTS_LIMIT   1000

struct machine;
struct going_on;

/* A claimed job as its hands see it. */
struct job {
    int64_t id;
    const char *queue;
    const char *kind;
    int16_t priority;
    int32_t attempt; /* starts of the current step, this one included */
    int32_t max_attempts;
    int64_t timeout_ms; /* 0: none */
    const char *payload;
    size_t payload_len;
    struct uuid token; /* the fence: settles, heartbeats and releases carry it */
    const char *trace; /* NULL: none */
    const char *lane;  /* NULL: none */
    uint64_t tid;      /* where its row is, as the claim or its last step left it; 0: not known */
    bool is_machine;   /* it goes on in steps, or was sent a signal */
    bool is_child;     /* its parent's join counts its end */
    bool has_options;  /* a row of pawl.job_option goes with it */
    const struct machine
        *machine; /* core/machine.h; NULL: neither a machine nor a job with a deadline */
};

/* How a run ended. Borrowed pointers: valid for the call that passes it on. */
struct outcome {
    enum outcome_kind kind;
    const char *result; /* DONE: bytes; NULL for none */
    size_t result_len;
    const char *error; /* RETRY, FAIL: one or more lines */
    int64_t delay_ms;  /* RETRY, SNOOZE: -1 lets the retry policy decide; NEXT: until it is due;
                          AWAIT: until it waits no longer, -1 for ever */
    const struct going_on *on; /* NEXT, AWAIT, SPAWN: core/machine.h */
    int64_t run_us;            /* how long it ran, by the worker's own steady clock */
};

#endif
