-- Purpose: what steps of many machines came to that go on: next, await, spawn, and wait: back to a wait that was interrupted
--          for nothing.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 text[] outcomes (pawl.outcome), $4 text[] steps to go on with,
--             $5 bytea[] states (NULL: as it is), $6 int8[] ms until it is due (next) or the wait is over (await; -1: never),
--             $7 text[] names that are awaited, with commas between them, $8 int8[] signals that had come when it was claimed,
--             $9 text[] ids of signals that the step was shown, with commas, or NULL,
--             $10 bool[] progress: the step is another one, so what it was shown is consumed,
--             $11 bool[] sticky: the worker keeps its claim and runs the next step at once,
--             $12 text[] lines for the timeline, without the time, $13 int4[] how many children each spawns,
--             $14 int4[] children that may be left when a join ends, $15 bool[] the first child that fails ends the join,
--             $16 bool[] children that are left then are cancelled;
--             and the children: $17 int4[] the position of their parent in the input, from 1, $18 text[] queues,
--             $19 text[] kinds, $20 bytea[] payloads, $21 int2[] priorities, $22 int4[] max attempts;
--             $23 uuid[] tokens of claims of which no job is left
-- Rows: n int8: the position in the input, from 1, of each that went on; cancelled bool: its end was asked for;
--       due_ms int8: until it is due, NULL while it waits for something else than time; tid tid: where its row is now
-- Locks: the jobs, their signals, then the claims that end, skipping those that others hold
-- Index: job_pkey, machine_pkey, signal_pkey, child_pkey, claim_pkey, sleeper_pkey
-- Roles: worker
SELECT s.n, s.cancelled, s.due_ms, s.tid
FROM pawl.machines_settle($1::int8[], $2::uuid[], $3::text[]::pawl.outcome[], $4::text[], $5::bytea[], $6::int8[], $7::text[],
                          $8::int8[], $9::text[], $10::bool[], $11::bool[], $12::text[], $13::int4[], $14::int4[],
                          $15::bool[], $16::bool[], $17::int4[], $18::text[], $19::text[], $20::bytea[], $21::int2[],
                          $22::int4[], $23::uuid[]) AS s
