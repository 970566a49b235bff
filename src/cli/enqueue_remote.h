/* enqueue_remote: jobs to a `pawl serve` instead of a database, all of them in one call. */
#ifndef CLI_ENQUEUE_REMOTE_H
#define CLI_ENQUEUE_REMOTE_H

#include "cli/server.h"
#include "store/job.h"

/* At most JOB_ENQUEUE_MAX. ids gets an int64_t for each. The call is repeated until it is answered: a key of its own makes that safe. */
int enqueue_remotely(const struct server_access *access,
                     const struct job_new *jobs,
                     size_t n,
                     bool bytes,
                     struct buf *ids,
                     struct arena *arena,
                     struct pawl_err *err) MUST_CHECK;

#endif
