-- Purpose: bounds what a sort of this transaction keeps in memory.
-- Parameters: $1 text with its unit: 64kB
-- Rows: one, without meaning
-- Locks: none
-- Index: none
-- Roles: all
SELECT pg_catalog.set_config('work_mem', $1::text, true) AS work_mem
