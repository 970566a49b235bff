-- Purpose: lets a machine go on from another step, at once; one that failed or was cancelled as a new job.
-- Parameters: $1 int8 job, $2 text step, $3 bytea state or NULL: as it was left
-- Rows: one: id int8 of the job that goes on
-- Locks: the job
-- Index: job_pkey, child_pkey, history_id in each partition
-- Roles: server
SELECT pawl.machine_restart($1::int8, $2::text, $3::bytea) AS id
