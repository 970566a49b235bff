-- Purpose: how far a set of jobs has come.
-- Parameters: $1 int8[] ids
-- Rows: queue text, state text, jobs int8, attempts int8: one row for each queue and state that occurs
-- Locks: none
-- Index: job_pkey, history_id in each partition
-- Roles: reader
SELECT j.queue, j.state::text AS state, pg_catalog.count(*) AS jobs, pg_catalog.sum(j.attempt)::int8 AS attempts
FROM pawl.jobs AS j
WHERE j.id = ANY ($1::int8[])
GROUP BY j.queue, j.state
