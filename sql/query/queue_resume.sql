-- Purpose: claiming from a queue goes on.
-- Parameters: $1 text queue
-- Rows: one when it was paused, none otherwise: name text
-- Locks: the queue's row
-- Index: queue_pkey
-- Roles: server
UPDATE pawl.queue
SET paused_at = NULL,
    paused_by = NULL
WHERE name = $1::text AND paused_at IS NOT NULL
RETURNING name
