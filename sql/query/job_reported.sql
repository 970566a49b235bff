-- Purpose: what is known of jobs that a report names and nobody holds under its ticket: one that was settled before is told
--          from one that came too late by the attempt.
-- Parameters: $1 int8[] ids
-- Rows: n int8: the position in the input, from 1; state text or NULL (it lives); attempt int4; queue text
-- Locks: none
-- Index: job_pkey, history_id
-- Roles: reader
SELECT i.n, h.state::text AS state, h.attempt, h.queue
FROM pg_catalog.unnest($1::int8[]) WITH ORDINALITY AS i(id, n)
JOIN pawl.history AS h ON h.id = i.id
UNION ALL
SELECT i.n, NULL, j.attempt, j.queue
FROM pg_catalog.unnest($1::int8[]) WITH ORDINALITY AS i(id, n)
JOIN pawl.job AS j ON j.id = i.id
