/* ending: how a command ended, and what that means for its job. Pure; processes.h has the rules. */
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
    ENDING_NONE, /* the command runs */
    ENDING_EXITED,
    ENDING_SIGNALLED,
    ENDING_UNKNOWN, /* another part of this process took the status, or SIGCHLD is ignored */
};

struct ending {
    enum ending_kind kind;
    int status; /* exit status, or signal number */
    bool core_dumped;
};

/* Everything that decides about the outcome. Borrowed pointers. */
struct ending_facts {
    struct ending ending;
    bool stopped; /* told to stop before the command ended */
    enum stop_reason reason;
    int64_t timeout_ms;
    const struct buf *out; /* what it printed */
    int out_code; /* 0, or why `out` is not complete: PAWL_ELIMIT, PAWL_ENOMEM, PAWL_EFAILED */
    size_t result_max;
    const struct buf *says; /* what the command wrote to descriptor 3 (core/control.h) */
    int says_code;          /* as out_code */
    const char *queue;      /* of the job, for its children */
    const struct tail *err_tail;
};

/* Memory of an outcome that the command said. */
struct ending_memory {
    struct arena arena;
    struct control control;
};

void ending_memory_free(struct ending_memory *memory);

/* One line, the status in words, and the last lines of stderr, in which every byte may have
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
