-- Purpose: takes back what queue_allow gave.
-- Parameters: $1 text queue, $2 text role
-- Rows: one for each that was taken back
-- Locks: the row
-- Index: queue_producer_pkey
-- Roles: server
DELETE FROM pawl.queue_producer AS p
USING pg_catalog.pg_roles AS r
WHERE p.queue = $1::text AND p.role = r.oid AND r.rolname = $2::name
RETURNING p.queue
