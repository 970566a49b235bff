/*
 * ending: how a command ended, and what that means for its job. Pure; the rules are told in
 * processes.h.
 */
#ifndef HANDS_ENDING_H
#define HANDS_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/hands.h"
#include "hands/tail.h"

enum ending_kind {
    ENDING_NONE, /* it runs */
    ENDING_EXITED,
    ENDING_SIGNALLED,
    ENDING_UNKNOWN, /* somebody else in this process took its status, or SIGCHLD is ignored */
};

struct ending {
    enum ending_kind kind;
    int status; /* exit status, or signal number */
    bool core_dumped;
};

/* All that decides about the outcome. Borrowed pointers. */
struct ending_facts {
    struct ending ending;
    bool stopped; /* told to stop before it ended */
    enum stop_reason reason;
    int64_t timeout_ms;
    const struct buf *out; /* what it printed */
    int out_code; /* 0, or why `out` is not all of it: PAWL_ELIMIT, PAWL_ENOMEM, PAWL_EFAILED */
    size_t result_max;
    const struct tail *err_tail;
};

/* One line, what is known about the status, and the last lines of stderr, where every byte may have
 * become U+FFFD. */
#define ENDING_TEXT_MAX (512 + 3 * TAIL_MAX)

/*
 * text is where the error is written; it needs room for ENDING_TEXT_MAX. The outcome borrows from
 * text and facts->out. Everything but run_us is filled.
 */
struct outcome ending_outcome(const struct ending_facts *facts, struct buf *text);

#endif
