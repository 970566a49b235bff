-- Purpose: gives up the transaction.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
ROLLBACK
