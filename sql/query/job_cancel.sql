-- Purpose: ends a job, or asks for its end while it runs.
-- Parameters: $1 int8 id, $2 text who asks (NULL: the database user)
-- Rows: one: result text: cancelled, or cancelling
-- Locks: the job, its claim
-- Index: job_pkey, claim_pkey
-- Roles: server
SELECT pawl.cancel($1::int8, $2::text) AS result
