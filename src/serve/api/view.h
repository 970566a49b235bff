/* view: jobs and queues as messages. Everything lives in the arena or in what it is made from. */
#ifndef SERVE_API_VIEW_H
#define SERVE_API_VIEW_H

#include "base/arena.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "store/job.h"
#include "store/queue.h"

/* with_data: payload and result, too. job->error, if there is one, is a JSON object, and job->errors a JSON array of
 * them. NULL: no memory. */
Pawl__V1__JobView *
view_job(const struct job_view *job, bool with_data, struct arena *arena) MUST_CHECK;

Pawl__V1__QueueStats *view_queue(const struct queue_view *queue, struct arena *arena) MUST_CHECK;

/* UNSPECIFIED for what is none. */
Pawl__V1__JobState view_state(const char *state);

#endif
