-- 0007_lanes: who waits for a lane and is locked just then is not forgotten.
--
-- A claim that began before a sibling was moved behind locks its row when it comes by, sees that it is not due any more, and
-- keeps the lock until it commits. Whoever leaves the lane at that moment cannot call the sibling, and nobody would later.

-- As before (0004_machines); and a lane with room whose waiting jobs are all locked by others is marked for lanes_mend. The
-- answer is how many were called; or, negative, how many lanes were marked.
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
            SELECT j.id
            FROM pawl.job AS j
            WHERE j.queue = r.queue AND j.lane = r.name AND j.waits_for = 2 AND j.due_at = 'infinity'
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
                      WHERE j.queue = n.queue AND j.lane = n.name AND j.waits_for = 2 AND j.due_at = 'infinity')
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM up WHERE (SELECT count(*) FROM told) >= 0), (SELECT count(*) FROM missed)
    INTO called, marked;
    RETURN CASE WHEN marked > 0 THEN -marked ELSE called END;
END
$$;
