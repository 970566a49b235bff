-- Purpose: the commonest outcome, done, for many plain jobs (riders NULL). The same as job_settle with outcome 1, without
--          what the others need.
-- Parameters: $1 int8[] ids, ascending, none twice; $2 uuid[] tokens, $3 int8[] run times in µs, both in the order of $1;
--             $4 bytea all results one after the other, $5 int4[] where each begins, from 1 (0: it has none), $6 int4[]
--             how long each is (both empty: no job has one); $7 text name of the worker, $8 uuid[] tokens of claims of which no job is left
-- Rows: n int4: the position in the input, from 1, of each job that is done now; the others were stale
-- Locks: the jobs, then the claims that end
-- Index: job_pkey, claim_pkey, queue_pkey
-- Roles: worker
-- The jobs are found by one walk along the index, and a job's place in the input by binary search (width_bucket, hence the
-- order); a join with the unnested input takes 1.4 µs more for each. Elements of a fixed size are found in no time, results
-- are not: hence one piece of bytes with places.
WITH gone AS (
    DELETE FROM pawl.job AS j
    WHERE j.id = ANY ($1::int8[])
      AND j.token = ($2::uuid[])[pg_catalog.width_bucket(j.id, $1::int8[])]
    RETURNING j.id, j.created_at, j.due_at, j.attempt, j.max_attempts, j.priority, j.queue, j.kind, j.payload, j.errors, j.watched,
              pg_catalog.width_bucket(j.id, $1::int8[]) AS n
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors)
    SELECT g.id, g.created_at, g.due_at,
           t.now - ($3::int8[])[g.n]::float8 * interval '1 microsecond', t.now,
           (t.now AT TIME ZONE 'UTC')::date + greatest(coalesce(q.keep_days, 7), 1),
           'done', g.attempt, g.max_attempts, g.priority, g.queue, g.kind, $7::text, g.payload,
           CASE WHEN ($5::int4[])[g.n] > 0
                THEN pg_catalog.substr($4::bytea, ($5::int4[])[g.n], ($6::int4[])[g.n]) END,
           g.errors
    FROM gone AS g
    CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
    LEFT JOIN pawl.queue AS q ON q.name = g.queue
    WHERE coalesce(q.keep_days, 7) > 0 OR g.watched
), ended AS (
    DELETE FROM pawl.claim AS c
    WHERE c.token = ANY ($8::uuid[])
)
-- Whoever waits for the end of one of them hears of it; the condition is always true.
SELECT n
FROM gone AS g
WHERE CASE WHEN g.watched THEN pg_catalog.pg_notify('pawl_done', g.id::text) IS NOT NULL ELSE true END
