-- Purpose: what the runs of many jobs came to, in one statement. Each row is guarded by its token: what another worker
--          or the sweeper took over in the meantime is left alone, and missing from the answer.
-- Parameters: $1 int8[] ids, $2 uuid[] tokens,
--             $3 int2[] outcomes: 1 done, 2 retry, 3 fail, 4 snooze, 5 cancel, 6 release, 7 reject (core/job.h),
--             $4 int8[] delays in ms for retry and snooze (-1: by the retry policy),
--             $5 bytea[] results, $6 text[] errors, $7 int8[] run times in µs,
--             $8 text name of the worker, $9 uuid[] tokens of claims of which no job is left,
--             $10 text[] lines for the timelines of machines, without the time, or NULL
-- Rows: n int8: the position in the input, from 1; state text: what the job is now (done, failed, cancelled, parked,
--       retrying, scheduled, ready)
-- Locks: the jobs, their unique keys, their parents, the highest id first, then the claims that end, skipping
--        those that others hold. A job that has been asked to end (cancel_by) is cancelled, unless it is done
-- Index: job_pkey, claim_pkey, queue_pkey, kind_pkey, guard_pkey, signal_pkey, child_pkey,
--        sleeper_pkey
-- Roles: worker
-- Keys that somebody is just about to enqueue with are skipped: a settle waits for no stranger's transaction. What is left
-- of such a key says nothing once its job is gone, and guard_maintain removes it.
-- Whether the end was asked for is read from the row once it is locked: a cancel that commits while this waits for it would
-- else be seen by neither of the two statements below, and the job by nobody any more.
WITH input AS MATERIALIZED (
    SELECT i.*, j.cancel_by IS NOT NULL AS cancel, CASE WHEN j.children_left IS NOT NULL THEN j.joins END AS joins
    FROM ROWS FROM (
             pg_catalog.unnest($1::int8[]), pg_catalog.unnest($2::uuid[]), pg_catalog.unnest($3::int2[]),
             pg_catalog.unnest($4::int8[]), pg_catalog.unnest($5::bytea[]), pg_catalog.unnest($6::text[]),
             pg_catalog.unnest($7::int8[]), pg_catalog.unnest($10::text[])
         ) WITH ORDINALITY AS i(id, token, outcome, delay_ms, result, error, run_us, line, n)
    JOIN pawl.job AS j ON j.id = i.id AND j.token = i.token
    FOR UPDATE OF j
), gone AS (
    DELETE FROM pawl.job AS j
    USING input AS i
    WHERE j.id = i.id
      AND j.token = i.token
      AND (i.outcome IN (1, 5, 7)
           OR i.cancel
           OR (i.outcome = 3 OR i.outcome = 2 AND j.attempt >= j.max_attempts) AND NOT pawl.parks(j.kind))
    RETURNING j.id, j.created_at, coalesce(j.lane_due_at, j.due_at) AS due_at, j.attempt, j.max_attempts, j.priority, j.queue, j.kind, j.payload,
              j.errors, j.lane, j.guard, j.parent_id, j.join_of, j.meta, j.watched, j.cancel_by, j.riders, j.step, j.state AS last_state,
              CASE WHEN j.step IS NOT NULL OR i.outcome <> 1 THEN pawl.ticket(j.token, j.id, j.step) END AS ticket,
              j.timeline || (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::int8
              || E'\t' || i.line || E'\n' AS timeline,
              i.n, i.outcome, i.result, i.error, i.run_us,
              (CASE WHEN i.outcome = 1 THEN 'done'
                    WHEN i.outcome = 5 OR j.cancel_by IS NOT NULL THEN 'cancelled'
                    ELSE 'failed' END)::pawl.state AS state,
              CASE WHEN j.inbox IS NOT NULL THEN pawl.signals_forget(j.id) END AS forgotten
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors, lane, parent_id, meta, cancel_by,
                              step, last_state, timeline, ticket)
    SELECT g.id, g.created_at, g.due_at,
           t.now - g.run_us::float8 * interval '1 microsecond', t.now,
           (t.now AT TIME ZONE 'UTC')::date + greatest(coalesce(q.keep_days, 7), 1),
           g.state, g.attempt, g.max_attempts, (g.priority % 10)::int2, g.queue, g.kind, $8::text, g.payload, g.result,
           CASE WHEN g.outcome IN (2, 3, 7)
                THEN pawl.errors_add(g.errors, g.attempt,
                                     CASE g.outcome WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' ELSE 'business' END,
                                     g.error, $8::text, g.run_us)
                ELSE g.errors END,
           g.lane, g.parent_id, g.meta, CASE WHEN g.state = 'cancelled' THEN g.cancel_by END,
           g.step, CASE WHEN g.state <> 'done' THEN g.last_state END, g.timeline, g.ticket
    FROM gone AS g
    CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS t
    LEFT JOIN pawl.queue AS q ON q.name = g.queue
    WHERE coalesce(q.keep_days, 7) > 0 OR g.watched
), keys AS MATERIALIZED (
    SELECT k.hash, k.keep_ms
    FROM gone AS g
    JOIN pawl.guard AS k ON k.hash = g.guard AND k.job_id = g.id
    FOR UPDATE OF k SKIP LOCKED
), freed AS (
    DELETE FROM pawl.guard AS k USING keys WHERE k.hash = keys.hash AND keys.keep_ms = 0
), later AS (
    UPDATE pawl.guard AS k
    SET free_at = pg_catalog.clock_timestamp() + k.keep_ms::float8 * interval '1 millisecond'
    FROM keys
    WHERE k.hash = keys.hash AND keys.keep_ms > 0
), parents AS MATERIALIZED (
    -- As they are when they are locked. A parent's number is lower than its children's: the order in which a child that ends,
    -- and is a parent itself, takes these locks.
    SELECT f.parent_id AS id, p.joins, false AS here
    FROM (SELECT DISTINCT g.parent_id FROM gone AS g WHERE g.join_of IS NOT NULL ORDER BY 1 DESC) AS f
    CROSS JOIN LATERAL (
        SELECT k.joins FROM pawl.job AS k WHERE k.id = f.parent_id AND k.children_left IS NOT NULL FOR UPDATE
    ) AS p
    WHERE NOT EXISTS (SELECT FROM input AS i WHERE i.id = f.parent_id)
    UNION ALL
    -- One that is settled here itself, to be tried again: a statement changes a row once, so it counts below (kept).
    SELECT i.id, i.joins, true
    FROM input AS i
    WHERE i.joins IS NOT NULL AND NOT EXISTS (SELECT FROM gone AS g WHERE g.id = i.id)
), counted AS MATERIALIZED (
    -- Children of an earlier join that their parent did not wait for count for nothing.
    SELECT g.parent_id, l.here, pg_catalog.count(*)::int4 AS n, pg_catalog.bool_or(g.state <> 'done') AS any_failed
    FROM gone AS g
    JOIN parents AS l ON l.id = g.parent_id AND l.joins = g.join_of
    GROUP BY g.parent_id, l.here
), kept AS (
    UPDATE pawl.job AS j
    SET token = NULL,
        lane_due_at = CASE WHEN i.outcome = 6 THEN j.lane_due_at END,
        children_left = j.children_left - coalesce((SELECT f.n FROM counted AS f WHERE f.parent_id = j.id), 0),
        attempt = CASE WHEN i.outcome IN (2, 3) THEN j.attempt ELSE j.attempt - 1 END,
        -- One that is released waits on for its signal or its children: its claim was for nothing.
        waits_for = CASE WHEN i.outcome = 3 OR i.outcome = 2 AND j.attempt >= j.max_attempts THEN 1::int2
                         WHEN i.outcome = 6 THEN j.waits_for END,
        due_at = CASE WHEN i.outcome = 6 THEN j.due_at
                      WHEN i.outcome = 3 OR i.outcome = 2 AND j.attempt >= j.max_attempts THEN 'infinity'
                      ELSE least(j.deadline_at,
                                 pg_catalog.clock_timestamp()
                                 + (CASE WHEN i.delay_ms >= 0 THEN i.delay_ms
                                         ELSE pawl.retry_delay_ms(j.kind, j.attempt, j.retry, j.retry_base_ms,
                                                                  j.retry_cap_ms) END)::float8
                                 * interval '1 millisecond')
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
      AND NOT i.cancel
      AND (i.outcome IN (4, 6)
           OR i.outcome = 2 AND j.attempt < j.max_attempts
           OR i.outcome IN (2, 3) AND pawl.parks(j.kind))
    RETURNING i.n, i.outcome, j.waits_for,
              CASE WHEN j.due_at < 'infinity'
                   THEN (pg_catalog.date_part('epoch', j.due_at - pg_catalog.clock_timestamp()) * 1000::float8)::int8
              END AS due_ms
), joined AS (
    UPDATE pawl.job AS p
    SET children_left = p.children_left - f.n,
        due_at = CASE WHEN p.waits_for = 4 AND p.token IS NULL
                       AND (p.children_left - f.n <= p.join_at OR p.join_flags & 1 <> 0 AND f.any_failed)
                      THEN least(p.due_at, pg_catalog.clock_timestamp()) ELSE p.due_at END
    FROM counted AS f
    WHERE p.id = f.parent_id AND NOT f.here
    RETURNING CASE WHEN p.waits_for = 4 AND p.due_at <= pg_catalog.clock_timestamp()
                    AND (SELECT pg_catalog.bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = p.queue)
                   THEN pg_catalog.pg_notify('pawl_wake', p.queue) END AS told
), results AS (
    INSERT INTO pawl.child (parent_id, child_id, kind, state, result, error)
    SELECT g.parent_id, g.id, g.kind, g.state, g.result, pg_catalog."left"(g.error, 1000)
    FROM gone AS g
    JOIN parents AS l ON l.id = g.parent_id AND l.joins = g.join_of
    ON CONFLICT DO NOTHING
), over AS MATERIALIZED (
    SELECT c.token FROM pawl.claim AS c WHERE c.token = ANY ($9::uuid[]) FOR UPDATE SKIP LOCKED
), ended AS (
    DELETE FROM pawl.claim AS c USING over AS o WHERE c.token = o.token
)
SELECT n, state::text AS state, NULL::int8 AS due_ms
FROM gone AS g
WHERE CASE WHEN g.watched THEN pg_catalog.pg_notify('pawl_done', g.id::text) IS NOT NULL ELSE true END
UNION ALL
SELECT n, CASE WHEN waits_for = 1 THEN 'parked' WHEN outcome = 6 THEN 'ready' WHEN outcome = 4 THEN 'scheduled'
               ELSE 'retrying' END, due_ms
FROM kept
