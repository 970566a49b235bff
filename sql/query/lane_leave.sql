-- Purpose: jobs are out of their lanes, unless they still run (a machine that goes on here) or their lane is held for a retry;
--          those who wait for these lanes are called, as far as there is room.
-- Parameters: $1 text[] queues, $2 text[] lanes, $3 int8[] ids of the jobs
-- Rows: called int4: how many; or, negative, of how many lanes with room all who wait were locked by others: these are marked,
--       and lanes_mend calls them
-- Locks: the lanes, in the order of queue and name; then the jobs that are called, skipping those that others hold
-- Index: lane_pkey, job_lane, job_pkey, sleeper_pkey
-- Roles: worker
-- After the settle and in its transaction.
SELECT pawl.lanes_leave($1::text[], $2::text[], $3::int8[]) AS called
