-- What sql/migrations come to. Made by tools/dump-schema; do not edit.

CREATE SCHEMA pawl;

ALTER SCHEMA pawl OWNER TO pawl_owner;

CREATE DOMAIN pawl.kind_name AS text
	CONSTRAINT kind_has_1_to_128_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 128)));

ALTER DOMAIN pawl.kind_name OWNER TO pawl_owner;

CREATE TYPE pawl.machine_seen AS (
	state bytea,
	line text
);

ALTER TYPE pawl.machine_seen OWNER TO pawl_owner;

CREATE DOMAIN pawl.max_attempts AS integer
	CONSTRAINT max_attempts_is_1_to_1000 CHECK (((VALUE >= 1) AND (VALUE <= 1000)));

ALTER DOMAIN pawl.max_attempts OWNER TO pawl_owner;

CREATE TYPE pawl.outcome AS ENUM (
    'done',
    'retry',
    'fail',
    'snooze',
    'cancel',
    'release',
    'reject',
    'next',
    'await',
    'spawn',
    'wait'
);

ALTER TYPE pawl.outcome OWNER TO pawl_owner;

CREATE DOMAIN pawl.payload AS bytea
	CONSTRAINT payload_has_16_mib_at_most CHECK ((octet_length(VALUE) <= 16777216));

ALTER DOMAIN pawl.payload OWNER TO pawl_owner;

CREATE DOMAIN pawl.priority AS smallint
	CONSTRAINT priority_is_0_to_9 CHECK (((VALUE >= 0) AND (VALUE <= 9)));

ALTER DOMAIN pawl.priority OWNER TO pawl_owner;

CREATE DOMAIN pawl.queue_name AS text
	CONSTRAINT queue_has_1_to_128_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 128)));

ALTER DOMAIN pawl.queue_name OWNER TO pawl_owner;

CREATE TYPE pawl.retry AS ENUM (
    'exponential',
    'quadratic',
    'table'
);

ALTER TYPE pawl.retry OWNER TO pawl_owner;

CREATE DOMAIN pawl.signal_key AS text
	CONSTRAINT signal_key_has_1_to_1024_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 1024)));

ALTER DOMAIN pawl.signal_key OWNER TO pawl_owner;

CREATE DOMAIN pawl.signal_name AS text
	CONSTRAINT signal_has_1_to_128_bytes CHECK (((octet_length(VALUE) >= 1) AND (octet_length(VALUE) <= 128)));

ALTER DOMAIN pawl.signal_name OWNER TO pawl_owner;

CREATE DOMAIN pawl.signal_payload AS jsonb
	CONSTRAINT signal_payload_has_1_mib_at_most CHECK ((octet_length((VALUE)::text) <= 1048576));

ALTER DOMAIN pawl.signal_payload OWNER TO pawl_owner;

CREATE TYPE pawl.state AS ENUM (
    'ready',
    'scheduled',
    'retrying',
    'running',
    'parked',
    'waiting',
    'done',
    'failed',
    'cancelled'
);

ALTER TYPE pawl.state OWNER TO pawl_owner;

CREATE DOMAIN pawl.timeout_ms AS integer
	CONSTRAINT timeout_is_positive CHECK ((VALUE > 0));

ALTER DOMAIN pawl.timeout_ms OWNER TO pawl_owner;

CREATE TYPE pawl.wait AS ENUM (
    'operator',
    'lane',
    'signal',
    'children'
);

ALTER TYPE pawl.wait OWNER TO pawl_owner;

CREATE FUNCTION pawl.access_changed() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_notify('pawl_access', '');
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.access_changed() OWNER TO pawl_owner;

CREATE FUNCTION pawl.assert_claim(job bigint, token uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM pawl.job AS j WHERE j.id = job AND j.token = assert_claim.token FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim of job % is no longer valid', job
            USING ERRCODE = 'PW003', HINT = 'Roll back: another worker may own the job.';
    END IF;
END
$$;

ALTER FUNCTION pawl.assert_claim(job bigint, token uuid) OWNER TO pawl_owner;

CREATE FUNCTION pawl.bytes_text(bytes bytea) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN translate(convert_from(bytes, 'UTF8')::json::text, E'\t\n\r', '   ');
EXCEPTION WHEN others THEN
    BEGIN
        RETURN to_json(convert_from(bytes, 'UTF8'))::text;
    EXCEPTION WHEN others THEN
        RETURN to_json(encode(bytes, 'base64'))::text;
    END;
END
$$;

ALTER FUNCTION pawl.bytes_text(bytes bytea) OWNER TO pawl_owner;

CREATE FUNCTION pawl.cancel(job bigint, by_whom text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held uuid;
    runs boolean;
    who text := coalesce(by_whom, session_user);
BEGIN
    FOR look IN 1 .. 100 LOOP
        SELECT j.token INTO held FROM pawl.job AS j WHERE j.id = job;
        IF NOT FOUND THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        IF held IS NOT NULL THEN
            BEGIN
                PERFORM FROM pawl.job AS j WHERE j.id = job AND j.token = held FOR KEY SHARE;
                runs := FOUND;
                RAISE SQLSTATE 'PW000';
            EXCEPTION WHEN SQLSTATE 'PW000' THEN
                CONTINUE WHEN NOT runs;
            END;
            INSERT INTO pawl.stop (job_id, token, by_whom) VALUES (job, held, who) ON CONFLICT DO NOTHING;
            RETURN 'cancelling';
        END IF;
        -- Not while somebody claims or settles it: then it is something else in a moment.
        IF pawl.cancel_idle(job, who) THEN
            RETURN 'cancelled';
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % changes too fast', job USING ERRCODE = '40001', HINT = 'Try again.';
END
$$;

ALTER FUNCTION pawl.cancel(job bigint, by_whom text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.cancel_idle(job bigint, who text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    in_lane boolean;
BEGIN
    UPDATE pawl.job AS j SET cancel_by = who WHERE j.id = job AND j.token IS NULL RETURNING j.lane IS NOT NULL INTO in_lane;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pawl.jobs_end(ARRAY[job], '{cancelled}', NULL, NULL, NULL, ARRAY['cancelled by ' || who], NULL, NULL, NULL);
    -- It may have been the one that was called into its lane: the next is.
    IF in_lane THEN
        PERFORM pg_notify('pawl_wake', '#');
    END IF;
    RETURN true;
END
$$;

ALTER FUNCTION pawl.cancel_idle(job bigint, who text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) RETURNS TABLE(job bigint, result text, state text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    FOR job IN SELECT DISTINCT u.id FROM unnest(jobs) AS u(id) ORDER BY 1 LOOP
        state := NULL;
        BEGIN
            result := pawl.cancel(job, by_whom);
        EXCEPTION
            WHEN SQLSTATE 'PW001' THEN
                result := 'missing';
            WHEN SQLSTATE 'PW002' THEN
                result := 'finished';
                SELECT h.state::text INTO state FROM pawl.history AS h WHERE h.id = cancel_many.job LIMIT 1;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;

ALTER FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.children_cancel(ids bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE pawl.job AS j SET join_of = NULL WHERE j.id = ANY (ids);
    PERFORM pawl.cancel(j.id, 'parent ' || j.parent_id) FROM pawl.job AS j WHERE j.id = ANY (ids);
END
$$;

ALTER FUNCTION pawl.children_cancel(ids bigint[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.children_let_go(parent bigint, token uuid, cancel boolean) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM pawl.job AS j WHERE j.id = parent AND j.token = children_let_go.token FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM pawl.child AS c WHERE c.parent_id = parent;
    IF cancel THEN
        PERFORM pawl.children_cancel(ARRAY(SELECT j.id FROM pawl.job AS j
                                           WHERE j.parent_id = parent AND j.join_of IS NOT NULL
                                           ORDER BY j.id FOR UPDATE SKIP LOCKED));
        INSERT INTO pawl.orphan (child_id, parent_id)
        SELECT j.id, parent FROM pawl.job AS j WHERE j.parent_id = parent AND j.join_of IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN true;
END
$$;

ALTER FUNCTION pawl.children_let_go(parent bigint, token uuid, cancel boolean) OWNER TO pawl_owner;

CREATE FUNCTION pawl.claim_lanes(queue text, kinds text[], most integer, token uuid, worker uuid, lease_ms bigint, from_due timestamp with time zone[], from_id bigint[], from_priority smallint[], from_lane boolean[], most_of_lane integer) RETURNS TABLE(id bigint, kind text, priority smallint, attempt integer, max_attempts integer, timeout_ms integer, payload bytea, due_at timestamp with time zone, join_of integer, has_options boolean, is_machine boolean, trace text, machine pawl.machine_seen, tid tid, lane text, in_lane boolean, together boolean, along boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

ALTER FUNCTION pawl.claim_lanes(queue text, kinds text[], most integer, token uuid, worker uuid, lease_ms bigint, from_due timestamp with time zone[], from_id bigint[], from_priority smallint[], from_lane boolean[], most_of_lane integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.claim_try(job bigint, known text, worker text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    reason text := known;
    size   bigint;
BEGIN
    IF reason IS NULL THEN
        BEGIN
            UPDATE pawl.job AS j
            SET token = gen_random_uuid(), attempt = j.attempt + 1
            WHERE j.id = job AND j.token IS NULL
            -- As job_claim does, and all of it is read.
            RETURNING octet_length(sha256(j.payload)) + coalesce(octet_length(j.meta ->> 'trace'), 0)
                      + CASE WHEN j.is_machine OR j.deadline_at IS NOT NULL
                             THEN (SELECT octet_length(v.line) + coalesce(octet_length(sha256(v.state)), 0)
                                   FROM pawl.machine_view(j.id, j.waits_for, j.deadline_at, j.cancel_by) AS v)
                             ELSE 0 END
            INTO size;
            RAISE EXCEPTION 'taken back' USING ERRCODE = 'PW000';
        EXCEPTION
            WHEN SQLSTATE 'PW000' THEN
                RETURN NULL;
            WHEN transaction_rollback OR disk_full OR operator_intervention OR system_error
                 OR syntax_error_or_access_rule_violation OR invalid_transaction_state OR lock_not_available OR object_in_use THEN
                RAISE;
            WHEN others THEN
                reason := format('%s (%s)', SQLERRM, SQLSTATE);
        END;
    END IF;
    reason := 'it cannot be claimed: ' || reason;
    RETURN CASE WHEN pawl.job_park(job, reason, worker) THEN reason END;
END
$$;

ALTER FUNCTION pawl.claim_try(job bigint, known text, worker text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.claim_turn(queue text) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '200ms'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('pawl.claim ' || claim_turn.queue, 0));
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

ALTER FUNCTION pawl.claim_turn(queue text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.claims_end(over uuid[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF over <> '{}' THEN
        DELETE FROM pawl.claim AS c
        WHERE c.token = ANY (ARRAY(SELECT o.token FROM pawl.claim AS o WHERE o.token = ANY (over) FOR UPDATE SKIP LOCKED));
    END IF;
END
$$;

ALTER FUNCTION pawl.claims_end(over uuid[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.claims_sweep(most integer, only_token uuid, only_job bigint, low bigint) RETURNS TABLE(id bigint, state text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    lost     constant text := 'the worker died or lost its lease';
    n_near   bigint;
    claims   uuid[];    -- locked
    takes    integer[]; -- how many of the jobs of each, from the first
    jobs     bigint[];  -- locked; the next four in parallel
    tokens   uuid[];
    workers  text[];
    took_us  bigint[];
    over     boolean[]; -- it ends
    parents  bigint[];  -- locked
BEGIN
    -- How many claims hold that many jobs is estimated without locks, so that the others are left to other sweepers.
    WITH near AS MATERIALIZED (
        SELECT n.token, n.since, pg_catalog.sum(n.size) OVER (ORDER BY n.since, n.token ROWS UNBOUNDED PRECEDING) - n.size AS before
        FROM (SELECT c.token, coalesce(c.swept_at, c.lease_until) AS since, pg_catalog.cardinality(c.job_ids) AS size
              FROM pawl.claim AS c
              WHERE c.seq >= low
                AND c.lease_until < pg_catalog.clock_timestamp()
                AND (only_token IS NULL OR c.token = only_token)
              ORDER BY since
              LIMIT 200) AS n
    ), expired AS MATERIALIZED (
        SELECT n.token, n.since, c.size
        FROM (SELECT x.* FROM near AS x ORDER BY x.since, x.token) AS n
        CROSS JOIN LATERAL (
            SELECT CASE WHEN only_token IS NULL THEN pg_catalog.cardinality(x.job_ids) ELSE 1 END AS size
            FROM pawl.claim AS x
            WHERE x.token = n.token AND x.lease_until < pg_catalog.clock_timestamp()
            FOR UPDATE SKIP LOCKED) AS c
        LIMIT (SELECT pg_catalog.count(*) FROM near AS n WHERE n.before < most)
    )
    SELECT pg_catalog.array_agg(e.token), pg_catalog.array_agg(least(e.size, most - e.before)),
           (SELECT pg_catalog.count(*) FROM near)
    INTO claims, takes, n_near
    FROM (SELECT x.*, pg_catalog.sum(x.size) OVER (ORDER BY x.since, x.token ROWS UNBOUNDED PRECEDING) - x.size AS before
          FROM expired AS x) AS e
    WHERE e.before < most;

    SELECT pg_catalog.array_agg(l.id), pg_catalog.array_agg(l.token), pg_catalog.array_agg(l.worker),
           pg_catalog.array_agg(l.us)
    INTO jobs, tokens, workers, took_us
    FROM (SELECT j.id, c.token, w.name AS worker,
                 (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - c.claimed_at) * 1000000)::bigint AS us
          FROM ROWS FROM (pg_catalog.unnest(claims), pg_catalog.unnest(takes)) AS s(token, n)
          CROSS JOIN LATERAL (SELECT x.token, x.claimed_at, x.worker, x.job_ids
                              FROM pawl.claim AS x WHERE x.token = s.token OFFSET 0) AS c
          LEFT JOIN LATERAL (SELECT x.name FROM pawl.worker AS x WHERE x.id = c.worker OFFSET 0) AS w ON true
          CROSS JOIN LATERAL pg_catalog.unnest(CASE WHEN only_token IS NULL THEN c.job_ids[1:s.n] ELSE ARRAY[only_job] END) AS i(id)
          CROSS JOIN LATERAL (SELECT x.id FROM pawl.job AS x
                              WHERE x.id = i.id AND x.token = c.token FOR UPDATE SKIP LOCKED) AS j) AS l;

    -- Not those with a lease of their own: none can come now: giving a lease locks the job.
    SELECT pg_catalog.array_agg(l.id), pg_catalog.array_agg(l.token), pg_catalog.array_agg(l.worker),
           pg_catalog.array_agg(l.us)
    INTO jobs, tokens, workers, took_us
    FROM (SELECT f.id, f.token, f.worker, f.us
          FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(tokens), pg_catalog.unnest(workers),
                          pg_catalog.unnest(took_us)) AS f(id, token, worker, us)
          WHERE (SELECT true FROM pawl.held AS h WHERE h.job_id = f.id AND h.token = f.token) IS NULL
          UNION ALL
          SELECT o.* FROM (
              SELECT j.id, h.token, h.worker,
                     (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - h.since) * 1000000)::bigint AS us
              FROM (SELECT x.job_id, x.token, x.worker, x.since
                    FROM pawl.held AS x
                    WHERE x.lease_until < pg_catalog.clock_timestamp()
                      AND (only_token IS NULL OR x.job_id = only_job)
                      -- Else the server that claimed it renews that claim for it.
                      AND (x.let_go OR x.token = ANY (claims)
                           OR (SELECT true FROM pawl.claim AS c WHERE c.token = x.token) IS NULL)
                    ORDER BY x.lease_until
                    FOR UPDATE SKIP LOCKED) AS h
              CROSS JOIN LATERAL (SELECT x.id FROM pawl.job AS x
                                  WHERE x.id = h.job_id AND x.token = h.token FOR UPDATE SKIP LOCKED) AS j
              LIMIT greatest(most - coalesce(pg_catalog.cardinality(jobs), 0), 0)) AS o) AS l;

    -- Which of them end; and their parents, where these can be had.
    parents := ARRAY(SELECT p.id FROM pawl.job AS p
                     WHERE p.id = ANY (ARRAY(SELECT j.parent_id FROM pawl.job AS j
                                             WHERE j.id = ANY (jobs) AND j.join_of IS NOT NULL))
                     ORDER BY p.id DESC FOR UPDATE SKIP LOCKED);
    SELECT pg_catalog.array_agg(l.id), pg_catalog.array_agg(l.token), pg_catalog.array_agg(l.worker),
           pg_catalog.array_agg(l.us), pg_catalog.array_agg(l.over)
    INTO jobs, tokens, workers, took_us, over
    FROM (SELECT f.*, j.parent_id, j.join_of,
                 j.cancel_by IS NOT NULL OR j.attempt >= j.max_attempts AND k.park IS NOT TRUE AS over
          FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(tokens), pg_catalog.unnest(workers),
                          pg_catalog.unnest(took_us)) AS f(id, token, worker, us)
          CROSS JOIN LATERAL (SELECT x.parent_id, x.join_of, x.cancel_by, x.attempt, x.max_attempts, x.kind
                              FROM pawl.job AS x WHERE x.id = f.id OFFSET 0) AS j
          LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(j.kind, '@', 1)) AS l
    WHERE NOT l.over OR l.join_of IS NULL OR l.parent_id = ANY (parents)
       OR (SELECT true FROM pawl.job AS p WHERE p.id = l.parent_id) IS NULL;

    RETURN QUERY
    WITH input AS MATERIALIZED (
        SELECT l.*, j.tid, j.attempt >= j.max_attempts AS spent,
               pawl.retry_ms(j.attempt, o.retry, o.retry_base_ms, o.retry_cap_ms,
                             k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms) AS wait_ms
        FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(workers), pg_catalog.unnest(took_us),
                        pg_catalog.unnest(over)) AS l(id, worker, us, over)
        CROSS JOIN LATERAL (SELECT x.ctid AS tid, x.attempt, x.max_attempts, x.kind, x.has_options
                            FROM pawl.job AS x WHERE x.id = l.id OFFSET 0) AS j
        LEFT JOIN LATERAL (SELECT x.retry, x.retry_base_ms, x.retry_cap_ms
                           FROM pawl.job_option AS x WHERE x.job_id = l.id OFFSET 0) AS o ON j.has_options
        LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(j.kind, '@', 1)
        WHERE NOT l.over
        LIMIT pg_catalog.cardinality(jobs)
    ), back AS (
        UPDATE pawl.job AS j
        SET token = NULL,
            lane_due_at = NULL,
            waits_for = CASE WHEN i.spent THEN 'operator' END::pawl.wait,
            -- Never before now: that would be behind the marks of other workers.
            due_at = CASE WHEN i.spent THEN 'infinity'
                          ELSE greatest(pg_catalog.clock_timestamp(),
                                        least(j.deadline_at, pg_catalog.clock_timestamp()
                                                             + i.wait_ms::float8 * interval '1 millisecond')) END,
            errors = pawl.errors_add(j.errors, j.attempt, 'lost', lost, i.worker, i.us)
        FROM input AS i
        WHERE j.ctid = i.tid
        RETURNING j.id, i.spent, j.queue, j.lane
    ), stirred AS (
        INSERT INTO pawl.lane_stir (queue, name) SELECT DISTINCT b.queue, b.lane FROM back AS b WHERE b.lane IS NOT NULL
    )
    SELECT b.id, CASE WHEN b.spent THEN 'parked' ELSE 'retrying' END FROM back AS b
    UNION ALL
    SELECT j.id, CASE WHEN j.cancel_by IS NULL THEN 'failed' ELSE 'cancelled' END
    FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(over)) AS l(id, over)
    CROSS JOIN LATERAL (SELECT x.id, x.cancel_by FROM pawl.job AS x WHERE x.id = l.id OFFSET 0) AS j
    WHERE l.over;

    IF true = ANY (over) THEN
        PERFORM pawl.jobs_end(
            pg_catalog.array_agg(l.id),
            pg_catalog.array_agg((CASE WHEN j.cancel_by IS NULL THEN 'failed' ELSE 'cancelled' END)::pawl.state),
            NULL, NULL, pg_catalog.array_agg('lost'::text), pg_catalog.array_agg(lost), pg_catalog.array_agg(l.worker),
            pg_catalog.array_agg(l.us), NULL)
        FROM ROWS FROM (pg_catalog.unnest(jobs), pg_catalog.unnest(workers), pg_catalog.unnest(took_us),
                        pg_catalog.unnest(over)) AS l(id, worker, us, over)
        CROSS JOIN LATERAL (SELECT x.cancel_by FROM pawl.job AS x WHERE x.id = l.id OFFSET 0) AS j
        WHERE l.over;
    END IF;

    -- Leases of these jobs, and of jobs that were settled long since.
    DELETE FROM pawl.held AS h
    WHERE h.job_id = ANY (jobs)
      AND h.token = tokens[pg_catalog.array_position(jobs, h.job_id)];
    IF only_token IS NULL THEN
        DELETE FROM pawl.held AS h
        WHERE h.job_id = ANY (ARRAY(
            SELECT o.job_id FROM pawl.held AS o
            WHERE o.lease_until < pg_catalog.clock_timestamp()
              AND (SELECT true FROM pawl.job AS j WHERE j.id = o.job_id AND j.token = o.token) IS NULL
            ORDER BY o.lease_until LIMIT most FOR UPDATE SKIP LOCKED));
    END IF;

    -- Jobs that others hold at this moment, or whose parents they do, come last.
    WITH rest AS MATERIALIZED (
        SELECT c.token,
               CASE WHEN only_token IS NULL THEN c.job_ids[s.n + 1:] ELSE pg_catalog.array_remove(c.job_ids, only_job) END
               || ARRAY(SELECT i.id
                        FROM pg_catalog.unnest(CASE WHEN only_token IS NULL THEN c.job_ids[1:s.n]
                                                    ELSE ARRAY[only_job] END) AS i(id)
                        WHERE (SELECT true FROM pawl.job AS j WHERE j.id = i.id AND j.token = c.token)
                          AND (SELECT true FROM pawl.held AS h WHERE h.job_id = i.id AND h.token = c.token) IS NULL) AS ids,
               c.tid
        FROM ROWS FROM (pg_catalog.unnest(claims), pg_catalog.unnest(takes)) AS s(token, n)
        CROSS JOIN LATERAL (SELECT x.ctid AS tid, x.token, x.job_ids
                            FROM pawl.claim AS x WHERE x.token = s.token OFFSET 0) AS c
        LIMIT pg_catalog.cardinality(claims)
    ), ended AS (
        DELETE FROM pawl.claim AS c WHERE c.ctid = ANY (ARRAY(SELECT r.tid FROM rest AS r WHERE r.ids = '{}'))
    )
    UPDATE pawl.claim AS c
    SET job_ids = r.ids, swept_at = pg_catalog.clock_timestamp()
    FROM rest AS r
    WHERE c.ctid = r.tid AND r.ids <> '{}';

    RETURN QUERY
    SELECT 0::bigint, 'lanes' WHERE EXISTS (SELECT FROM pawl.lane_stir) OR EXISTS (SELECT FROM pawl.orphan)
    UNION ALL
    SELECT 0::bigint, 'more'
    WHERE n_near = 200 OR (SELECT pg_catalog.sum(t.n) FROM pg_catalog.unnest(takes) AS t(n)) >= most
       OR pg_catalog.cardinality(jobs) >= most;
END
$$;

ALTER FUNCTION pawl.claims_sweep(most integer, only_token uuid, only_job bigint, low bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.correlated(correlation text) RETURNS SETOF bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT j.id
    FROM pawl.job AS j
    WHERE j.meta ->> 'correlation' = correlated.correlation
      AND (NOT pg_has_role(pawl.session_role(), 'pawl_enqueuer', 'USAGE') OR pawl.queue_known(j.queue))
    ORDER BY j.id
$$;

ALTER FUNCTION pawl.correlated(correlation text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql PARALLEL SAFE
    AS $$
BEGIN
    IF delay IS NOT NULL AND due_at IS NOT NULL THEN
        RAISE EXCEPTION 'delay and due_at cannot both be given' USING ERRCODE = '22023';
    ELSIF delay OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
        RAISE EXCEPTION 'delay % is negative', delay USING ERRCODE = '22023';
    ELSIF NOT pg_catalog.isfinite(due_at) THEN
        RAISE EXCEPTION 'due_at must be finite' USING ERRCODE = '22023';
    END IF;
    RETURN coalesce(due_at, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) delay, pg_catalog.clock_timestamp());
END
$$;

ALTER FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue(kind text, payload jsonb DEFAULT '{}'::jsonb, queue text DEFAULT 'default'::text, priority integer DEFAULT 4, delay interval DEFAULT NULL::interval, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT 20, timeout interval DEFAULT NULL::interval, retry text DEFAULT NULL::text, retry_base interval DEFAULT NULL::interval, retry_cap interval DEFAULT NULL::interval, unique_key text DEFAULT NULL::text, unique_scope text DEFAULT NULL::text, unique_states text[] DEFAULT NULL::text[], unique_for interval DEFAULT NULL::interval, on_conflict text DEFAULT NULL::text, lane text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[], parent bigint DEFAULT NULL::bigint, trace text DEFAULT NULL::text, bytes bytea DEFAULT NULL::bytea, correlation text DEFAULT NULL::text, deadline interval DEFAULT NULL::interval) RETURNS bigint
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_variable
DECLARE
    body pg_catalog.bytea := coalesce(bytes, pg_catalog.convert_to(coalesce(payload, 'null')::pg_catalog.text, 'UTF8'));
    names pg_catalog.text := kind OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) queue;
    timeout_ms pg_catalog.int4;
    id pg_catalog.int8;
    asleep pg_catalog.bool;
BEGIN
    IF pg_catalog.num_nonnulls(retry, retry_base, retry_cap, unique_key, unique_scope, unique_states, unique_for, on_conflict, lane,
                               tags, parent, trace, correlation, deadline) OPERATOR(pg_catalog.=) 0
       AND names OPERATOR(pg_catalog.~) '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*(@[0-9]+)? [A-Za-z0-9_][A-Za-z0-9_.:/-]*$'
       AND pg_catalog.octet_length(names) OPERATOR(pg_catalog.<=) 128
       AND priority OPERATOR(pg_catalog.>=) 0 AND priority OPERATOR(pg_catalog.<=) 9
       AND max_attempts OPERATOR(pg_catalog.>=) 1 AND max_attempts OPERATOR(pg_catalog.<=) 1000
       AND pg_catalog.octet_length(body) OPERATOR(pg_catalog.<=) 16777216 THEN
        IF timeout IS NOT NULL THEN
            timeout_ms := pawl.interval_ms('timeout', timeout);
        END IF;
        INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
        VALUES (queue, kind, body, priority,
                CASE WHEN delay IS NULL AND due_at IS NULL THEN pg_catalog.clock_timestamp() ELSE pawl.due_time(delay, due_at) END,
                max_attempts, timeout_ms)
        RETURNING j.id,
                  ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue OPERATOR(pg_catalog.=) enqueue.queue AND s.asleep)
                  OPERATOR(pg_catalog.<>) '{}'
        INTO id, asleep;
        IF asleep THEN
            PERFORM pg_catalog.pg_notify('pawl_wake', queue);
        END IF;
        RETURN id;
    END IF;
    RETURN pawl.enqueue_options(kind, payload, queue, priority, delay, due_at, max_attempts, timeout, retry, retry_base, retry_cap,
                                unique_key, unique_scope, unique_states, unique_for, on_conflict, lane, tags, parent, trace, bytes,
                                correlation, deadline);
END
$_$;

ALTER FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_many(jobs jsonb) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    job jsonb;
    wrong text;
    plain boolean;
BEGIN
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'jobs must be a JSON array of objects' USING ERRCODE = '22023';
    END IF;
    SELECT bool_and((CASE WHEN jsonb_typeof(j.job) = 'object'
                          THEN j.job - '{kind,payload,queue,priority,delay,due_at,max_attempts,timeout}'::text[] = '{}'
                               AND n.names ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*(@[0-9]+)? [A-Za-z0-9_][A-Za-z0-9_.:/-]*$'
                               AND octet_length(n.names) <= 128
                               AND coalesce((j.job ->> 'priority')::integer, 4) BETWEEN 0 AND 9
                               AND coalesce((j.job ->> 'max_attempts')::integer, 20) BETWEEN 1 AND 1000
                               AND octet_length((j.job -> 'payload')::text) <= 16777216 IS NOT FALSE END) IS TRUE)
    INTO plain
    FROM (SELECT jsonb_array_elements(jobs) AS job) AS j
    CROSS JOIN LATERAL (SELECT (j.job ->> 'kind') || ' ' || coalesce(j.job ->> 'queue', 'default') AS names OFFSET 0) AS n;
    IF plain THEN
        RETURN QUERY
            INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
            SELECT coalesce(w.job ->> 'queue', 'default'), w.job ->> 'kind',
                   convert_to(coalesce(w.job -> 'payload', '{}')::text, 'UTF8'), coalesce((w.job ->> 'priority')::smallint, 4),
                   CASE WHEN w.job ?| '{delay,due_at}'
                        THEN pawl.due_time((w.job ->> 'delay')::interval, (w.job ->> 'due_at')::timestamptz)
                        ELSE clock_timestamp() END,
                   coalesce((w.job ->> 'max_attempts')::integer, 20),
                   CASE WHEN w.job ? 'timeout' THEN pawl.interval_ms('timeout', (w.job ->> 'timeout')::interval)::integer END
            FROM (SELECT jsonb_array_elements(jobs) AS job) AS w
            RETURNING j.id;
        PERFORM pg_notify('pawl_wake', q.queue)
        FROM (SELECT DISTINCT s.queue
              FROM pawl.sleeper AS s
              WHERE s.asleep AND s.queue IN (SELECT coalesce(w.job ->> 'queue', 'default')
                                             FROM (SELECT jsonb_array_elements(jobs) AS job) AS w)) AS q;
        RETURN;
    END IF;
    FOR job IN SELECT value FROM jsonb_array_elements(jobs) LOOP
        IF jsonb_typeof(job) <> 'object' THEN
            RAISE EXCEPTION 'jobs must be a JSON array of objects, and % is none', left(job::text, 60)
                USING ERRCODE = '22023';
        END IF;
        SELECT k INTO wrong FROM jsonb_object_keys(job) AS k
        WHERE k NOT IN ('kind', 'payload', 'queue', 'priority', 'delay', 'due_at', 'max_attempts', 'timeout', 'retry',
                        'retry_base', 'retry_cap', 'unique_key', 'unique_scope', 'unique_states', 'unique_for',
                        'on_conflict', 'lane', 'tags', 'parent', 'trace', 'correlation', 'deadline')
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'a job has no member "%"', wrong USING ERRCODE = '22023', HINT = 'See the parameters of pawl.enqueue.';
        END IF;
        RETURN NEXT pawl.enqueue(
            job ->> 'kind', coalesce(job -> 'payload', '{}'), coalesce(job ->> 'queue', 'default'),
            coalesce((job ->> 'priority')::integer, 4), (job ->> 'delay')::interval, (job ->> 'due_at')::timestamptz,
            coalesce((job ->> 'max_attempts')::integer, 20), (job ->> 'timeout')::interval, job ->> 'retry',
            (job ->> 'retry_base')::interval, (job ->> 'retry_cap')::interval, job ->> 'unique_key', job ->> 'unique_scope',
            (SELECT array_agg(s) FROM jsonb_array_elements_text(job -> 'unique_states') AS s),
            (job ->> 'unique_for')::interval, job ->> 'on_conflict', job ->> 'lane',
            (SELECT array_agg(t) FROM jsonb_array_elements_text(job -> 'tags') AS t), (job ->> 'parent')::bigint,
            job ->> 'trace', NULL, job ->> 'correlation', (job ->> 'deadline')::interval);
    END LOOP;
END
$_$;

ALTER FUNCTION pawl.enqueue_many(jobs jsonb) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text DEFAULT 'default'::text, priority integer DEFAULT 4, delay interval DEFAULT NULL::interval, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT 20, timeout interval DEFAULT NULL::interval) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    as_queue pawl.queue_name;
    as_kind pawl.kind_name;
    as_priority pawl.priority;
    as_attempts pawl.max_attempts;
    as_timeout pawl.timeout_ms;
BEGIN
    PERFORM pawl.job_check(queue, kind, priority, max_attempts, 0);
    as_queue := queue;
    as_kind := kind;
    as_priority := coalesce(priority, 4);
    as_attempts := coalesce(max_attempts, 20);
    as_timeout := pawl.interval_ms('timeout', timeout);
    RETURN QUERY
        INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
        SELECT as_queue, as_kind, convert_to(coalesce(p.payload, 'null')::text, 'UTF8'), as_priority,
               (SELECT pawl.due_time(delay, due_at)), as_attempts, as_timeout
        FROM (SELECT unnest(payloads) AS payload) AS p
        RETURNING j.id;
    IF ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue = enqueue_many.queue AND s.asleep) <> '{}' THEN
        PERFORM pg_notify('pawl_wake', queue);
    END IF;
END
$$;

ALTER FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_options(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    states integer := 0;
    mode integer := array_position(ARRAY['keep', 'replace', 'reschedule', 'refuse'], coalesce(on_conflict, 'keep')) - 1;
    body bytea := coalesce(bytes, convert_to(coalesce(payload, 'null')::text, 'UTF8'));
    word text;
BEGIN
    PERFORM pawl.job_check(queue, kind, priority, max_attempts, octet_length(body));
    IF lane IS NOT NULL THEN PERFORM pawl.name_check('lane', lane); END IF;
    IF tags IS NOT NULL THEN PERFORM pawl.name_check('tag', t) FROM unnest(tags) AS t; END IF;
    IF cardinality(tags) > 32 THEN
        RAISE EXCEPTION 'a job has at most 32 tags, not %', cardinality(tags) USING ERRCODE = '54000';
    ELSIF octet_length(trace) > 1024 THEN
        RAISE EXCEPTION 'trace has more than 1024 bytes' USING ERRCODE = '54000';
    ELSIF octet_length(correlation) > 1024 THEN
        RAISE EXCEPTION 'correlation has more than 1024 bytes' USING ERRCODE = '54000';
    ELSIF correlation = '' THEN
        RAISE EXCEPTION 'correlation is empty' USING ERRCODE = '22023', HINT = 'NULL is none.';
    ELSIF octet_length(unique_key) > 65536 THEN
        RAISE EXCEPTION 'unique_key has more than 65536 bytes' USING ERRCODE = '54000';
    ELSIF unique_key = '' THEN
        RAISE EXCEPTION 'unique_key is empty' USING ERRCODE = '22023', HINT = 'NULL is no key.';
    ELSIF retry IS NOT NULL AND retry NOT IN ('exponential', 'quadratic') THEN
        RAISE EXCEPTION 'retry "%" is neither exponential nor quadratic', retry USING ERRCODE = '22023',
            HINT = 'A table of delays belongs to a kind: pawl kind set.';
    ELSIF mode IS NULL THEN
        RAISE EXCEPTION 'on_conflict "%" is none of keep, replace, reschedule, refuse', on_conflict USING ERRCODE = '22023';
    ELSIF unique_scope NOT IN ('kind', 'queue', 'global') THEN
        RAISE EXCEPTION 'unique_scope "%" is none of kind, queue, global', unique_scope USING ERRCODE = '22023';
    END IF;
    IF unique_states IS NULL THEN
        states := 7;
    ELSE
        FOREACH word IN ARRAY unique_states LOOP
            states := states | CASE word WHEN 'waiting' THEN 1 WHEN 'running' THEN 2 WHEN 'parked' THEN 4 END;
            IF states IS NULL THEN
                RAISE EXCEPTION 'unique_states: "%" is none of waiting, running, parked', word USING ERRCODE = '22023';
            END IF;
        END LOOP;
    END IF;
    RETURN (SELECT r.id FROM pawl.enqueue_row(
        queue, kind, body, coalesce(priority, 4)::smallint, delay, due_at, coalesce(max_attempts, 20),
        pawl.interval_ms('timeout', timeout)::integer, retry::pawl.retry,
        pawl.interval_ms('retry_base', retry_base)::integer, pawl.interval_ms('retry_cap', retry_cap)::integer,
        unique_key, coalesce(unique_scope, 'kind'), states, coalesce(pawl.interval_ms('unique_for', unique_for), 0), mode,
        lane, parent,
        CASE WHEN tags IS NOT NULL OR trace IS NOT NULL OR correlation IS NOT NULL
             THEN jsonb_strip_nulls(jsonb_build_object('tags', to_jsonb(tags), 'trace', trace,
                                                       'correlation', correlation)) END,
        now() + pawl.interval_ms('deadline', deadline) * interval '1 millisecond') AS r);
END
$$;

ALTER FUNCTION pawl.enqueue_options(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    id pg_catalog.int8;
    asleep pg_catalog.bool;
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
    VALUES (queue, kind, payload, priority,
            CASE WHEN at_us OPERATOR(pg_catalog.<>) 0
                 THEN pg_catalog.timestamptz 'epoch' OPERATOR(pg_catalog.+)
                      (at_us::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 microsecond'::pg_catalog.interval)
                 ELSE pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+)
                      (delay_ms::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 millisecond'::pg_catalog.interval) END,
            max_attempts, CASE WHEN timeout_ms OPERATOR(pg_catalog.<>) 0 THEN timeout_ms END)
    RETURNING j.id,
              ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue OPERATOR(pg_catalog.=) enqueue_plain.queue AND s.asleep)
              OPERATOR(pg_catalog.<>) '{}'
    INTO id, asleep;
    IF asleep THEN
        PERFORM pg_catalog.pg_notify('pawl_wake', queue);
    END IF;
    RETURN id;
END
$$;

ALTER FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, delay interval, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    holder bigint;
    own_retry constant boolean := num_nonnulls(retry, retry_base_ms, retry_cap_ms) > 0;
    told text;
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms, lane, parent_id, meta,
                               deadline_at, has_options)
    VALUES (queue, kind, payload, priority, least(pawl.due_time(delay, due_at), deadline_at), max_attempts, timeout_ms, lane,
            parent_id, meta, deadline_at, nullif(own_retry OR key IS NOT NULL, false))
    RETURNING j.id,
              CASE WHEN ARRAY(SELECT s.asleep FROM pawl.sleeper AS s WHERE s.queue = enqueue_row.queue AND s.asleep) <> '{}'
                   THEN pg_notify('pawl_wake', queue)::text END
    INTO id, told;
    existed := false;
    IF own_retry THEN
        PERFORM pawl.retry_put(id, retry, retry_base_ms, retry_cap_ms);
    END IF;
    IF key IS NOT NULL THEN
        holder := pawl.guard_take(id, key_scope, key, key_states, key_ms, key_mode);
        IF holder = -1 AND NOT has_column_privilege('pawl.guard', 'job_id', 'SELECT') THEN
            RAISE EXCEPTION 'a job of another queue holds this unique key' USING ERRCODE = 'PW004',
                HINT = 'A global key is shared by all queues. Use unique_scope queue or kind for one of your own.';
        ELSIF holder = -1 THEN
            SELECT g.job_id INTO holder FROM pawl.guard AS g WHERE g.hash = pawl.unique_hash(key_scope, queue, kind, key);
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the unique key is fought over' USING ERRCODE = '40001', HINT = 'Try again.';
            END IF;
        END IF;
        IF holder IS NOT NULL THEN
            IF key_mode = 3 THEN
                RAISE EXCEPTION 'job % holds this unique key', holder USING ERRCODE = 'PW004', DETAIL = 'job ' || holder;
            END IF;
            id := holder;
            existed := true;
        END IF;
    END IF;
END
$$;

ALTER FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, delay interval, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) OWNER TO pawl_owner;

CREATE FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) RETURNS jsonb
    LANGUAGE sql PARALLEL SAFE
    RETURN (CASE WHEN (jsonb_array_length(errors) >= 20) THEN (errors - 0) ELSE COALESCE(errors, '[]'::jsonb) END || jsonb_build_array(jsonb_build_object('attempt', attempt, 'at', clock_timestamp(), 'class', class, 'error', "left"(error, 4000), 'worker', worker, 'run_us', run_us)));

ALTER FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.guard_maintain() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH old AS MATERIALIZED (
        SELECT g.hash, g.job_id, g.free_at
        FROM pawl.guard AS g
        WHERE g.free_at < clock_timestamp()
           OR g.free_at IS NULL AND NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = g.job_id)
        LIMIT 10000
    ), free AS MATERIALIZED (
        -- Compared with what was seen above: a key that was given to another job meanwhile is left alone.
        SELECT g.hash
        FROM old AS o
        JOIN pawl.guard AS g ON g.hash = o.hash AND g.job_id = o.job_id AND g.free_at IS NOT DISTINCT FROM o.free_at
        FOR UPDATE OF g SKIP LOCKED
    ), gone AS (
        DELETE FROM pawl.guard AS g USING free AS f WHERE g.hash = f.hash RETURNING 1
    )
    SELECT count(*) FROM gone
$$;

ALTER FUNCTION pawl.guard_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    key_hash uuid;
    fresh pawl.job;
    held record;
BEGIN
    SELECT * INTO fresh FROM pawl.job AS j WHERE j.id = new_id AND j.token IS NULL AND pawl.is_mine(j.xmin);
    key_hash := pawl.unique_hash(scope, fresh.queue, fresh.kind, key);
    IF key_hash IS NULL OR fresh.has_options IS NOT TRUE THEN
        RAISE EXCEPTION 'job % is not new, or does not carry a key', new_id USING ERRCODE = 'PW001';
    END IF;
    INSERT INTO pawl.job_option AS o (job_id, guard) VALUES (new_id, key_hash)
    ON CONFLICT (job_id) DO UPDATE SET guard = excluded.guard;
    FOR look IN 1 .. 100 LOOP
        -- Waits for others who are about to take it: whether they will is not known before they commit.
        INSERT INTO pawl.guard (hash, job_id, keep_ms) VALUES (key_hash, new_id, keep) ON CONFLICT (hash) DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        SELECT g.job_id, g.free_at, j.id AS live_id, j.token, j.waits_for, j.queue INTO held
        FROM pawl.guard AS g LEFT JOIN pawl.job AS j ON j.id = g.job_id
        WHERE g.hash = key_hash;
        CONTINUE WHEN NOT FOUND; -- freed at this moment
        IF held.job_id = new_id THEN
            RETURN NULL;
        END IF;
        IF (CASE WHEN held.live_id IS NULL THEN coalesce(held.free_at > clock_timestamp(), false)
                 WHEN held.token IS NOT NULL THEN states & 2 <> 0
                 WHEN held.waits_for = 'operator' THEN states & 4 <> 0
                 ELSE states & 1 <> 0 END) THEN
            DELETE FROM pawl.job_option AS o WHERE o.job_id = new_id;
            DELETE FROM pawl.job AS j WHERE j.id = new_id;
            IF mode IN (1, 2) THEN
                UPDATE pawl.job AS j
                SET due_at = CASE WHEN j.waits_for IS NULL THEN fresh.due_at ELSE j.due_at END,
                    payload = CASE mode WHEN 1 THEN fresh.payload ELSE j.payload END,
                    priority = CASE mode WHEN 1 THEN fresh.priority ELSE j.priority END
                WHERE j.id = held.job_id AND j.token IS NULL AND j.queue = fresh.queue;
            END IF;
            IF scope = 'global'
               AND coalesce(held.queue, (SELECT h.queue FROM pawl.history AS h WHERE h.id = held.job_id LIMIT 1))
                   IS DISTINCT FROM fresh.queue THEN
                RETURN -1;
            END IF;
            RETURN held.job_id;
        END IF;
        UPDATE pawl.guard AS g
        SET job_id = new_id, keep_ms = keep, free_at = NULL
        WHERE g.hash = key_hash AND g.job_id = held.job_id;
        IF FOUND THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'the unique key is fought over' USING ERRCODE = '40001', HINT = 'Try again.';
END
$$;

ALTER FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) OWNER TO pawl_owner;

CREATE TABLE pawl.history (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    expires_on date NOT NULL,
    state pawl.state NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    worker text,
    payload bytea NOT NULL,
    result bytea,
    errors jsonb,
    lane text,
    parent_id bigint,
    meta jsonb,
    cancel_by text,
    step text,
    last_state bytea,
    timeline text,
    ticket bytea
)
PARTITION BY RANGE (expires_on);

ALTER TABLE pawl.history OWNER TO pawl_owner;

COMMENT ON TABLE pawl.history IS 'Finished jobs, partitioned by the day on which they are forgotten';

CREATE FUNCTION pawl.history_again(h pawl.history, machine boolean) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    INSERT INTO pawl.job AS l (queue, kind, payload, priority, max_attempts, lane, meta, is_machine)
    VALUES (h.queue, h.kind, h.payload, h.priority, h.max_attempts, h.lane,
            coalesce(h.meta, '{}') || jsonb_build_object('retry_of', h.id), nullif(machine, false))
    RETURNING l.id
$$;

ALTER FUNCTION pawl.history_again(h pawl.history, machine boolean) OWNER TO pawl_owner;

CREATE FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET lock_timeout TO '2s'
    AS $_$
DECLARE
    day date;
    part text;
BEGIN
    made := 0;
    dropped := 0;
    -- 0x7061776C is "pawl" in ASCII; 2 is this duty (1 is migration).
    IF NOT pg_try_advisory_xact_lock(x'7061776C'::integer, 2) THEN
        RETURN;
    END IF;

    FOR day IN
        SELECT DISTINCT current_date + keep.days + ahead.days
        FROM (SELECT 7 AS days UNION SELECT keep_days FROM pawl.queue WHERE keep_days > 0) AS keep,
             generate_series(0, 3) AS ahead(days)
        ORDER BY 1
    LOOP
        part := 'history_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('pawl.' || part) IS NOT NULL;
        EXECUTE format('CREATE TABLE pawl.%I (LIKE pawl.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        -- What landed in the default partition meanwhile moves to where it belongs, or attaching would be refused.
        EXECUTE format('WITH moved AS (DELETE FROM pawl.history_default WHERE expires_on = %L RETURNING *)
                        INSERT INTO pawl.%I SELECT * FROM moved', day, part);
        -- Attaching takes a weaker lock on pawl.history than creating a partition in place would.
        EXECUTE format('ALTER TABLE pawl.history ATTACH PARTITION pawl.%I FOR VALUES FROM (%L) TO (%L)',
                       part, day, day + 1);
        made := made + 1;
    END LOOP;

    FOR part IN
        SELECT c.relname
        FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'pawl.history'::regclass
          AND c.relname ~ '^history_[0-9]{8}$'
          AND to_date(right(c.relname, 8), 'YYYYMMDD') < current_date
        ORDER BY 1
    LOOP
        EXECUTE format('DROP TABLE pawl.%I', part);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM pawl.history_default WHERE expires_on < current_date;
END
$_$;

ALTER FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.interval_ms(what text, i interval) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    ms pg_catalog.int8;
BEGIN
    IF i IS NULL THEN
        RETURN NULL;
    ELSIF i OPERATOR(pg_catalog.<) '0'::pg_catalog.interval THEN
        RAISE EXCEPTION '% % is negative', what, i USING ERRCODE = '22023';
    END IF;
    ms := pg_catalog.date_part('epoch', i) OPERATOR(pg_catalog.*) '1000'::pg_catalog.float8;
    RETURN CASE WHEN ms OPERATOR(pg_catalog.<>) 0 THEN ms END;
END
$$;

ALTER FUNCTION pawl.interval_ms(what text, i interval) OWNER TO pawl_owner;

CREATE FUNCTION pawl.is_held(job bigint, claim_token uuid) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pawl.held AS h WHERE h.job_id = job AND h.token = claim_token);
END
$$;

ALTER FUNCTION pawl.is_held(job bigint, claim_token uuid) OWNER TO pawl_owner;

CREATE FUNCTION pawl.is_mine(row_xmin xid) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_xact_status((t.n + ((row_xmin::text::bigint - t.n + 2147483648) & 4294967295) - 2147483648)::text::xid8)
           = 'in progress'
    FROM (SELECT pg_current_xact_id()::text::bigint AS n) AS t
$$;

ALTER FUNCTION pawl.is_mine(row_xmin xid) OWNER TO pawl_owner;

CREATE FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pawl.name_check('queue', queue), pawl.name_check('kind', kind);
    IF priority NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'priority % is not between 0 and 9', priority USING ERRCODE = '22023';
    ELSIF max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max_attempts % is not between 1 and 1000', max_attempts USING ERRCODE = '22023';
    ELSIF bytes > 16777216 THEN
        RAISE EXCEPTION 'the payload has % bytes, and the limit is 16777216', bytes
            USING ERRCODE = '54000', HINT = 'Store it elsewhere and pass a reference to it.';
    END IF;
END
$$;

ALTER FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.job_park(job bigint, reason text, worker text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    of_queue text;
    of_lane  text;
BEGIN
    BEGIN
        UPDATE pawl.job AS j
        SET waits_for = 'operator', due_at = 'infinity', lane_due_at = NULL, attempt = j.attempt + 1,
            errors = pawl.errors_add(j.errors, j.attempt + 1, 'unclaimable', reason, worker, 0)
        WHERE j.id = job AND j.token IS NULL
        RETURNING j.queue, j.lane INTO of_queue, of_lane;
    EXCEPTION WHEN data_exception OR data_corrupted OR index_corrupted OR internal_error OR program_limit_exceeded THEN
        UPDATE pawl.job AS j
        SET waits_for = 'operator', due_at = 'infinity', lane_due_at = NULL, attempt = j.attempt + 1,
            errors = pawl.errors_add(NULL, j.attempt + 1, 'unclaimable', reason, worker, 0)
        WHERE j.id = job AND j.token IS NULL
        RETURNING j.queue, j.lane INTO of_queue, of_lane;
    END;
    -- It may have been the one that was called: the next of its lane is.
    IF of_lane IS NOT NULL THEN
        INSERT INTO pawl.lane_stir (queue, name) VALUES (of_queue, of_lane);
        PERFORM pg_notify('pawl_wake', '#');
    END IF;
    RETURN of_queue IS NOT NULL;
END
$$;

ALTER FUNCTION pawl.job_park(job bigint, reason text, worker text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.job_start_at(job bigint, first_step text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM pawl.name_check('step', first_step);
    UPDATE pawl.job AS j SET is_machine = true WHERE j.id = job AND j.token IS NULL AND pawl.is_mine(j.xmin);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO pawl.machine AS m (job_id, step) VALUES (job, first_step)
    ON CONFLICT (job_id) DO UPDATE SET step = excluded.step;
    RETURN true;
END
$$;

ALTER FUNCTION pawl.job_start_at(job bigint, first_step text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.jobs_end(ids bigint[], states pawl.state[], tokens uuid[], results bytea[], classes text[], errors text[], workers text[], run_us bigint[], lines text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    now  constant timestamptz := pg_catalog.clock_timestamp();
    told bigint;
BEGIN
    -- The highest id first: a parent's id is lower than its children's, so a child that ends and is a parent itself takes
    -- these locks in the same order. Everything below sees what was committed before.
    PERFORM FROM (SELECT DISTINCT j.parent_id AS id FROM pawl.job AS j
                  WHERE j.id = ANY (ids) AND j.join_of IS NOT NULL ORDER BY 1 DESC) AS f
    CROSS JOIN LATERAL (SELECT FROM pawl.job AS p WHERE p.id = f.id FOR UPDATE) AS l;

    WITH input AS MATERIALIZED (
        SELECT i.*, j.tid
        FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(states), pg_catalog.unnest(tokens),
                        pg_catalog.unnest(results), pg_catalog.unnest(classes), pg_catalog.unnest(errors),
                        pg_catalog.unnest(workers), pg_catalog.unnest(run_us), pg_catalog.unnest(lines))
             AS i(id, state, ended_under, result, class, error, worker, run_us, line)
        CROSS JOIN LATERAL (SELECT x.ctid AS tid FROM pawl.job AS x WHERE x.id = i.id OFFSET 0) AS j
        LIMIT pg_catalog.cardinality(ids)
    ), gone AS (
        DELETE FROM pawl.job AS j
        USING input AS e
        WHERE j.ctid = e.tid
        RETURNING j.*, e.state, e.ended_under, e.result, e.class, e.error, e.worker, e.run_us, e.line
    ), machines AS (
        DELETE FROM pawl.machine AS m
        WHERE m.job_id = ANY (ARRAY(SELECT g.id FROM gone AS g WHERE g.is_machine))
        RETURNING m.*
    ), options AS (
        DELETE FROM pawl.job_option AS o
        WHERE o.job_id = ANY (ARRAY(SELECT g.id FROM gone AS g WHERE g.has_options))
        RETURNING o.*
    ), past AS (
        INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt, max_attempts,
                                  priority, queue, kind, worker, payload, result, errors, lane, parent_id, meta, cancel_by,
                                  step, last_state, timeline, ticket)
        SELECT g.id, g.created_at, coalesce(g.lane_due_at, g.due_at),
               now - coalesce(g.run_us, 0)::float8 * interval '1 microsecond', now,
               (now AT TIME ZONE 'UTC')::date + greatest(coalesce(q.keep_days, 7), 1),
               g.state, g.attempt, g.max_attempts, g.priority, g.queue, g.kind, g.worker, g.payload, g.result,
               CASE WHEN g.class IS NULL THEN g.errors
                    ELSE pawl.errors_add(g.errors, g.attempt, g.class, g.error, g.worker, g.run_us) END,
               g.lane, g.parent_id, g.meta, CASE WHEN g.state = 'cancelled' THEN g.cancel_by END,
               m.step, CASE WHEN g.state <> 'done' THEN m.state END,
               CASE WHEN m.timeline IS NOT NULL THEN pawl.timeline_add(m.timeline, g.line, now) END,
               CASE WHEN m.step IS NOT NULL OR g.state <> 'done' THEN pawl.ticket(g.ended_under, g.id, m.step) END
        FROM gone AS g
        LEFT JOIN machines AS m ON m.job_id = g.id
        LEFT JOIN options AS o ON o.job_id = g.id
        LEFT JOIN pawl.queue AS q ON q.name = g.queue
        WHERE coalesce(q.keep_days, 7) > 0 OR o.watched
    ), keys AS MATERIALIZED (
        -- One that somebody is just about to enqueue with is skipped: an end waits for no stranger's transaction. What is
        -- left of such a key says nothing once its job is gone, and guard_maintain removes it.
        SELECT k.hash, k.keep_ms
        FROM options AS o
        CROSS JOIN LATERAL (SELECT x.hash, x.keep_ms FROM pawl.guard AS x
                            WHERE x.hash = o.guard AND x.job_id = o.job_id FOR UPDATE SKIP LOCKED) AS k
    ), freed AS (
        DELETE FROM pawl.guard AS k WHERE k.hash = ANY (ARRAY(SELECT f.hash FROM keys AS f WHERE f.keep_ms = 0))
    ), freed_later AS (
        UPDATE pawl.guard AS k SET free_at = now + k.keep_ms::float8 * interval '1 millisecond'
        WHERE k.hash = ANY (ARRAY(SELECT f.hash FROM keys AS f WHERE f.keep_ms > 0))
    ), forgotten AS (
        DELETE FROM pawl.signal AS s WHERE s.job_id = ANY (ARRAY(SELECT m.job_id FROM machines AS m WHERE m.inbox > 0))
    ), childless AS (
        DELETE FROM pawl.child AS c WHERE c.parent_id = ANY (ARRAY(SELECT m.job_id FROM machines AS m WHERE m.joins > 0))
    ), orphaned AS (
        INSERT INTO pawl.orphan (child_id, parent_id)
        SELECT k.id, k.parent_id
        FROM pawl.job AS k
        WHERE k.parent_id = ANY (ARRAY(SELECT m.job_id FROM machines AS m WHERE m.cancel_rest)) AND k.join_of IS NOT NULL
        ON CONFLICT DO NOTHING
        RETURNING 1
    ), stirred AS (
        INSERT INTO pawl.lane_stir (queue, name)
        SELECT DISTINCT g.queue, g.lane FROM gone AS g WHERE g.lane IS NOT NULL
    ), counted AS MATERIALIZED (
        SELECT g.parent_id, g.join_of, pg_catalog.count(*)::integer AS n, pg_catalog.bool_or(g.state <> 'done') AS any_failed
        FROM gone AS g
        WHERE g.join_of IS NOT NULL AND g.parent_id <> ALL (ids)
        GROUP BY g.parent_id, g.join_of
    ), joined AS (
        -- Children of an earlier join that their parent did not wait for count for nothing.
        UPDATE pawl.machine AS p
        SET children_left = p.children_left - c.n
        FROM (SELECT f.*, m.tid
              FROM counted AS f
              CROSS JOIN LATERAL (SELECT x.ctid AS tid FROM pawl.machine AS x
                                  WHERE x.job_id = f.parent_id AND x.joins = f.join_of AND x.children_left IS NOT NULL
                                  OFFSET 0) AS m
              LIMIT pg_catalog.cardinality(ids)) AS c
        WHERE p.ctid = c.tid
        RETURNING p.job_id, p.joins, p.children_left <= p.join_at OR p.fail_fast AND c.any_failed AS over
    ), shown AS (
        INSERT INTO pawl.child (parent_id, child_id, kind, state, result, error)
        SELECT g.parent_id, g.id, g.kind, g.state, g.result, pg_catalog."left"(g.error, 1000)
        FROM gone AS g
        JOIN joined AS p ON p.job_id = g.parent_id AND p.joins = g.join_of
        ON CONFLICT DO NOTHING
    ), woken AS (
        UPDATE pawl.job AS p
        SET due_at = least(p.due_at, now)
        WHERE p.id = ANY (ARRAY(SELECT w.job_id FROM joined AS w WHERE w.over)) AND p.waits_for = 'children' AND p.token IS NULL
        RETURNING p.queue
    )
    SELECT pg_catalog.count(t.said) INTO told
    FROM (SELECT pg_catalog.pg_notify('pawl_done', o.job_id::text)::text AS said FROM options AS o WHERE o.watched
          UNION ALL
          SELECT pg_catalog.pg_notify('pawl_wake', w.queue)::text
          FROM (SELECT DISTINCT woken.queue FROM woken) AS w
          WHERE EXISTS (SELECT FROM pawl.sleeper AS s WHERE s.queue = w.queue AND s.asleep)
          UNION ALL
          SELECT pg_catalog.pg_notify('pawl_wake', '#')::text WHERE EXISTS (SELECT FROM orphaned)) AS t;
END
$$;

ALTER FUNCTION pawl.jobs_end(ids bigint[], states pawl.state[], tokens uuid[], results bytea[], classes text[], errors text[], workers text[], run_us bigint[], lines text[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.jobs_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], delays_ms bigint[], results bytea[], errors text[], run_us bigint[], worker text, over uuid[], lines text[]) RETURNS TABLE(n bigint, state text, due_ms bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    ends   bigint[];     -- positions in the input
    states pawl.state[]; -- in parallel: as what they end
    keeps  bigint[];     -- positions of the others
BEGIN
    -- For update, as pawl.assert_claim expects of all who end a claim. Whether the end was asked for is read from the locked row.
    SELECT pg_catalog.array_agg(d.n) FILTER (WHERE d.ends), pg_catalog.array_agg(d.state) FILTER (WHERE d.ends),
           pg_catalog.array_agg(d.n) FILTER (WHERE NOT d.ends)
    INTO ends, states, keeps
    FROM (SELECT i.n,
                 i.outcome IN ('done', 'cancel', 'reject') OR j.cancel_by IS NOT NULL
                 OR (i.outcome = 'fail' OR i.outcome = 'retry' AND j.attempt >= j.max_attempts)
                    AND k.park IS NOT TRUE AS ends,
                 (CASE WHEN i.outcome = 'done' THEN 'done'
                       WHEN i.outcome = 'cancel' OR j.cancel_by IS NOT NULL THEN 'cancelled'
                       ELSE 'failed' END)::pawl.state AS state
          FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(tokens), pg_catalog.unnest(outcomes))
               WITH ORDINALITY AS i(id, token, outcome, n)
          CROSS JOIN LATERAL (SELECT x.attempt, x.max_attempts, x.cancel_by, x.kind
                              FROM pawl.job AS x WHERE x.id = i.id AND x.token = i.token FOR UPDATE) AS j
          LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(j.kind, '@', 1)) AS d;

    IF keeps IS NOT NULL THEN
        RETURN QUERY
        WITH input AS MATERIALIZED (
            SELECT i.*, j.tid, i.outcome = 'fail' OR i.outcome = 'retry' AND j.attempt >= j.max_attempts AS parks,
                   CASE WHEN i.delay_ms >= 0 THEN i.delay_ms
                        ELSE pawl.retry_ms(j.attempt, o.retry, o.retry_base_ms, o.retry_cap_ms,
                                           k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms) END AS wait_ms
            FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(outcomes), pg_catalog.unnest(delays_ms),
                            pg_catalog.unnest(errors), pg_catalog.unnest(run_us))
                 WITH ORDINALITY AS i(id, outcome, delay_ms, error, run_us, n)
            CROSS JOIN LATERAL (SELECT x.ctid AS tid, x.attempt, x.max_attempts, x.kind, x.has_options
                                FROM pawl.job AS x WHERE x.id = i.id OFFSET 0) AS j
            LEFT JOIN LATERAL (SELECT x.retry, x.retry_base_ms, x.retry_cap_ms
                               FROM pawl.job_option AS x WHERE x.job_id = i.id OFFSET 0) AS o ON j.has_options
            LEFT JOIN pawl.kind AS k ON k.name = pg_catalog.split_part(j.kind, '@', 1)
            WHERE (i.n IN (SELECT y.n FROM pg_catalog.unnest(keeps) AS y(n))) IS TRUE
            LIMIT pg_catalog.cardinality(keeps)
        )
        UPDATE pawl.job AS j
        SET token = NULL,
            attempt = CASE WHEN i.outcome IN ('retry', 'fail') THEN j.attempt ELSE j.attempt - 1 END,
            -- One that is released waits on for its signal or its children: its claim was for nothing.
            waits_for = CASE WHEN i.parks THEN 'operator' WHEN i.outcome = 'release' THEN j.waits_for END::pawl.wait,
            lane_due_at = CASE WHEN i.outcome = 'release' THEN j.lane_due_at END,
            -- Never before now, which would be behind the marks of other workers; but for what is released, see below.
            due_at = CASE WHEN i.parks THEN 'infinity'
                          WHEN i.outcome = 'release' THEN j.due_at
                          ELSE greatest(pg_catalog.clock_timestamp(),
                                        least(j.deadline_at, pg_catalog.clock_timestamp()
                                                             + i.wait_ms::float8 * interval '1 millisecond')) END,
            errors = CASE WHEN i.outcome IN ('retry', 'fail')
                          THEN pawl.errors_add(j.errors, j.attempt,
                                               CASE i.outcome WHEN 'retry' THEN 'transient' ELSE 'permanent' END,
                                               i.error, worker, i.run_us)
                          ELSE j.errors END
        FROM input AS i
        WHERE j.ctid = i.tid
        RETURNING i.n,
                  CASE WHEN i.parks THEN 'parked' WHEN i.outcome = 'release' THEN 'ready'
                       WHEN i.outcome = 'snooze' THEN 'scheduled' ELSE 'retrying' END,
                  CASE WHEN j.due_at < 'infinity'
                       THEN (pg_catalog.date_part('epoch', j.due_at - pg_catalog.clock_timestamp()) * 1000::float8)::bigint END;
    END IF;

    -- Released jobs keep their place, which is behind the marks of other workers: they are told from where on to look.
    IF 'release' = ANY (outcomes) THEN
        PERFORM pg_catalog.pg_notify('pawl_wake', '<' || b.due_us || ' ' || b.queue)
        FROM (SELECT j.queue, (pg_catalog.date_part('epoch', pg_catalog.min(j.due_at)) * 1000000)::bigint AS due_us
              FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(outcomes)) AS i(id, outcome)
              CROSS JOIN LATERAL (SELECT x.queue, x.due_at, x.token FROM pawl.job AS x WHERE x.id = i.id OFFSET 0) AS j
              WHERE i.outcome = 'release' AND j.token IS NULL AND j.due_at < pg_catalog.clock_timestamp()
              GROUP BY j.queue) AS b;
    END IF;

    IF ends IS NOT NULL THEN
        PERFORM pawl.jobs_end(
            pg_catalog.array_agg(i.id), pg_catalog.array_agg(e.state), pg_catalog.array_agg(i.token),
            pg_catalog.array_agg(i.result),
            pg_catalog.array_agg(CASE i.outcome WHEN 'retry' THEN 'transient' WHEN 'fail' THEN 'permanent'
                                                WHEN 'reject' THEN 'business' END),
            pg_catalog.array_agg(i.error), pg_catalog.array_agg(worker), pg_catalog.array_agg(i.run_us),
            pg_catalog.array_agg(i.line))
        FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(tokens), pg_catalog.unnest(outcomes),
                        pg_catalog.unnest(results), pg_catalog.unnest(errors), pg_catalog.unnest(run_us),
                        pg_catalog.unnest(lines))
             WITH ORDINALITY AS i(id, token, outcome, result, error, run_us, line, n)
        JOIN ROWS FROM (pg_catalog.unnest(ends), pg_catalog.unnest(states)) AS e(n, state) ON e.n = i.n;
        RETURN QUERY
        SELECT e.n, e.state::text, NULL::bigint
        FROM ROWS FROM (pg_catalog.unnest(ends), pg_catalog.unnest(states)) AS e(n, state);
    END IF;
    PERFORM pawl.claims_end(over);
END
$$;

ALTER FUNCTION pawl.jobs_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], delays_ms bigint[], results bytea[], errors text[], run_us bigint[], worker text, over uuid[], lines text[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.keeps_place(hold boolean, token uuid, attempt integer, waits_for pawl.wait) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((token IS NOT NULL) OR (hold AND (attempt > 0) AND (waits_for IS NULL)));

ALTER FUNCTION pawl.keeps_place(hold boolean, token uuid, attempt integer, waits_for pawl.wait) OWNER TO pawl_owner;

CREATE TABLE pawl.lane_rule (
    queue text NOT NULL,
    pattern text NOT NULL,
    max_running integer DEFAULT 1 NOT NULL,
    rate_per_s double precision,
    burst double precision DEFAULT 1 NOT NULL,
    strict boolean DEFAULT false NOT NULL,
    hold boolean DEFAULT false NOT NULL,
    CONSTRAINT lane_rule_burst CHECK ((burst >= (1)::double precision)),
    CONSTRAINT lane_rule_max CHECK (((max_running >= 1) AND (max_running <= 100000))),
    CONSTRAINT lane_rule_rate CHECK ((rate_per_s > (0)::double precision))
);

ALTER TABLE pawl.lane_rule OWNER TO pawl_owner;

COMMENT ON TABLE pawl.lane_rule IS 'Limits of lanes that differ from the default of one at a time';

CREATE FUNCTION pawl.lane_limits(queue text, lane text) RETURNS pawl.lane_rule
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT r.*
    FROM pawl.lane_rule AS r
    WHERE r.queue IN (lane_limits.queue, '*')
      AND lane_limits.lane LIKE replace(replace(replace(r.pattern, '\', '\\'), '_', '\_'), '*', '%')
    ORDER BY r.queue = '*', length(r.pattern) DESC, r.pattern
    LIMIT 1
$$;

ALTER FUNCTION pawl.lane_limits(queue text, lane text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lane_tokens(tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) RETURNS double precision
    LANGUAGE sql PARALLEL SAFE
    RETURN CASE WHEN (rate_per_s IS NOT NULL) THEN LEAST(burst, (tokens + (rate_per_s * date_part('epoch'::text, (clock_timestamp() - filled_at))))) ELSE NULL::double precision END;

ALTER FUNCTION pawl.lane_tokens(tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lane_room(max_running integer, holders bigint[], tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) RETURNS integer
    LANGUAGE sql PARALLEL SAFE
    RETURN (GREATEST(LEAST(((max_running - cardinality(holders)))::double precision, floor(pawl.lane_tokens(tokens, rate_per_s, burst, filled_at))), (0)::double precision))::integer;

ALTER FUNCTION pawl.lane_room(max_running integer, holders bigint[], tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lane_set(queue text, pattern text, max_running integer DEFAULT 1, rate_per_s double precision DEFAULT NULL::double precision, burst double precision DEFAULT 1, strict boolean DEFAULT false, hold boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_variable
BEGIN
    IF queue IS DISTINCT FROM '*' THEN
        PERFORM pawl.name_check('queue', queue);
    END IF;
    IF pattern IS NULL OR octet_length(pattern) > 128 OR pattern !~ '^[A-Za-z0-9_*][A-Za-z0-9_.:/*-]*$' THEN
        RAISE EXCEPTION 'lane pattern "%" is not valid', left(pattern, 140)
            USING ERRCODE = '22023', HINT = 'A name of a lane, with * for any text.';
    ELSIF max_running NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'max_running % is not between 1 and 100000', max_running USING ERRCODE = '22023';
    ELSIF rate_per_s <= 0 OR rate_per_s > 1000000 THEN
        RAISE EXCEPTION 'rate_per_s % is not above 0 and at most 1000000', rate_per_s USING ERRCODE = '22023';
    ELSIF burst < 1 OR burst > 1000000 THEN
        RAISE EXCEPTION 'burst % is not between 1 and 1000000', burst USING ERRCODE = '22023';
    END IF;
    IF max_running IS NULL THEN
        DELETE FROM pawl.lane_rule AS r WHERE r.queue = lane_set.queue AND r.pattern = lane_set.pattern;
    ELSE
        INSERT INTO pawl.lane_rule AS r (queue, pattern, max_running, rate_per_s, burst, strict, hold)
        VALUES (queue, pattern, max_running, rate_per_s, coalesce(burst, 1), coalesce(strict, false),
                coalesce(hold, false))
        ON CONFLICT ON CONSTRAINT lane_rule_pkey DO UPDATE
        SET max_running = excluded.max_running, rate_per_s = excluded.rate_per_s, burst = excluded.burst,
            strict = excluded.strict, hold = excluded.hold;
    END IF;
    INSERT INTO pawl.lane_stir (queue, name)
    SELECT l.queue, l.name
    FROM pawl.lane AS l
    WHERE lane_set.queue IN (l.queue, '*')
      AND l.name LIKE replace(replace(lane_set.pattern, '_', '\_'), '*', '%');
    IF FOUND THEN
        PERFORM pg_notify('pawl_wake', '#');
    END IF;
END
$_$;

ALTER FUNCTION pawl.lane_set(queue text, pattern text, max_running integer, rate_per_s double precision, burst double precision, strict boolean, hold boolean) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_call(queues text[], lanes text[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    called      tid[];
    to_wake     text[];
    idle_queues text[]; -- lanes with room, and nobody called
    idle_names  text[];
    dry_queues  text[]; -- lanes without a token
    dry_names   text[];
    marked      integer := 0;
BEGIN
    SELECT array_agg(j.tid) FILTER (WHERE j.tid IS NOT NULL), array_agg(DISTINCT l.queue) FILTER (WHERE j.tid IS NOT NULL),
           array_agg(l.queue) FILTER (WHERE l.room > 0 AND j.tid IS NULL),
           array_agg(l.name) FILTER (WHERE l.room > 0 AND j.tid IS NULL),
           array_agg(l.queue) FILTER (WHERE l.room = 0 AND l.rated), array_agg(l.name) FILTER (WHERE l.room = 0 AND l.rated)
    INTO called, to_wake, idle_queues, idle_names, dry_queues, dry_names
    FROM ROWS FROM (unnest(queues), unnest(lanes)) AS n(queue, name)
    CROSS JOIN LATERAL (
        SELECT k.queue, k.name, k.rate_per_s IS NOT NULL AS rated,
               pawl.lane_room(k.max_running, k.holders, k.tokens, k.rate_per_s, k.burst, k.filled_at) AS room
        FROM pawl.lane AS k
        WHERE k.queue = n.queue AND k.name = n.name
        LIMIT 1
    ) AS l
    LEFT JOIN LATERAL (
        -- A range of one lane, so that only job_lane has this order: with an equality, job_pkey would have it, too.
        SELECT w.ctid AS tid
        FROM pawl.job AS w
        WHERE w.queue = l.queue AND w.lane >= l.name AND w.lane <= l.name
          AND pawl.waits_behind(w.waits_for, w.due_at, w.deadline_at)
        ORDER BY w.lane, w.id
        LIMIT l.room
        FOR UPDATE SKIP LOCKED
    ) AS j ON true;

    IF called IS NOT NULL THEN
        UPDATE pawl.job AS j
        SET due_at = clock_timestamp(), waits_for = CASE WHEN j.is_machine THEN pawl.machine_waits_for(j.id) END
        WHERE j.ctid = ANY (called);
        PERFORM pg_notify('pawl_wake', n.queue)
        FROM unnest(to_wake) AS n(queue)
        WHERE (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = n.queue);
    END IF;
    IF idle_names IS NOT NULL THEN
        INSERT INTO pawl.lane_stir (queue, name)
        SELECT n.queue, n.name
        FROM ROWS FROM (unnest(idle_queues), unnest(idle_names)) AS n(queue, name)
        WHERE EXISTS (SELECT FROM pawl.job AS w
                      WHERE w.queue = n.queue AND w.lane = n.name
                        AND pawl.waits_behind(w.waits_for, w.due_at, w.deadline_at)
                      OFFSET 0); -- a subquery, not a join
        GET DIAGNOSTICS marked = ROW_COUNT;
    END IF;
    IF dry_names IS NOT NULL THEN
        PERFORM pawl.lanes_clock(dry_queues, dry_names);
    END IF;
    RETURN CASE WHEN marked > 0 THEN -marked ELSE coalesce(cardinality(called), 0) END;
END
$$;

ALTER FUNCTION pawl.lanes_call(queues text[], lanes text[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_clock(queues text[], lanes text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    next record;
BEGIN
    FOR next IN
        SELECT n.queue, n.name, j.tid, clock_timestamp() + l.wait_s * interval '1 second' AS due_at
        FROM ROWS FROM (unnest(queues), unnest(lanes)) AS n(queue, name)
        CROSS JOIN LATERAL (
            SELECT greatest(1 - pawl.lane_tokens(k.tokens, k.rate_per_s, k.burst, k.filled_at), 0) / k.rate_per_s AS wait_s
            FROM pawl.lane AS k
            WHERE k.queue = n.queue AND k.name = n.name
              AND k.rate_per_s IS NOT NULL
              AND cardinality(k.holders) < k.max_running
              AND (k.next_at > clock_timestamp()) IS NOT TRUE
            LIMIT 1
        ) AS l
        CROSS JOIN LATERAL (
            SELECT w.ctid AS tid
            FROM pawl.job AS w
            WHERE w.queue = n.queue AND w.lane = n.name AND pawl.waits_behind(w.waits_for, w.due_at, w.deadline_at)
            ORDER BY w.id
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS j
    LOOP
        UPDATE pawl.job AS j SET due_at = least(j.deadline_at, next.due_at) WHERE j.ctid = next.tid;
        UPDATE pawl.lane AS l SET next_at = next.due_at WHERE l.queue = next.queue AND l.name = next.name;
    END LOOP;
END
$$;

ALTER FUNCTION pawl.lanes_clock(queues text[], lanes text[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    locked_queues text[];
    locked_names  text[];
    locked_tids   tid[]; -- where they are: nobody can change that while they are locked
BEGIN
    -- 1. Lock the lanes, in the order in which every settle locks them.
    SELECT array_agg(l.queue), array_agg(l.name), array_agg(l.tid)
    INTO locked_queues, locked_names, locked_tids
    FROM (SELECT DISTINCT i.queue, i.name FROM ROWS FROM (unnest(queues), unnest(lanes)) AS i(queue, name)
          ORDER BY i.queue, i.name) AS o
    CROSS JOIN LATERAL (
        SELECT k.queue, k.name, k.ctid AS tid
        FROM pawl.lane AS k
        WHERE k.queue = o.queue AND k.name = o.name
        FOR UPDATE
    ) AS l;
    IF locked_names IS NULL THEN
        RETURN 0;
    END IF;
    -- 2. Keep the holders that have not left. Of a lane with many places only the jobs that left are looked at. Of a lane with
    -- one place all are: many may have entered together, and most of them left without saying so.
    UPDATE pawl.lane AS l
    SET holders = ARRAY(SELECT h.id
                        FROM unnest(l.holders) AS h(id)
                        WHERE l.max_running > 16 AND cardinality(l.holders) > 16 AND h.id <> ALL (ids)
                           OR (SELECT pawl.keeps_place(l.hold, j.token, j.attempt, j.waits_for)
                               FROM pawl.job AS j WHERE j.id = h.id))
    WHERE l.ctid = ANY (locked_tids);
    -- 3. Call the next job.
    RETURN pawl.lanes_call(locked_queues, locked_names);
END
$$;

ALTER FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_maintain() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    n integer;
BEGIN
    WITH idle AS MATERIALIZED (
        SELECT l.ctid AS tid FROM pawl.lane AS l
        WHERE l.holders = '{}' AND l.filled_at < clock_timestamp() - interval '1 hour'
          AND (SELECT true FROM pawl.job AS j WHERE j.queue = l.queue AND j.lane = l.name LIMIT 1) IS NULL
        LIMIT 10000
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM pawl.lane AS l WHERE l.ctid = ANY (ARRAY(SELECT i.tid FROM idle AS i));
    -- With a free place while jobs wait, or with a holder that does not run.
    INSERT INTO pawl.lane_stir (queue, name)
    SELECT l.queue, l.name FROM pawl.lane AS l
    WHERE cardinality(l.holders) < l.max_running
      AND (SELECT true FROM pawl.job AS j WHERE j.queue = l.queue AND j.lane = l.name AND j.waits_for = 'lane' LIMIT 1)
       OR EXISTS (SELECT FROM unnest(l.holders) AS h(id)
                  WHERE (SELECT true FROM pawl.job AS j WHERE j.id = h.id AND j.token IS NOT NULL) IS NULL)
    LIMIT 1000;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$$;

ALTER FUNCTION pawl.lanes_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_make(queue text, names text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO pawl.lane (queue, name, holders, max_running, rate_per_s, burst, tokens, strict, hold)
    SELECT lanes_make.queue, n.name, '{}', coalesce(r.max_running, 1), r.rate_per_s, coalesce(r.burst, 1), coalesce(r.burst, 1),
           coalesce(r.strict, false), coalesce(r.hold, false)
    FROM unnest(names) AS n(name)
    LEFT JOIN LATERAL (SELECT o.* FROM pawl.lane_limits(lanes_make.queue, n.name) AS o
                       WHERE EXISTS (SELECT FROM pawl.lane_rule)) AS r ON true
    -- A subquery, not a join: a plan from a time with few lanes would read all of them.
    WHERE (SELECT true FROM pawl.lane AS l WHERE l.queue = lanes_make.queue AND l.name = n.name) IS NULL
    ON CONFLICT DO NOTHING;
END
$$;

ALTER FUNCTION pawl.lanes_make(queue text, names text[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_mend(most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    stirs         bigint[];
    locked_queues text[];
    locked_names  text[];
    locked_tids   tid[]; -- where they are: nobody can change that while they are locked
    called        integer := 0;
BEGIN
    -- 1. Lock marks, then their lanes, skipping what others hold.
    SELECT array_agg(p.id) INTO stirs
    FROM (SELECT s.id FROM pawl.lane_stir AS s ORDER BY s.id LIMIT most FOR UPDATE SKIP LOCKED) AS p;
    IF stirs IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(l.queue), array_agg(l.name), array_agg(l.tid)
    INTO locked_queues, locked_names, locked_tids
    FROM (SELECT DISTINCT s.queue, s.name FROM pawl.lane_stir AS s WHERE s.id = ANY (stirs)) AS o
    CROSS JOIN LATERAL (
        SELECT k.queue, k.name, k.ctid AS tid
        FROM pawl.lane AS k
        WHERE k.queue = o.queue AND k.name = o.name
        FOR UPDATE SKIP LOCKED
    ) AS l;
    IF locked_names IS NOT NULL THEN
        -- 2. Keep the holders that run, and apply the rule. A job that entered before the lock is seen to run.
        UPDATE pawl.lane AS l
        SET holders = ARRAY(SELECT h.id FROM unnest(l.holders) AS h(id)
                            WHERE (SELECT pawl.keeps_place(coalesce((w.rule).hold, false), j.token, j.attempt, j.waits_for)
                                   FROM pawl.job AS j WHERE j.id = h.id)),
            max_running = coalesce((w.rule).max_running, 1),
            rate_per_s = (w.rule).rate_per_s,
            burst = coalesce((w.rule).burst, 1),
            tokens = least(coalesce((w.rule).burst, 1),
                           coalesce(pawl.lane_tokens(l.tokens, l.rate_per_s, l.burst, l.filled_at), l.tokens)),
            filled_at = clock_timestamp(),
            next_at = NULL,
            strict = coalesce((w.rule).strict, false),
            hold = coalesce((w.rule).hold, false)
        FROM (SELECT i.tid, pawl.lane_limits(i.queue, i.name) AS rule
              FROM ROWS FROM (unnest(locked_tids), unnest(locked_queues), unnest(locked_names)) AS i(tid, queue, name)
              OFFSET 0) AS w
        WHERE l.ctid = w.tid AND l.ctid = ANY (locked_tids);
        -- 3. Call the next job.
        called := pawl.lanes_call(locked_queues, locked_names);
    END IF;
    -- 4. Remove the marks, but for those of lanes that others hold.
    DELETE FROM pawl.lane_stir AS s
    WHERE s.id = ANY (stirs)
      AND (EXISTS (SELECT FROM ROWS FROM (unnest(locked_queues), unnest(locked_names)) AS i(queue, name)
                   WHERE i.queue = s.queue AND i.name = s.name)
           OR (SELECT true FROM pawl.lane AS l WHERE l.queue = s.queue AND l.name = s.name) IS NULL);
    RETURN called;
END
$$;

ALTER FUNCTION pawl.lanes_mend(most integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.lanes_move(queue text, lanes text[], ids bigint[], tids tid[], lane_of integer[], n_picked integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    crowd tid[];
BEGIN
    SELECT array_agg(c.tid) INTO crowd
    FROM (
        SELECT i.lane, count(*)::integer AS n, max(i.id) AS last_id
        FROM ROWS FROM (unnest(ids), unnest(lane_of)) AS i(id, lane)
        GROUP BY i.lane
        HAVING 2 * count(*) >= n_picked
    ) AS g
    CROSS JOIN LATERAL (
        -- IS TRUE: a condition that job_pick could serve would tempt the planner to read the whole queue.
        SELECT j.ctid AS tid
        FROM pawl.job AS j
        WHERE j.queue = lanes_move.queue AND j.lane = lanes[g.lane] AND j.id > g.last_id
          AND j.token IS NULL AND j.waits_for IS NULL AND (j.due_at <= now()) IS TRUE
          AND (j.deadline_at <= now()) IS NOT TRUE
        ORDER BY j.id
        LIMIT least(1000, 64 * g.n)
        FOR UPDATE SKIP LOCKED
    ) AS c;
    UPDATE pawl.job AS j
    SET lane_due_at = coalesce(j.lane_due_at, j.due_at), waits_for = 'lane', due_at = coalesce(j.deadline_at, 'infinity')
    WHERE j.ctid = ANY (tids || crowd);
END
$$;

ALTER FUNCTION pawl.lanes_move(queue text, lanes text[], ids bigint[], tids tid[], lane_of integer[], n_picked integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea DEFAULT NULL::bytea) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
    j    pawl.job;
    h    pawl.history;
    line text; -- as a step's
BEGIN
    PERFORM pawl.name_check('step', from_step);
    IF octet_length(new_state) > 1048576 THEN
        RAISE EXCEPTION 'the state has % bytes, and the limit is 1048576', octet_length(new_state) USING ERRCODE = '54000';
    END IF;
    line := from_step || E'\t0\trestart\t0\t';
    SELECT * INTO j FROM pawl.job AS l WHERE l.id = job FOR UPDATE;
    IF FOUND THEN
        IF j.token IS NOT NULL THEN
            RAISE EXCEPTION 'job % is running', job
                USING ERRCODE = 'PW002', HINT = 'Wait until its step has ended, or cancel it.';
        END IF;
        INSERT INTO pawl.machine (job_id) VALUES (job) ON CONFLICT DO NOTHING;
        UPDATE pawl.machine AS m
        SET step = from_step, state = coalesce(new_state, m.state), awaits = NULL, wait_since = NULL, wait_until = NULL,
            children_left = NULL, join_at = NULL,
            timeline = pawl.timeline_add(m.timeline, line || coalesce(octet_length(coalesce(new_state, m.state)), 0),
                                         clock_timestamp())
        WHERE m.job_id = job;
        UPDATE pawl.job AS l
        SET is_machine = true, attempt = 0,
            due_at = CASE WHEN l.waits_for = 'lane' THEN l.due_at ELSE clock_timestamp() END,
            waits_for = CASE WHEN l.waits_for = 'lane' THEN l.waits_for END,
            deadline_at = CASE WHEN l.deadline_at > clock_timestamp() THEN l.deadline_at END
        WHERE l.id = job;
        -- One that somebody else is just changing is left alone: it finds a parent that waits for nobody.
        UPDATE pawl.job AS k SET parent_id = NULL
        WHERE k.id = ANY (ARRAY(SELECT c.id FROM pawl.job AS c WHERE c.parent_id = job ORDER BY c.id FOR UPDATE SKIP LOCKED));
        DELETE FROM pawl.child AS c WHERE c.parent_id = job;
    ELSE
        SELECT * INTO h FROM pawl.history AS l WHERE l.id = job LIMIT 1;
        IF NOT FOUND OR h.state = 'done' THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        j.queue := h.queue;
        job := pawl.history_again(h, true);
        INSERT INTO pawl.machine (job_id, step, state, timeline)
        VALUES (job, from_step, coalesce(new_state, h.last_state),
                pawl.timeline_add(h.timeline, line || coalesce(octet_length(coalesce(new_state, h.last_state)), 0),
                                  clock_timestamp()));
    END IF;
    PERFORM pawl.wake(j.queue);
    RETURN job;
END
$$;

ALTER FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea) OWNER TO pawl_owner;

CREATE FUNCTION pawl.machine_view(job bigint, waits_for pawl.wait, deadline_at timestamp with time zone, cancel_by text) RETURNS pawl.machine_seen
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
DECLARE
    seen    pawl.machine_seen;
    m       pawl.machine;
    shown   text; -- ids of the signals
    signals text;
    kids    text;
BEGIN
    SELECT * INTO m FROM pawl.machine AS x WHERE x.job_id = job;
    IF m.awaits IS NOT NULL THEN
        SELECT pg_catalog.string_agg(s.id::text, ',' ORDER BY s.id),
               '[' || pg_catalog.string_agg('{"id": ' || s.id::text || ', "name": ' || pg_catalog.to_json(s.name::text)::text
                                            || ', "payload": ' || s.payload::text || '}', ', ' ORDER BY s.id) || ']'
        INTO shown, signals
        FROM (SELECT i.id, i.name, i.payload, pg_catalog.row_number() OVER w AS n, pg_catalog.sum(i.bytes) OVER w AS upto
              FROM pawl.signal AS i
              WHERE i.job_id = job AND i.name = ANY (m.awaits) AND NOT i.consumed
              WINDOW w AS (ORDER BY i.shown, i.id)) AS s
        WHERE s.n = 1 OR s.n <= 1000 AND s.upto <= 1048576;
    END IF;
    IF m.children_left IS NOT NULL THEN
        SELECT '[' || coalesce(pg_catalog.string_agg(
                          '{"id": ' || c.child_id::text || ', "kind": ' || c.kind
                          || CASE WHEN c.upto <= 8388608 THEN c.error || ', "state": "' || c.state || '"' || c.result
                                  ELSE ', "state": "' || c.state || '"' END
                          || '}', ', '), '') || ']'
        INTO kids
        FROM (SELECT k.child_id, k.kind, k.state, k.error, k.result,
                     pg_catalog.sum(70 + pg_catalog.octet_length(k.kind) + pg_catalog.octet_length(k.error)
                                    + pg_catalog.octet_length(k.result))
                         OVER (ORDER BY k.child_id ROWS UNBOUNDED PRECEDING) AS upto
              FROM (SELECT o.child_id, pg_catalog.to_json(o.kind)::text AS kind, o.state::text AS state,
                           CASE WHEN o.error IS NULL THEN '' ELSE ', "error": ' || pg_catalog.to_json(o.error)::text END AS error,
                           CASE WHEN pg_catalog.octet_length(o.result) <= 65536
                                THEN ', "result": ' || pawl.bytes_text(o.result) ELSE '' END AS result
                    FROM pawl.child AS o
                    WHERE o.parent_id = job
                    ORDER BY o.child_id
                    LIMIT 10000) AS k) AS c;
    END IF;
    seen.line := coalesce(m.step, '') || E'\t'
            || coalesce(m.inbox, 0) || E'\t'
            || CASE WHEN waits_for = 'signal' THEN 1 ELSE 0 END
               + CASE WHEN shown IS NULL AND m.wait_until <= pg_catalog.now() THEN 2 ELSE 0 END
               + CASE WHEN deadline_at <= pg_catalog.now() THEN 4 ELSE 0 END
               + CASE WHEN cancel_by IS NULL THEN 0 ELSE 8 END
               + CASE WHEN m.cancel_rest THEN 16 ELSE 0 END
               + CASE WHEN m.children_left IS NULL THEN 0 ELSE 32 END || E'\t'
            || coalesce(m.children_left, 0) || E'\t'
            || coalesce(shown, '') || E'\t'
            || coalesce(signals, '') || E'\t'
            || coalesce(kids, '');
    seen.state := m.state;
    RETURN seen;
END
$$;

ALTER FUNCTION pawl.machine_view(job bigint, waits_for pawl.wait, deadline_at timestamp with time zone, cancel_by text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.machine_waits_for(job bigint) RETURNS pawl.wait
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN m.awaits IS NOT NULL THEN 'signal' WHEN m.children_left IS NOT NULL THEN 'children' END::pawl.wait
    FROM pawl.machine AS m
    WHERE m.job_id = machine_waits_for.job
$$;

ALTER FUNCTION pawl.machine_waits_for(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.machines_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], steps text[], states bytea[], ms bigint[], awaits text[], seen bigint[], shown text[], progress boolean[], sticky boolean[], lines text[], n_children integer[], join_at integer[], fail_fast boolean[], cancel_rest boolean[], child_of integer[], child_queues text[], child_kinds text[], child_payloads bytea[], child_priorities smallint[], child_max_attempts integer[], over uuid[]) RETURNS TABLE(n bigint, cancelled boolean, due_ms bigint, tid tid)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    now   constant timestamptz := pg_catalog.clock_timestamp();
    mine  bigint[]; -- positions of those whose claim is still valid
    fresh bigint[]; -- jobs among them that had no row in pawl.machine
    kids  integer;
BEGIN
    -- For update, as pawl.assert_claim expects of all who end a claim. Everything below sees what was committed before.
    SELECT pg_catalog.array_agg(l.n), pg_catalog.array_agg(l.id) FILTER (WHERE l.is_machine IS NULL) INTO mine, fresh
    FROM (SELECT i.n, j.id, j.is_machine
          FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(tokens)) WITH ORDINALITY AS i(id, token, n)
          CROSS JOIN LATERAL (SELECT x.id, x.is_machine FROM pawl.job AS x
                              WHERE x.id = i.id AND x.token = i.token FOR UPDATE) AS j) AS l;

    IF fresh IS NOT NULL THEN
        INSERT INTO pawl.machine (job_id) SELECT f.id FROM pg_catalog.unnest(fresh) AS f(id) ON CONFLICT DO NOTHING;
    END IF;

    RETURN QUERY
    WITH input AS MATERIALIZED (
        SELECT i.*, j.tid, m.tid AS machine_tid
        FROM ROWS FROM (
                 pg_catalog.unnest(ids), pg_catalog.unnest(outcomes), pg_catalog.unnest(steps), pg_catalog.unnest(states),
                 pg_catalog.unnest(ms), pg_catalog.unnest(awaits), pg_catalog.unnest(seen), pg_catalog.unnest(shown),
                 pg_catalog.unnest(sticky), pg_catalog.unnest(lines), pg_catalog.unnest(n_children),
                 pg_catalog.unnest(join_at), pg_catalog.unnest(fail_fast), pg_catalog.unnest(cancel_rest)
             ) WITH ORDINALITY AS i(id, outcome, step, state, ms, awaits, seen, shown, sticky, line, n_children, join_at,
                                    fail_fast, cancel_rest, n)
        CROSS JOIN LATERAL (SELECT x.ctid AS tid FROM pawl.job AS x WHERE x.id = i.id OFFSET 0) AS j
        CROSS JOIN LATERAL (SELECT x.ctid AS tid FROM pawl.machine AS x WHERE x.job_id = i.id OFFSET 0) AS m
        WHERE (i.n IN (SELECT y.n FROM pg_catalog.unnest(mine) AS y(n))) IS TRUE
        LIMIT pg_catalog.cardinality(mine)
    ), gone_on AS (
        UPDATE pawl.machine AS m
        SET step = CASE i.outcome WHEN 'wait' THEN m.step ELSE i.step END,
            state = coalesce(i.state, m.state),
            awaits = CASE i.outcome WHEN 'await' THEN pg_catalog.string_to_array(i.awaits, ',') WHEN 'wait' THEN m.awaits END,
            wait_since = CASE i.outcome WHEN 'next' THEN NULL WHEN 'wait' THEN m.wait_since ELSE now END,
            wait_until = CASE WHEN i.outcome = 'await' AND i.ms >= 0 THEN now + i.ms::float8 * interval '1 millisecond'
                              WHEN i.outcome = 'wait' THEN m.wait_until END,
            children_left = CASE i.outcome WHEN 'spawn' THEN i.n_children WHEN 'wait' THEN m.children_left END,
            joins = CASE i.outcome WHEN 'spawn' THEN m.joins + 1 ELSE m.joins END,
            join_at = CASE i.outcome WHEN 'spawn' THEN i.join_at END,
            fail_fast = CASE i.outcome WHEN 'spawn' THEN i.fail_fast ELSE m.fail_fast END,
            cancel_rest = CASE i.outcome WHEN 'spawn' THEN i.cancel_rest ELSE m.cancel_rest END,
            timeline = pawl.timeline_add(m.timeline, i.line, now)
        FROM input AS i
        WHERE m.ctid = i.machine_tid
        RETURNING i.n, i.id, i.tid, i.outcome, i.ms, i.shown, i.sticky, i.n_children, i.join_at, m.awaits, m.wait_until,
                  m.inbox > i.seen AS more_came
    ), moved AS (
        UPDATE pawl.job AS j
        SET token = CASE WHEN g.sticky THEN j.token END,
            attempt = CASE WHEN g.outcome = 'wait' THEN j.attempt - 1 WHEN g.sticky THEN 1 ELSE 0 END,
            is_machine = true,
            waits_for = CASE WHEN g.outcome = 'next' OR j.cancel_by IS NOT NULL THEN NULL
                             WHEN g.outcome = 'spawn' THEN 'children' ELSE 'signal' END::pawl.wait,
            lane_due_at = CASE WHEN g.sticky THEN j.lane_due_at END,
            due_at = CASE WHEN g.sticky THEN j.due_at
                          WHEN j.cancel_by IS NOT NULL THEN now
                          -- Never before now: that would be behind the marks of other workers.
                          ELSE greatest(now, least(j.deadline_at,
                                     CASE WHEN g.outcome = 'next' THEN now + g.ms::float8 * interval '1 millisecond'
                                          WHEN g.outcome = 'spawn' AND g.n_children <= g.join_at THEN now
                                          WHEN g.outcome = 'spawn' THEN 'infinity'
                                          -- Signals that its step has not been shown.
                                          WHEN g.more_came
                                            OR EXISTS (SELECT FROM pawl.signal AS s
                                                       WHERE s.job_id = g.id AND s.name = ANY (g.awaits)
                                                         AND NOT s.shown AND NOT s.consumed
                                                         AND s.id <> ALL (coalesce(pg_catalog.string_to_array(g.shown, ',')
                                                                                   ::bigint[], '{}')))
                                          THEN now
                                          ELSE coalesce(g.wait_until, 'infinity') END)) END
        FROM gone_on AS g
        WHERE j.ctid = g.tid
        RETURNING g.n, j.cancel_by IS NOT NULL,
                  CASE WHEN j.due_at < 'infinity'
                       THEN (pg_catalog.date_part('epoch', j.due_at - pg_catalog.clock_timestamp()) * 1000::float8)::bigint END,
                  j.ctid
    )
    SELECT * FROM moved;

    -- Signals that the step was shown: consumed by progress; else they do not wake the same wait again.
    IF pg_catalog.num_nonnulls(VARIADIC shown) > 0 THEN
        WITH used AS MATERIALIZED (
            SELECT x.tid, i.progress AND x.key IS NULL AS eats, i.progress
            FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(shown), pg_catalog.unnest(progress))
                 WITH ORDINALITY AS i(id, shown, progress, n)
            CROSS JOIN LATERAL (SELECT s.ctid AS tid, s.key
                                FROM pawl.signal AS s
                                WHERE s.job_id = i.id AND s.id = ANY (pg_catalog.string_to_array(i.shown, ',')::bigint[])
                                OFFSET 0) AS x
            WHERE (i.n IN (SELECT y.n FROM pg_catalog.unnest(mine) AS y(n))) IS TRUE
        ), eaten AS (
            DELETE FROM pawl.signal AS s WHERE s.ctid = ANY (ARRAY(SELECT u.tid FROM used AS u WHERE u.eats))
        ), consumed AS (
            UPDATE pawl.signal AS s SET shown = true, consumed = true
            WHERE s.ctid = ANY (ARRAY(SELECT u.tid FROM used AS u WHERE u.progress AND NOT u.eats))
        )
        UPDATE pawl.signal AS s SET shown = true
        WHERE s.ctid = ANY (ARRAY(SELECT u.tid FROM used AS u WHERE NOT u.progress));
    END IF;

    -- Results of children that the step was shown.
    DELETE FROM pawl.child AS c
    WHERE c.parent_id = ANY (ARRAY(
        SELECT i.id
        FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(outcomes), pg_catalog.unnest(progress))
             WITH ORDINALITY AS i(id, outcome, progress, n)
        WHERE i.progress AND i.outcome <> 'wait' AND (i.n IN (SELECT y.n FROM pg_catalog.unnest(mine) AS y(n))) IS TRUE));

    IF child_of <> '{}' THEN
        INSERT INTO pawl.job (queue, kind, payload, priority, max_attempts, parent_id, join_of)
        SELECT k.queue, k.kind, k.payload, k.priority, k.max_attempts, m.job_id, m.joins
        FROM ROWS FROM (pg_catalog.unnest(child_of), pg_catalog.unnest(child_queues), pg_catalog.unnest(child_kinds),
                        pg_catalog.unnest(child_payloads), pg_catalog.unnest(child_priorities),
                        pg_catalog.unnest(child_max_attempts))
             WITH ORDINALITY AS k(of, queue, kind, payload, priority, max_attempts, n)
        CROSS JOIN LATERAL (SELECT x.job_id, x.joins FROM pawl.machine AS x WHERE x.job_id = ids[k.of] OFFSET 0) AS m
        WHERE (k.of IN (SELECT y.n FROM pg_catalog.unnest(mine) AS y(n))) IS TRUE
        ORDER BY k.n;
        PERFORM pg_catalog.pg_notify('pawl_wake', q.queue)
        FROM (SELECT DISTINCT c.queue FROM pg_catalog.unnest(child_queues) AS c(queue)) AS q
        WHERE EXISTS (SELECT FROM pawl.sleeper AS s WHERE s.queue = q.queue AND s.asleep);
    END IF;

    PERFORM pawl.claims_end(over);
END
$$;

ALTER FUNCTION pawl.machines_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], steps text[], states bytea[], ms bigint[], awaits text[], seen bigint[], shown text[], progress boolean[], sticky boolean[], lines text[], n_children integer[], join_at integer[], fail_fast boolean[], cancel_rest boolean[], child_of integer[], child_queues text[], child_kinds text[], child_payloads bytea[], child_priorities smallint[], child_max_attempts integer[], over uuid[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.name_check(what text, name text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
    -- A kind may carry a version: order@2.
    IF name IS NULL OR octet_length(name) > 128
       OR name !~ (CASE what WHEN 'kind' THEN '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*(@[0-9]+)?$'
                        ELSE '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$' END) THEN
        RAISE EXCEPTION '% name "%" is not valid', what, left(name, 140)
            USING ERRCODE = '22023', HINT = 'Use 1 to 128 letters, digits, _ . : / and -, beginning with a letter, a digit or _.';
    END IF;
END
$_$;

ALTER FUNCTION pawl.name_check(what text, name text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.orphans_end(most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    noted bigint[];
    free  bigint[];
BEGIN
    noted := ARRAY(SELECT p.child_id FROM pawl.orphan AS p ORDER BY p.child_id LIMIT most FOR UPDATE SKIP LOCKED);
    IF noted = '{}' THEN
        RETURN 0;
    END IF;
    free := ARRAY(SELECT j.id FROM pawl.job AS j WHERE j.id = ANY (noted) ORDER BY j.id FOR UPDATE SKIP LOCKED);
    PERFORM pawl.children_cancel(free);
    DELETE FROM pawl.orphan AS o
    WHERE o.child_id = ANY (noted)
      AND (o.child_id = ANY (free) OR (SELECT true FROM pawl.job AS j WHERE j.id = o.child_id) IS NULL);
    RETURN cardinality(free);
END
$$;

ALTER FUNCTION pawl.orphans_end(most integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.queue_known(queue text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pg_has_role(pawl.session_role(), 'pawl_producer', 'USAGE')
        OR pg_has_role(pawl.session_role(), 'pawl_reader', 'USAGE')
        OR pg_has_role(pawl.session_role(), 'pawl_owner', 'USAGE')
        OR EXISTS (SELECT FROM pawl.queue_producer AS p
                   WHERE p.queue = queue_known.queue AND pg_has_role(pawl.session_role(), p.role, 'USAGE'))
$$;

ALTER FUNCTION pawl.queue_known(queue text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.raise_not_live(job bigint) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    was pawl.state;
BEGIN
    SELECT h.state INTO was FROM pawl.history AS h WHERE h.id = job LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job % is finished: %', job, was USING ERRCODE = 'PW002';
    END IF;
    RAISE EXCEPTION 'there is no job %', job
        USING ERRCODE = 'PW001', HINT = 'It never was, or was finished and is forgotten.';
END
$$;

ALTER FUNCTION pawl.raise_not_live(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.raise_unseen(job bigint) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    was record;
BEGIN
    SELECT h.state, h.queue INTO was FROM pawl.history AS h WHERE h.id = job LIMIT 1;
    IF FOUND AND pawl.queue_known(was.queue) THEN
        RAISE EXCEPTION 'job % is finished: %', job, was.state USING ERRCODE = 'PW002';
    END IF;
    RAISE EXCEPTION 'there is no job %', job
        USING ERRCODE = 'PW001', HINT = 'It never was, or was finished and is forgotten, or is in a queue that is not yours.';
END
$$;

ALTER FUNCTION pawl.raise_unseen(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry(job bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    j pawl.job;
    h pawl.history;
BEGIN
    SELECT * INTO j FROM pawl.job AS l WHERE l.id = job FOR UPDATE;
    IF FOUND THEN
        IF j.token IS NOT NULL THEN
            RAISE EXCEPTION 'job % is running', job USING ERRCODE = 'PW002';
        ELSIF j.waits_for <> 'operator' THEN
            RAISE EXCEPTION 'job % waits for something else than time', job USING ERRCODE = 'PW002';
        END IF;
        UPDATE pawl.job AS l
        SET due_at = clock_timestamp(), waits_for = NULL, attempt = 0,
            deadline_at = CASE WHEN l.deadline_at > clock_timestamp() THEN l.deadline_at END
        WHERE l.id = job;
    ELSE
        SELECT * INTO h FROM pawl.history AS l WHERE l.id = job LIMIT 1;
        IF NOT FOUND OR h.state = 'done' THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        j.queue := h.queue;
        job := pawl.history_again(h, false);
    END IF;
    PERFORM pawl.wake(j.queue);
    RETURN job;
END
$$;

ALTER FUNCTION pawl.retry(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry_delay_ms(kind text, attempt integer) RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT pawl.retry_ms(attempt, NULL, NULL, NULL, k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms)
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = split_part(retry_delay_ms.kind, '@', 1)
$$;

ALTER FUNCTION pawl.retry_delay_ms(kind text, attempt integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    RETURN CASE WHEN ((kind_retry = 'table'::pawl.retry) AND (retry IS NULL) AND (base_ms IS NULL) AND (cap_ms IS NULL)) THEN ((kind_table_ms)[LEAST(attempt, cardinality(kind_table_ms))])::bigint ELSE ((LEAST((COALESCE(cap_ms, kind_cap_ms, 3600000))::double precision, ((COALESCE(base_ms, kind_base_ms, 1000))::double precision * CASE WHEN (COALESCE(retry, kind_retry) = 'quadratic'::pawl.retry) THEN ((attempt)::double precision * (attempt)::double precision) ELSE power((2)::double precision, ((LEAST(attempt, 40) - 1))::double precision) END)) * ((0.8)::double precision + ((0.4)::double precision * random()))))::bigint END;

ALTER FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry_put(new_id bigint, retry pawl.retry, base_ms integer, cap_ms integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO pawl.job_option AS o (job_id, retry, retry_base_ms, retry_cap_ms)
    SELECT j.id, retry_put.retry, base_ms, cap_ms
    FROM pawl.job AS j
    WHERE j.id = new_id AND j.has_options AND j.token IS NULL AND pawl.is_mine(j.xmin)
    ON CONFLICT (job_id) DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not new', new_id USING ERRCODE = 'PW001';
    END IF;
END
$$;

ALTER FUNCTION pawl.retry_put(new_id bigint, retry pawl.retry, base_ms integer, cap_ms integer) OWNER TO pawl_owner;

CREATE FUNCTION pawl.serve_maintain() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH old AS MATERIALIZED (
        SELECT k.hash FROM pawl.enqueue_key AS k WHERE k.expires_at < now() LIMIT 10000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM pawl.enqueue_key AS k USING old AS o WHERE k.hash = o.hash RETURNING 1
    ), forgotten AS (
        DELETE FROM pawl.access AS a WHERE least(a.revoked_at, a.expires_at) < now() - interval '90 days' RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM forgotten)
$$;

ALTER FUNCTION pawl.serve_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.session_role() RETURNS name
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$$;

ALTER FUNCTION pawl.session_role() OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal(job bigint, name text, payload jsonb DEFAULT '{}'::jsonb, key text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM pawl.name_check('signal', signal.name);
    IF NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = job) THEN
        PERFORM pawl.raise_unseen(job);
    END IF;
    INSERT INTO pawl.signal AS s (job_id, name, key, payload)
    VALUES (job, signal.name, signal.key, coalesce(signal.payload, 'null'))
    ON CONFLICT (job_id, name, key) WHERE key IS NOT NULL DO NOTHING;
    RETURN FOUND;
END
$$;

ALTER FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_accept() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    most       constant integer := 10000;
    most_bytes constant integer := 8388608;
    held       integer;
    held_bytes bigint;
BEGIN
    new.bytes := pawl.signal_bytes(new.name, new.payload);
    SELECT s.inbox_count, s.inbox_bytes INTO held, held_bytes
    FROM pawl.signal AS s
    WHERE s.job_id = new.job_id
    ORDER BY s.id DESC
    LIMIT 1;
    IF NOT FOUND THEN
        held := 0;
        held_bytes := 0;
    ELSIF held >= most OR held_bytes + new.bytes > most_bytes THEN
        SELECT count(*), coalesce(sum(s.bytes), 0) INTO held, held_bytes
        FROM pawl.signal AS s
        WHERE s.job_id = new.job_id AND NOT s.consumed;
        IF held >= most OR held_bytes + new.bytes > most_bytes THEN
            -- One that is there already is not sent again, and that is no error.
            IF new.key IS NOT NULL AND EXISTS (SELECT FROM pawl.signal AS s
                                               WHERE s.job_id = new.job_id AND s.name = new.name AND s.key = new.key) THEN
                RETURN NULL;
            END IF;
            -- A trigger comes before the policies. Who may not know of the job is refused in their words, full or not.
            IF pg_has_role(pawl.session_role(), 'pawl_enqueuer', 'USAGE')
               AND NOT pawl.queue_known((SELECT j.queue FROM pawl.job AS j WHERE j.id = new.job_id)) THEN
                RAISE EXCEPTION 'new row violates row-level security policy for table "signal"' USING ERRCODE = '42501';
            END IF;
            RAISE EXCEPTION 'the inbox of job % is full', new.job_id
                USING ERRCODE = 'PW005',
                      DETAIL = format('It holds %s signals of %s bytes, and this one has %s; the limits are %s signals and %s bytes.',
                                      held, held_bytes, new.bytes, most, most_bytes),
                      HINT = 'Send again when the job has taken some of them: it does so when a step that awaits them goes on'
                             ' ("pawl signal list" shows them). Keep large data elsewhere and send where it is.';
        END IF;
    END IF;
    new.inbox_count := held + 1;
    new.inbox_bytes := held_bytes + new.bytes;
    RETURN new;
END
$$;

ALTER FUNCTION pawl.signal_accept() OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_all(correlation text, name text, payload jsonb DEFAULT '{}'::jsonb, key text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT count(*) FILTER (WHERE pawl.signal(c.id, signal_all.name, signal_all.payload, signal_all.key))
    FROM pawl.correlated(signal_all.correlation) AS c(id)
    WHERE EXISTS (SELECT FROM pawl.job AS j WHERE j.id = c.id)
$$;

ALTER FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_bytes(name text, payload jsonb) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT 54 + octet_length(name) + octet_length(payload::text)
$$;

ALTER FUNCTION pawl.signal_bytes(name text, payload jsonb) OWNER TO pawl_owner;

CREATE FUNCTION pawl.signal_deliver() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    j     record;
    names text[];
BEGIN
    SELECT l.queue, l.is_machine, l.token IS NULL AND l.waits_for = 'signal' AS waits INTO j
    FROM pawl.job AS l WHERE l.id = new.job_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM pawl.raise_not_live(new.job_id);
    END IF;
    INSERT INTO pawl.machine AS m (job_id, inbox) VALUES (new.job_id, 1)
    ON CONFLICT (job_id) DO UPDATE SET inbox = m.inbox + 1
    RETURNING m.awaits INTO names;
    IF j.waits AND new.name = ANY (names) THEN
        UPDATE pawl.job AS l SET due_at = least(l.due_at, clock_timestamp()) WHERE l.id = new.job_id;
        IF EXISTS (SELECT FROM pawl.sleeper AS s WHERE s.queue = j.queue AND s.asleep) THEN
            PERFORM pg_notify('pawl_wake', j.queue);
        END IF;
    ELSIF j.is_machine IS NULL THEN
        UPDATE pawl.job AS l SET is_machine = true WHERE l.id = new.job_id;
    END IF;
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.signal_deliver() OWNER TO pawl_owner;

CREATE FUNCTION pawl.stop_deliver() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    held uuid;
BEGIN
    UPDATE pawl.job AS j SET cancel_by = new.by_whom WHERE j.id = new.job_id RETURNING j.token INTO held;
    IF FOUND AND held IS NULL THEN
        PERFORM pawl.cancel_idle(new.job_id, new.by_whom);
    ELSIF FOUND THEN
        IF held <> new.token THEN
            INSERT INTO pawl.stop (job_id, token, by_whom) VALUES (new.job_id, held, new.by_whom)
            ON CONFLICT DO NOTHING;
        END IF;
        -- No queue has such a name: it is about a job.
        PERFORM pg_notify('pawl_wake', '!' || new.job_id);
    END IF;
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.stop_deliver() OWNER TO pawl_owner;

CREATE FUNCTION pawl.stop_maintain() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH old AS MATERIALIZED (
        SELECT s.token, s.job_id FROM pawl.stop AS s
        WHERE NOT EXISTS (SELECT FROM pawl.claim AS c WHERE c.token = s.token)
        LIMIT 10000
        FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM pawl.stop AS s USING old AS o WHERE s.token = o.token AND s.job_id = o.job_id RETURNING 1
    )
    SELECT count(*) FROM gone
$$;

ALTER FUNCTION pawl.stop_maintain() OWNER TO pawl_owner;

CREATE FUNCTION pawl.ticket(token uuid, job bigint, step text) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT substr(sha256(uuid_send(token) || int8send(job) || convert_to(coalesce(step, ''), 'UTF8')), 1, 13)
$$;

ALTER FUNCTION pawl.ticket(token uuid, job bigint, step text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.timeline_add(timeline text, line text, at timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (line IS NULL) THEN timeline ELSE ((((CASE WHEN (octet_length(timeline) > 6000) THEN substr(timeline, (2000 + strpos(substr(timeline, 2000), '
'::text))) ELSE COALESCE(timeline, ''::text) END || (((date_part('epoch'::text, at) * (1000000)::double precision))::bigint)::text) || '	'::text) || line) || '
'::text) END;

ALTER FUNCTION pawl.timeline_add(timeline text, line text, at timestamp with time zone) OWNER TO pawl_owner;

CREATE FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT encode(substr(sha256(convert_to(
               CASE scope WHEN 'kind' THEN 'k' || length(queue) || ':' || queue || length(kind) || ':' || kind
                          WHEN 'queue' THEN 'q' || length(queue) || ':' || queue
                          ELSE 'g' END || key, 'UTF8')), 1, 16), 'hex')::uuid
$$;

ALTER FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.waits_behind(waits_for pawl.wait, due_at timestamp with time zone, deadline_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((waits_for = 'lane'::pawl.wait) AND ((due_at = ANY (ARRAY['infinity'::timestamp with time zone, deadline_at])) IS TRUE));

ALTER FUNCTION pawl.waits_behind(waits_for pawl.wait, due_at timestamp with time zone, deadline_at timestamp with time zone) OWNER TO pawl_owner;

CREATE FUNCTION pawl.wake(queue text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM pawl.sleeper AS s WHERE s.queue = wake.queue AND s.asleep) THEN
        PERFORM pg_notify('pawl_wake', wake.queue);
    END IF;
END
$$;

ALTER FUNCTION pawl.wake(queue text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.watch(job bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = job) THEN
        RETURN false;
    END IF;
    INSERT INTO pawl.watcher (job_id) VALUES (job);
    RETURN true;
END
$$;

ALTER FUNCTION pawl.watch(job bigint) OWNER TO pawl_owner;

CREATE FUNCTION pawl.watch_deliver() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '2s'
    AS $$
DECLARE
    marked boolean;
BEGIN
    DELETE FROM pawl.watcher AS w WHERE w.id = new.id;
    SELECT j.has_options INTO marked FROM pawl.job AS j WHERE j.id = new.job_id FOR NO KEY UPDATE;
    IF FOUND THEN
        IF marked IS NULL THEN
            UPDATE pawl.job AS j SET has_options = true WHERE j.id = new.job_id;
        END IF;
        INSERT INTO pawl.job_option AS o (job_id, watched) VALUES (new.job_id, true)
        ON CONFLICT (job_id) DO UPDATE SET watched = true WHERE o.watched IS NULL;
    ELSE
        PERFORM pg_notify('pawl_done', new.job_id::text);
    END IF;
    RETURN NULL;
END
$$;

ALTER FUNCTION pawl.watch_deliver() OWNER TO pawl_owner;

CREATE TABLE pawl.access (
    id bigint NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    scopes text[] NOT NULL,
    queues text[] NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_by text DEFAULT SESSION_USER NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text,
    CONSTRAINT access_hash CHECK ((octet_length(hash) = 32)),
    CONSTRAINT access_name CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 128))),
    CONSTRAINT access_queues CHECK ((cardinality(queues) <= 64)),
    CONSTRAINT access_queues_named CHECK (((''::text <> ALL (queues)) AND (array_position(queues, NULL::text) IS NULL))),
    CONSTRAINT access_scopes CHECK (((cardinality(scopes) > 0) AND (scopes <@ ARRAY['enqueue'::text, 'work'::text, 'read'::text, 'admin'::text])))
);

ALTER TABLE pawl.access OWNER TO pawl_owner;

COMMENT ON TABLE pawl.access IS 'Access tokens of clients of the server, by the hash of their secret';

ALTER TABLE pawl.access ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.access_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.child (
    parent_id bigint NOT NULL,
    child_id bigint NOT NULL,
    kind text NOT NULL,
    state pawl.state NOT NULL,
    result bytea,
    error text
)
WITH (autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.child OWNER TO pawl_owner;

COMMENT ON TABLE pawl.child IS 'Finished children of jobs that have not gone on yet';

CREATE TABLE pawl.claim (
    token uuid NOT NULL,
    worker uuid NOT NULL,
    claimed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    job_ids bigint[] NOT NULL,
    swept_at timestamp with time zone,
    seq bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');
ALTER TABLE ONLY pawl.claim ALTER COLUMN job_ids SET STORAGE EXTERNAL;

ALTER TABLE pawl.claim OWNER TO pawl_owner;

COMMENT ON TABLE pawl.claim IS 'Who works on what, and until when that is believed';

CREATE TABLE pawl.claim_low (
    one boolean DEFAULT true NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    CONSTRAINT claim_low_one_check CHECK (one)
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.claim_low OWNER TO pawl_owner;

COMMENT ON TABLE pawl.claim_low IS 'One row: no claim with a lower seq is left, or can be committed any more';

ALTER TABLE pawl.claim ALTER COLUMN seq ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.claim_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.enqueue_key (
    hash uuid NOT NULL,
    request uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    job_ids bigint[],
    existed boolean[]
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.enqueue_key OWNER TO pawl_owner;

COMMENT ON TABLE pawl.enqueue_key IS 'Idempotency keys of Enqueue calls, and what was accepted under them';

CREATE TABLE pawl.guard (
    hash uuid NOT NULL,
    job_id bigint NOT NULL,
    keep_ms bigint NOT NULL,
    free_at timestamp with time zone
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.guard OWNER TO pawl_owner;

COMMENT ON TABLE pawl.guard IS 'Unique keys and the jobs that hold them';

CREATE TABLE pawl.held (
    job_id bigint NOT NULL,
    token uuid NOT NULL,
    worker text NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    let_go boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.held OWNER TO pawl_owner;

COMMENT ON TABLE pawl.held IS 'Running jobs of which their workers spoke to another server than the one that claimed them';

CREATE TABLE pawl.history_default (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    expires_on date NOT NULL,
    state pawl.state NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    priority smallint NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    worker text,
    payload bytea NOT NULL,
    result bytea,
    errors jsonb,
    lane text,
    parent_id bigint,
    meta jsonb,
    cancel_by text,
    step text,
    last_state bytea,
    timeline text,
    ticket bytea
);

ALTER TABLE pawl.history_default OWNER TO pawl_owner;

CREATE TABLE pawl.job (
    id bigint NOT NULL,
    due_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    max_attempts pawl.max_attempts DEFAULT 20 NOT NULL,
    priority pawl.priority DEFAULT 4 NOT NULL,
    queue pawl.queue_name NOT NULL,
    kind pawl.kind_name NOT NULL,
    token uuid,
    payload pawl.payload NOT NULL,
    timeout_ms pawl.timeout_ms,
    waits_for pawl.wait,
    has_options boolean,
    is_machine boolean,
    errors jsonb,
    lane text,
    lane_due_at timestamp with time zone,
    parent_id bigint,
    join_of integer,
    cancel_by text,
    deadline_at timestamp with time zone,
    meta jsonb
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.1', autovacuum_analyze_scale_factor='0.1');

ALTER TABLE pawl.job OWNER TO pawl_owner;

COMMENT ON TABLE pawl.job IS 'Unfinished work; a job that ends moves to pawl.history';

ALTER TABLE pawl.job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.job_option (
    job_id bigint NOT NULL,
    guard uuid,
    retry pawl.retry,
    retry_base_ms integer,
    retry_cap_ms integer,
    progress text,
    watched boolean
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000');

ALTER TABLE pawl.job_option OWNER TO pawl_owner;

COMMENT ON TABLE pawl.job_option IS 'Rarely used settings of live jobs';

CREATE TABLE pawl.worker (
    id uuid NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    slots integer NOT NULL,
    running integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    beat_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    host text,
    pid integer,
    buffered integer DEFAULT 0 NOT NULL,
    memory_bytes bigint,
    streams jsonb
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.worker OWNER TO pawl_owner;

COMMENT ON TABLE pawl.worker IS 'Processes that run jobs, with their last sign of life';

CREATE VIEW pawl.jobs AS
 SELECT j.id,
    (
        CASE
            WHEN (j.token IS NOT NULL) THEN 'running'::text
            WHEN (j.waits_for = 'operator'::pawl.wait) THEN 'parked'::text
            WHEN ((j.waits_for IS NOT NULL) AND (j.due_at > statement_timestamp())) THEN 'waiting'::text
            WHEN (j.due_at <= statement_timestamp()) THEN 'ready'::text
            WHEN (j.attempt > 0) THEN 'retrying'::text
            ELSE 'scheduled'::text
        END)::pawl.state AS state,
    (j.queue)::text AS queue,
    (j.kind)::text AS kind,
    (j.priority)::smallint AS priority,
    j.attempt,
    (j.max_attempts)::integer AS max_attempts,
    j.created_at,
    j.due_at,
    ( SELECT c.claimed_at
           FROM pawl.claim c
          WHERE (c.token = j.token)) AS started_at,
    NULL::timestamp with time zone AS finished_at,
    ( SELECT w.name
           FROM (pawl.claim c
             JOIN pawl.worker w ON ((w.id = c.worker)))
          WHERE (c.token = j.token)) AS worker,
    (j.payload)::bytea AS payload,
    NULL::bytea AS result,
    j.errors,
    (j.timeout_ms)::integer AS timeout_ms,
    j.lane,
    j.parent_id,
    j.meta,
    j.cancel_by,
        CASE
            WHEN j.has_options THEN ( SELECT o.progress
               FROM pawl.job_option o
              WHERE (o.job_id = j.id))
            ELSE NULL::text
        END AS progress
   FROM pawl.job j
UNION ALL
 SELECT h.id,
    h.state,
    h.queue,
    h.kind,
    h.priority,
    h.attempt,
    h.max_attempts,
    h.created_at,
    h.due_at,
    h.started_at,
    h.finished_at,
    h.worker,
    h.payload,
    h.result,
    h.errors,
    NULL::integer AS timeout_ms,
    h.lane,
    h.parent_id,
    h.meta,
    h.cancel_by,
    NULL::text AS progress
   FROM pawl.history h;

ALTER TABLE pawl.jobs OWNER TO pawl_owner;

COMMENT ON VIEW pawl.jobs IS 'All jobs, live and finished, with their state in words';

CREATE TABLE pawl.kind (
    name text NOT NULL,
    retry pawl.retry DEFAULT 'exponential'::pawl.retry NOT NULL,
    retry_base_ms integer DEFAULT 1000 NOT NULL,
    retry_cap_ms integer DEFAULT 3600000 NOT NULL,
    retry_table_ms integer[],
    park boolean DEFAULT false NOT NULL,
    CONSTRAINT kind_name CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 128))),
    CONSTRAINT kind_retry_base CHECK ((retry_base_ms > 0)),
    CONSTRAINT kind_retry_cap CHECK ((retry_cap_ms >= retry_base_ms)),
    CONSTRAINT kind_retry_table CHECK (((retry <> 'table'::pawl.retry) OR (cardinality(retry_table_ms) > 0)))
);

ALTER TABLE pawl.kind OWNER TO pawl_owner;

COMMENT ON TABLE pawl.kind IS 'Settings of kinds of jobs that differ from the defaults';

CREATE TABLE pawl.lane (
    queue text NOT NULL,
    name text NOT NULL,
    holders bigint[] NOT NULL,
    max_running integer DEFAULT 1 NOT NULL,
    rate_per_s double precision,
    burst double precision DEFAULT 1 NOT NULL,
    tokens double precision DEFAULT 1 NOT NULL,
    filled_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    next_at timestamp with time zone,
    strict boolean DEFAULT false NOT NULL,
    hold boolean DEFAULT false NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');

ALTER TABLE pawl.lane OWNER TO pawl_owner;

COMMENT ON TABLE pawl.lane IS 'Lanes with jobs in them, what runs there, and their limits';

CREATE TABLE pawl.lane_stir (
    id bigint NOT NULL,
    queue text NOT NULL,
    name text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.lane_stir OWNER TO pawl_owner;

COMMENT ON TABLE pawl.lane_stir IS 'Lanes that have to be mended';

ALTER TABLE pawl.lane_stir ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.lane_stir_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.machine (
    job_id bigint NOT NULL,
    step text,
    state bytea,
    inbox bigint DEFAULT 0 NOT NULL,
    awaits text[],
    wait_since timestamp with time zone,
    wait_until timestamp with time zone,
    children_left integer,
    join_at integer,
    fail_fast boolean DEFAULT false NOT NULL,
    cancel_rest boolean DEFAULT false NOT NULL,
    joins integer DEFAULT 0 NOT NULL,
    timeline text
)
WITH (fillfactor='45', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000');

ALTER TABLE pawl.machine OWNER TO pawl_owner;

COMMENT ON TABLE pawl.machine IS 'Where live machines are; one row for each';

CREATE TABLE pawl.mark (
    queue text NOT NULL,
    kinds text NOT NULL,
    due_at timestamp with time zone[] NOT NULL,
    id bigint[] NOT NULL,
    stored_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.mark OWNER TO pawl_owner;

COMMENT ON TABLE pawl.mark IS 'Where a worker that starts begins to claim: no job of these kinds is due before';

CREATE TABLE pawl.migration (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    applied_by text NOT NULL
);

ALTER TABLE pawl.migration OWNER TO pawl_owner;

COMMENT ON TABLE pawl.migration IS 'What was done to this schema, in order';

CREATE TABLE pawl.orphan (
    child_id bigint NOT NULL,
    parent_id bigint NOT NULL
)
WITH (fillfactor='70');

ALTER TABLE pawl.orphan OWNER TO pawl_owner;

COMMENT ON TABLE pawl.orphan IS 'Children that are to be cancelled because their parent no longer waits for them';

CREATE TABLE pawl.queue (
    name text NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    keep_days integer DEFAULT 7 NOT NULL,
    CONSTRAINT queue_keep_days CHECK (((keep_days >= 0) AND (keep_days <= 3650))),
    CONSTRAINT queue_name CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 128)))
);

ALTER TABLE pawl.queue OWNER TO pawl_owner;

COMMENT ON TABLE pawl.queue IS 'Settings of queues that differ from the defaults';

CREATE TABLE pawl.queue_producer (
    queue text NOT NULL,
    role regrole NOT NULL
);

ALTER TABLE pawl.queue_producer OWNER TO pawl_owner;

COMMENT ON TABLE pawl.queue_producer IS 'Which roles may enqueue into which queues, for members of pawl_enqueuer';

CREATE TABLE pawl.signal (
    id bigint NOT NULL,
    job_id bigint NOT NULL,
    name pawl.signal_name NOT NULL,
    key pawl.signal_key,
    payload pawl.signal_payload NOT NULL,
    sent_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    shown boolean DEFAULT false NOT NULL,
    consumed boolean DEFAULT false NOT NULL,
    bytes integer,
    inbox_count integer,
    inbox_bytes integer
)
WITH (autovacuum_vacuum_scale_factor='0.05');

ALTER TABLE pawl.signal OWNER TO pawl_owner;

COMMENT ON TABLE pawl.signal IS 'Signals that were sent to machines and are not consumed';

ALTER TABLE pawl.signal ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.signal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.sleeper (
    queue text NOT NULL,
    worker uuid NOT NULL,
    asleep boolean NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.sleeper OWNER TO pawl_owner;

COMMENT ON TABLE pawl.sleeper IS 'Workers that wait for a notification, by queue';

CREATE TABLE pawl.stop (
    job_id bigint NOT NULL,
    token uuid NOT NULL,
    by_whom text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.stop OWNER TO pawl_owner;

COMMENT ON TABLE pawl.stop IS 'Running jobs whose end was asked for; heartbeats bring it to their workers';

CREATE TABLE pawl.vacuumed (
    relation text NOT NULL,
    at timestamp with time zone NOT NULL,
    horizon bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.vacuumed OWNER TO pawl_owner;

COMMENT ON TABLE pawl.vacuumed IS 'Which tables workers have vacuumed, and what held rows back at that time';

CREATE TABLE pawl.watcher (
    id bigint NOT NULL,
    job_id bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.watcher OWNER TO pawl_owner;

COMMENT ON TABLE pawl.watcher IS 'Jobs that somebody is about to watch; empty but for transactions that are open';

ALTER TABLE pawl.watcher ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pawl.watcher_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pawl.worker_wish (
    worker text NOT NULL,
    drain boolean DEFAULT false NOT NULL,
    credits integer,
    by_whom text DEFAULT SESSION_USER NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    rate_per_s double precision,
    CONSTRAINT worker_wish_rate CHECK ((rate_per_s > (0)::double precision))
);

ALTER TABLE pawl.worker_wish OWNER TO pawl_owner;

COMMENT ON TABLE pawl.worker_wish IS 'What operators want of workers on streams: to drain, another number of jobs, or a limit of jobs a second';

ALTER TABLE ONLY pawl.history ATTACH PARTITION pawl.history_default DEFAULT;

ALTER TABLE ONLY pawl.access
    ADD CONSTRAINT access_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.child
    ADD CONSTRAINT child_pkey PRIMARY KEY (parent_id, child_id);

ALTER TABLE ONLY pawl.claim_low
    ADD CONSTRAINT claim_low_pkey PRIMARY KEY (one);

ALTER TABLE ONLY pawl.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (token);

ALTER TABLE ONLY pawl.enqueue_key
    ADD CONSTRAINT enqueue_key_pkey PRIMARY KEY (hash);

ALTER TABLE ONLY pawl.guard
    ADD CONSTRAINT guard_pkey PRIMARY KEY (hash);

ALTER TABLE ONLY pawl.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY pawl.job_option
    ADD CONSTRAINT job_option_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY pawl.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pawl.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (queue, name);

ALTER TABLE ONLY pawl.lane_rule
    ADD CONSTRAINT lane_rule_pkey PRIMARY KEY (queue, pattern);

ALTER TABLE ONLY pawl.lane_stir
    ADD CONSTRAINT lane_stir_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.machine
    ADD CONSTRAINT machine_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY pawl.mark
    ADD CONSTRAINT mark_pkey PRIMARY KEY (queue, kinds);

ALTER TABLE ONLY pawl.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY pawl.orphan
    ADD CONSTRAINT orphan_pkey PRIMARY KEY (child_id);

ALTER TABLE ONLY pawl.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pawl.queue_producer
    ADD CONSTRAINT queue_producer_pkey PRIMARY KEY (queue, role);

ALTER TABLE ONLY pawl.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (job_id, id);

ALTER TABLE ONLY pawl.sleeper
    ADD CONSTRAINT sleeper_pkey PRIMARY KEY (queue, worker);

ALTER TABLE ONLY pawl.stop
    ADD CONSTRAINT stop_pkey PRIMARY KEY (token, job_id);

ALTER TABLE ONLY pawl.vacuumed
    ADD CONSTRAINT vacuumed_pkey PRIMARY KEY (relation);

ALTER TABLE ONLY pawl.watcher
    ADD CONSTRAINT watcher_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.worker_wish
    ADD CONSTRAINT worker_wish_pkey PRIMARY KEY (worker);

CREATE UNIQUE INDEX access_hash ON pawl.access USING btree (hash);

CREATE UNIQUE INDEX access_name ON pawl.access USING btree (name) WHERE (revoked_at IS NULL);

CREATE INDEX claim_seq ON pawl.claim USING btree (seq);

CREATE INDEX enqueue_key_expires ON pawl.enqueue_key USING brin (expires_at);

CREATE INDEX history_id ON ONLY pawl.history USING btree (id);

CREATE INDEX history_default_id_idx ON pawl.history_default USING btree (id);

CREATE INDEX history_trouble ON ONLY pawl.history USING btree (id) WHERE (state <> 'done'::pawl.state);

CREATE INDEX history_default_id_idx1 ON pawl.history_default USING btree (id) WHERE (state <> 'done'::pawl.state);

CREATE INDEX job_correlation ON pawl.job USING btree (((meta ->> 'correlation'::text))) WHERE ((meta ->> 'correlation'::text) IS NOT NULL);

CREATE INDEX job_lane ON pawl.job USING btree (queue, lane, id) WHERE (lane IS NOT NULL);

CREATE INDEX job_parent ON pawl.job USING btree (parent_id) WHERE (parent_id IS NOT NULL);

CREATE INDEX job_parked ON pawl.job USING btree (id) WHERE (waits_for = 'operator'::pawl.wait);

CREATE INDEX job_pick ON pawl.job USING btree (queue, priority, due_at, id, kind COLLATE "C") WHERE (lane IS NULL);

CREATE INDEX job_pick_lane ON pawl.job USING btree (queue, priority, due_at, id, kind COLLATE "C") WHERE (lane IS NOT NULL);

CREATE UNIQUE INDEX signal_key ON pawl.signal USING btree (job_id, name, key) WHERE (key IS NOT NULL);

ALTER INDEX pawl.history_id ATTACH PARTITION pawl.history_default_id_idx;

ALTER INDEX pawl.history_trouble ATTACH PARTITION pawl.history_default_id_idx1;

CREATE TRIGGER access_changed AFTER INSERT OR DELETE OR UPDATE OR TRUNCATE ON pawl.access FOR EACH STATEMENT EXECUTE FUNCTION pawl.access_changed();

CREATE TRIGGER signal_accept BEFORE INSERT ON pawl.signal FOR EACH ROW EXECUTE FUNCTION pawl.signal_accept();

CREATE CONSTRAINT TRIGGER signal_deliver AFTER INSERT ON pawl.signal DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.signal_deliver();

CREATE CONSTRAINT TRIGGER stop_deliver AFTER INSERT ON pawl.stop DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.stop_deliver();

CREATE CONSTRAINT TRIGGER watch_deliver AFTER INSERT ON pawl.watcher DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.watch_deliver();

ALTER TABLE pawl.job ENABLE ROW LEVEL SECURITY;

CREATE POLICY job_enqueuer_insert ON pawl.job FOR INSERT TO pawl_enqueuer WITH CHECK ((EXISTS ( SELECT
   FROM pawl.queue_producer p
  WHERE ((p.queue = (job.queue)::text) AND pg_has_role((p.role)::oid, 'USAGE'::text)))));

CREATE POLICY job_enqueuer_select ON pawl.job FOR SELECT TO pawl_enqueuer USING ((EXISTS ( SELECT
   FROM pawl.queue_producer p
  WHERE ((p.queue = (job.queue)::text) AND pg_has_role((p.role)::oid, 'USAGE'::text)))));

CREATE POLICY job_producer_insert ON pawl.job FOR INSERT TO pawl_producer WITH CHECK (true);

CREATE POLICY job_producer_select ON pawl.job FOR SELECT TO pawl_producer USING (true);

CREATE POLICY job_reader ON pawl.job FOR SELECT TO pawl_reader USING (true);

CREATE POLICY job_worker ON pawl.job TO pawl_worker USING (true) WITH CHECK (true);

ALTER TABLE pawl.signal ENABLE ROW LEVEL SECURITY;

CREATE POLICY signal_enqueuer_insert ON pawl.signal FOR INSERT TO pawl_enqueuer WITH CHECK ((EXISTS ( SELECT
   FROM pawl.job j
  WHERE (j.id = signal.job_id))));

CREATE POLICY signal_enqueuer_select ON pawl.signal FOR SELECT TO pawl_enqueuer USING ((EXISTS ( SELECT
   FROM pawl.job j
  WHERE (j.id = signal.job_id))));

CREATE POLICY signal_producer_insert ON pawl.signal FOR INSERT TO pawl_producer WITH CHECK (true);

CREATE POLICY signal_producer_select ON pawl.signal FOR SELECT TO pawl_producer USING (true);

CREATE POLICY signal_reader ON pawl.signal FOR SELECT TO pawl_reader USING (true);

CREATE POLICY signal_worker ON pawl.signal TO pawl_worker USING (true) WITH CHECK (true);

ALTER TABLE pawl.watcher ENABLE ROW LEVEL SECURITY;

CREATE POLICY watcher_enqueuer_insert ON pawl.watcher FOR INSERT TO pawl_enqueuer WITH CHECK ((EXISTS ( SELECT
   FROM pawl.job j
  WHERE (j.id = watcher.job_id))));

CREATE POLICY watcher_insert ON pawl.watcher FOR INSERT TO pawl_producer, pawl_reader WITH CHECK (true);

GRANT USAGE ON SCHEMA pawl TO pawl_server;
GRANT USAGE ON SCHEMA pawl TO pawl_worker;
GRANT USAGE ON SCHEMA pawl TO pawl_producer;
GRANT USAGE ON SCHEMA pawl TO pawl_reader;
GRANT USAGE ON SCHEMA pawl TO pawl_enqueuer;

REVOKE ALL ON TYPE pawl.kind_name FROM PUBLIC;

REVOKE ALL ON TYPE pawl.machine_seen FROM PUBLIC;

REVOKE ALL ON TYPE pawl.max_attempts FROM PUBLIC;

REVOKE ALL ON TYPE pawl.outcome FROM PUBLIC;
GRANT ALL ON TYPE pawl.outcome TO pawl_worker;

REVOKE ALL ON TYPE pawl.payload FROM PUBLIC;

REVOKE ALL ON TYPE pawl.priority FROM PUBLIC;

REVOKE ALL ON TYPE pawl.queue_name FROM PUBLIC;

REVOKE ALL ON TYPE pawl.retry FROM PUBLIC;
GRANT ALL ON TYPE pawl.retry TO pawl_producer;
GRANT ALL ON TYPE pawl.retry TO pawl_enqueuer;

REVOKE ALL ON TYPE pawl.signal_key FROM PUBLIC;

REVOKE ALL ON TYPE pawl.signal_name FROM PUBLIC;

REVOKE ALL ON TYPE pawl.signal_payload FROM PUBLIC;

REVOKE ALL ON TYPE pawl.state FROM PUBLIC;
GRANT ALL ON TYPE pawl.state TO pawl_worker;

REVOKE ALL ON TYPE pawl.timeout_ms FROM PUBLIC;

REVOKE ALL ON TYPE pawl.wait FROM PUBLIC;
GRANT ALL ON TYPE pawl.wait TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.access_changed() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) TO pawl_enqueuer;
GRANT ALL ON FUNCTION pawl.assert_claim(job bigint, token uuid) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.bytes_text(bytes bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.bytes_text(bytes bytea) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.cancel(job bigint, by_whom text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.cancel(job bigint, by_whom text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.cancel_idle(job bigint, who text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.cancel_idle(job bigint, who text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.children_cancel(ids bigint[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.children_let_go(parent bigint, token uuid, cancel boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.children_let_go(parent bigint, token uuid, cancel boolean) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.claim_lanes(queue text, kinds text[], most integer, token uuid, worker uuid, lease_ms bigint, from_due timestamp with time zone[], from_id bigint[], from_priority smallint[], from_lane boolean[], most_of_lane integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.claim_lanes(queue text, kinds text[], most integer, token uuid, worker uuid, lease_ms bigint, from_due timestamp with time zone[], from_id bigint[], from_priority smallint[], from_lane boolean[], most_of_lane integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.claim_try(job bigint, known text, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.claim_try(job bigint, known text, worker text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.claim_turn(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.claim_turn(queue text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.claims_end(over uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.claims_end(over uuid[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.claims_sweep(most integer, only_token uuid, only_job bigint, low bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.claims_sweep(most integer, only_token uuid, only_job bigint, low bigint) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.correlated(correlation text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.correlated(correlation text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.correlated(correlation text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.due_time(delay interval, due_at timestamp with time zone) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_many(jobs jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_many(jobs jsonb) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_many(jobs jsonb) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_many(kind text, payloads jsonb[], queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_options(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_options(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_options(kind text, payload jsonb, queue text, priority integer, delay interval, due_at timestamp with time zone, max_attempts integer, timeout interval, retry text, retry_base interval, retry_cap interval, unique_key text, unique_scope text, unique_states text[], unique_for interval, on_conflict text, lane text, tags text[], parent bigint, trace text, bytes bytea, correlation text, deadline interval) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_plain(queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer, timeout_ms integer) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, delay interval, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, delay interval, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.enqueue_row(queue text, kind text, payload bytea, priority smallint, delay interval, due_at timestamp with time zone, max_attempts integer, timeout_ms integer, retry pawl.retry, retry_base_ms integer, retry_cap_ms integer, key text, key_scope text, key_states integer, key_ms bigint, key_mode integer, lane text, parent_id bigint, meta jsonb, deadline_at timestamp with time zone, OUT id bigint, OUT existed boolean) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.guard_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.guard_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.guard_take(new_id bigint, scope text, key text, states integer, keep bigint, mode integer) TO pawl_enqueuer;

GRANT INSERT ON TABLE pawl.history TO pawl_worker;
GRANT SELECT ON TABLE pawl.history TO pawl_reader;

REVOKE ALL ON FUNCTION pawl.history_again(h pawl.history, machine boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.history_again(h pawl.history, machine boolean) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.interval_ms(what text, i interval) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.interval_ms(what text, i interval) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.interval_ms(what text, i interval) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.is_held(job bigint, claim_token uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.is_held(job bigint, claim_token uuid) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.is_mine(row_xmin xid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.job_check(queue text, kind text, priority integer, max_attempts integer, bytes integer) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.job_park(job bigint, reason text, worker text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.job_park(job bigint, reason text, worker text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.job_start_at(job bigint, first_step text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.job_start_at(job bigint, first_step text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.jobs_end(ids bigint[], states pawl.state[], tokens uuid[], results bytea[], classes text[], errors text[], workers text[], run_us bigint[], lines text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.jobs_end(ids bigint[], states pawl.state[], tokens uuid[], results bytea[], classes text[], errors text[], workers text[], run_us bigint[], lines text[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.jobs_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], delays_ms bigint[], results bytea[], errors text[], run_us bigint[], worker text, over uuid[], lines text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.jobs_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], delays_ms bigint[], results bytea[], errors text[], run_us bigint[], worker text, over uuid[], lines text[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.keeps_place(hold boolean, token uuid, attempt integer, waits_for pawl.wait) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.keeps_place(hold boolean, token uuid, attempt integer, waits_for pawl.wait) TO pawl_worker;

GRANT SELECT ON TABLE pawl.lane_rule TO pawl_worker;
GRANT SELECT ON TABLE pawl.lane_rule TO pawl_reader;
GRANT INSERT,DELETE,UPDATE ON TABLE pawl.lane_rule TO pawl_server;

REVOKE ALL ON FUNCTION pawl.lane_limits(queue text, lane text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lane_limits(queue text, lane text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lane_tokens(tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lane_tokens(tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lane_room(max_running integer, holders bigint[], tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lane_room(max_running integer, holders bigint[], tokens double precision, rate_per_s double precision, burst double precision, filled_at timestamp with time zone) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lane_set(queue text, pattern text, max_running integer, rate_per_s double precision, burst double precision, strict boolean, hold boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lane_set(queue text, pattern text, max_running integer, rate_per_s double precision, burst double precision, strict boolean, hold boolean) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.lanes_call(queues text[], lanes text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_call(queues text[], lanes text[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_clock(queues text[], lanes text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_clock(queues text[], lanes text[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_leave(queues text[], lanes text[], ids bigint[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_make(queue text, names text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_make(queue text, names text[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.lanes_mend(most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_mend(most integer) TO pawl_worker;
GRANT ALL ON FUNCTION pawl.lanes_mend(most integer) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.lanes_move(queue text, lanes text[], ids bigint[], tids tid[], lane_of integer[], n_picked integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.lanes_move(queue text, lanes text[], ids bigint[], tids tid[], lane_of integer[], n_picked integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.machine_view(job bigint, waits_for pawl.wait, deadline_at timestamp with time zone, cancel_by text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.machine_view(job bigint, waits_for pawl.wait, deadline_at timestamp with time zone, cancel_by text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.machine_waits_for(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.machine_waits_for(job bigint) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.machines_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], steps text[], states bytea[], ms bigint[], awaits text[], seen bigint[], shown text[], progress boolean[], sticky boolean[], lines text[], n_children integer[], join_at integer[], fail_fast boolean[], cancel_rest boolean[], child_of integer[], child_queues text[], child_kinds text[], child_payloads bytea[], child_priorities smallint[], child_max_attempts integer[], over uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.machines_settle(ids bigint[], tokens uuid[], outcomes pawl.outcome[], steps text[], states bytea[], ms bigint[], awaits text[], seen bigint[], shown text[], progress boolean[], sticky boolean[], lines text[], n_children integer[], join_at integer[], fail_fast boolean[], cancel_rest boolean[], child_of integer[], child_queues text[], child_kinds text[], child_payloads bytea[], child_priorities smallint[], child_max_attempts integer[], over uuid[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.name_check(what text, name text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.name_check(what text, name text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.name_check(what text, name text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.orphans_end(most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.orphans_end(most integer) TO pawl_worker;
GRANT ALL ON FUNCTION pawl.orphans_end(most integer) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.queue_known(queue text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.raise_not_live(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.raise_not_live(job bigint) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.raise_unseen(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.raise_unseen(job bigint) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.raise_unseen(job bigint) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.retry(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry(job bigint) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry_ms(attempt integer, retry pawl.retry, base_ms integer, cap_ms integer, kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.retry_put(new_id bigint, retry pawl.retry, base_ms integer, cap_ms integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry_put(new_id bigint, retry pawl.retry, base_ms integer, cap_ms integer) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.retry_put(new_id bigint, retry pawl.retry, base_ms integer, cap_ms integer) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.serve_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.serve_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.session_role() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.signal(job bigint, name text, payload jsonb, key text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.signal_accept() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.signal_all(correlation text, name text, payload jsonb, key text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.signal_bytes(name text, payload jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.signal_deliver() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.stop_deliver() FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.stop_maintain() FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.stop_maintain() TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.ticket(token uuid, job bigint, step text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.ticket(token uuid, job bigint, step text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.timeline_add(timeline text, line text, at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.timeline_add(timeline text, line text, at timestamp with time zone) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.unique_hash(scope text, queue text, kind text, key text) TO pawl_enqueuer;

REVOKE ALL ON FUNCTION pawl.waits_behind(waits_for pawl.wait, due_at timestamp with time zone, deadline_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.waits_behind(waits_for pawl.wait, due_at timestamp with time zone, deadline_at timestamp with time zone) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.wake(queue text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.wake(queue text) TO pawl_server;

REVOKE ALL ON FUNCTION pawl.watch(job bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.watch(job bigint) TO pawl_producer;
GRANT ALL ON FUNCTION pawl.watch(job bigint) TO pawl_enqueuer;
GRANT ALL ON FUNCTION pawl.watch(job bigint) TO pawl_reader;

REVOKE ALL ON FUNCTION pawl.watch_deliver() FROM PUBLIC;

GRANT SELECT,INSERT,UPDATE ON TABLE pawl.access TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.child TO pawl_worker;
GRANT SELECT ON TABLE pawl.child TO pawl_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.claim TO pawl_worker;
GRANT SELECT ON TABLE pawl.claim TO pawl_reader;

GRANT SELECT,UPDATE ON TABLE pawl.claim_low TO pawl_worker;
GRANT SELECT ON TABLE pawl.claim_low TO pawl_reader;

GRANT SELECT,USAGE ON SEQUENCE pawl.claim_seq_seq TO pawl_worker;

GRANT SELECT,INSERT,UPDATE ON TABLE pawl.enqueue_key TO pawl_server;

GRANT SELECT,DELETE,UPDATE ON TABLE pawl.guard TO pawl_worker;
GRANT SELECT ON TABLE pawl.guard TO pawl_reader;

GRANT SELECT(hash) ON TABLE pawl.guard TO pawl_producer;

GRANT SELECT(job_id) ON TABLE pawl.guard TO pawl_producer;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.held TO pawl_worker;
GRANT SELECT ON TABLE pawl.held TO pawl_reader;

GRANT SELECT,DELETE ON TABLE pawl.job TO pawl_worker;
GRANT SELECT ON TABLE pawl.job TO pawl_reader;

GRANT SELECT(id) ON TABLE pawl.job TO pawl_producer;
GRANT SELECT(id) ON TABLE pawl.job TO pawl_enqueuer;

GRANT INSERT(due_at) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(due_at) ON TABLE pawl.job TO pawl_enqueuer;
GRANT UPDATE(due_at) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(attempt) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(max_attempts) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(max_attempts) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(max_attempts) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(priority) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(priority) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(priority) ON TABLE pawl.job TO pawl_worker;

GRANT SELECT(queue),INSERT(queue) ON TABLE pawl.job TO pawl_producer;
GRANT SELECT(queue),INSERT(queue) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(queue) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(kind) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(kind) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(kind) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(token) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(payload) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(payload) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(payload) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(timeout_ms) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(timeout_ms) ON TABLE pawl.job TO pawl_enqueuer;

GRANT UPDATE(waits_for) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(has_options) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(has_options) ON TABLE pawl.job TO pawl_enqueuer;
GRANT UPDATE(has_options) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(is_machine) ON TABLE pawl.job TO pawl_worker;
GRANT INSERT(is_machine) ON TABLE pawl.job TO pawl_server;

GRANT UPDATE(errors) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(lane) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(lane) ON TABLE pawl.job TO pawl_enqueuer;

GRANT UPDATE(lane_due_at) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(parent_id) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(parent_id) ON TABLE pawl.job TO pawl_enqueuer;
GRANT INSERT(parent_id) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(join_of) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(cancel_by) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(deadline_at) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(deadline_at) ON TABLE pawl.job TO pawl_enqueuer;
GRANT UPDATE(deadline_at) ON TABLE pawl.job TO pawl_server;

GRANT INSERT(meta) ON TABLE pawl.job TO pawl_producer;
GRANT INSERT(meta) ON TABLE pawl.job TO pawl_enqueuer;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.job_option TO pawl_worker;
GRANT SELECT ON TABLE pawl.job_option TO pawl_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.worker TO pawl_worker;
GRANT SELECT ON TABLE pawl.worker TO pawl_reader;

GRANT SELECT ON TABLE pawl.jobs TO pawl_reader;

GRANT SELECT ON TABLE pawl.kind TO pawl_worker;
GRANT SELECT ON TABLE pawl.kind TO pawl_reader;
GRANT INSERT,UPDATE ON TABLE pawl.kind TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.lane TO pawl_worker;
GRANT SELECT ON TABLE pawl.lane TO pawl_reader;

GRANT SELECT,INSERT ON TABLE pawl.lane_stir TO pawl_worker;
GRANT SELECT ON TABLE pawl.lane_stir TO pawl_reader;
GRANT INSERT ON TABLE pawl.lane_stir TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.machine TO pawl_worker;
GRANT SELECT ON TABLE pawl.machine TO pawl_reader;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.mark TO pawl_worker;
GRANT SELECT ON TABLE pawl.mark TO pawl_reader;

GRANT SELECT ON TABLE pawl.migration TO pawl_server;
GRANT SELECT ON TABLE pawl.migration TO pawl_worker;
GRANT SELECT ON TABLE pawl.migration TO pawl_producer;
GRANT SELECT ON TABLE pawl.migration TO pawl_reader;
GRANT SELECT ON TABLE pawl.migration TO pawl_enqueuer;

GRANT SELECT,INSERT ON TABLE pawl.orphan TO pawl_worker;
GRANT SELECT ON TABLE pawl.orphan TO pawl_reader;

GRANT SELECT ON TABLE pawl.queue TO pawl_worker;
GRANT SELECT ON TABLE pawl.queue TO pawl_reader;
GRANT INSERT,UPDATE ON TABLE pawl.queue TO pawl_server;

GRANT SELECT ON TABLE pawl.queue_producer TO pawl_enqueuer;
GRANT SELECT ON TABLE pawl.queue_producer TO pawl_reader;
GRANT INSERT,DELETE ON TABLE pawl.queue_producer TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.signal TO pawl_worker;
GRANT SELECT ON TABLE pawl.signal TO pawl_reader;

GRANT SELECT(job_id),INSERT(job_id) ON TABLE pawl.signal TO pawl_producer;
GRANT SELECT(job_id),INSERT(job_id) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT SELECT(name),INSERT(name) ON TABLE pawl.signal TO pawl_producer;
GRANT SELECT(name),INSERT(name) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT SELECT(key),INSERT(key) ON TABLE pawl.signal TO pawl_producer;
GRANT SELECT(key),INSERT(key) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT INSERT(payload) ON TABLE pawl.signal TO pawl_producer;
GRANT INSERT(payload) ON TABLE pawl.signal TO pawl_enqueuer;

GRANT SELECT ON TABLE pawl.sleeper TO pawl_producer;
GRANT SELECT ON TABLE pawl.sleeper TO pawl_enqueuer;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.sleeper TO pawl_worker;
GRANT SELECT ON TABLE pawl.sleeper TO pawl_reader;

GRANT SELECT ON TABLE pawl.stop TO pawl_worker;
GRANT SELECT ON TABLE pawl.stop TO pawl_reader;
GRANT INSERT ON TABLE pawl.stop TO pawl_server;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.vacuumed TO pawl_worker;
GRANT SELECT ON TABLE pawl.vacuumed TO pawl_reader;

GRANT INSERT(job_id) ON TABLE pawl.watcher TO pawl_producer;
GRANT INSERT(job_id) ON TABLE pawl.watcher TO pawl_enqueuer;
GRANT INSERT(job_id) ON TABLE pawl.watcher TO pawl_reader;

GRANT SELECT ON TABLE pawl.worker_wish TO pawl_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.worker_wish TO pawl_server;
