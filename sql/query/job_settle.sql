-- Purpose: what the runs of many jobs came to: all outcomes. The two fast paths are job_settle_done and job_settle_next.
-- Parameters: jobs that end, or come again as they are: $1 int8[] ids, $2 uuid[] tokens, $3 text[] outcomes (pawl.outcome),
--             $4 int8[] delays in ms for retry and snooze (-1: by the retry policy), $5 bytea[] results, $6 text[] errors,
--             $7 int8[] run times in µs, $8 text name of the worker, $9 uuid[] tokens of claims of which no job is left,
--             $10 text[] lines for the timelines of machines, without the time, or NULL;
--             machines that go on, by next, await, spawn, or wait (back to a wait that was interrupted for nothing):
--             $11 int8[] ids, $12 uuid[] tokens, $13 text[] outcomes (pawl.outcome), $14 text[] steps to go on with,
--             $15 bytea[] states (NULL: as it is), $16 int8[] ms until it is due (next) or the wait is over (await; -1: never),
--             $17 text[] names that are awaited, with commas between them, $18 int8[] signals that had come when it was claimed,
--             $19 text[] ids of signals that the step was shown, with commas, or NULL,
--             $20 bool[] progress: the step is another one, so what it was shown is consumed,
--             $21 bool[] sticky: the worker keeps its claim and runs the next step at once,
--             $22 text[] lines for the timeline, without the time, $23 int4[] how many children each spawns,
--             $24 int4[] children that may be left when a join ends, $25 bool[] the first child that fails ends the join,
--             $26 bool[] children that are left then are cancelled;
--             their children: $27 int4[] the position of their parent in $11, from 1, $28 text[] queues,
--             $29 text[] kinds, $30 bytea[] payloads, $31 int2[] priorities, $32 int4[] max attempts
-- Rows: n int8: the position in the input, from 1; machines that go on count on from the last of $1. state text: what the job
--       is now (done, failed, cancelled, parked, retrying, scheduled, ready), NULL: it goes on; due_ms int8: until it is due,
--       NULL: not by itself; cancelled bool: it goes on, and its end was asked for; tid tid: where its row is now, if it goes
--       on. What is missing was stale
-- Locks: the jobs, their unique keys, their parents, the highest id first, then the machines and their signals, then the
--        claims that end, skipping those that others hold
-- Index: job_pkey, job_option_pkey, machine_pkey, claim_pkey, queue_pkey, kind_pkey, guard_pkey, signal_pkey, child_pkey,
--        job_parent, sleeper_pkey
-- Roles: worker
-- Neither function is called where there is nothing for it. The claims end with the last that is called.
SELECT s.n, s.state, s.due_ms, NULL::bool AS cancelled, NULL::tid AS tid
FROM pawl.jobs_settle($1::int8[], $2::uuid[], $3::text[]::pawl.outcome[], $4::int8[], $5::bytea[], $6::text[], $7::int8[],
                      $8::text, CASE WHEN pg_catalog.cardinality($11::int8[]) = 0 THEN $9::uuid[] ELSE '{}' END,
                      $10::text[]) AS s
WHERE pg_catalog.cardinality($1::int8[]) > 0
UNION ALL
SELECT s.n + pg_catalog.cardinality($1::int8[]), NULL, s.due_ms, s.cancelled, s.tid
FROM pawl.machines_settle($11::int8[], $12::uuid[], $13::text[]::pawl.outcome[], $14::text[], $15::bytea[], $16::int8[],
                          $17::text[], $18::int8[], $19::text[], $20::bool[], $21::bool[], $22::text[], $23::int4[],
                          $24::int4[], $25::bool[], $26::bool[], $27::int4[], $28::text[], $29::text[], $30::bytea[],
                          $31::int2[], $32::int4[], $9::uuid[]) AS s
WHERE pg_catalog.cardinality($11::int8[]) > 0
