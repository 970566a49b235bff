-- Purpose: what the runs of many jobs came to, in one statement. Each row is guarded by its token: what another worker
--          or the sweeper took over in the meantime is left alone, and missing from the answer.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens,
--             $3 int2[] outcomes: 1 done, 2 retry, 3 fail, 4 snooze, 5 cancel, 6 release, 7 reject (core/job.h),
--             $4 int8[] delays in ms for retry and snooze (-1: by the retry policy),
--             $5 bytea[] results, $6 text[] errors, $7 int8[] run times in µs,
--             $8 text name of the worker, $9 uuid[] tokens of claims of which no job is left
-- Rows: n int8: the position in the input, from 1; state text: what the job is now (done, failed, cancelled, parked,
--       retrying, scheduled, ready)
-- Locks: the jobs, then the claims that end
-- Index: job_pkey, claim_pkey, queue_pkey, kind_pkey
-- Roles: worker
WITH input AS MATERIALIZED (
    SELECT i.*
    FROM ROWS FROM (
             pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::int2[]),
             pg_catalog.unnest($4::int8[]), pg_catalog.unnest($5::bytea[]), pg_catalog.unnest($6::text[]),
             pg_catalog.unnest($7::int8[])
         ) WITH ORDINALITY AS i(id, token, outcome, delay_ms, result, error, run_us, n)
), gone AS (
    DELETE FROM pawl.job AS j
    USING input AS i
    WHERE j.id = i.id
      AND j.token = i.token
      AND (i.outcome IN (1, 5, 7)
           OR (i.outcome = 3 OR i.outcome = 2 AND j.attempt >= j.max_attempts) AND NOT pawl.parks(j.kind))
    RETURNING j.id, j.created_at, j.due_at, j.attempt, j.max_attempts, j.priority, j.queue, j.kind, j.payload,
              j.errors, i.n, i.outcome, i.result, i.error, i.run_us,
              (CASE i.outcome WHEN 1 THEN 'done' WHEN 5 THEN 'cancelled' ELSE 'failed' END)::pawl.state AS state
), kept AS (
    UPDATE pawl.job AS j
    SET token = NULL,
        attempt = CASE WHEN i.outcome IN (2, 3) THEN j.attempt ELSE j.attempt - 1 END,
        waits_for = CASE WHEN i.outcome = 3 OR i.outcome = 2 AND j.attempt >= j.max_attempts THEN 1 END,
        due_at = CASE WHEN i.outcome = 6 THEN j.due_at
                      WHEN i.outcome = 3 OR i.outcome = 2 AND j.attempt >= j.max_attempts THEN 'infinity'
                      ELSE pg_catalog.clock_timestamp()
                           + (CASE WHEN i.delay_ms >= 0 THEN i.delay_ms
                                   ELSE pawl.retry_delay_ms(j.kind, j.attempt) END)::float8
                           * interval '1 millisecond'
                 END,
        errors = CASE WHEN i.outcome IN (2, 3)
                      THEN pawl.errors_add(j.errors, j.attempt,
                                           CASE i.outcome WHEN 2 THEN 'transient' ELSE 'permanent' END,
                                           i.error, $8::text, i.run_us)
                      ELSE j.errors
                 END
    FROM input AS i
    WHERE j.id = i.id
      AND j.token = i.token
      AND (i.outcome IN (4, 6)
           OR i.outcome = 2 AND j.attempt < j.max_attempts
           OR i.outcome IN (2, 3) AND pawl.parks(j.kind))
    RETURNING i.n, i.outcome, j.waits_for
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors)
    SELECT g.id, g.created_at, g.due_at,
           t.now - g.run_us::float8 * interval '1 microsecond', t.now,
           (t.now AT TIME ZONE 'UTC')::date + coalesce(q.keep_days, 7),
           g.state, g.attempt, g.max_attempts, g.priority, g.queue, g.kind, $8::text, g.payload, g.result,
           CASE WHEN g.state = 'failed'
                THEN pawl.errors_add(g.errors, g.attempt,
                                     CASE g.outcome WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' ELSE 'business' END,
                                     g.error, $8::text, g.run_us)
                ELSE g.errors END
    FROM gone AS g
    CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
    LEFT JOIN pawl.queue AS q ON q.name = g.queue
    WHERE coalesce(q.keep_days, 7) > 0
), ended AS (
    DELETE FROM pawl.claim AS c
    WHERE c.token = ANY ($9::uuid[])
)
SELECT n, state::text AS state FROM gone
UNION ALL
SELECT n, CASE WHEN waits_for = 1 THEN 'parked' WHEN outcome = 6 THEN 'ready' WHEN outcome = 4 THEN 'scheduled'
               ELSE 'retrying' END
FROM kept
