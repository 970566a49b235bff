-- Purpose: ends an access token. Servers hear of it by a trigger.
-- Parameters: $1 text its name or its id
-- Rows: id int8, name text: of the one that was valid until now; none: there is no such
-- Locks: the row
-- Index: access_name, or the table, which is small
-- Roles: server
UPDATE pawl.access AS a
SET revoked_at = pg_catalog.clock_timestamp(), revoked_by = SESSION_USER
WHERE a.revoked_at IS NULL AND (a.name = $1::text OR a.id::text = $1::text)
RETURNING a.id, a.name
