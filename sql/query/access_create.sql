-- Purpose: makes an access token of the server. Servers hear of it by a trigger.
-- Parameters: $1 text name, $2 bytea SHA-256 of its secret, $3 text[] scopes, $4 text[] queues (none: all),
--             $5 int8 ms until it expires (0: never), $6 int4 how many there may be
-- Rows: one: id int8; none: there are too many
-- Locks: the new row
-- Index: access_name, access_hash; counting reads the table, which is small
-- Roles: server
INSERT INTO pawl.access AS a (name, hash, scopes, queues, expires_at)
SELECT $1::text, $2::bytea, $3::text[], $4::text[],
       pg_catalog.clock_timestamp() + nullif($5::int8, 0)::float8 * interval '1 millisecond'
WHERE (SELECT pg_catalog.count(*) FROM pawl.access AS b WHERE b.revoked_at IS NULL) < $6::int4
RETURNING a.id
