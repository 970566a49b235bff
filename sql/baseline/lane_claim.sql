-- lane_claim: a claim of a queue that has jobs in lanes.

-- Claims due jobs of a queue, also those in lanes. The header of job_claim_lanes.sql describes parameters and rows. Each step is a
-- statement of its own and sees what was committed before it began. A change of who is in a lane locks that lane, so what a
-- step reads after the lanes are locked is true until this transaction ends.
-- An error undoes all steps: there is no exception handler.
CREATE FUNCTION pawl.claim_lanes(queue text, kinds text[], most integer, token uuid, worker uuid, lease_ms bigint,
                                 from_due timestamptz[], from_id bigint[], from_priority smallint[], from_lane boolean[],
                                 most_of_lane integer)
RETURNS TABLE (id bigint, kind text, priority smallint, attempt integer, max_attempts integer, timeout_ms integer, payload bytea,
               due_at timestamptz, join_of integer, has_options boolean, is_machine boolean, trace text,
               machine pawl.machine_seen, tid tid, lane text, in_lane boolean, together boolean, along boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- In the order of bytes: the index passes over other kinds.
    first_kind  constant text := (SELECT min(k.name COLLATE "C") FROM unnest(kinds) AS k(name));
    last_kind   constant text := (SELECT max(k.name COLLATE "C") FROM unnest(kinds) AS k(name));
    -- The jobs that were picked, lane by lane, in each the most urgent first.
    ids         bigint[];
    tids        tid[];
    lane_of     integer[];     -- position in lanes; NULL: needs no place, being in no lane or past its deadline
    priorities  smallint[];
    dues        timestamptz[];
    late        text[];        -- lanes of those that are past their deadline
    -- Their lanes, in the order of their names.
    lanes       text[];
    rooms       integer[];     -- how many may enter now; NULL: another session has locked the lane
    shared      boolean[];     -- several may enter, to be run one after the other
    ordered     boolean[];     -- strict
    held        boolean[];     -- for the next try of a job
    rated       boolean[];
    any_holders boolean;
    holding     boolean[];     -- by job: has its place already
    -- What comes of it.
    taken_ids   bigint[];
    taken_tids  tid[];
    entering    bigint[];      -- those of taken_ids that get a place
    entering_of integer[];     -- and the positions of their lanes
    behind_ids  bigint[];
    behind_tids tid[];
    behind_of   integer[];
    grouped     bigint[];      -- those of entering whose lane is shared
    along_ids   bigint[];      -- those of entering that were not picked
    along_tids  tid[];
    along_of    integer[];
BEGIN
    -- 1. Pick and lock what is due, the most urgent first.
    SELECT array_agg(p.id), array_agg(p.tid), array_agg(p.lane_no), array_agg(p.priority), array_agg(p.due_at),
           array_agg(p.lane) FILTER (WHERE p.lane_no IS NULL AND p.lane IS NOT NULL),
           array_agg(p.lane) FILTER (WHERE p.lane_no IS NOT NULL AND p.nth = 1)
    INTO ids, tids, lane_of, priorities, dues, late, lanes
    FROM (
        SELECT d.*, row_number() OVER (PARTITION BY d.place COLLATE "C" ORDER BY d.n) AS nth,
               CASE WHEN d.place IS NOT NULL THEN dense_rank() OVER (ORDER BY d.place COLLATE "C") END::integer AS lane_no
        FROM (
            SELECT f.*, level.priority, row_number() OVER () AS n,
                   CASE WHEN (f.deadline_at <= now()) IS NOT TRUE THEN f.lane END AS place
            FROM ROWS FROM (unnest(from_due), unnest(from_id), unnest(from_priority), unnest(from_lane))
                 AS level(due_at, id, priority, in_lane)
            CROSS JOIN LATERAL (
                -- job_pick
                SELECT a.*
                FROM (SELECT c.id, c.ctid AS tid, c.lane, c.due_at, c.deadline_at
                      FROM pawl.job AS c
                      WHERE NOT level.in_lane
                        AND c.lane IS NULL
                        AND c.queue = claim_lanes.queue
                        AND c.priority = level.priority
                        AND c.due_at <= now()
                        AND (c.due_at, c.id) >= (level.due_at, level.id)
                        AND c.token IS NULL
                        AND c.kind >= first_kind COLLATE "C"
                        AND c.kind <= last_kind COLLATE "C"
                        AND c.kind = ANY (kinds)
                      ORDER BY c.due_at, c.id
                      LIMIT most
                      FOR UPDATE SKIP LOCKED) AS a
                UNION ALL
                -- job_pick_lane. A job called into its lane is due from that moment, and visible when its caller commits.
                SELECT b.*
                FROM (SELECT c.id, c.ctid AS tid, c.lane, c.due_at, c.deadline_at
                      FROM pawl.job AS c
                      WHERE level.in_lane
                        AND c.lane IS NOT NULL
                        AND c.queue = claim_lanes.queue
                        AND c.priority = level.priority
                        AND c.due_at <= now()
                        AND (c.due_at, c.id) >= (least(level.due_at, now() - interval '1 second'), level.id)
                        AND c.token IS NULL
                        AND c.kind >= first_kind COLLATE "C"
                        AND c.kind <= last_kind COLLATE "C"
                        AND c.kind = ANY (kinds)
                      ORDER BY c.due_at, c.id
                      LIMIT most
                      FOR UPDATE SKIP LOCKED) AS b
            ) AS f
            WHERE NOT EXISTS (SELECT FROM pawl.queue AS q WHERE q.name IN (claim_lanes.queue, '*') AND q.paused_at IS NOT NULL)
            LIMIT most
        ) AS d
    ) AS p;

    IF ids IS NULL THEN
        RETURN;
    END IF;
    IF lanes IS NULL THEN
        taken_ids := ids;
        taken_tids := tids;
    ELSE
        -- 2. Make the lanes that are not there yet.
        PERFORM pawl.lanes_make(claim_lanes.queue, lanes);

        -- 3. Lock the lanes, and see how many each lets in.
        SELECT array_agg(CASE WHEN d.shared THEN most_of_lane ELSE d.room END), array_agg(d.shared), array_agg(d.strict),
               array_agg(d.hold), array_agg(d.rated), bool_or(d.holders <> '{}')
        INTO rooms, shared, ordered, held, rated, any_holders
        FROM unnest(lanes) AS n(name)
        LEFT JOIN LATERAL (
            SELECT l.holders, l.strict, l.hold, l.rate_per_s IS NOT NULL AS rated,
                   pawl.lane_room(l.max_running, l.holders, l.tokens, l.rate_per_s, l.burst, l.filled_at) AS room,
                   l.max_running = 1 AND l.holders = '{}' AND l.rate_per_s IS NULL AND NOT l.strict AND NOT l.hold AS shared
            FROM pawl.lane AS l
            WHERE l.queue = claim_lanes.queue AND l.name = n.name
            FOR UPDATE SKIP LOCKED
        ) AS d ON true;

        -- 4. Some have a place already: the next try in a lane that holds, or of a job whose worker died. Not where several
        -- entered together: then a place belongs to none of them.
        IF any_holders THEN
            SELECT array_agg((SELECT i.id = ANY (l.holders) AND cardinality(l.holders) <= l.max_running
                              FROM pawl.lane AS l WHERE l.queue = claim_lanes.queue AND l.name = lanes[i.lane]))
            INTO holding
            FROM ROWS FROM (unnest(ids), unnest(lane_of)) AS i(id, lane);
        END IF;

        -- 5. Decide who enters. A strict lane lets nobody pass an earlier job that has not begun, or that holds the lane.
        SELECT array_agg(t.id) FILTER (WHERE t.enters), array_agg(t.tid) FILTER (WHERE t.enters),
               array_agg(t.id) FILTER (WHERE t.enters AND t.lane IS NOT NULL AND NOT t.holds),
               array_agg(t.lane) FILTER (WHERE t.enters AND t.lane IS NOT NULL AND NOT t.holds),
               array_agg(t.id) FILTER (WHERE NOT t.enters), array_agg(t.tid) FILTER (WHERE NOT t.enters),
               array_agg(t.lane) FILTER (WHERE NOT t.enters)
        INTO taken_ids, taken_tids, entering, entering_of, behind_ids, behind_tids, behind_of
        FROM (
            SELECT r.id, r.tid, r.lane, r.holds,
                   CASE WHEN r.lane IS NULL THEN true
                        WHEN rooms[r.lane] IS NULL THEN NULL
                        WHEN r.holds THEN true
                        WHEN r.rank > rooms[r.lane] THEN false
                        WHEN ordered[r.lane] THEN (
                            SELECT true FROM pawl.job AS e
                            WHERE e.queue = claim_lanes.queue AND e.lane = lanes[r.lane] AND e.id < r.id AND e.token IS NULL
                              AND (held[r.lane] AND e.attempt > 0
                                   OR e.attempt = 0 AND (SELECT true FROM pawl.machine AS m
                                                         WHERE m.job_id = e.id AND m.step IS NOT NULL) IS NULL)
                              AND e.id <> ALL (ids)
                            LIMIT 1) IS NULL
                        ELSE true END AS enters
            FROM (
                SELECT i.id, i.tid, i.lane, coalesce(i.holds, false) AS holds,
                       row_number() OVER (PARTITION BY i.lane, i.holds
                                          ORDER BY CASE WHEN ordered[i.lane] THEN i.id ELSE i.n END) AS rank
                FROM ROWS FROM (unnest(ids), unnest(tids), unnest(lane_of), unnest(holding))
                     WITH ORDINALITY AS i(id, tid, lane, holds, n)
            ) AS r
            OFFSET 0 -- computed once
        ) AS t;

        -- 6. Others of shared lanes come along, ready ones and ones that wait for the lane. Not machines.
        IF most_of_lane > 1 THEN
            SELECT array_agg(c.id), array_agg(c.tid), array_agg(g.lane)
            INTO along_ids, along_tids, along_of
            FROM (
                SELECT i.lane, array_agg(i.id) AS ids
                FROM ROWS FROM (unnest(entering), unnest(entering_of)) AS i(id, lane)
                WHERE shared[i.lane]
                GROUP BY i.lane
            ) AS g
            CROSS JOIN LATERAL (
                SELECT j.id, j.ctid AS tid
                FROM pawl.job AS j
                WHERE j.queue = claim_lanes.queue AND j.lane >= lanes[g.lane] AND j.lane <= lanes[g.lane]
                  AND j.token IS NULL AND j.id <> ALL (g.ids)
                  AND (j.waits_for IS NULL AND j.due_at <= now() OR pawl.waits_behind(j.waits_for, j.due_at, NULL))
                  AND j.is_machine IS NULL AND j.kind = ANY (kinds)
                ORDER BY j.lane, j.id
                LIMIT greatest(most_of_lane - cardinality(g.ids), 0)
                FOR UPDATE SKIP LOCKED
            ) AS c;
            taken_ids := taken_ids || along_ids;
            taken_tids := taken_tids || along_tids;
            entering := entering || along_ids;
            entering_of := entering_of || along_of;
            SELECT array_agg(i.id) INTO grouped
            FROM ROWS FROM (unnest(entering), unnest(entering_of)) AS i(id, lane)
            WHERE shared[i.lane];
        END IF;

        -- 7. Write the places. Always a conflict, since the lanes are there and locked: an UPDATE that was planned while there
        -- were few lanes would read all of them.
        IF entering IS NOT NULL THEN
            INSERT INTO pawl.lane AS l (queue, name, holders)
            SELECT claim_lanes.queue, lanes[i.lane], array_agg(i.id)
            FROM ROWS FROM (unnest(entering), unnest(entering_of)) AS i(id, lane)
            GROUP BY i.lane
            ON CONFLICT ON CONSTRAINT lane_pkey DO UPDATE
            SET holders = l.holders || excluded.holders,
                tokens = coalesce(pawl.lane_tokens(l.tokens, l.rate_per_s, l.burst, l.filled_at)
                                  - cardinality(excluded.holders), l.tokens),
                filled_at = clock_timestamp();
        END IF;
    END IF;

    -- 8. Take them.
    IF taken_ids IS NOT NULL THEN
        INSERT INTO pawl.claim (token, worker, lease_until, job_ids)
        VALUES (claim_lanes.token, claim_lanes.worker, clock_timestamp() + lease_ms::float8 * interval '1 millisecond', taken_ids);
        RETURN QUERY
        WITH taken AS (
            UPDATE pawl.job AS j
            SET token = claim_lanes.token,
                attempt = j.attempt + 1,
                due_at = CASE WHEN j.due_at = 'infinity' THEN clock_timestamp() ELSE j.due_at END,
                waits_for = CASE WHEN j.waits_for IS DISTINCT FROM 'lane' THEN j.waits_for
                                 WHEN j.is_machine THEN pawl.machine_waits_for(j.id) END
            WHERE j.ctid = ANY (taken_tids)
            RETURNING j.id, j.kind, j.priority, j.attempt, j.max_attempts, j.timeout_ms, j.payload, j.due_at, j.join_of,
                      j.has_options, j.is_machine, j.meta ->> 'trace' AS trace, j.lane, j.ctid AS tid,
                      CASE WHEN j.is_machine OR j.deadline_at IS NOT NULL
                           THEN pawl.machine_view(j.id, j.waits_for, j.deadline_at, j.cancel_by) END AS machine
        )
        SELECT t.id, t.kind::text, t.priority::int2, t.attempt, t.max_attempts::int4, t.timeout_ms::int4, t.payload::bytea,
               t.due_at, t.join_of, t.has_options, t.is_machine, t.trace, t.machine, t.tid, t.lane,
               t.lane IS NOT NULL,
               CASE WHEN grouped IS NULL THEN false ELSE t.id IN (SELECT unnest(grouped)) END,
               CASE WHEN along_ids IS NULL THEN false ELSE t.id IN (SELECT unnest(along_ids)) END
        FROM taken AS t;
    END IF;

    IF behind_ids IS NOT NULL THEN
        -- 9. A strict lane with room that let nobody in: an earlier job waits, because it was locked when its turn came. Call it.
        IF true = ANY (ordered) THEN
            PERFORM pawl.lanes_call(array_agg(claim_lanes.queue), array_agg(lanes[g.lane]))
            FROM (SELECT i.lane, max(i.id) AS last_id
                  FROM ROWS FROM (unnest(behind_ids), unnest(behind_of)) AS i(id, lane)
                  WHERE ordered[i.lane] AND rooms[i.lane] > 0 AND (i.lane = ANY (entering_of)) IS NOT TRUE
                  GROUP BY i.lane) AS g
            WHERE EXISTS (SELECT FROM pawl.job AS e
                          WHERE e.queue = claim_lanes.queue AND e.lane = lanes[g.lane] AND e.id < g.last_id
                            AND pawl.waits_behind(e.waits_for, e.due_at, e.deadline_at));
        END IF;
        -- 10. Those outside wait until their lane is left.
        PERFORM pawl.lanes_move(claim_lanes.queue, lanes, behind_ids, behind_tids, behind_of, cardinality(ids));
    END IF;

    -- 11. Where the rate keeps the next job waiting, the clock calls it.
    IF true = ANY (rated) THEN
        PERFORM pawl.lanes_clock(array_agg(claim_lanes.queue), array_agg(n.name))
        FROM ROWS FROM (unnest(lanes), unnest(rated), unnest(rooms)) WITH ORDINALITY AS n(name, rated, room, lane)
        WHERE n.rated AND (n.room = 0 OR n.lane = ANY (entering_of));
    END IF;

    -- 12. The job on the clock of a lane with a rate may be one past its deadline: lanes_mend puts another there.
    IF late IS NOT NULL THEN
        INSERT INTO pawl.lane_stir (queue, name)
        SELECT l.queue, l.name
        FROM (SELECT DISTINCT n.name FROM unnest(late) AS n(name)) AS o
        CROSS JOIN LATERAL (SELECT k.queue, k.name FROM pawl.lane AS k
                            WHERE k.queue = claim_lanes.queue AND k.name = o.name AND k.rate_per_s IS NOT NULL LIMIT 1) AS l;
    END IF;

    -- 13. Say that there may be more: jobs were moved behind, or lanes were locked by others.
    IF behind_ids IS NOT NULL OR taken_ids IS NOT NULL AND array_position(rooms, NULL) IS NOT NULL THEN
        RETURN QUERY
        SELECT 0::int8, '', i.priority, 0, 0, NULL::int4, ''::bytea, i.due_at, NULL::int4, NULL::boolean, NULL::boolean,
               NULL, NULL::pawl.machine_seen, NULL::tid, NULL, array_position(rooms, NULL) IS NULL, false, false
        FROM ROWS FROM (unnest(priorities), unnest(dues), unnest(lane_of)) AS i(priority, due_at, lane)
        WHERE i.lane IS NOT NULL
        ORDER BY i.priority, i.due_at DESC
        LIMIT 1;
    END IF;
END
$$;
