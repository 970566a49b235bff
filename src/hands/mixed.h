/*
 * mixed: two hands that look like one to the coordinator: each run goes to the part that has its
 * kind. For a worker with handlers in C and commands.
 *
 * The hands start every run at once (queue_max 0), so that a free slot is never promised to a run
 * that waits in the other part. Loop's thread only.
 */
#ifndef HANDS_MIXED_H
#define HANDS_MIXED_H

#include <stddef.h>

#include "engine/hands.h"

struct mixed {
    struct hands hands;     /* first, so that a pointer to it is a pointer to this */
    struct hands *parts[2]; /* borrowed; closed by their owner */
    const char **kinds;     /* owned; the kinds of both, NULL at the end */
};

/* No kind is in both. The parts must outlive the mixed hands, or be closed without a run under
 * way. PAWL_ENOMEM. */
int mixed_init(struct mixed *mixed, struct hands *first, struct hands *second, struct pawl_err *err)
    MUST_CHECK;
/* After both parts are closed. */
void mixed_deinit(struct mixed *mixed);

#endif
