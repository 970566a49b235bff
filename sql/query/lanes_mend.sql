-- Purpose: opens lanes whose worker died, or whose limits changed, and calls those who wait for them; and cancels children that
--          nobody wants and that were locked when that was said (children_end).
-- Parameters: $1 int4 limit
-- Rows: called int4: how many; or, negative, of how many lanes with room all who wait were locked by others: these are marked,
--       and lanes_mend calls them
-- Locks: lanes, then jobs, skipping what others hold; orphans, then jobs, the same way
-- Index: lane_stir_pkey, lane_pkey, job_lane, job_pkey, orphan_pkey
-- Roles: worker, server
SELECT pawl.lanes_mend($1::int4) AS called, pawl.orphans_end($1::int4) AS ended
