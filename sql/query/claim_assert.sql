-- Purpose: raises unless the claim is valid, and keeps it so until the transaction ends.
-- Parameters: $1 int8 id of the job, $2 uuid token
-- Rows: one, without meaning
-- Locks: the job, shared
-- Index: job_pkey
-- Roles: worker, producer, enqueuer
SELECT pawl.assert_claim($1::int8, $2::uuid)
