-- Purpose: job_claim for a queue that has jobs in lanes too: a job whose lane is full is moved behind, once, instead of being
--          taken; whoever leaves the lane calls it (lane_leave). One whose deadline has passed needs no place: it is taken to fail.
-- Parameters: $1 to $6 as job_claim; $7 timestamptz[] and $8 int8[]: where to start from, for each of $9
--             int2[] priorities as they stand in the index, the most urgent first: 19 (in a lane), 9, 18, 8, … 0;
--             $10 int4 how many of a lane may come together, to be run one after the other by one worker: of lanes with one place,
--             no rate and no strict order. 1: each job by itself
-- Rows: as job_claim, but priority tells more: 10 and above: in a lane; 20 and above: with others of its lane; 30 and above:
--       and it came along with them, it was not looked for, so its due time says nothing about how far the claim got; and a last one with id 0 when there may be more to claim, because jobs were moved behind: with the
--       priority and due time of the last in a lane that was looked at; priority 0: some could not be decided about, and
--       must be looked at again
-- Locks: the jobs it looks at and their lanes, skipping what others hold: it waits for nobody but for another that makes the
--        same lane at the same moment, and lanes are made in the order of their names
-- Index: job_pick, one probe for each priority; lane_pkey, job_lane (what comes along or is moved behind, strict lanes, rates); the jobs it
--        takes by ctid
-- Roles: worker
-- A lane's row is read as it is when it is locked, not as it was when the statement began, so of two who want the last place
-- in a lane one sees the other. Jobs are read as they were: a strict lane that changed meanwhile is left for the next claim.
-- A lane that several entered together has more holders than places, and is full until the last of them has left.
-- Where many siblings of a full lane stand in the way, some that are not even looked at are moved behind with them.
-- Lanes come with the arrays of their jobs rather than being joined with them, and jobs are reached by where they are: no plan can make
-- that quadratic. The jobs of a lane are asked for without a condition on due_at that an index could serve (IS TRUE), or the planner might take
-- job_pick and read all who wait in the queue.
WITH picked AS MATERIALIZED (
    -- lane: whose place it needs. Whose deadline has passed is not run, and is at most in the way of the lane's order.
    SELECT p.ctid AS tid, p.id, CASE WHEN (p.deadline_at <= pg_catalog.now()) IS NOT TRUE THEN p.lane END AS lane, p.lane AS late_of,
           p.priority, p.due_at, pg_catalog.row_number() OVER () AS n
    FROM (SELECT i.priority, i.id,
                 -- Whoever is called into a lane is due from that moment on, and seen when the caller has committed.
                 CASE WHEN i.priority >= 10 THEN least(i.due_at, pg_catalog.now() - interval '1 second')
                      ELSE i.due_at END AS due_at
          FROM ROWS FROM (pg_catalog.unnest($9::int2[]), pg_catalog.unnest($7::timestamptz[]),
                          pg_catalog.unnest($8::int8[])) AS i(priority, due_at, id)) AS level
    CROSS JOIN LATERAL (
        SELECT c.ctid, c.id, c.lane, c.priority, c.due_at, c.deadline_at
        FROM pawl.job AS c
        WHERE c.queue = $1::text
          AND c.priority = level.priority
          AND c.due_at <= pg_catalog.now()
          AND (c.due_at, c.id) >= (level.due_at, level.id)
          AND c.token IS NULL
          AND c.kind = ANY ($2::text[])
        ORDER BY c.due_at, c.id
        LIMIT $3::int4
        FOR UPDATE SKIP LOCKED
    ) AS p
    WHERE NOT EXISTS (SELECT FROM pawl.queue AS q WHERE q.name IN ($1::text, '*') AND q.paused_at IS NOT NULL)
    LIMIT $3::int4
), looked AS MATERIALIZED (
    -- at: where the row of the lane was when the statement began
    SELECT g.lane, g.ids, g.tids, k.at
    FROM (SELECT p.lane, pg_catalog.array_agg(p.id) AS ids, pg_catalog.array_agg(p.tid) AS tids
          FROM (SELECT o.lane, o.id, o.tid FROM picked AS o WHERE o.lane IS NOT NULL ORDER BY o.lane, o.n) AS p
          GROUP BY p.lane) AS g
    LEFT JOIN LATERAL (SELECT l.ctid AS at FROM pawl.lane AS l WHERE l.queue = $1::text AND l.name = g.lane LIMIT 1) AS k
        ON true
), doors AS MATERIALIZED (
    SELECT g.lane, g.ids || coalesce(a.ids, '{}') AS ids, g.tids || coalesce(a.tids, '{}') AS tids,
           pg_catalog.cardinality(g.ids) AS n_looked, d.holders, d.room, d.along, d.strict, d.hold, d.rate_per_s, d.tokens,
           d.rate_per_s IS NOT NULL AND coalesce(d.next_at <= pg_catalog.clock_timestamp(), true) AS headless
    FROM looked AS g
    CROSS JOIN LATERAL (
        SELECT l.ctid AS at,
               -- Where several entered together, one of them that was not taken after all has no place of its own.
               CASE WHEN pg_catalog.cardinality(l.holders) <= l.max_running THEN l.holders ELSE '{}' END AS holders,
               l.max_running - pg_catalog.cardinality(l.holders) AS room,
               CASE WHEN l.max_running = 1 AND l.holders = '{}' AND l.rate_per_s IS NULL AND NOT l.strict AND NOT l.hold
                    THEN $10::int4 - 1 ELSE 0 END AS along,
               l.strict, l.hold, l.rate_per_s, l.next_at,
               CASE WHEN l.rate_per_s IS NOT NULL
                    THEN least(l.burst, l.tokens + l.rate_per_s
                                        * pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - l.filled_at)) END
               AS tokens
        FROM pawl.lane AS l
        WHERE l.queue = $1::text AND l.name = g.lane
        FOR UPDATE SKIP LOCKED
    ) AS d
    LEFT JOIN LATERAL (
        SELECT pg_catalog.array_agg(c.id) AS ids, pg_catalog.array_agg(c.tid) AS tids
        FROM (
            SELECT j.id, j.ctid AS tid
            FROM pawl.job AS j
            WHERE j.queue = $1::text AND j.lane = g.lane AND j.token IS NULL AND j.id <> ALL (g.ids)
              AND (j.waits_for IS NULL AND j.due_at <= pg_catalog.now() OR j.waits_for = 2 AND j.due_at = 'infinity')
              AND j.riders < 16 AND j.kind = ANY ($2::text[])
            ORDER BY j.id
            LIMIT greatest(d.along + 1 - pg_catalog.cardinality(g.ids), 0)
            FOR UPDATE SKIP LOCKED
        ) AS c
    ) AS a ON d.along >= pg_catalog.cardinality(g.ids)
    WHERE g.at IS NOT NULL AND (NOT d.strict OR d.at = g.at)
), fresh AS MATERIALIZED (
    SELECT g.lane, g.ids || coalesce(a.ids, '{}') AS ids, g.tids || coalesce(a.tids, '{}') AS tids,
           pg_catalog.cardinality(g.ids) AS n_looked, r.along, r.strict, r.hold, r.rate_per_s, r.burst, r.max_running,
           CASE WHEN r.strict THEN 0
                WHEN r.rate_per_s IS NULL
                THEN least(r.max_running + r.along, pg_catalog.cardinality(g.ids || coalesce(a.ids, '{}')))
                ELSE least(r.max_running, pg_catalog.cardinality(g.ids), pg_catalog.floor(r.burst)) END::int4 AS entering
    FROM looked AS g
    LEFT JOIN LATERAL (SELECT pawl.lane_limits($1::text, g.lane) AS own
                       WHERE EXISTS (SELECT FROM pawl.lane_rule)) AS rule ON true
    CROSS JOIN LATERAL (SELECT coalesce((rule.own).strict, false) AS strict, coalesce((rule.own).hold, false) AS hold,
                               (rule.own).rate_per_s, coalesce((rule.own).burst, 1) AS burst,
                               coalesce((rule.own).max_running, 1) AS max_running,
                               CASE WHEN coalesce((rule.own).max_running, 1) = 1 AND (rule.own).rate_per_s IS NULL
                                     AND NOT coalesce((rule.own).strict, false) AND NOT coalesce((rule.own).hold, false)
                                    THEN $10::int4 - 1 ELSE 0 END AS along) AS r
    LEFT JOIN LATERAL (
        SELECT pg_catalog.array_agg(c.id) AS ids, pg_catalog.array_agg(c.tid) AS tids
        FROM (
            SELECT j.id, j.ctid AS tid
            FROM pawl.job AS j
            WHERE j.queue = $1::text AND j.lane = g.lane AND j.token IS NULL AND j.id <> ALL (g.ids)
              AND (j.waits_for IS NULL AND j.due_at <= pg_catalog.now() OR j.waits_for = 2 AND j.due_at = 'infinity')
              AND j.riders < 16 AND j.kind = ANY ($2::text[])
            ORDER BY j.id
            LIMIT greatest(r.along + 1 - pg_catalog.cardinality(g.ids), 0)
            FOR UPDATE SKIP LOCKED
        ) AS c
    ) AS a ON r.along >= pg_catalog.cardinality(g.ids)
    WHERE g.at IS NULL
), made AS (
    INSERT INTO pawl.lane AS l (queue, name, holders, max_running, rate_per_s, burst, tokens, strict, hold, next_at)
    SELECT $1::text, f.lane, f.ids[1:f.entering], f.max_running, f.rate_per_s, f.burst,
           CASE WHEN f.rate_per_s IS NULL THEN 1 ELSE f.burst - f.entering END, f.strict, f.hold,
           CASE WHEN f.rate_per_s IS NOT NULL AND NOT f.strict AND f.entering < pg_catalog.cardinality(f.ids)
                 AND f.entering < f.max_running
                THEN pg_catalog.clock_timestamp() + (f.entering + 1 - f.burst) / f.rate_per_s * interval '1 second' END
    FROM fresh AS f
    ORDER BY f.lane
    ON CONFLICT DO NOTHING
    RETURNING l.name
), decided AS MATERIALIZED (
    -- The common case at a fraction of the cost of the next: one job of a lane that is not strict.
    SELECT d.tids[1] AS tid, d.ids[1] AS id, d.lane, d.ids[1] = ANY (d.holders) AS holds, c.enters, d.room, d.rate_per_s,
           d.tokens, d.headless,
           CASE WHEN NOT c.enters AND d.headless AND d.room > 0 AND d.tokens < 1
                THEN (1 - d.tokens) / d.rate_per_s END AS wait_s,
           false AS together, false AS along
    FROM doors AS d
    CROSS JOIN LATERAL (
        SELECT d.ids[1] = ANY (d.holders) OR d.room > 0 AND (d.rate_per_s IS NULL OR d.tokens >= 1) AS enters
    ) AS c
    WHERE pg_catalog.cardinality(d.ids) = 1 AND NOT d.strict
    UNION ALL
    SELECT w.tid, w.id, d.lane, w.holds, c.enters, d.room, d.rate_per_s, d.tokens, d.headless,
           CASE WHEN NOT c.enters AND d.headless AND w.rank <= d.room AND w.rank = pg_catalog.floor(d.tokens) + 1
                THEN (w.rank - d.tokens) / d.rate_per_s END AS wait_s,
           d.along > 0, w.n > d.n_looked
    FROM doors AS d
    CROSS JOIN LATERAL (
        SELECT i.n, i.id, i.tid, i.id = ANY (d.holders) AS holds,
               pg_catalog.row_number() OVER (PARTITION BY i.id = ANY (d.holders)
                                             ORDER BY CASE WHEN d.strict THEN i.id ELSE i.n END) AS rank
        FROM ROWS FROM (pg_catalog.unnest(d.ids), pg_catalog.unnest(d.tids)) WITH ORDINALITY AS i(id, tid, n)
    ) AS w
    CROSS JOIN LATERAL (
        SELECT w.holds
               OR w.rank <= d.room + d.along
                  AND (d.rate_per_s IS NULL OR w.rank <= d.tokens)
                  -- Earlier ones that have not begun, or hold the lane for their next try.
                  AND NOT (d.strict AND EXISTS (
                      SELECT FROM pawl.job AS e
                      WHERE e.queue = $1::text AND e.lane = d.lane AND e.id < w.id AND e.token IS NULL
                        AND (d.hold AND e.attempt > 0 OR e.attempt = 0 AND e.step IS NULL)
                        AND e.id <> ALL (d.ids))) AS enters
        OFFSET 0
    ) AS c
    WHERE pg_catalog.cardinality(d.ids) > 1 OR d.strict
    UNION ALL
    -- A hashed subplan, not a join: there may be thousands of both.
    SELECT i.tid, i.id, f.lane, false, i.n <= f.entering, NULL, NULL, NULL, NULL,
           CASE WHEN f.rate_per_s IS NOT NULL AND i.n = f.entering + 1 AND f.entering < f.max_running
                THEN (i.n - f.burst) / f.rate_per_s END,
           f.along > 0 AND f.entering > 1, i.n > f.n_looked
    FROM fresh AS f
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(f.ids), pg_catalog.unnest(f.tids)) WITH ORDINALITY AS i(id, tid, n)
    WHERE NOT f.strict AND (f.lane IN (SELECT m.name FROM made AS m)) IS TRUE
), summed AS MATERIALIZED (
    SELECT s.*, h.id AS head, h.tid AS head_tid, greatest(1 - (s.tokens - s.n), 0) / s.rate_per_s AS head_s
    FROM (
        SELECT x.lane, x.room, x.rate_per_s, x.tokens, x.headless,
               pg_catalog.array_agg(x.id) FILTER (WHERE x.enters AND NOT x.holds) AS ids,
               pg_catalog.count(*) FILTER (WHERE x.enters AND NOT x.holds)::int4 AS n,
               pg_catalog.count(*) FILTER (WHERE NOT x.enters)::int4 AS behind,
               pg_catalog.max(x.id) AS last,
               pg_catalog.max(x.wait_s) AS wait_s
        FROM decided AS x
        GROUP BY x.lane, x.room, x.rate_per_s, x.tokens, x.headless
    ) AS s
    LEFT JOIN LATERAL (
        -- A start that the rate allows later, and nobody here to have it: the first who waits.
        SELECT j.id, j.ctid AS tid
        FROM pawl.job AS j
        WHERE s.headless AND s.n > 0 AND s.room > s.n AND s.wait_s IS NULL
          AND j.queue = $1::text AND j.lane = s.lane AND j.waits_for = 2 AND (j.due_at IN ('infinity', j.deadline_at)) IS TRUE
        ORDER BY j.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS h ON true
), entered AS (
    -- Always a conflict, since these lanes are there and locked. An UPDATE could read all lanes to find them: the planner may have seen few.
    INSERT INTO pawl.lane AS l (queue, name, holders, rate_per_s, tokens, next_at)
    SELECT $1::text, s.lane, coalesce(s.ids, '{}'), s.rate_per_s, coalesce(s.tokens - s.n, 0),
           pg_catalog.clock_timestamp()
           + coalesce(s.wait_s, CASE WHEN s.head IS NOT NULL THEN s.head_s END) * interval '1 second'
    FROM summed AS s
    WHERE s.room IS NOT NULL -- not one that was made here
      AND (s.n > 0 OR s.wait_s IS NOT NULL)
    ON CONFLICT (queue, name) DO UPDATE
    SET holders = l.holders || excluded.holders,
        tokens = CASE WHEN excluded.rate_per_s IS NULL THEN l.tokens ELSE excluded.tokens END,
        next_at = CASE WHEN excluded.rate_per_s IS NOT NULL THEN coalesce(excluded.next_at, l.next_at) END,
        filled_at = pg_catalog.clock_timestamp()
), stirred AS (
    -- Somebody was called into a strict lane in the place of an earlier one that was locked just then: lanes_mend calls that one.
    INSERT INTO pawl.lane_stir (queue, name)
    SELECT $1::text, s.lane
    FROM summed AS s
    WHERE s.room > 0 AND s.n = 0
      AND s.lane IN (SELECT d.lane FROM doors AS d WHERE d.strict)
      AND EXISTS (SELECT FROM pawl.job AS e
                  WHERE e.queue = $1::text AND e.lane = s.lane AND e.id < s.last
                    AND e.waits_for = 2 AND (e.due_at IN ('infinity', e.deadline_at)) IS TRUE)
    UNION ALL
    -- The one that was called by the clock may be among those whose deadline has passed: lanes_mend calls another.
    SELECT l.queue, l.name
    FROM (SELECT DISTINCT $1::text AS queue, p.late_of AS lane
          FROM picked AS p WHERE p.lane IS NULL AND p.late_of IS NOT NULL) AS o
    CROSS JOIN LATERAL (
        SELECT k.queue, k.name FROM pawl.lane AS k
        WHERE k.queue = o.queue AND k.name = o.lane AND k.rate_per_s IS NOT NULL
        LIMIT 1
    ) AS l
), crowd AS MATERIALIZED (
    SELECT c.tid
    FROM summed AS s
    CROSS JOIN LATERAL (
        SELECT j.ctid AS tid
        FROM pawl.job AS j
        WHERE j.queue = $1::text AND j.lane = s.lane AND j.id > s.last
          AND j.token IS NULL AND j.waits_for IS NULL AND (j.due_at <= pg_catalog.now()) IS TRUE
          AND (j.deadline_at <= pg_catalog.now()) IS NOT TRUE
        ORDER BY j.id
        LIMIT least(1000, 64 * s.behind)
        FOR UPDATE SKIP LOCKED
    ) AS c
    WHERE 2 * s.behind >= (SELECT pg_catalog.count(*) FROM picked)
), timed AS MATERIALIZED (
    -- The few that are called by the clock: at most one of each lane with a rate.
    SELECT pg_catalog.array_agg(x.id) AS ids, pg_catalog.array_agg(x.wait_s) AS waits
    FROM (SELECT y.id, y.wait_s FROM decided AS y WHERE NOT y.enters AND y.wait_s IS NOT NULL
          UNION ALL
          SELECT s.head, s.head_s FROM summed AS s WHERE s.head IS NOT NULL) AS x
), moved AS (
    UPDATE pawl.job AS j
    SET lane_due_at = coalesce(j.lane_due_at, j.due_at),
        waits_for = 2::int2,
        due_at = least(j.deadline_at,
                       coalesce(pg_catalog.clock_timestamp()
                                + (SELECT t.waits[pg_catalog.array_position(t.ids, j.id)] FROM timed AS t) * interval '1 second',
                                'infinity'))
    WHERE j.ctid = ANY (ARRAY(
        SELECT y.tid FROM decided AS y WHERE NOT y.enters
        UNION ALL
        SELECT s.head_tid FROM summed AS s WHERE s.head IS NOT NULL
        UNION ALL
        SELECT c.tid FROM crowd AS c
    ))
    RETURNING 1
), taken AS (
    UPDATE pawl.job AS j
    SET token = $4::uuid,
        attempt = j.attempt + 1,
        -- Somebody who was moved behind comes along.
        due_at = CASE WHEN j.due_at = 'infinity' THEN pg_catalog.clock_timestamp() ELSE j.due_at END,
        waits_for = CASE WHEN j.waits_for IS DISTINCT FROM 2 THEN j.waits_for
                         WHEN j.awaits IS NOT NULL THEN 3::int2
                         WHEN j.children_left IS NOT NULL THEN 4::int2 END
    WHERE j.ctid = ANY (ARRAY(
        SELECT p.tid FROM picked AS p WHERE p.lane IS NULL
        UNION ALL
        SELECT x.tid FROM decided AS x WHERE x.enters
    ))
    RETURNING j.id, j.kind, j.priority, j.attempt, j.max_attempts, j.timeout_ms, j.payload, j.due_at,
              j.riders, j.meta ->> 'trace' AS trace,
              CASE WHEN j.riders >= 16
                   THEN pawl.machine_line(j.id, j.step, j.awaits, j.waits_for, j.wait_until, j.deadline_at,
                                          j.children_left, j.cancel_by, j.join_flags, j.inbox) END AS machine,
              j.state, j.lane, j.ctid AS tid
), claimed AS (
    INSERT INTO pawl.claim (token, worker, lease_until, job_ids)
    SELECT $4::uuid, $5::uuid, pg_catalog.clock_timestamp() + $6::int8::float8 * interval '1 millisecond',
           pg_catalog.array_agg(taken.id)
    FROM taken
    HAVING pg_catalog.count(*) > 0
)
SELECT id, kind,
       CASE WHEN lane IS NULL OR $10::int4 = 1 THEN priority
            WHEN id IN (SELECT x.id FROM decided AS x WHERE x.along) THEN (priority + 20)::int2
            WHEN id IN (SELECT x.id FROM decided AS x WHERE x.together) THEN (priority + 10)::int2
            ELSE priority END,
       attempt, max_attempts, timeout_ms, payload, due_at, riders, trace, machine, state, lane, tid
FROM taken
UNION ALL
SELECT 0, '', coalesce(p.priority, 0::int2), 0, 0, NULL, '', coalesce(p.due_at, pg_catalog.now()), NULL, NULL, NULL, NULL, NULL,
       NULL
FROM (SELECT (SELECT pg_catalog.count(*) FROM looked)
             = (SELECT pg_catalog.count(*) FROM doors)
               + (SELECT pg_catalog.count(*) FROM fresh AS f
                  WHERE NOT f.strict AND (f.lane IN (SELECT m.name FROM made AS m)) IS TRUE) AS all_of_them) AS d
LEFT JOIN LATERAL (SELECT l.priority, l.due_at FROM picked AS l WHERE l.lane IS NOT NULL ORDER BY l.n DESC LIMIT 1) AS p
    ON d.all_of_them
WHERE EXISTS (SELECT FROM moved) OR EXISTS (SELECT FROM fresh AS f WHERE f.strict)
   OR NOT d.all_of_them AND EXISTS (SELECT FROM taken)
