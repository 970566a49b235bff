-- Purpose: makes the partitions of the coming days and drops those whose day has passed; frees unique keys, and forgets
--          idempotency keys and access tokens, whose time is over.
-- Parameters: none
-- Rows: made int4, dropped int4, freed int8, stirred int4, stops int8, served int8
-- Locks: advisory (0x7061776C, 2), not waited for; see the function for the tables
-- Index: none
-- Roles: worker
SELECT made, dropped, pawl.guard_maintain() AS freed, pawl.lanes_maintain() AS stirred, pawl.stop_maintain() AS stops,
       pawl.serve_maintain() AS served
FROM pawl.history_maintain()
