-- Purpose: makes the commit of this transaction wait for the synchronous standby, if there is one, by writing a record to the
--          write-ahead log. Standbys take the log in order: when this commit is confirmed, so is every earlier one. A
--          transaction that only finds that something was done before writes nothing, and its commit waits for nobody.
-- Parameters: none
-- Rows: one, without meaning
-- Locks: none
-- Index: none
-- Roles: all
SELECT pg_catalog.pg_logical_emit_message(true, 'pawl', '') IS NOT NULL AS written
