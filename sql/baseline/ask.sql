-- ask: what people ask of a job: cancel it, retry it, watch it.

-- Cancels a job that nobody holds. false: somebody does, or it is gone. Plans as in the sessions of workers (session.sql): the
-- caller's may be anybody's.
CREATE FUNCTION pawl.cancel_idle(job bigint, who text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
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

-- Ends a job, or asks the worker that runs it to. A job that is just being settled is waited for: what it came to is the
-- answer, not that it ran. The lock is given back at once, with the subtransaction that took it, so that a transaction that
-- stays open keeps no settle waiting.
CREATE FUNCTION pawl.cancel(job bigint, by_whom text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
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

-- pawl.cancel for each, in the order of their ids so that two who do it do not wait for each other. One that cannot be
-- cancelled is said so and does not keep the others. result: cancelled, cancelling, finished (state says how), or missing.
CREATE FUNCTION pawl.cancel_many(jobs bigint[], by_whom text) RETURNS TABLE (job bigint, result text, state text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
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

-- Runs at the commit of the request. The job may be under another claim by now, or under none.
CREATE FUNCTION pawl.stop_deliver() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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
CREATE CONSTRAINT TRIGGER stop_deliver AFTER INSERT ON pawl.stop
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.stop_deliver();

-- Enqueues a finished job again, as a new one that names the old one. machine: the caller adds its row of pawl.machine.
CREATE FUNCTION pawl.history_again(h pawl.history, machine boolean) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO pawl.job AS l (queue, kind, payload, priority, max_attempts, lane, meta, is_machine)
    VALUES (h.queue, h.kind, h.payload, h.priority, h.max_attempts, h.lane,
            coalesce(h.meta, '{}') || jsonb_build_object('retry_of', h.id), nullif(machine, false))
    RETURNING l.id
$$;

-- Lets a job run now. One that is finished, but not done, is enqueued again as a new one. Returns the id of what will run.
CREATE FUNCTION pawl.retry(job bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
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

-- The transaction of a watcher may stay open, and a row of pawl.job that it held would keep
-- the job's settle waiting. So pawl.watch only inserts here, and the job is marked at the commit. A row goes with its own
-- commit.
CREATE TABLE pawl.watcher (
    id     bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    job_id bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE pawl.watcher IS 'Jobs that somebody is about to watch; empty but for transactions that are open';

-- Somebody waits for the end of a job, and will LISTEN to pawl_done: true when it is still to come. With the rights of the caller:
-- a job of a queue that is not the caller's is as one that never was.
CREATE FUNCTION pawl.watch(job bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = job) THEN
        RETURN false;
    END IF;
    INSERT INTO pawl.watcher (job_id) VALUES (job);
    RETURN true;
END
$$;

-- Runs at the commit of the watcher. A job that has ended meanwhile told nobody: this does, so no end is overlooked. A lock
-- that somebody else keeps on the job ends this with an error, and the commit with it.
CREATE FUNCTION pawl.watch_deliver() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
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
CREATE CONSTRAINT TRIGGER watch_deliver AFTER INSERT ON pawl.watcher
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pawl.watch_deliver();
