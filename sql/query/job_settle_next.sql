-- Purpose: the commonest way for a machine to go on: the next step, at once, in the worker that has it and under its claim. The same as
--          job_settle_step with outcome 8 and sticky, of machines that have no children and were shown no signals.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 tid[] where the rows are, $4 text[] steps to go on with, $5 bytea[] states
--             (NULL: as it is), $6 text[] lines for the timelines, without the time; $7 int8[] one of the ids for each page
--             that the rows are on
-- Rows: n int8: the position in the input, from 1, of each that went on; cancelled bool: its end was asked for; tid tid: where its row is
--       now. The others were stale, or their row has moved: job_settle_step finds these by their ids
-- Locks: the jobs
-- Index: the jobs by ctid; job_pkey for $7
-- Roles: worker
-- A row that is found by its place is not looked for in an index, and only who comes to a page by way of an index removes the dead
-- versions there. Without that the pages fill up after a few steps, and every step is a new row in all indexes (four of ten were). Hence
-- the look at one row of each page ($7); the condition is always true.
WITH input AS (
    SELECT i.*
    FROM ROWS FROM (
             pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::tid[]),
             pg_catalog.unnest($4::text[]), pg_catalog.unnest($5::bytea[]), pg_catalog.unnest($6::text[])
         ) WITH ORDINALITY AS i(id, token, tid, step, state, line, n)
)
UPDATE pawl.job AS j
SET attempt = 1,
    riders = coalesce(j.riders, 0::int2) | 16::int2,
    step = i.step,
    state = coalesce(i.state, j.state),
    waits_for = NULL, awaits = NULL, wait_since = NULL, wait_until = NULL,
    timeline = CASE WHEN pg_catalog.octet_length(j.timeline) > 6000
                    THEN pg_catalog.substr(j.timeline, 2000 + pg_catalog.strpos(pg_catalog.substr(j.timeline, 2000), E'\n'))
                    ELSE coalesce(j.timeline, '') END
               || t.now || E'\t' || i.line || E'\n'
FROM input AS i
CROSS JOIN (SELECT (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::int8::text AS now
            WHERE (SELECT pg_catalog.count(*) FROM pawl.job AS p WHERE p.id = ANY ($7::int8[])) >= 0 OFFSET 0) AS t
WHERE j.ctid = i.tid
  AND j.id = i.id
  AND j.token = i.token
RETURNING i.n, j.cancel_by IS NOT NULL AS cancelled, j.ctid AS tid
