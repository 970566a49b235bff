-- Purpose: the access tokens of the server: all of them for people, those that are valid for servers.
-- Parameters: $1 bool also those that are revoked or expired, $2 int4 limit
-- Rows: id int8, name text, hash bytea, scopes text and queues text (with commas), created_at timestamptz,
--       created_by text, expires_at timestamptz or NULL, revoked_at timestamptz or NULL, now timestamptz of the database
-- Locks: none
-- Index: access_pkey
-- Roles: server
SELECT a.id, a.name, a.hash, pg_catalog.array_to_string(a.scopes, ',') AS scopes,
       pg_catalog.array_to_string(a.queues, ',') AS queues,
       a.created_at, a.created_by, a.expires_at, a.revoked_at, pg_catalog.clock_timestamp() AS now
FROM pawl.access AS a
WHERE $1::bool OR a.revoked_at IS NULL AND coalesce(a.expires_at > pg_catalog.clock_timestamp(), true)
ORDER BY a.id
LIMIT $2::int4
