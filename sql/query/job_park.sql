-- Purpose: parks a job whose outcome the database refuses, as it is and as a failure. Nothing is written but the job's own row: whatever
--          refuses, history, parent, lane or unique key, is left out.
-- Parameters: $1 int8 id, $2 uuid token, $3 text why, $4 text name of the worker, $5 int8 run time in µs,
--             $6 uuid[] tokens of claims of which no job is left
-- Rows: one: id int8; none: it was stale
-- Locks: the job, then the claims that end, skipping what others hold: a sweep finds these
-- Index: job_pkey, claim_pkey
-- Roles: worker
WITH locked AS MATERIALIZED (
    -- An update alone would not wait for a handler's pawl.assert_claim.
    SELECT j.id FROM pawl.job AS j WHERE j.id = $1::int8 AND j.token = $2::uuid FOR UPDATE
), parked AS (
    UPDATE pawl.job AS j
    SET token = NULL,
        waits_for = 'operator',
        due_at = 'infinity',
        lane_due_at = NULL,
        errors = pawl.errors_add(j.errors, j.attempt, 'permanent', $3::text, $4::text, $5::int8)
    WHERE j.id = ANY (ARRAY(SELECT l.id FROM locked AS l)) AND j.token = $2::uuid
    RETURNING j.id, j.queue, j.lane
), stirred AS (
    -- It runs no more: lanes_mend takes it out and calls the next.
    INSERT INTO pawl.lane_stir (queue, name)
    SELECT p.queue, p.lane FROM parked AS p WHERE p.lane IS NOT NULL
), over AS MATERIALIZED (
    SELECT c.token FROM pawl.claim AS c WHERE c.token = ANY ($6::uuid[]) FOR UPDATE SKIP LOCKED
), ended AS (
    DELETE FROM pawl.claim AS c WHERE c.token = ANY (ARRAY(SELECT o.token FROM over AS o))
)
-- The condition is always true.
SELECT p.id
FROM parked AS p
WHERE CASE WHEN p.lane IS NOT NULL THEN pg_catalog.pg_notify('pawl_wake', '#') IS NOT NULL ELSE true END
