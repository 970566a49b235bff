-- Purpose: subscribes to what operators want of workers; the payload is the worker's id.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
LISTEN pawl_serve
