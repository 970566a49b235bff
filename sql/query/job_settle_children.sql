-- Purpose: job_settle_done for a flush in which some jobs are children: their results go to their parents, which are due when enough of
--          their children have ended.
-- Parameters: as job_settle_done
-- Rows: as job_settle_done
-- Locks: the jobs, their parents, the highest id first, then the claims that end, skipping those that others
--        hold: a claim without jobs is for the sweep
-- Index: the jobs by ctid; the parents by job_pkey; child_pkey, claim_pkey, queue_pkey, sleeper_pkey
-- Roles: worker
-- A parent's number is lower than its children's: the order in which a child that ends, and is a parent itself, takes these locks.
-- Children of an earlier join that their parent did not wait for count for nothing.
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
      AND j.inbox IS NULL
    RETURNING j.id, j.parent_id, j.join_of, j.watched, j.created_at, coalesce(j.lane_due_at, j.due_at) AS due_at, j.attempt, j.max_attempts,
              j.priority,
              CASE WHEN j.watched OR (SELECT bool_or(k.keep) FROM kept AS k) THEN j.queue END AS queue,
              j.kind,
              CASE WHEN j.watched OR (SELECT bool_or(k.keep) FROM kept AS k) THEN j.payload END AS payload,
              CASE WHEN j.watched OR (SELECT bool_or(k.keep) FROM kept AS k) THEN j.errors END AS errors,
              CASE WHEN j.watched OR (SELECT bool_or(k.keep) FROM kept AS k) THEN j.lane END AS lane,
              CASE WHEN j.watched OR (SELECT bool_or(k.keep) FROM kept AS k) THEN j.meta END AS meta,
              pg_catalog.width_bucket(j.id, $1::int8[]) AS n
), past AS (
    INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                              priority, queue, kind, worker, payload, result, errors, lane, meta, parent_id)
    SELECT g.id, g.created_at, g.due_at,
           k.now - ($3::int8[])[g.n]::float8 * interval '1 microsecond', k.now, k.expires_on,
           'done', g.attempt, g.max_attempts, g.priority % 10::int2, g.queue, g.kind, $7::text, g.payload,
           CASE WHEN ($5::int4[])[g.n] > 0
                THEN pg_catalog.substr($4::bytea, ($5::int4[])[g.n], ($6::int4[])[g.n]) END,
           g.errors, g.lane, g.meta, g.parent_id
    FROM gone AS g
    JOIN kept AS k ON k.name = g.queue
    WHERE k.keep OR g.watched
), parents AS MATERIALIZED (
    -- As they are when they are locked.
    SELECT f.parent_id AS id, p.joins
    FROM (SELECT DISTINCT g.parent_id FROM gone AS g WHERE g.join_of IS NOT NULL ORDER BY 1 DESC) AS f
    CROSS JOIN LATERAL (
        SELECT k.joins FROM pawl.job AS k WHERE k.id = f.parent_id AND k.children_left IS NOT NULL FOR UPDATE
    ) AS p
), counted AS MATERIALIZED (
    SELECT g.parent_id, pg_catalog.count(*)::int4 AS n
    FROM gone AS g
    JOIN parents AS l ON l.id = g.parent_id AND l.joins = g.join_of
    GROUP BY g.parent_id
), joined AS (
    UPDATE pawl.job AS p
    SET children_left = p.children_left - f.n,
        due_at = CASE WHEN p.waits_for = 4 AND p.token IS NULL AND p.children_left - f.n <= p.join_at
                      THEN least(p.due_at, pg_catalog.clock_timestamp()) ELSE p.due_at END
    FROM counted AS f
    WHERE p.id = f.parent_id
    RETURNING CASE WHEN p.waits_for = 4 AND p.due_at <= pg_catalog.clock_timestamp()
                    AND (SELECT pg_catalog.bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = p.queue)
                   THEN pg_catalog.pg_notify('pawl_wake', p.queue) END AS told
), results AS (
    INSERT INTO pawl.child (parent_id, child_id, kind, state, result)
    SELECT g.parent_id, g.id, g.kind, 'done',
           CASE WHEN ($5::int4[])[g.n] > 0
                THEN pg_catalog.substr($4::bytea, ($5::int4[])[g.n], ($6::int4[])[g.n]) END
    FROM gone AS g
    JOIN parents AS l ON l.id = g.parent_id AND l.joins = g.join_of
    ON CONFLICT DO NOTHING
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
    DELETE FROM pawl.claim AS c USING over AS o WHERE c.token = o.token
)
-- Whoever waits for the end of one of them hears of it; the condition is always true.
SELECT g.id
FROM gone AS g
WHERE CASE WHEN g.watched THEN pg_catalog.pg_notify('pawl_done', g.id::text) IS NOT NULL ELSE true END
