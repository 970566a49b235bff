-- Purpose: the heartbeat of a worker: renews all its leases and its own row. Leases only grow.
-- Parameters: $1 uuid worker, $2 uuid[] tokens of its claims, $3 int8 lease in ms, $4 int4 jobs running
-- Rows: token uuid of each claim that is still there; one that is missing was lost
-- Locks: the claims, the worker's row
-- Index: claim_pkey, worker_pkey
-- Roles: worker
WITH beat AS (
    UPDATE pawl.worker
    SET beat_at = pg_catalog.clock_timestamp(),
        running = $4::int4
    WHERE id = $1::uuid
)
UPDATE pawl.claim AS c
SET lease_until = greatest(c.lease_until, pg_catalog.clock_timestamp() + $3::int8::float8 * interval '1 millisecond')
WHERE c.token = ANY ($2::uuid[])
RETURNING c.token
