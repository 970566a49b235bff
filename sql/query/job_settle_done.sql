-- Purpose: the commonest outcome, done, for many jobs that nobody else has to hear of: no options, no machines, no children
--          of a join. The same as job_settle with done, without what the others need.
-- Parameters: $1 int8[] ids, ascending, none twice; $2 uuid[] tokens, $3 int8[] run times in µs, both in the order of $1;
--             $4 bytea all results one after the other, $5 int4[] where each begins, from 1 (0: it has none), $6 int4[]
--             how long each is (both empty: no job has one); $7 text name of the worker, $8 uuid[] tokens of claims of which
--             no job is left; $9 tid[] where the claim left the rows; $10 text[] their queues, none twice
-- Rows: id int8 of each job that is done now; the others were stale, or their row has moved since the
--       claim (a signal, a cancel, a note, somebody who waits for it): these are for job_settle, by their ids. The claims of such jobs do not end.
-- Locks: the jobs, then the claims that end, skipping those that others
--        hold: a claim without jobs is for the sweep
-- Index: the jobs by ctid; claim_pkey, queue_pkey
-- Roles: worker
-- A row that is where the claim left it is found without a walk down an index, which was a third of this statement. Another
-- job's row may be in that place by now: hence the ids, which also say, by binary search (width_bucket, hence the order), which
-- token and run time are a job's own. Elements of a fixed size are found in no time, results are not: hence one piece of bytes
-- with places. Nothing is fetched for a history that is not kept.
WITH kept AS MATERIALIZED (
    SELECT i.name, coalesce(q.keep_days, 7) > 0 AS keep, t.now,
           (t.now AT TIME ZONE 'UTC')::date + greatest(coalesce(q.keep_days, 7), 1) AS expires_on
    FROM pg_catalog.unnest($10::text[]) AS i(name)
    LEFT JOIN pawl.queue AS q ON q.name = i.name
    CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
), gone AS (
    DELETE FROM pawl.job AS j
    WHERE j.ctid = ANY ($9::tid[])
      AND ($1::int8[])[pg_catalog.width_bucket(j.id, $1::int8[])] = j.id
      AND j.token = ($2::uuid[])[pg_catalog.width_bucket(j.id, $1::int8[])]
      -- As they are by now: a row that was being changed is read again, and not looked for by its place.
      AND j.has_options IS NULL
      AND j.is_machine IS NULL
    RETURNING j.id, j.created_at, coalesce(j.lane_due_at, j.due_at) AS due_at, j.attempt, j.max_attempts,
              j.priority,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k) THEN j.queue END AS queue,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k) THEN j.kind END AS kind,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k) THEN j.payload END AS payload,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k) THEN j.errors END AS errors,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k) THEN j.lane END AS lane,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k) THEN j.parent_id END AS parent_id,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k) THEN j.meta END AS meta,
              CASE WHEN (SELECT pg_catalog.bool_or(k.keep) FROM kept AS k)
                   THEN pg_catalog.width_bucket(j.id, $1::int8[]) END AS n
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors, lane, parent_id, meta)
    SELECT g.id, g.created_at, g.due_at,
           k.now - ($3::int8[])[g.n]::float8 * interval '1 microsecond', k.now, k.expires_on,
           'done', g.attempt, g.max_attempts, g.priority, g.queue, g.kind, $7::text, g.payload,
           CASE WHEN ($5::int4[])[g.n] > 0
                THEN pg_catalog.substr($4::bytea, ($5::int4[])[g.n], ($6::int4[])[g.n]) END,
           g.errors, g.lane, g.parent_id, g.meta
    FROM gone AS g
    JOIN kept AS k ON k.name = g.queue
    WHERE k.keep
), over AS MATERIALIZED (
    SELECT c.token
    FROM pawl.claim AS c
    WHERE c.token = ANY ($8::uuid[])
      AND ((SELECT pg_catalog.count(*) FROM gone) = pg_catalog.cardinality($1::int8[])
           OR c.token <> ALL (ARRAY(
                  SELECT i.token
                  FROM ROWS FROM (pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[])) AS i(id, token)
                  WHERE (i.id IN (SELECT g.id FROM gone AS g)) IS NOT TRUE)))
    FOR UPDATE OF c SKIP LOCKED
), ended AS (
    DELETE FROM pawl.claim AS c WHERE c.token = ANY (ARRAY(SELECT o.token FROM over AS o))
)
SELECT g.id FROM gone AS g
