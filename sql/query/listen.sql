-- Purpose: subscribes to wake-ups: a notification's payload is the name of the queue that has work, or ! and the id of a job
--          whose end was asked for.
-- Parameters: none
-- Rows: none
-- Locks: none
-- Index: none
-- Roles: all
LISTEN pawl_wake
