-- Purpose: what the runs of many jobs came to: all outcomes but those with which machines go on.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 text[] outcomes (pawl.outcome), $4 int8[] delays in ms for retry and snooze
--             (-1: by the retry policy), $5 bytea[] results, $6 text[] errors, $7 int8[] run times in µs,
--             $8 text name of the worker, $9 uuid[] tokens of claims of which no job is left,
--             $10 text[] lines for the timelines of machines, without the time, or NULL
-- Rows: n int8: the position in the input, from 1; state text: what the job is now (done, failed, cancelled, parked,
--       retrying, scheduled, ready); due_ms int8: until it is due, NULL: not by itself. What is missing was stale
-- Locks: the jobs, their unique keys, their parents, the highest id first, then the claims that end, skipping
--        those that others hold
-- Index: job_pkey, job_option_pkey, machine_pkey, claim_pkey, queue_pkey, kind_pkey, guard_pkey, signal_pkey, child_pkey,
--        job_parent, sleeper_pkey
-- Roles: worker
SELECT s.n, s.state, s.due_ms
FROM pawl.jobs_settle($1::int8[], $2::uuid[], $3::text[]::pawl.outcome[], $4::int8[], $5::bytea[], $6::text[], $7::int8[],
                      $8::text, $9::uuid[], $10::text[]) AS s
