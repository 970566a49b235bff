-- 0006_cancel: ending jobs that run.
--
-- Whoever asks for it may have a transaction that stays open. A row of pawl.job or pawl.claim that it held would keep a worker's
-- settles, or the heartbeat of all its jobs, waiting. So it only inserts here, and the job is touched at its commit.
CREATE TABLE pawl.stop (
    job_id bigint NOT NULL,
    token  uuid NOT NULL, -- of the claim under which it ran then
    by_whom text NOT NULL,
    PRIMARY KEY (token, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE pawl.stop IS 'Running jobs whose end was asked for; heartbeats bring it to their workers';

-- Ends a job: at once, or, while it runs, as soon as its handler returns anything but done. 'cancelled' or 'cancelling'.
CREATE FUNCTION pawl.cancel(job bigint, by_whom text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held uuid;
    who text := coalesce(by_whom, session_user);
BEGIN
    FOR look IN 1 .. 100 LOOP
        SELECT j.token INTO held FROM pawl.job AS j WHERE j.id = job;
        IF NOT FOUND THEN
            PERFORM pawl.raise_not_live(job);
        END IF;
        IF held IS NOT NULL THEN
            INSERT INTO pawl.stop (job_id, token, by_whom) VALUES (job, held, who) ON CONFLICT DO NOTHING;
            RETURN 'cancelling';
        END IF;
        -- Not while somebody claims or settles it: then it is something else in a moment.
        IF pawl.job_end(job, 'cancelled', who) THEN
            RETURN 'cancelled';
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % changes too fast', job USING ERRCODE = '40001', HINT = 'Try again.';
END
$$;

-- At the commit of whoever asked. The job may be under another claim by now, or under none.
CREATE FUNCTION pawl.stop_deliver() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held uuid;
BEGIN
    UPDATE pawl.job AS j SET cancel_by = new.by_whom WHERE j.id = new.job_id RETURNING j.token INTO held;
    IF FOUND AND held IS NULL THEN
        PERFORM pawl.job_end(new.job_id, 'cancelled', new.by_whom);
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

-- What is left of claims that are over.
CREATE FUNCTION pawl.stop_maintain() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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

REVOKE ALL ON pawl.stop FROM PUBLIC;
REVOKE ALL ON FUNCTION pawl.cancel, pawl.stop_deliver, pawl.stop_maintain FROM PUBLIC;
GRANT SELECT ON pawl.stop TO pawl_worker, pawl_reader;
GRANT EXECUTE ON FUNCTION pawl.stop_maintain TO pawl_worker;
GRANT INSERT ON pawl.stop TO pawl_server;
GRANT EXECUTE ON FUNCTION pawl.cancel TO pawl_server;
