-- 0010_streams: whose lease counts while a worker speaks to two servers; how fast a worker may be given jobs.

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
