-- Purpose: job_cancel for many, each with an answer of its own.
-- Parameters: $1 int8[] ids, $2 text who asks
-- Rows: one for each different id, ascending: job int8, result text: cancelled, cancelling, finished or missing; state text of
--       one that is finished, else NULL
-- Locks: the jobs, their claims
-- Index: job_pkey, claim_pkey, history_id in each partition
-- Roles: server
SELECT c.job, c.result, c.state FROM pawl.cancel_many($1::int8[], $2::text) AS c
