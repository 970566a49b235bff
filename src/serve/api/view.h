/* view: jobs and queues as messages. All texts live in the arena or in the source of the view. */
#ifndef SERVE_API_VIEW_H
#define SERVE_API_VIEW_H

#include "base/arena.h"
#include "proto/pawl/v1/pawl.pb-c.h"
#include "store/job.h"
#include "store/queue.h"

/* with_data: includes payload and result. job->error, if set, is a JSON object, and job->errors
 * a JSON array of such objects. NULL: no memory. */
Pawl__V1__JobView *
view_job(const struct job_view *job, bool with_data, struct arena *arena) MUST_CHECK;

Pawl__V1__QueueStats *view_queue(const struct queue_view *queue, struct arena *arena) MUST_CHECK;

/* UNSPECIFIED for an unknown state. */
Pawl__V1__JobState view_state(const char *state);

#endif
