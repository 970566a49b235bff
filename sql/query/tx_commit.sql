-- Purpose: commits. The executor compares the answer: a failed transaction answers ROLLBACK without an error.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
COMMIT
