-- Purpose: bounds how long the statements of this transaction wait for a lock.
-- Parameters: $1 text with its unit: 250ms
-- Rows: one, without meaning
-- Locks: none
-- Index: none
-- Roles: all
SELECT pg_catalog.set_config('lock_timeout', $1::text, true) AS lock_timeout
