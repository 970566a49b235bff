-- Purpose: stops claiming from a queue; what runs goes on. Pausing a paused queue changes nothing.
-- Parameters: $1 text queue, $2 text who
-- Rows: paused_at timestamptz, paused_by text: as they are now; was_paused bool: it was before
-- Locks: the queue's row
-- Index: queue_pkey
-- Roles: server
INSERT INTO pawl.queue AS q (name, paused_at, paused_by)
VALUES ($1::text, pg_catalog.clock_timestamp(), $2::text)
ON CONFLICT (name) DO UPDATE
SET paused_at = coalesce(q.paused_at, excluded.paused_at),
    paused_by = CASE WHEN q.paused_at IS NULL THEN excluded.paused_by ELSE q.paused_by END
RETURNING q.paused_at, q.paused_by, q.paused_at < pg_catalog.now() AS was_paused
