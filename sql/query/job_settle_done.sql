-- Purpose: the commonest outcome, done, for many jobs. The same as job_settle with outcome 1, without what the others need.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens, $3 bytea[] results, $4 int8[] run times in µs,
--             $5 text name of the worker, $6 uuid[] tokens of claims of which no job is left
-- Rows: n int8: the position in the input, from 1, of each job that is done now; the others were stale
-- Locks: the jobs, then the claims that end
-- Index: job_pkey, claim_pkey, queue_pkey
-- Roles: worker
WITH gone AS (
    DELETE FROM pawl.job AS j
    USING ROWS FROM (
              pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::bytea[]),
              pg_catalog.unnest($4::int8[])
          ) WITH ORDINALITY AS i(id, token, result, run_us, n)
    WHERE j.id = i.id
      AND j.token = i.token
    RETURNING j.id, j.created_at, j.due_at, j.attempt, j.max_attempts, j.priority, j.queue, j.kind, j.payload, j.errors,
              i.n, i.result, i.run_us
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors)
    SELECT g.id, g.created_at, g.due_at,
           t.now - g.run_us::float8 * interval '1 microsecond', t.now,
           (t.now AT TIME ZONE 'UTC')::date + coalesce(q.keep_days, 7),
           'done', g.attempt, g.max_attempts, g.priority, g.queue, g.kind, $5::text, g.payload, g.result, g.errors
    FROM gone AS g
    CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
    LEFT JOIN pawl.queue AS q ON q.name = g.queue
    WHERE coalesce(q.keep_days, 7) > 0
), ended AS (
    DELETE FROM pawl.claim AS c
    WHERE c.token = ANY ($6::uuid[])
)
SELECT n FROM gone
