-- Purpose: the heartbeat of a worker: renews all its leases and its own row, and brings back whose end was asked for.
--          Leases only grow.
-- Parameters: $1 uuid worker, $2 uuid[] tokens of its claims, $3 int8 lease in ms, $4 int4 jobs running,
--             $5 int4 jobs claimed and not started, $6 int4 slots, $7 int8 memory in bytes (0: not known)
-- Rows: token uuid of each claim that is still there, one that is missing was lost; cancelled text: ids of jobs of the claim
--       that shall end, with commas between them, or NULL
-- Locks: the claims, the worker's row
-- Index: claim_pkey, worker_pkey, stop_pkey
-- Roles: worker
WITH beat AS (
    UPDATE pawl.worker
    SET beat_at = pg_catalog.clock_timestamp(),
        running = $4::int4,
        buffered = $5::int4,
        slots = $6::int4,
        memory_bytes = nullif($7::int8, 0)
    WHERE id = $1::uuid
)
UPDATE pawl.claim AS c
SET lease_until = greatest(c.lease_until, pg_catalog.clock_timestamp() + $3::int8::float8 * interval '1 millisecond')
WHERE c.token = ANY ($2::uuid[])
RETURNING c.token,
          (SELECT pg_catalog.string_agg(s.job_id::text, ',') FROM pawl.stop AS s WHERE s.token = c.token) AS cancelled
