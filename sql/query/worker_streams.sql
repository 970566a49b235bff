-- Purpose: the workers whose streams are open at a server, with its own row.
-- Parameters: $1 uuid of the server, $2 text a JSON array of them
-- Rows: one, if there is such a row
-- Locks: the row
-- Index: worker_pkey
-- Roles: worker
UPDATE pawl.worker SET streams = $2::text::jsonb WHERE id = $1::uuid RETURNING 1
