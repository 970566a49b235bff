-- Purpose: lets a job run now; one that failed or was cancelled again, as a new one.
-- Parameters: $1 int8 id
-- Rows: one: id int8 of the job that will run
-- Locks: the job
-- Index: job_pkey, history_id
-- Roles: server
SELECT pawl.retry($1::int8) AS id
