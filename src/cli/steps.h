/*
 * steps: how `pawl job show` tells of a machine: the steps it took, and what it waits for.
 */
#ifndef CLI_STEPS_H
#define CLI_STEPS_H

#include "base/buf.h"
#include "cli/out.h"
#include "store/job.h"

/* "waits for signal paid since 2 h, times out in 22 h" */
void put_wait(struct buf *out, const struct job_view *job);
/* The same without times: "waits for signal paid" */
void put_wait_for(struct buf *out, const struct job_view *job);
/* "lane", "signal", "children", or NULL when it waits for none of them. */
const char *wait_word(const struct job_view *job);

/* A table, a row for each step; begins where the cursor is, ends with a newline. */
void put_steps(struct buf *out, const char *timeline);
int64_t count_steps(const char *timeline);
/* The same as one cell for programs, a list of objects. NULL: none. */
void cell_steps(struct out *out, const char *timeline);

#endif
