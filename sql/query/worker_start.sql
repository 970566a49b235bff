-- Purpose: a worker's own row, at its start and after every reconnect; rows of workers that have been silent for a day
--          are removed on the way,
--          and so are the sleepers among them.
-- Parameters: $1 uuid worker, $2 text name, $3 text version, $4 text[] queues, $5 int4 slots, $6 text host, $7 int4 pid
-- Rows: none
-- Locks: the worker's row, and the silent ones, skipping those that others hold
-- Index: worker_pkey; worker and sleeper are read whole (they are tiny)
-- Roles: worker
WITH old AS MATERIALIZED (
    SELECT w.id FROM pawl.worker AS w
    WHERE w.beat_at < pg_catalog.clock_timestamp() - interval '1 day' AND w.id <> $1::uuid
    FOR UPDATE SKIP LOCKED
), silent AS (
    DELETE FROM pawl.worker AS w USING old WHERE w.id = old.id
), dead AS MATERIALIZED (
    -- Those of workers that died without a word; until then they only cost an enqueue a needless notification.
    SELECT s.queue, s.worker FROM pawl.sleeper AS s
    WHERE NOT EXISTS (SELECT FROM pawl.worker AS w
                      WHERE w.id = s.worker AND w.beat_at > pg_catalog.clock_timestamp() - interval '5 minutes')
      AND s.worker <> $1::uuid
    FOR UPDATE OF s SKIP LOCKED
), awake AS (
    DELETE FROM pawl.sleeper AS s USING dead AS d WHERE s.queue = d.queue AND s.worker = d.worker
)
INSERT INTO pawl.worker (id, name, version, queues, slots, host, pid)
VALUES ($1::uuid, $2::text, $3::text, $4::text[], $5::int4, $6::text, $7::int4)
ON CONFLICT (id) DO UPDATE SET beat_at = pg_catalog.clock_timestamp()
