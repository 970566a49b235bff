-- Purpose: lets one migrator in at a time; held to the end of the transaction. A migration that has to wait longer
--          than the lock timeout for traffic gives up rather than let everybody queue up behind it. That is 5 s, unless
--          the session came with one of its own.
-- Parameters: none
-- Rows: one, without meaning
-- Locks: advisory (0x7061776C, 1), exclusive, for the transaction
-- Index: none
-- Roles: all (an advisory lock cannot be refused)
SELECT pg_catalog.set_config('lock_timeout', coalesce(nullif(pg_catalog.current_setting('lock_timeout'), '0'), '5s'), true),
       pg_catalog.pg_advisory_xact_lock(x'7061776C'::integer, 1)::text
