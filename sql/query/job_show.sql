-- Purpose: all that is known about one job.
-- Parameters: $1 int8 id
-- Rows: none or one: id int8, state text, queue text, kind text, priority int2, attempt int4, max_attempts int4,
--       created_at timestamptz, due_at timestamptz, started_at timestamptz or NULL, finished_at timestamptz or NULL,
--       worker text or NULL, payload bytea, result bytea or NULL, errors text (a JSON array) or NULL,
--       now timestamptz of the database, paused bool: whether its queue is; timeout_ms int4 or NULL, lane text or NULL,
--       parent_id int8 or NULL, tags text (a JSON array) or NULL, trace text or NULL, cancel_by text or NULL,
--       progress text or NULL; of machines, else NULL: step text (NULL also: the first), step_state bytea, timeline text
--       (lines as pawl.machine.timeline), waits_for text, awaits text (names with commas), wait_since timestamptz,
--       wait_until timestamptz, children_left int4, join_at int4; correlation text or NULL, deadline_at timestamptz or NULL (of a job
--       that is not finished)
-- Locks: none
-- Index: job_pkey, machine_pkey, job_option_pkey, history_id in each partition
-- Roles: reader
SELECT j.id, j.state::text AS state, j.queue, j.kind, j.priority, j.attempt, j.max_attempts,
       j.created_at, j.due_at, j.started_at, j.finished_at, j.worker, j.payload, j.result, j.errors::text AS errors,
       pg_catalog.clock_timestamp() AS now,
       EXISTS (SELECT FROM pawl.queue AS q WHERE q.name IN (j.queue, '*') AND q.paused_at IS NOT NULL) AS paused,
       j.timeout_ms, j.lane, j.parent_id, j.meta ->> 'tags' AS tags, j.meta ->> 'trace' AS trace, j.cancel_by, j.progress,
       coalesce(m.step, h.step) AS step, coalesce(m.state, h.last_state) AS step_state,
       coalesce(m.timeline, h.timeline) AS timeline,
       l.waits_for::text AS waits_for, pg_catalog.array_to_string(m.awaits, ',') AS awaits, m.wait_since, m.wait_until, m.children_left,
       m.join_at, j.meta ->> 'correlation' AS correlation, l.deadline_at
FROM pawl.jobs AS j
LEFT JOIN pawl.job AS l ON l.id = j.id AND j.finished_at IS NULL
LEFT JOIN pawl.machine AS m ON m.job_id = j.id AND j.finished_at IS NULL
LEFT JOIN pawl.history AS h ON h.id = j.id AND j.finished_at IS NOT NULL
WHERE j.id = $1::int8
