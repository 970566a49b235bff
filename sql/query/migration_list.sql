-- Purpose: what was applied to this schema, oldest first.
-- Parameters: none
-- Rows: version int4, name text, checksum text, applied_at timestamptz, applied_by text
-- Locks: none
-- Index: migration_pkey
-- Roles: all
SELECT version, name, checksum, applied_at, applied_by
FROM pawl.migration
ORDER BY version
