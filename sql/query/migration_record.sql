-- Purpose: notes that a migration was applied, in the transaction that applied it.
-- Parameters: $1 int4 version, $2 text name, $3 text checksum, $4 text version of pawl
-- Rows: none
-- Locks: the new row
-- Index: migration_pkey
-- Roles: owner
INSERT INTO pawl.migration (version, name, checksum, applied_by)
VALUES ($1::int4, $2::text, $3::text, $4::text)
