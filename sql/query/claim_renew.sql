-- Purpose: the heartbeat of a worker: renews all its leases and its own row, and brings back whose end was asked for.
--          Leases only grow. A claim that a thousand younger ones have overtaken gets a new place in the ledger, so that a long
--          run does not hold back where sweeps begin.
-- Parameters: $1 uuid worker, $2 uuid[] tokens of its claims, $3 int8 lease in ms, $4 int4 jobs running,
--             $5 int4 jobs claimed and not started, $6 int4 slots, $7 int8 memory in bytes (0: not known)
-- Rows: token uuid of each claim that is still there; one that is missing was lost, or a sweep has taken jobs of it back and
--       will take the others: a worker that believes it has the whole claim must not keep the rest alive; cancelled text: ids
--       of jobs of the claim that shall end, with commas between them, or NULL; renewed bool: false while another transaction
--       holds the claim
-- Locks: the claims, the worker's row, skipping what others hold: a heartbeat waits for nobody
-- Index: claim_pkey, worker_pkey, stop_pkey
-- Roles: worker
WITH mine AS MATERIALIZED (
    SELECT w.id FROM pawl.worker AS w WHERE w.id = $1::uuid FOR NO KEY UPDATE SKIP LOCKED
), beat AS (
    UPDATE pawl.worker AS w
    SET beat_at = pg_catalog.clock_timestamp(),
        running = $4::int4,
        buffered = $5::int4,
        slots = $6::int4,
        memory_bytes = nullif($7::int8, 0)
    FROM mine
    WHERE w.id = mine.id
), free AS MATERIALIZED (
    SELECT c.token FROM pawl.claim AS c
    WHERE c.token = ANY ($2::uuid[]) AND c.swept_at IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE pawl.claim AS c
    SET lease_until = greatest(c.lease_until,
                               pg_catalog.clock_timestamp() + $3::int8::float8 * interval '1 millisecond'),
        seq = CASE WHEN c.seq < pg_catalog.pg_sequence_last_value('pawl.claim_seq_seq') - 1000
                   THEN pg_catalog.nextval('pawl.claim_seq_seq') ELSE c.seq END
    WHERE c.token = ANY (ARRAY(SELECT f.token FROM free AS f))
    RETURNING c.token
)
-- One that a sweep is just taking back is still there, and not renewed; the next heartbeat misses it.
SELECT c.token,
       (SELECT pg_catalog.string_agg(s.job_id::text, ',') FROM pawl.stop AS s WHERE s.token = c.token) AS cancelled,
       c.token IN (SELECT r.token FROM renewed AS r) AS renewed
FROM pawl.claim AS c
WHERE c.token = ANY ($2::uuid[])
  AND c.swept_at IS NULL
