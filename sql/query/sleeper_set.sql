-- Purpose: a worker says that it goes to sleep on its queues, or that it is busy again. From the commit on, whoever
--          enqueues sees it.
-- Parameters: $1 uuid worker, $2 text[] queues, $3 bool asleep
-- Rows: none
-- Locks: the rows
-- Index: sleeper_pkey
-- Roles: worker
INSERT INTO pawl.sleeper AS s (queue, worker, asleep)
SELECT q.name, $1::uuid, $3::bool
FROM pg_catalog.unnest($2::text[]) AS q(name)
ON CONFLICT (queue, worker) DO UPDATE
SET asleep = excluded.asleep
WHERE s.asleep <> excluded.asleep
