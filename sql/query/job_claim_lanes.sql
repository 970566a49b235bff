-- Purpose: job_claim for a queue that has jobs in lanes too. A job whose lane is full is not taken: it is moved behind, once, and
--          becomes due when somebody leaves the lane (lane_leave). A job past its deadline needs no place: it is taken, to fail.
-- Parameters: $1 to $6 as job_claim; where to start from, level by level, the most urgent first, of the same priority jobs in
--             lanes first: $7 timestamptz[] due times, $8 int8[] ids, $9 int2[] priorities, $10 bool[] in a lane;
--             $11 int4 how many jobs of one lane may come together, for one worker to run one after the other: of lanes with one
--             place, no rate, no order and no hold. 1: each job by itself
-- Rows: as job_claim; then lane text or NULL, in_lane bool, together bool: run the jobs of this lane one after the other, along bool: not picked, it
--       came with a job of its lane, so its due time says nothing about how far the claim got.
--       And a last one with id 0, if there may be more to claim: because jobs were moved behind, with in_lane true and the
--       priority and due time of the last job in a lane that was looked at; or because other sessions have locked lanes, with
--       in_lane false: look at these again
-- Locks: jobs, then their lanes, skipping what others hold. It waits for nobody but a session that makes the same lane, and
--        lanes are made in the order of their names
-- Index: job_pick, job_pick_lane, one probe for each level; lane_pkey; job_lane: jobs that come along, strict order, crowds, rates; what it takes
--        or moves by ctid
-- Roles: worker
-- A lane that several jobs entered together has more holders than places, and is full until the last of them has left.
SELECT * FROM pawl.claim_lanes($1::text, $2::text[], $3::int4, $4::uuid, $5::uuid, $6::int8, $7::timestamptz[], $8::int8[],
                               $9::int2[], $10::bool[], $11::int4)
