-- Purpose: the kinds whose settings differ from the defaults.
-- Parameters: none
-- Rows: name text, retry text, retry_base_ms int4, retry_cap_ms int4, retry_table text or NULL (comma-separated ms),
--       park bool
-- Locks: none
-- Index: kind is read whole
-- Roles: reader, worker
SELECT name, retry::text AS retry, retry_base_ms, retry_cap_ms,
       pg_catalog.array_to_string(retry_table_ms, ',') AS retry_table, park
FROM pawl.kind
ORDER BY name
