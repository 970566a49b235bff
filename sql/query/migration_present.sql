-- Purpose: whether this database has ever been migrated.
-- Parameters: none
-- Rows: present bool
-- Locks: none
-- Index: none
-- Roles: all
SELECT pg_catalog.to_regclass('pawl.migration') IS NOT NULL AS present
