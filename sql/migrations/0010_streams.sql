-- 0010_streams: whose lease counts while a worker speaks to two servers; how fast a worker may be given jobs; children that
-- nobody wants any more and that were locked when that was said.

-- A worker may speak of a job to another server while the stream it came by is still open: then there are a claim that its server
-- renews, and a row here that the worker renews. Either keeps the job, until the server of the claim lets go of it.
ALTER TABLE pawl.held ADD COLUMN let_go boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN pawl.held.let_go IS 'The server that claimed the job has let go of it: only this lease counts';
COMMENT ON TABLE pawl.held IS 'Running jobs of which their workers spoke to another server than the one that claimed them, each with a lease of its own';

-- As it is now, whatever the snapshot of the statement that asks. The sweep asks when it has locked the job.
CREATE FUNCTION pawl.is_held(job bigint, claim_token uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pawl.held AS h WHERE h.job_id = job AND h.token = claim_token);
END
$$;
REVOKE ALL ON FUNCTION pawl.is_held(bigint, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pawl.is_held(bigint, uuid) TO pawl_worker;

ALTER TABLE pawl.worker_wish ADD COLUMN rate_per_s float8 CONSTRAINT worker_wish_rate CHECK (rate_per_s > 0); -- NULL: no limit
COMMENT ON TABLE pawl.worker_wish IS 'What operators want of workers on streams: to drain, another number of jobs, or no more than so many in a second';

-- === children that nobody wants any more =================================================================================

-- A child that a parent went on without, and wanted cancelled, may be locked just then: by its claim, or by an outcome that does not end
-- it. Its own settle locks it and then the parent, so the parent cannot wait for it. It is noted here, and the sweep sees to it.
CREATE TABLE pawl.orphan (
    child_id  bigint PRIMARY KEY,
    parent_id bigint NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE pawl.orphan IS 'Children that are to be cancelled, as their parent went on without them, and were locked when it did';

CREATE OR REPLACE FUNCTION pawl.children_end(parent bigint, token uuid, cancel boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    left_over bigint[];
BEGIN
    PERFORM FROM pawl.job AS j
    WHERE j.id = parent AND j.token IS NOT DISTINCT FROM children_end.token FOR UPDATE;
    IF FOUND <> (token IS NOT NULL) OR token IS NULL AND EXISTS (SELECT FROM pawl.job AS j WHERE j.id = parent) THEN
        RETURN false;
    END IF;
    DELETE FROM pawl.child AS c WHERE c.parent_id = parent;
    IF cancel THEN
        SELECT array_agg(k.id) INTO left_over
        FROM (SELECT j.id FROM pawl.job AS j
              WHERE j.parent_id = parent AND j.join_of IS NOT NULL
              ORDER BY j.id FOR UPDATE SKIP LOCKED) AS k;
        UPDATE pawl.job AS j SET join_of = NULL WHERE j.id = ANY (left_over);
        PERFORM pawl.cancel(k.id, 'parent ' || parent) FROM unnest(left_over) AS k(id);
        INSERT INTO pawl.orphan (child_id, parent_id)
        SELECT j.id, parent FROM pawl.job AS j WHERE j.parent_id = parent AND j.join_of IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN true;
END
$$;

-- Cancels those that nobody holds any more: how many.
CREATE FUNCTION pawl.orphans_end(most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    noted   bigint[];
    free    bigint[];
    parents bigint[];
BEGIN
    SELECT array_agg(o.child_id) INTO noted
    FROM (SELECT p.child_id FROM pawl.orphan AS p ORDER BY p.child_id LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF noted IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(k.id), array_agg(k.parent_id) INTO free, parents
    FROM (SELECT j.id, j.parent_id FROM pawl.job AS j WHERE j.id = ANY (noted) ORDER BY j.id FOR UPDATE SKIP LOCKED) AS k;
    UPDATE pawl.job AS j SET join_of = NULL WHERE j.id = ANY (free);
    PERFORM pawl.cancel(k.id, 'parent ' || k.parent) FROM unnest(free, parents) AS k(id, parent);
    DELETE FROM pawl.orphan AS o
    WHERE o.child_id = ANY (noted)
      AND (o.child_id = ANY (free) OR NOT EXISTS (SELECT FROM pawl.job AS j WHERE j.id = o.child_id));
    RETURN coalesce(cardinality(free), 0);
END
$$;

REVOKE ALL ON pawl.orphan FROM PUBLIC;
REVOKE ALL ON FUNCTION pawl.orphans_end(integer) FROM PUBLIC;
GRANT SELECT, INSERT ON pawl.orphan TO pawl_worker;
GRANT SELECT ON pawl.orphan TO pawl_reader;
GRANT EXECUTE ON FUNCTION pawl.orphans_end(integer) TO pawl_worker, pawl_server;
