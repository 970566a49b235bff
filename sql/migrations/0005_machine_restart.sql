-- 0005_machine_restart: an operator lets a machine go on from a step of his choice.

-- A live one that does not run goes on at once, with all its attempts; one that waits for its lane goes on when its turn
-- comes. Children that still run are no longer waited for. One that has failed or was cancelled goes on as a new job with
-- the old one's payload, state and timeline. Returns the id of the job that goes on. Security definer: nobody else writes
-- a step or a state without a claim.
CREATE FUNCTION pawl.machine_restart(job bigint, from_step text, new_state bytea DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
<<here>>
DECLARE
    j pawl.job;
    h pawl.history;
    id bigint;
    line text;
    kid record;
BEGIN
    PERFORM pawl.name_check('step', from_step);
    IF octet_length(new_state) > 1048576 THEN
        RAISE EXCEPTION 'the state has % bytes, and the limit is 1048576', octet_length(new_state) USING ERRCODE = '54000';
    END IF;
    -- As a step's line (job_settle_step.sql).
    line := (date_part('epoch', clock_timestamp()) * 1000000)::bigint || E'\t' || from_step || E'\t0\trestart\t0\t';
    SELECT * INTO j FROM pawl.job AS l WHERE l.id = machine_restart.job FOR UPDATE;
    IF FOUND THEN
        IF j.token IS NOT NULL THEN
            RAISE EXCEPTION 'job % is running', job
                USING ERRCODE = 'PW002', HINT = 'Wait until its step has ended, or cancel it.';
        END IF;
        UPDATE pawl.job AS l
        SET step = from_step,
            state = coalesce(new_state, l.state),
            attempt = 0,
            riders = coalesce(l.riders, 0) | 16,
            due_at = CASE WHEN l.waits_for = 2 THEN l.due_at ELSE clock_timestamp() END,
            waits_for = CASE WHEN l.waits_for = 2 THEN l.waits_for END,
            deadline_at = CASE WHEN l.deadline_at > clock_timestamp() THEN l.deadline_at END,
            awaits = NULL, wait_since = NULL, wait_until = NULL, children_left = NULL, join_at = NULL,
            timeline = right(coalesce(l.timeline, ''), 6000) || line
                       || coalesce(octet_length(coalesce(new_state, l.state)), 0) || E'\n'
        WHERE l.id = machine_restart.job;
        -- One that somebody else is just changing is left alone: it finds a parent that waits for nobody.
        FOR kid IN SELECT k.id FROM pawl.job AS k
                   WHERE k.parent_id = machine_restart.job ORDER BY k.id FOR UPDATE SKIP LOCKED LOOP
            UPDATE pawl.job AS k SET parent_id = NULL WHERE k.id = kid.id;
        END LOOP;
        DELETE FROM pawl.child AS c WHERE c.parent_id = machine_restart.job;
        id := job;
    ELSE
        SELECT * INTO h FROM pawl.history AS l WHERE l.id = machine_restart.job LIMIT 1;
        IF NOT FOUND OR h.state = 'done' THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        INSERT INTO pawl.job AS l (queue, kind, payload, priority, max_attempts, lane, meta, riders, step, state, timeline)
        VALUES (h.queue, h.kind, h.payload, h.priority + CASE WHEN h.lane IS NULL THEN 0 ELSE 10 END, h.max_attempts,
                h.lane, coalesce(h.meta, '{}') || jsonb_build_object('retry_of', job),
                16 + 8 + CASE WHEN h.lane IS NULL THEN 0 ELSE 1 END,
                from_step, coalesce(new_state, h.last_state),
                right(coalesce(h.timeline, ''), 6000) || line
                || coalesce(octet_length(coalesce(new_state, h.last_state)), 0) || E'\n')
        RETURNING l.id INTO here.id;
        j.queue := h.queue;
    END IF;
    IF (SELECT bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = j.queue) THEN
        PERFORM pg_notify('pawl_wake', j.queue);
    END IF;
    RETURN id;
END
$$;

REVOKE ALL ON FUNCTION pawl.machine_restart FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pawl.machine_restart TO pawl_server;
