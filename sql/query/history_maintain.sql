-- Purpose: makes the partitions of the coming days and drops those whose day has passed.
-- Parameters: none
-- Rows: made int4, dropped int4
-- Locks: advisory (0x7061776C, 2), not waited for; see the function for the tables
-- Index: none
-- Roles: worker
SELECT made, dropped FROM pawl.history_maintain()
