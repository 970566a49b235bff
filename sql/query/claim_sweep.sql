-- Purpose: takes back the jobs of at most $1 claims whose lease has run out, and those with a lease of their own (pawl.held)
--          when that has, and their claim's has too or does not count any more: due again by the retry policy, or failed
--          (parked, where its kind says so) when their attempts are used up, for a job that kills its worker must not come back for ever.
-- Parameters: $1 int4 limit
-- Rows: id int8, state text: what the job is now (retrying, failed, parked, cancelled); orphans bool: it is over and had
--       children, which are for children_end; true: with those that are left to be cancelled. And 0, lanes: some lane or orphan is for lanes_mend
-- Locks: expired claims, then their jobs, skipping what others hold: a job that is being settled at this moment keeps its
--        claim, and the next sweep looks at it again. It never waits, so it cannot deadlock with a settle.
-- Index: claim and held are read whole (they are tiny); claim_pkey, held_pkey, job_pkey, queue_pkey, kind_pkey, guard_pkey, signal_pkey,
--        child_pkey, sleeper_pkey, job_parent
-- Roles: worker
WITH expired AS MATERIALIZED (
    SELECT c.token, c.claimed_at, c.job_ids, w.name AS worker
    FROM pawl.claim AS c
    LEFT JOIN pawl.worker AS w ON w.id = c.worker
    WHERE c.lease_until < pg_catalog.clock_timestamp()
    ORDER BY c.lease_until
    LIMIT $1::int4
    FOR UPDATE OF c SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT j.id, e.token, e.worker, j.cancel_by IS NOT NULL AS cancel, -- as it is once the row is locked
           CASE WHEN j.children_left IS NOT NULL THEN j.joins END AS joins,
           (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - e.claimed_at) * 1000000)::int8 AS run_us
    FROM expired AS e
    CROSS JOIN LATERAL pg_catalog.unnest(e.job_ids) AS ids(id)
    JOIN pawl.job AS j ON j.id = ids.id AND j.token = e.token
    WHERE NOT EXISTS (SELECT FROM pawl.held AS h WHERE h.job_id = j.id AND h.token = j.token)
    FOR UPDATE OF j SKIP LOCKED
), of_claims AS MATERIALIZED (
    -- A lease of its own that was committed after this statement began is not in its snapshot; none can come now, for
    -- whoever gives one locks the job.
    SELECT l.* FROM locked AS l WHERE NOT pawl.is_held(l.id, l.token)
), overdue AS MATERIALIZED (
    SELECT h.job_id, h.token, h.worker, h.since
    FROM pawl.held AS h
    WHERE h.lease_until < pg_catalog.clock_timestamp()
      -- Else the server that claimed it renews that claim for it. One that is expired and locked by others is left to the next.
      AND (h.let_go
           OR h.token IN (SELECT e.token FROM expired AS e)
           OR NOT EXISTS (SELECT FROM pawl.claim AS c WHERE c.token = h.token))
    ORDER BY h.lease_until
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), alone AS MATERIALIZED (
    SELECT j.id, o.token, o.worker, j.cancel_by IS NOT NULL AS cancel,
           CASE WHEN j.children_left IS NOT NULL THEN j.joins END AS joins,
           (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - o.since) * 1000000)::int8 AS run_us
    FROM overdue AS o
    JOIN pawl.job AS j ON j.id = o.job_id AND j.token = o.token
    FOR UPDATE OF j SKIP LOCKED
), let_go AS (
    -- Also what was settled long since.
    DELETE FROM pawl.held AS h
    USING overdue AS o
    WHERE h.job_id = o.job_id
      AND (EXISTS (SELECT FROM alone AS a WHERE a.id = o.job_id)
           OR NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = o.job_id AND j.token = o.token))
), lost AS MATERIALIZED (
    SELECT * FROM of_claims
    UNION ALL
    SELECT * FROM alone
), gone AS (
    DELETE FROM pawl.job AS j
    USING lost AS l
    WHERE j.id = l.id AND j.token = l.token
      AND (l.cancel OR j.attempt >= j.max_attempts AND NOT pawl.parks(j.kind))
    RETURNING j.id, j.created_at, coalesce(j.lane_due_at, j.due_at) AS due_at, j.attempt, j.max_attempts, j.priority, j.queue, j.kind, j.payload, j.errors,
              j.lane, j.guard, j.parent_id, j.join_of, j.meta, j.watched, j.cancel_by, j.riders, j.join_flags, j.step, j.state AS last_state, j.timeline,
              l.worker, l.run_us,
              (CASE WHEN j.cancel_by IS NULL THEN 'failed' ELSE 'cancelled' END)::pawl.state AS state,
              CASE WHEN j.inbox IS NOT NULL THEN pawl.signals_forget(j.id) END AS forgotten
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors, lane, parent_id, meta, cancel_by,
                              step, last_state, timeline)
    SELECT g.id, g.created_at, g.due_at,
           t.now - g.run_us::float8 * interval '1 microsecond', t.now,
           (t.now AT TIME ZONE 'UTC')::date + greatest(coalesce(q.keep_days, 7), 1),
           g.state, g.attempt, g.max_attempts, (g.priority % 10)::int2, g.queue, g.kind, g.worker, g.payload, NULL,
           pawl.errors_add(g.errors, g.attempt, 'lost', 'the worker died or lost its lease', g.worker, g.run_us),
           g.lane, g.parent_id, g.meta, g.cancel_by, g.step, g.last_state, g.timeline
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
    WHERE NOT EXISTS (SELECT FROM lost AS l WHERE l.id = f.parent_id)
    UNION ALL
    -- One that is taken back here itself: a statement changes a row once, so it counts below (back).
    SELECT l.id, l.joins, true
    FROM lost AS l
    WHERE l.joins IS NOT NULL AND NOT EXISTS (SELECT FROM gone AS g WHERE g.id = l.id)
), counted AS MATERIALIZED (
    -- Children of an earlier join that their parent did not wait for count for nothing.
    SELECT g.parent_id, l.here, pg_catalog.count(*)::int4 AS n, pg_catalog.bool_or(g.state <> 'done') AS any_failed
    FROM gone AS g
    JOIN parents AS l ON l.id = g.parent_id AND l.joins = g.join_of
    GROUP BY g.parent_id, l.here
), back AS (
    UPDATE pawl.job AS j
    SET token = NULL,
        lane_due_at = NULL,
        children_left = j.children_left - coalesce((SELECT f.n FROM counted AS f WHERE f.parent_id = j.id), 0),
        waits_for = CASE WHEN j.attempt >= j.max_attempts THEN 1 END,
        due_at = CASE WHEN j.attempt >= j.max_attempts THEN 'infinity'
                      ELSE least(j.deadline_at,
                                 pg_catalog.clock_timestamp()
                                 + pawl.retry_delay_ms(j.kind, j.attempt, j.retry, j.retry_base_ms, j.retry_cap_ms)::float8
                                 * interval '1 millisecond') END,
        errors = pawl.errors_add(j.errors, j.attempt, 'lost', 'the worker died or lost its lease', l.worker, l.run_us)
    FROM lost AS l
    WHERE j.id = l.id AND j.token = l.token AND NOT l.cancel
      AND (j.attempt < j.max_attempts OR pawl.parks(j.kind))
    RETURNING j.id, j.waits_for, j.queue, j.lane
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
    INSERT INTO pawl.child (parent_id, child_id, kind, state, error)
    SELECT g.parent_id, g.id, g.kind, g.state, 'the worker died or lost its lease'
    FROM gone AS g
    JOIN parents AS l ON l.id = g.parent_id AND l.joins = g.join_of
    ON CONFLICT DO NOTHING
), orphaned AS (
    -- Those that a job which is over wanted cancelled: children_end may not come to it.
    INSERT INTO pawl.orphan (child_id, parent_id)
    SELECT j.id, g.id
    FROM gone AS g
    JOIN pawl.job AS j ON j.parent_id = g.id
    WHERE g.riders & 32 <> 0 AND g.join_flags & 2 <> 0 AND j.join_of IS NOT NULL
    ON CONFLICT DO NOTHING
), stirred AS (
    -- lanes_mend lets others in.
    INSERT INTO pawl.lane_stir (queue, name)
    SELECT g.queue, g.lane FROM gone AS g WHERE g.lane IS NOT NULL
    UNION
    SELECT b.queue, b.lane FROM back AS b WHERE b.lane IS NOT NULL
    RETURNING 1
), ended AS (
    DELETE FROM pawl.claim AS c
    USING expired AS e
    WHERE c.token = e.token
      -- All that it still holds are taken back; counted, for comparing each with each takes a minute for 5000.
      AND (SELECT pg_catalog.count(*)
           FROM pg_catalog.unnest(e.job_ids) AS ids(id)
           CROSS JOIN LATERAL (SELECT FROM pawl.job AS j
                               WHERE j.id = ids.id AND j.token = e.token
                                 AND NOT EXISTS (SELECT FROM pawl.held AS h WHERE h.job_id = j.id AND h.token = j.token)
                               LIMIT 1) AS kept)
          = (SELECT pg_catalog.count(*) FROM of_claims AS l WHERE l.token = e.token)
)
SELECT id, state::text AS state, CASE WHEN g.riders & 32 <> 0 THEN coalesce(g.join_flags & 2, 0) <> 0 END AS orphans
FROM gone AS g
WHERE CASE WHEN g.watched THEN pg_catalog.pg_notify('pawl_done', g.id::text) IS NOT NULL ELSE true END
UNION ALL
SELECT id, CASE WHEN waits_for = 1 THEN 'parked' ELSE 'retrying' END, NULL FROM back
UNION ALL
SELECT 0, 'lanes', NULL
WHERE EXISTS (SELECT FROM stirred) OR EXISTS (SELECT FROM pawl.lane_stir) OR EXISTS (SELECT FROM pawl.orphan)
