-- Purpose: puts a job that can neither be taken back nor parked behind all others that wait for a sweep, with its claim.
-- Parameters: $1 uuid token, $2 int8 id
-- Rows: none
-- Locks: the claim, its lease, skipping what others hold
-- Index: claim_pkey, held_pkey
-- Roles: worker
WITH expired AS MATERIALIZED (
    SELECT c.token
    FROM pawl.claim AS c
    WHERE c.token = $1::uuid AND c.lease_until < pg_catalog.clock_timestamp()
    FOR UPDATE SKIP LOCKED
), overdue AS MATERIALIZED (
    SELECT h.job_id
    FROM pawl.held AS h
    WHERE h.job_id = $2::int8 AND h.token = $1::uuid AND h.lease_until < pg_catalog.clock_timestamp()
    FOR UPDATE SKIP LOCKED
), last AS (
    UPDATE pawl.claim AS c
    SET job_ids = pg_catalog.array_remove(c.job_ids, $2::int8) || $2::int8, swept_at = pg_catalog.clock_timestamp()
    WHERE c.token = ANY (ARRAY(SELECT e.token FROM expired AS e))
)
UPDATE pawl.held AS h SET lease_until = pg_catalog.clock_timestamp()
WHERE h.job_id = ANY (ARRAY(SELECT o.job_id FROM overdue AS o))
