/*
 * mixed: two hands that look like one to whoever gives them jobs: each run goes to the one that has its kind. For a worker with
 * handlers in C and commands.
 *
 * It starts whatever it takes (queue_max 0), so that a free place is never promised to a run that waits in the other part.
 * Everything here belongs to the thread of the loop.
 */
#ifndef HANDS_MIXED_H
#define HANDS_MIXED_H

#include <stddef.h>

#include "engine/hands.h"

struct mixed {
    struct hands hands;     /* first, so that a pointer to it is a pointer to this */
    struct hands *parts[2]; /* borrowed; closed by their owner */
    const char **kinds;     /* owned; those of both, NULL at the end */
};

/* No kind is in both. The parts must outlive it, or be closed without a run on the way. PAWL_ENOMEM. */
int mixed_init(struct mixed *mixed, struct hands *first, struct hands *second, struct pawl_err *err)
    MUST_CHECK;
/* After both parts are closed. */
void mixed_deinit(struct mixed *mixed);

#endif
