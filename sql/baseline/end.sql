-- end: how a run is settled, and the one end of a job.

-- Why a job cannot be found among the live ones, as an error.
CREATE FUNCTION pawl.raise_not_live(job bigint) RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
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

-- Why a job cannot be seen, as an error: that it is finished is said to those who may know of its queue, and of nothing else.
CREATE FUNCTION pawl.raise_unseen(job bigint) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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

-- Tells workers that sleep that there is work in a queue.
CREATE FUNCTION pawl.wake(queue text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM pawl.sleeper AS s WHERE s.queue = wake.queue AND s.asleep) THEN
        PERFORM pg_notify('pawl_wake', wake.queue);
    END IF;
END
$$;

-- === the one end of a job ===============================================================================================

-- Ends jobs: settle, sweep and cancel come here, and so does whatever will end a job later. Arrays in parallel, one element a
-- job; the caller has locked the jobs and decided. What an end does: the job leaves pawl.job with its side rows for history,
-- its unique key is freed, its parent's join counts it and is shown what it came to, its signals are forgotten, its lane is
-- looked at, its own children are let go, and watchers are notified. One more effect is one more CTE.
--   tokens: of the claim under which it ended; NULL: nobody reported its end
--   classes: of the error, for history's list of errors; NULL: the error is only for the parent
--   lines: for the timeline of a machine, without the time
CREATE FUNCTION pawl.jobs_end(
    ids bigint[], states pawl.state[], tokens uuid[], results bytea[], classes text[], errors text[], workers text[],
    run_us bigint[], lines text[]
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
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

-- Claims of which no job is left. One that somebody else holds is left to the sweep.
CREATE FUNCTION pawl.claims_end(over uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF over <> '{}' THEN
        DELETE FROM pawl.claim AS c
        WHERE c.token = ANY (ARRAY(SELECT o.token FROM pawl.claim AS o WHERE o.token = ANY (over) FOR UPDATE SKIP LOCKED));
    END IF;
END
$$;

-- === settles ============================================================================================================

-- What the runs of many jobs came to. Arrays in parallel, one element a job, each guarded by its token: what another worker
-- or a sweep took over meanwhile is left alone and missing from the answer.
--   done, cancel, reject: it is over. fail: over, or parked where its kind says so. retry: due again, until its attempts are
--   used up, then like fail. snooze: due again, the attempt given back. release: as before its claim.
--   A job whose end was asked for (cancel_by) is cancelled, unless it is done.
--   delays_ms: for retry and snooze; -1: by the retry policy
--   over: claims of which no job is left
-- Returns the position in the input, from 1, of each; what the job is now; and ms until it is due, NULL: not by itself.
CREATE FUNCTION pawl.jobs_settle(
    ids bigint[], tokens uuid[], outcomes pawl.outcome[], delays_ms bigint[], results bytea[], errors text[],
    run_us bigint[], worker text, over uuid[], lines text[]
) RETURNS TABLE (n bigint, state text, due_ms bigint) LANGUAGE plpgsql VOLATILE AS $$
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
