-- Purpose: begins a transaction.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
BEGIN
