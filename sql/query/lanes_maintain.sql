-- Purpose: finds lanes with room, or with holders that do not run, while somebody waits for them, and marks them for
--          lanes_mend; forgets lanes that nobody has used for an hour.
-- Parameters: none
-- Rows: stirred int4
-- Locks: the marks
-- Index: lane is read whole; job_lane, job_pkey
-- Roles: worker
SELECT pawl.lanes_maintain() AS stirred
