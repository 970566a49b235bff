-- Purpose: all that is known about one job.
-- Parameters: $1 int8 id
-- Rows: none or one: id int8, state text, queue text, kind text, priority int2, attempt int4, max_attempts int4,
--       created_at timestamptz, due_at timestamptz, started_at timestamptz or NULL, finished_at timestamptz or NULL,
--       worker text or NULL, payload bytea, result bytea or NULL, errors text (a JSON array) or NULL,
--       now timestamptz of the database, paused bool: whether its queue is
-- Locks: none
-- Index: job_pkey, history_id in each partition
-- Roles: reader
SELECT j.id, j.state::text AS state, j.queue, j.kind, j.priority, j.attempt, j.max_attempts,
       j.created_at, j.due_at, j.started_at, j.finished_at, j.worker, j.payload, j.result, j.errors::text AS errors,
       pg_catalog.clock_timestamp() AS now,
       EXISTS (SELECT FROM pawl.queue AS q WHERE q.name IN (j.queue, '*') AND q.paused_at IS NOT NULL) AS paused
FROM pawl.jobs AS j
WHERE j.id = $1::int8
