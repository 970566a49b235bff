-- Purpose: the inbox of a machine, in the order in which signals came.
-- Parameters: $1 int8 job, $2 int4 limit
-- Rows: id int8, name text, key text or NULL, payload text (JSON), sent_at timestamptz, shown bool: a step has seen it,
--       consumed bool: a step went on with it, and it stays because of its key; now timestamptz of the database
-- Locks: none
-- Index: signal_pkey
-- Roles: reader, worker
SELECT s.id, s.name, s.key, s.payload::text AS payload, s.sent_at, s.shown, s.consumed,
       pg_catalog.clock_timestamp() AS now
FROM pawl.signal AS s
WHERE s.job_id = $1::int8
ORDER BY s.id
LIMIT $2::int4
