-- Purpose: parks a job of a dead worker that claim_sweep cannot take back because of the job itself, with what the database
--          says about it, so that it is in nobody's way. Somebody looks at it and tries it again (pawl job retry).
-- Parameters: $1 uuid token, $2 int8 id, $3 text error
-- Rows: id int8 if it is parked now; none: others hold it, or have taken it back
-- Locks: the claim, its lease, the job, skipping what others hold
-- Index: claim_pkey, held_pkey, job_pkey, worker_pkey
-- Roles: worker
WITH expired AS MATERIALIZED (
    SELECT c.token, c.claimed_at, w.name AS worker
    FROM pawl.claim AS c
    LEFT JOIN pawl.worker AS w ON w.id = c.worker
    WHERE c.token = $1::uuid AND c.lease_until < pg_catalog.clock_timestamp()
    FOR UPDATE OF c SKIP LOCKED
), overdue AS MATERIALIZED (
    SELECT h.token, h.since AS claimed_at, h.worker
    FROM pawl.held AS h
    WHERE h.job_id = $2::int8 AND h.token = $1::uuid AND h.lease_until < pg_catalog.clock_timestamp()
      AND (h.let_go
           OR EXISTS (SELECT FROM expired)
           OR (SELECT true FROM pawl.claim AS c WHERE c.token = h.token) IS NULL)
    FOR UPDATE SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT j.id FROM pawl.job AS j WHERE j.id = $2::int8 AND j.token = $1::uuid FOR UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT l.id, o.worker, o.claimed_at FROM locked AS l CROSS JOIN overdue AS o
    UNION ALL
    -- As in claim_sweep: not one that has got a lease of its own meanwhile.
    SELECT l.id, e.worker, e.claimed_at FROM locked AS l CROSS JOIN expired AS e WHERE NOT pawl.is_held(l.id, $1::uuid)
), parked AS (
    UPDATE pawl.job AS j
    SET token = NULL,
        lane_due_at = NULL,
        waits_for = 'operator',
        due_at = 'infinity',
        errors = pawl.errors_add(
            j.errors, j.attempt, 'lost', $3::text, l.worker,
            (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - l.claimed_at) * 1000000)::int8)
    FROM lost AS l
    WHERE j.id = $2::int8 AND j.token = $1::uuid
    RETURNING j.id, j.queue, j.lane
), stirred AS (
    INSERT INTO pawl.lane_stir (queue, name) SELECT p.queue, p.lane FROM parked AS p WHERE p.lane IS NOT NULL
), let_go AS (
    DELETE FROM pawl.held AS h WHERE h.job_id = $2::int8 AND h.token = $1::uuid AND EXISTS (SELECT FROM lost)
), ended AS (
    DELETE FROM pawl.claim AS c
    WHERE c.token = ANY (ARRAY(SELECT e.token FROM expired AS e)) AND pg_catalog.array_remove(c.job_ids, $2::int8) = '{}' AND EXISTS (SELECT FROM lost)
), shortened AS (
    UPDATE pawl.claim AS c
    SET job_ids = pg_catalog.array_remove(c.job_ids, $2::int8), swept_at = pg_catalog.clock_timestamp()
    WHERE c.token = ANY (ARRAY(SELECT e.token FROM expired AS e)) AND pg_catalog.array_remove(c.job_ids, $2::int8) <> '{}' AND EXISTS (SELECT FROM lost)
)
SELECT id FROM parked
