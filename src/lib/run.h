/* run: a run as its handler sees it, for the files that make it up. The handler's thread. */
#ifndef LIB_RUN_H
#define LIB_RUN_H

#include "hands/threads.h"
#include "pawl.h"

struct pawl_run {
    struct task *task;
    int said;    /* the last enum pawl_outcome that was given out; 0: none */
    char *token; /* room for it; empty until somebody asks */
};

/* Remembers what the handler was given, so that it can be compared with what it returns. */
static inline enum pawl_outcome run_say(struct pawl_run *run, enum pawl_outcome outcome)
{
    if (run != NULL)
        run->said = (int)outcome;
    return outcome;
}

#endif
