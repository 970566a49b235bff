-- Purpose: a worker says that it goes to sleep on its queues, or that it is busy again. From the commit on, whoever
--          enqueues sees it.
-- Parameters: $1 uuid worker, $2 text[] queues, $3 bool asleep
-- Rows: none
-- Locks: the rows, skipping those that others hold: they stay as they are, and the worker looks by its timer
-- Index: sleeper_pkey
-- Roles: worker
WITH free AS MATERIALIZED (
    SELECT s.queue FROM pawl.sleeper AS s
    WHERE s.worker = $1::uuid AND s.queue = ANY ($2::text[])
    FOR UPDATE SKIP LOCKED
)
INSERT INTO pawl.sleeper AS s (queue, worker, asleep)
SELECT q.name, $1::uuid, $3::bool
FROM pg_catalog.unnest($2::text[]) AS q(name)
WHERE q.name IN (SELECT f.queue FROM free AS f)
   OR (SELECT true FROM pawl.sleeper AS o WHERE o.queue = q.name AND o.worker = $1::uuid) IS NULL
ON CONFLICT (queue, worker) DO UPDATE
SET asleep = excluded.asleep
WHERE s.asleep <> excluded.asleep
