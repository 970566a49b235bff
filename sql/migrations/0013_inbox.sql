-- 0013_inbox: signals go with their job, whoever ends it and whatever it is.
--
-- Two kinds stayed behind for ever: those to a job that was no machine, and one that was committed while the end of its job waited for it.

-- Deletes the signals of a job whose row was just deleted. A function, for the sake of its own view of the database: the statement that
-- ends the job may have begun before the last signal was committed, and does not see it; but it had to wait for it.
CREATE FUNCTION pawl.signals_forget(job bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM pawl.signal AS s WHERE s.job_id = job;
END
$$;

REVOKE ALL ON FUNCTION pawl.signals_forget(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pawl.signals_forget(bigint) TO pawl_worker, pawl_server;

-- As before, but for the signals.
CREATE OR REPLACE FUNCTION pawl.job_end(job bigint, as_state pawl.state, by_whom text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    g pawl.job;
    keep integer;
BEGIN
    DELETE FROM pawl.job AS j WHERE j.id = job AND j.token IS NULL RETURNING j.* INTO g;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT q.keep_days INTO keep FROM pawl.queue AS q WHERE q.name = g.queue;
    keep := coalesce(keep, 7);
    IF keep > 0 OR g.watched THEN
        INSERT INTO pawl.history (id, created_at, due_at, started_at, finished_at, expires_on, state, attempt,
                                  max_attempts, priority, queue, kind, payload, errors, lane, parent_id, meta, cancel_by,
                                  step, last_state, timeline)
        VALUES (g.id, g.created_at, coalesce(g.lane_due_at, g.due_at), clock_timestamp(), clock_timestamp(),
                (clock_timestamp() AT TIME ZONE 'UTC')::date + greatest(keep, 1), as_state, g.attempt, g.max_attempts,
                g.priority % 10, g.queue, g.kind, g.payload, g.errors, g.lane, g.parent_id, g.meta, by_whom,
                g.step, g.state, g.timeline);
    END IF;
    IF g.guard IS NOT NULL THEN
        DELETE FROM pawl.guard AS k WHERE k.hash = g.guard AND k.job_id = g.id AND k.keep_ms = 0;
        UPDATE pawl.guard AS k SET free_at = clock_timestamp() + k.keep_ms * interval '1 millisecond'
        WHERE k.hash = g.guard AND k.job_id = g.id;
    END IF;
    IF g.inbox IS NOT NULL THEN
        PERFORM pawl.signals_forget(g.id);
    END IF;
    IF g.riders & 32 <> 0 THEN
        PERFORM pawl.children_end(g.id, NULL, g.join_flags & 2 <> 0);
    END IF;
    IF g.join_of IS NOT NULL THEN
        PERFORM pawl.child_ended(g.parent_id, g.join_of, g.id, g.kind, as_state, 'cancelled by ' || by_whom);
    END IF;
    -- One that had been called, or that a strict lane waited for, must not have been the last: the next is called. Others who
    -- only waited for the lane are not missed.
    IF g.lane IS NOT NULL
       AND (g.waits_for IS DISTINCT FROM 2 OR isfinite(g.due_at)
            OR EXISTS (SELECT FROM pawl.lane AS l WHERE l.queue = g.queue AND l.name = g.lane AND l.strict)) THEN
        INSERT INTO pawl.lane_stir (queue, name) VALUES (g.queue, g.lane);
        PERFORM pg_notify('pawl_wake', '#');
    END IF;
    IF g.watched THEN
        PERFORM pg_notify('pawl_done', g.id::text);
    END IF;
    RETURN true;
END
$$;

DELETE FROM pawl.signal AS s WHERE NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = s.job_id);
