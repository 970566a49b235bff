-- Purpose: takes back at most $1 jobs of claims whose lease has run out, and of those with a lease of their own (pawl.held)
--          when that has, and their claim's has too or does not count any more: due again by the retry policy, or failed
--          (parked, where its kind says so) when their attempts are used up, for a job that kills its worker must not come back for ever.
--          A claim of which jobs are left stays, with these, goes behind the others, and is not renewed any more (swept_at).
-- Parameters: $1 int4 limit; $2 uuid token and $3 int8 id: this job of this claim alone ($1 is 1), or NULL and 0: any
-- Rows: id int8, state text: what the job is now (retrying, failed, parked, cancelled); orphans bool: it is over and had
--       children, which are for children_end; true: with those that are left to be cancelled. And with id 0, lanes: some lane
--       or orphan is for lanes_mend; more: there are more than $1
-- Locks: expired claims, then their jobs, then parents of those that end, skipping what others hold: a job that is being
--        settled at this moment, or whose parent is, keeps its claim, and a later sweep looks at it again. It never waits, so
--        it cannot deadlock with a settle.
-- Index: claim and held are read whole (they are tiny); claim_pkey, held_pkey, job_pkey, queue_pkey, kind_pkey, guard_pkey, signal_pkey,
--        child_pkey, sleeper_pkey, job_parent
-- Roles: worker
-- How many claims hold $1 jobs is estimated without locks, so that the others are left to other sweepers. One statement for all
-- kinds of jobs: a plain one pays nothing for what it does not have, and retry_ms and errors_add are expanded in it.
WITH near AS MATERIALIZED (
    SELECT n.token, n.since, pg_catalog.sum(n.size) OVER (ORDER BY n.since, n.token ROWS UNBOUNDED PRECEDING) - n.size AS before
    FROM (SELECT c.token, coalesce(c.swept_at, c.lease_until) AS since, pg_catalog.cardinality(c.job_ids) AS size
          FROM pawl.claim AS c
          WHERE c.lease_until < pg_catalog.clock_timestamp()
            AND ($2::uuid IS NULL OR c.token = $2::uuid)
          ORDER BY since
          LIMIT 200) AS n
), expired AS MATERIALIZED (
    SELECT c.token, c.claimed_at, n.since, w.name AS worker,
           CASE WHEN $2::uuid IS NULL THEN c.job_ids
                ELSE $3::int8 || pg_catalog.array_remove(c.job_ids, $3::int8) END AS job_ids
    FROM near AS n
    JOIN pawl.claim AS c ON c.token = n.token
    LEFT JOIN pawl.worker AS w ON w.id = c.worker
    WHERE c.lease_until < pg_catalog.clock_timestamp()
    ORDER BY n.since, n.token
    LIMIT (SELECT pg_catalog.count(*) FROM near AS n WHERE n.before < $1::int4)
    FOR UPDATE OF c SKIP LOCKED
), slice AS MATERIALIZED (
    -- What this run takes of each: the first n.
    SELECT e.token, e.claimed_at, e.worker, e.job_ids,
           least(pg_catalog.cardinality(e.job_ids), $1::int4 - e.before)::int4 AS n
    FROM (SELECT x.*, pg_catalog.sum(pg_catalog.cardinality(x.job_ids))
                          OVER (ORDER BY x.since, x.token ROWS UNBOUNDED PRECEDING)
                      - pg_catalog.cardinality(x.job_ids) AS before
          FROM expired AS x) AS e
    WHERE e.before < $1::int4
), listed AS MATERIALIZED (
    SELECT s.token, s.worker, s.claimed_at, ids.id
    FROM slice AS s
    CROSS JOIN LATERAL pg_catalog.unnest(s.job_ids[1:s.n]) AS ids(id)
), locked AS MATERIALIZED (
    SELECT j.id, e.token, e.worker, j.kind, j.parent_id, j.join_of, j.attempt >= j.max_attempts AS spent,
           j.cancel_by IS NOT NULL AS cancel, -- as it is once the row is locked
           CASE WHEN j.children_left IS NOT NULL THEN j.joins END AS joins,
           (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - e.claimed_at) * 1000000)::int8 AS run_us
    FROM listed AS e
    JOIN pawl.job AS j ON j.id = e.id AND j.token = e.token
    FOR UPDATE OF j SKIP LOCKED
), of_claims AS MATERIALIZED (
    -- Not by this statement's snapshot: a lease of its own may have been committed after it. None can come now, for
    -- whoever gives one locks the job.
    SELECT l.* FROM locked AS l
    WHERE (l.id, l.token) NOT IN (SELECT h.id, h.token FROM pawl.held_among(ARRAY(SELECT k.id FROM locked AS k)) AS h)
), alone AS MATERIALIZED (
    SELECT j.id, h.token, h.worker, j.kind, j.parent_id, j.join_of, j.attempt >= j.max_attempts AS spent,
           j.cancel_by IS NOT NULL AS cancel,
           CASE WHEN j.children_left IS NOT NULL THEN j.joins END AS joins,
           (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - h.since) * 1000000)::int8 AS run_us
    FROM pawl.held AS h
    JOIN pawl.job AS j ON j.id = h.job_id AND j.token = h.token
    WHERE h.lease_until < pg_catalog.clock_timestamp()
      AND ($2::uuid IS NULL OR h.job_id = $3::int8)
      -- Else the server that claimed it renews that claim for it. One that is expired and locked by others is left to the next.
      AND (h.let_go
           OR h.token IN (SELECT e.token FROM expired AS e)
           OR NOT EXISTS (SELECT FROM pawl.claim AS c WHERE c.token = h.token))
    ORDER BY h.lease_until
    LIMIT $1::int4 - (SELECT pg_catalog.count(*) FROM of_claims)
    FOR UPDATE OF h, j SKIP LOCKED
), found AS MATERIALIZED (
    SELECT f.*, f.cancel OR f.spent AND NOT coalesce(k.park, false) AS over
    FROM (SELECT * FROM of_claims UNION ALL SELECT * FROM alone) AS f
    LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(f.kind, '@', 1)
), parents_found AS MATERIALIZED (
    SELECT k.id
    FROM pawl.job AS k
    WHERE k.id = ANY (ARRAY(SELECT f.parent_id FROM found AS f WHERE f.over AND f.join_of IS NOT NULL))
      AND k.children_left IS NOT NULL
), parents_locked AS MATERIALIZED (
    -- As they are when they are locked.
    SELECT k.id, k.joins
    FROM pawl.job AS k
    WHERE k.id = ANY (ARRAY(SELECT f.id FROM parents_found AS f)) AND k.children_left IS NOT NULL
    FOR UPDATE SKIP LOCKED
), lost AS MATERIALIZED (
    -- Not one that ends and whose parent waits for it and is locked by others: a later sweep counts it.
    SELECT f.*
    FROM found AS f
    WHERE NOT (f.over AND f.join_of IS NOT NULL)
       OR f.parent_id IN (SELECT p.id FROM parents_locked AS p)
       OR f.parent_id NOT IN (SELECT p.id FROM parents_found AS p)
), stale AS MATERIALIZED (
    -- Leases of jobs that were settled long since.
    SELECT h.job_id
    FROM pawl.held AS h
    WHERE h.lease_until < pg_catalog.clock_timestamp()
      AND $2::uuid IS NULL
      AND NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = h.job_id AND j.token = h.token)
    ORDER BY h.lease_until
    LIMIT $1::int4
    FOR UPDATE SKIP LOCKED
), let_go AS (
    DELETE FROM pawl.held AS h
    WHERE h.job_id IN (SELECT s.job_id FROM stale AS s UNION ALL SELECT l.id FROM lost AS l JOIN alone AS a ON a.id = l.id)
), gone AS (
    DELETE FROM pawl.job AS j
    USING lost AS l
    WHERE j.id = l.id AND j.token = l.token AND l.over
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
    SELECT p.id, p.joins, false AS here
    FROM parents_locked AS p
    WHERE NOT EXISTS (SELECT FROM lost AS l WHERE l.id = p.id)
    UNION ALL
    -- One that is taken back here itself: a statement changes a row once, so it counts below (back).
    SELECT l.id, l.joins, true FROM lost AS l WHERE l.joins IS NOT NULL AND NOT l.over
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
        waits_for = CASE WHEN l.spent THEN 1 END,
        due_at = CASE WHEN l.spent THEN 'infinity'
                      ELSE least(j.deadline_at,
                                 pg_catalog.clock_timestamp()
                                 + pawl.retry_ms(j.attempt, j.retry, j.retry_base_ms, j.retry_cap_ms,
                                                 k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms)::float8
                                 * interval '1 millisecond') END,
        errors = pawl.errors_add(j.errors, j.attempt, 'lost', 'the worker died or lost its lease', l.worker, l.run_us)
    FROM lost AS l
    LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(l.kind, '@', 1)
    WHERE j.id = l.id AND j.token = l.token AND NOT l.over
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
), kept AS MATERIALIZED (
    -- Jobs that others hold at this moment, or whose parents they do: these come last.
    SELECT i.token, pg_catalog.array_agg(i.id) AS ids
    FROM listed AS i
    WHERE i.id NOT IN (SELECT l.id FROM lost AS l)
      AND EXISTS (SELECT FROM pawl.job AS j WHERE j.id = i.id AND j.token = i.token)
      AND NOT EXISTS (SELECT FROM pawl.held AS h WHERE h.job_id = i.id AND h.token = i.token)
    GROUP BY i.token
), rest AS MATERIALIZED (
    SELECT s.token, s.job_ids[s.n + 1:] || coalesce(k.ids, '{}') AS ids
    FROM slice AS s
    LEFT JOIN kept AS k ON k.token = s.token
), ended AS (
    DELETE FROM pawl.claim AS c USING rest AS r WHERE c.token = r.token AND r.ids = '{}'
), shortened AS (
    UPDATE pawl.claim AS c
    SET job_ids = r.ids, swept_at = pg_catalog.clock_timestamp()
    FROM rest AS r
    WHERE c.token = r.token AND r.ids <> '{}'
)
SELECT id, state::text AS state, CASE WHEN g.riders & 32 <> 0 THEN coalesce(g.join_flags & 2, 0) <> 0 END AS orphans
FROM gone AS g
WHERE CASE WHEN g.watched THEN pg_catalog.pg_notify('pawl_done', g.id::text) IS NOT NULL ELSE true END
UNION ALL
SELECT id, CASE WHEN waits_for = 1 THEN 'parked' ELSE 'retrying' END, NULL FROM back
UNION ALL
SELECT 0, 'lanes', NULL
WHERE EXISTS (SELECT FROM stirred) OR EXISTS (SELECT FROM pawl.lane_stir) OR EXISTS (SELECT FROM pawl.orphan)
UNION ALL
SELECT 0, 'more', NULL
WHERE (SELECT pg_catalog.sum(s.n) FROM slice AS s) >= $1::int4 OR (SELECT pg_catalog.count(*) FROM near) = 200
   OR (SELECT pg_catalog.count(*) FROM alone) >= $1::int4
