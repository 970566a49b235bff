-- Purpose: the commonest way for a machine to go on: the next step, at once, in the worker that has it and under its claim. The
--          same as job_settle with `next` and sticky, of machines in their first attempt that waited for nothing.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 tid[] where the rows are, $4 text[] steps to go on with, $5 bytea[] states
--             (NULL: as it is), $6 text[] lines for the timelines, without the time
-- Rows: n int8: the position in the input, from 1, of each that went on; cancelled bool: its end was asked for; tid tid: where
--       its row is, as before. The others were stale, or their row has moved: job_settle finds these by their ids
-- Locks: the jobs
-- Index: the jobs by ctid; machine_pkey
-- Roles: worker
-- The job's row is only locked: what changes is in pawl.machine.
WITH held AS MATERIALIZED (
    SELECT i.n, i.step, i.state, i.line, i.tid, j.cancelled, m.place
    FROM ROWS FROM (
             pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::tid[]),
             pg_catalog.unnest($4::text[]), pg_catalog.unnest($5::bytea[]), pg_catalog.unnest($6::text[])
         ) WITH ORDINALITY AS i(id, token, tid, step, state, line, n)
    CROSS JOIN LATERAL (SELECT x.cancel_by IS NOT NULL AS cancelled FROM pawl.job AS x
                        WHERE x.ctid = i.tid AND x.id = i.id AND x.token = i.token AND x.is_machine FOR UPDATE) AS j
    CROSS JOIN LATERAL (SELECT x.ctid AS place FROM pawl.machine AS x WHERE x.job_id = i.id OFFSET 0) AS m
    LIMIT pg_catalog.cardinality($1::int8[])
)
UPDATE pawl.machine AS m
SET step = h.step,
    state = coalesce(h.state, m.state),
    -- Of a wait that was over: one that was put off since then says nothing of it when it is claimed.
    awaits = NULL, wait_since = NULL, wait_until = NULL,
    timeline = pawl.timeline_add(m.timeline, h.line, t.now)
FROM held AS h
CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
WHERE m.ctid = h.place
RETURNING h.n, h.cancelled, h.tid
