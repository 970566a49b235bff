/*
 * ending: how a command ended, and what that means for its job. Pure; the rules are told in
 * processes.h.
 */
#ifndef HANDS_ENDING_H
#define HANDS_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/control.h"
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
    const struct buf *says; /* what it wrote about how its job goes on (core/control.h) */
    int says_code;          /* as out_code */
    const char *queue;      /* of the job: where its children go */
    const struct tail *err_tail;
};

/* Where an outcome that was said keeps what it points to. */
struct ending_memory {
    struct arena arena;
    struct control control;
};

void ending_memory_free(struct ending_memory *memory);

/* One line, what is known about the status, and the last lines of stderr, where every byte may have
 * become U+FFFD. */
#define ENDING_TEXT_MAX (2048 + 3 * TAIL_MAX)

/*
 * text is where the error is written; it needs room for ENDING_TEXT_MAX. The outcome borrows from
 * text, facts and ret_memory, which is always to be freed. Everything but run_us is filled.
 */
struct outcome ending_outcome(const struct ending_facts *facts,
                              struct buf *text,
                              struct ending_memory *ret_memory);

#endif
