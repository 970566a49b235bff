-- Purpose: calls those who wait for these lanes, as far as there is room.
-- Parameters: $1 text[] queues, $2 text[] lanes, each pair once
-- Rows: called int4: how many; or, negative, of how many lanes with room all who wait were locked by others: these are marked,
--       and lanes_mend calls them
-- Locks: the jobs that are called, skipping those that others hold
-- Index: lane_pkey, job_lane, job_pkey, sleeper_pkey
-- Roles: worker
SELECT pawl.lanes_call($1::text[], $2::text[]) AS called
