-- Purpose: says that somebody waits for the end of a job; pawl_done then tells, with the job's id.
-- Parameters: $1 int8 id
-- Rows: one: live bool: the end is still to come
-- Locks: the job, until the transaction ends
-- Index: job_pkey
-- Roles: reader, producer, enqueuer
SELECT pawl.watch($1::int8) AS live
