-- Purpose: subscribes to changes of access tokens; a notification says that there is one, not which.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
LISTEN pawl_access
