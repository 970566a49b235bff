-- Purpose: takes back the jobs of at most $1 claims whose lease has run out: due again by the retry policy, or failed
--          (parked, where its kind says so) when their attempts are used up, for a job that kills its worker must not come back for ever.
-- Parameters: $1 int4 limit
-- Rows: id int8, state text: what the job is now (retrying, failed, parked)
-- Locks: expired claims, then their jobs, skipping what others hold: a job that is being settled at this moment keeps its
--        claim, and the next sweep looks at it again. It never waits, so it cannot deadlock with a settle.
-- Index: claim is read whole (it is tiny); job_pkey, queue_pkey, kind_pkey
-- Roles: worker
WITH expired AS MATERIALIZED (
    SELECT c.token, c.claimed_at, c.job_ids, w.name AS worker
    FROM pawl.claim AS c
    LEFT JOIN pawl.worker AS w ON w.id = c.worker
    WHERE c.lease_until < pg_catalog.clock_timestamp()
    ORDER BY c.lease_until
    LIMIT $1::int4
    FOR UPDATE OF c SKIP LOCKED
), lost AS MATERIALIZED (
    SELECT j.id, e.token, e.worker,
           (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - e.claimed_at) * 1000000)::int8 AS run_us
    FROM expired AS e
    CROSS JOIN LATERAL pg_catalog.unnest(e.job_ids) AS ids(id)
    JOIN pawl.job AS j ON j.id = ids.id AND j.token = e.token
    FOR UPDATE OF j SKIP LOCKED
), gone AS (
    DELETE FROM pawl.job AS j
    USING lost AS l
    WHERE j.id = l.id AND j.token = l.token AND j.attempt >= j.max_attempts AND NOT pawl.parks(j.kind)
    RETURNING j.id, j.created_at, j.due_at, j.attempt, j.max_attempts, j.priority, j.queue, j.kind, j.payload, j.errors,
              l.worker, l.run_us
), back AS (
    UPDATE pawl.job AS j
    SET token = NULL,
        waits_for = CASE WHEN j.attempt >= j.max_attempts THEN 1 END,
        due_at = CASE WHEN j.attempt >= j.max_attempts THEN 'infinity'
                      ELSE pg_catalog.clock_timestamp()
                           + pawl.retry_delay_ms(j.kind, j.attempt)::float8 * interval '1 millisecond' END,
        errors = pawl.errors_add(j.errors, j.attempt, 'lost', 'the worker died or lost its lease', l.worker, l.run_us)
    FROM lost AS l
    WHERE j.id = l.id AND j.token = l.token AND (j.attempt < j.max_attempts OR pawl.parks(j.kind))
    RETURNING j.id, j.waits_for
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors)
    SELECT g.id, g.created_at, g.due_at,
           t.now - g.run_us::float8 * interval '1 microsecond', t.now,
           (t.now AT TIME ZONE 'UTC')::date + coalesce(q.keep_days, 7),
           'failed', g.attempt, g.max_attempts, g.priority, g.queue, g.kind, g.worker, g.payload, NULL,
           pawl.errors_add(g.errors, g.attempt, 'lost', 'the worker died or lost its lease', g.worker, g.run_us)
    FROM gone AS g
    CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
    LEFT JOIN pawl.queue AS q ON q.name = g.queue
    WHERE coalesce(q.keep_days, 7) > 0
), ended AS (
    DELETE FROM pawl.claim AS c
    USING expired AS e
    WHERE c.token = e.token
      AND NOT EXISTS (
          SELECT FROM pawl.job AS j
          WHERE j.id = ANY (e.job_ids) AND j.token = e.token
            AND NOT EXISTS (SELECT FROM lost AS l WHERE l.id = j.id)
      )
)
SELECT id, 'failed' AS state FROM gone
UNION ALL
SELECT id, CASE WHEN waits_for = 1 THEN 'parked' ELSE 'retrying' END FROM back
