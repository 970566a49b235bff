-- Purpose: claiming from a queue goes on, and those who sleep on it are woken.
-- Parameters: $1 text queue, * for the pause of all
-- Rows: one when it was paused, none otherwise: name text, and a column without meaning
-- Locks: the queue's row
-- Index: queue_pkey; sleeper is read whole (it is tiny)
-- Roles: server
WITH resumed AS (
    UPDATE pawl.queue
    SET paused_at = NULL,
        paused_by = NULL
    WHERE name = $1::text AND paused_at IS NOT NULL
    RETURNING name
)
SELECT r.name,
       (SELECT pg_catalog.count(pg_catalog.pg_notify('pawl_wake', s.queue))
        FROM pawl.sleeper AS s
        WHERE s.asleep AND r.name IN (s.queue, '*')) AS woken
FROM resumed AS r
