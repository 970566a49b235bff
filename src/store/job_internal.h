/* job_internal: what the binders of several statements share. */
#ifndef STORE_JOB_INTERNAL_H
#define STORE_JOB_INTERNAL_H

#include "store/job.h"

/* A line of a machine's timeline, without the time: step, attempt, outcome, µs, bytes of state. In
 * the arena; NULL: it is full. */
const char *job_timeline_line(struct arena *arena, const struct job_settle *item);

#endif
