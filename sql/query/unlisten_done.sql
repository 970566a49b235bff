-- Purpose: hears no more of the end of jobs.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
UNLISTEN pawl_done
