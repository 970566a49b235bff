-- Purpose: hears of the end of jobs that are watched.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
LISTEN pawl_done
