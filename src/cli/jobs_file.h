/*
 * jobs_file: one line of a jobs.jsonl file, a JSON object, as a job to be enqueued. The payload is
 * taken as it stands in the line, byte for byte.
 */
#ifndef CLI_JOBS_FILE_H
#define CLI_JOBS_FILE_H

#include "base/arena.h"
#include "pawl.h"

/* ret_job starts from `defaults`. Its strings are in the arena, its payload in the line. */
int jobs_file_line(const char *line,
                   size_t len,
                   const struct pawl_job_new *defaults,
                   struct arena *arena,
                   struct pawl_job_new *ret_job,
                   struct pawl_err *err) MUST_CHECK;

#endif
