/*
 * processes: hands that run each job as a child process of its own, `/bin/sh -c COMMAND`.
 *
 * What a command sees
 *   stdin        the payload, byte for byte, then end of file; it need not be read
 *   stdout       becomes the result, one trailing newline removed; nothing printed is no result
 *   stderr       its last lines become part of the error when the run does not end well
 *   environment  that of this process as it was at processes_new, and PAWL_JOB_ID, PAWL_JOB_KIND,
 *                PAWL_JOB_QUEUE, PAWL_JOB_ATTEMPT, PAWL_JOB_MAX_ATTEMPTS and PAWL_JOB_TOKEN (the
 *                fence, for commands that write where two attempts could meet). From the second
 *                step of a machine on also PAWL_JOB_STEP, PAWL_JOB_STATE, PAWL_JOB_SIGNALS,
 *                PAWL_JOB_CHILDREN (JSON; not there when there is none, or more than 32 KiB) and
 *                PAWL_JOB_TIMED_OUT (0 or 1). Nothing is removed, database passwords included: a
 *                command often enqueues the next job, and the environment is the operator's, who
 *                may write `env -u PGPASSWORD COMMAND`
 *   signals      all at their defaults, none blocked
 *   descriptor 3 is there to be written to: how the job goes on, as one line (core/control.h). It
 *                need not be used
 *   descriptor 4 is there to be read: where the job is, as one JSON object (core/control.h)
 *   descriptors  those five, no others
 *   process      leader of a process group of its own. When the command ends, whatever is left in
 *                that group is killed, so that a free slot means that nothing runs; a daemon that
 *                shall outlive its job leaves with setsid(1)
 *
 * What its ending means
 *   exit status 0     with a line on descriptor 3: the outcome in that line; stdout is no result. A
 *                     line that is not valid is a failure of this run: RETRY, with the reason
 *   exit status 0     done, unless more than result_max bytes were printed: then FAIL. The work was
 *                     done, so it must not be repeated, and a cut result would be a silent lie
 *   exit status 65    FAIL, no further attempt (EX_DATAERR of sysexits.h: bad input stays bad)
 *   any other status  RETRY by the retry policy, with the status and the last lines of stderr as
 *                     the error. 126 and 127 (not executable, not found) too: an installation
 *                     can be repaired
 *   death by signal   RETRY likewise
 *                     Only exit status 0 makes the line count: a command that fails after it has
 *                     written one has failed, and its step is run again
 *
 * A run that is stopped gets SIGTERM, as a group, and SIGKILL when term_grace_ms have passed; a
 * second stop kills at once. Once it was told to stop, the reason decides and no longer the exit
 * status: many programs answer SIGTERM with 0 without having finished, and a job run twice is
 * better than a job lost. A command that had already ended keeps its own ending.
 *   STOP_LOST                     RETRY; the outcome is ignored
 *   STOP_CANCELLED                CANCEL
 *   STOP_TIMEOUT, job.timeout_ms  RETRY by the retry policy
 *   STOP_SHUTDOWN                 RETRY at once (delay 0); it was started, so the attempt counts
 * Of several reasons the first in this list is reported.
 *
 * Loop's thread only. The library's rule about signals holds: no
 * handler or mask of this process is ever touched, and writing to a command that does not read
 * raises no SIGPIPE (see spawn.h).
 */
#ifndef HANDS_PROCESSES_H
#define HANDS_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/hands.h"

#define PROCESSES_TERM_GRACE_MS \
    5000 /* from SIGTERM to SIGKILL: enough to roll back, short enough for a deployment */
#define PROCESSES_EXIT_FAIL 65

struct processes_handler {
    const char *kind;
    const char *command;
};

/* Copied by processes_new, strings included; log and clock are borrowed for the life of the hands.
 */
struct processes_options {
    const struct processes_handler *handlers;
    size_t n_handlers;         /* at least one; no kind twice */
    struct log *log;           /* NULL: silent */
    const struct clock *clock; /* NULL: the machine's */
    int64_t term_grace_ms;     /* 0: PROCESSES_TERM_GRACE_MS */
    size_t result_max;         /* 0: PAWL_RESULT_MAX */
    bool log_stderr;           /* every line of stderr is also logged, as job_stderr */
};

/* NULL with err filled: PAWL_EINVAL for a bad kind, an empty command or a kind given twice;
 * PAWL_ENOMEM. */
struct hands *processes_new(uv_loop_t *loop,
                            const struct processes_options *options,
                            struct pawl_err *err) MUST_CHECK;

/*
 * Ends the hands; they take no more runs. A run that is still going is killed, and reported as
 * stopped by shutdown. `closed` (may be NULL) is called from the loop, never from in here, when the
 * last process is reaped, every handle is closed and the hands are freed; until then the loop must
 * be run.
 */
void processes_close(struct hands *hands, void (*closed)(void *data), void *data);

#endif
