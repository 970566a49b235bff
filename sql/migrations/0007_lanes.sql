-- 0007_lanes: who waits for a lane and is locked just then is not forgotten; many enter a lane together.
--
-- A claim that began before a sibling was moved behind locks its row when it comes by, sees that it is not due any more, and
-- keeps the lock until it commits. Whoever leaves the lane at that moment cannot call the sibling, and nobody would later.

-- As before (0004_machines); and a lane with room whose waiting jobs are all locked by others is marked for lanes_mend. The
-- answer is how many were called; or, negative, how many lanes were marked. Who waits for a lane is due at its deadline, if it has
-- one: a claim takes it then, wherever its lane is, and it fails.
CREATE OR REPLACE FUNCTION pawl.lanes_call(queues text[], lanes text[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    called integer;
    marked integer;
BEGIN
    WITH rooms AS MATERIALIZED (
        SELECT i.queue, i.name, room.n
        FROM ROWS FROM (unnest(queues), unnest(lanes)) AS i(queue, name)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN l.rate_per_s IS NULL THEN l.max_running - cardinality(l.holders)
                        ELSE least(l.max_running - cardinality(l.holders),
                                   greatest(floor(least(l.burst, l.tokens + l.rate_per_s
                                                        * date_part('epoch', clock_timestamp() - l.filled_at))),
                                            CASE WHEN l.next_at > clock_timestamp() THEN 0 ELSE 1 END)) END AS n
            FROM pawl.lane AS l
            WHERE l.queue = i.queue AND l.name = i.name
            LIMIT 1
        ) AS room
        WHERE room.n > 0
    ), next AS MATERIALIZED (
        SELECT r.queue, r.name, w.id
        FROM rooms AS r
        LEFT JOIN LATERAL (
            -- No condition on due_at that an index could serve: or the planner might take job_pick, and read all who wait.
            SELECT j.id
            FROM pawl.job AS j
            WHERE j.queue = r.queue AND j.lane = r.name AND j.waits_for = 2
              AND (j.due_at IN ('infinity', j.deadline_at)) IS TRUE
            ORDER BY j.id
            LIMIT r.n
            FOR UPDATE SKIP LOCKED
        ) AS w ON true
    ), up AS (
        UPDATE pawl.job AS j
        SET due_at = clock_timestamp(),
            waits_for = CASE WHEN j.awaits IS NOT NULL THEN 3::int2 WHEN j.children_left IS NOT NULL THEN 4::int2 END
        WHERE j.id = ANY (ARRAY(SELECT n.id FROM next AS n WHERE n.id IS NOT NULL))
        RETURNING j.queue
    ), told AS (
        SELECT pg_notify('pawl_wake', u.queue)
        FROM (SELECT DISTINCT up.queue FROM up) AS u
        WHERE (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = u.queue)
    ), missed AS (
        INSERT INTO pawl.lane_stir (queue, name)
        SELECT n.queue, n.name
        FROM next AS n
        WHERE n.id IS NULL
          AND EXISTS (SELECT FROM pawl.job AS j
                      WHERE j.queue = n.queue AND j.lane = n.name AND j.waits_for = 2
                        AND (j.due_at IN ('infinity', j.deadline_at)) IS TRUE)
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM up WHERE (SELECT count(*) FROM told) >= 0), (SELECT count(*) FROM missed)
    INTO called, marked;
    RETURN CASE WHEN marked > 0 THEN -marked ELSE called END;
END
$$;

-- As before (0004_machines), for lanes that more have entered than there are places, to run one after the other.
CREATE OR REPLACE FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    qs text[];
    ns text[];
    tids tid[]; -- where they are: nobody can change that while they are locked
BEGIN
    -- In the order in which everybody locks them.
    SELECT array_agg(d.queue), array_agg(d.name), array_agg(d.tid) INTO qs, ns, tids
    FROM (
        SELECT l.queue, l.name, l.tid
        FROM (SELECT DISTINCT i.queue, i.lane FROM ROWS FROM (unnest(queues), unnest(lanes)) AS i(queue, lane)
              ORDER BY i.queue, i.lane) AS o
        CROSS JOIN LATERAL (
            SELECT k.queue, k.name, k.ctid AS tid FROM pawl.lane AS k
            WHERE k.queue = o.queue AND k.name = o.lane FOR UPDATE
        ) AS l
    ) AS d;
    IF qs IS NULL THEN
        RETURN 0;
    END IF;
    -- Of a lane with many places only those are looked at who say that they left. Of a lane with one all are: many may have
    -- entered it together, and most of them have left without saying so.
    UPDATE pawl.lane AS l
    SET holders = ARRAY(SELECT h.id
                        FROM unnest(l.holders) AS h(id)
                        WHERE l.max_running > 16 AND cardinality(l.holders) > 16 AND h.id <> ALL (ids)
                           OR EXISTS (SELECT FROM pawl.job AS j
                                      WHERE j.id = h.id
                                        AND (j.token IS NOT NULL OR l.hold AND j.attempt > 0 AND j.waits_for IS NULL)))
    WHERE l.ctid = ANY (tids);
    RETURN pawl.lanes_call(qs, ns);
END
$$;
