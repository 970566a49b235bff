/*
 * control: what a step says about how its job goes on, and what it is told before, as JSON. The same
 * texts whatever carries them: the descriptors 3 and 4 of a command, or a stream. Pure but for memory;
 * any thread.
 *
 * A step says one object on one line, with exactly one of these:
 *   {"next":STEP, "state":ANY, "delay_ms":N}
 *   {"await":[SIGNAL, …], "next":STEP, "state":ANY, "timeout_ms":N}
 *   {"spawn":[{"kind":KIND, "payload":ANY, "queue":QUEUE, "priority":N, "max_attempts":N}, …],
 *    "next":STEP, "state":ANY, "join":{"quorum":N, "fail_fast":BOOL, "cancel":BOOL}}
 *   {"done":ANY}                       the result is the text of the value
 *   {"retry":ERROR, "delay_ms":N}      {"stop":ERROR}      {"reject":ERROR}
 *   {"snooze_ms":N}                    {"cancel":true}
 * `next` and its companions: `next` is always needed with `await` and `spawn`; all the others may be
 * left out. No `state`: it stays as it is. Values (state, payload, result) are kept as they are
 * written, byte for byte; numbers are never converted. Whatever is not said here is refused.
 *
 * It is told one object: {"step":STEP or null, "state":ANY or null, "signals":[{"id", "name",
 * "payload"}], "children":[{"id", "kind", "state", "result", "error"}], "children_left":N,
 * "timed_out":BOOL, "attempt":N}. A state that is no JSON (a handler in C may leave one) is a text,
 * with U+FFFD for what is not UTF-8.
 */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/machine.h"

#define CONTROL_LINE_MAX \
    (16 * 1024 * 1024) /* bytes of what a step says; a settle carries as much */
/* What control_parse may take of an arena: the largest number of children, and each text once. */
#define CONTROL_ARENA_MAX ((size_t)64 * 1024 * 1024)

/* What was said, as an outcome. */
struct control {
    struct outcome outcome; /* run_us is the caller's */
    struct going_on on;     /* what outcome.on points to, for NEXT, AWAIT and SPAWN */
};

/*
 * `text` is all that was written: one line, with or without its newline. Children without a queue go
 * to `queue`. The outcome borrows from text, queue and arena, and ret_control must stay where it is.
 * PAWL_EINVAL or PAWL_ELIMIT with what is wrong, PAWL_ENOMEM.
 */
int control_parse(const char *text,
                  size_t len,
                  const char *queue,
                  struct arena *arena,
                  struct control *ret_control,
                  struct pawl_err *err) MUST_CHECK;

/* Appends what a step of this job is told, without a newline. PAWL_ENOMEM, also when it does not fit. */
int control_tell(const struct job *job, struct buf *out) MUST_CHECK;

#endif
