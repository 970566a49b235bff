-- Purpose: the same signal to every live job that was enqueued with a correlation key.
-- Parameters: $1 text correlation key, $2 text name, $3 text payload (JSON), $4 text key of the signal or NULL
-- Rows: one: jobs int8 that got it
-- Locks: the new signals; the jobs at the commit
-- Index: job_correlation, signal_key
-- Roles: producer, enqueuer
SELECT pawl.signal_all($1::text, $2::text, $3::text::pg_catalog.jsonb, $4::text) AS jobs
