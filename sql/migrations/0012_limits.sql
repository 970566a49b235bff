-- 0012_limits: what a column may hold is said by its type, not by a constraint of the table.
--
-- PostgreSQL reads the constraints of a table from their stored text, and plans them, in every statement that inserts or updates a row. The
-- six of pawl.job were half of the processor's work for a single enqueue, and a claim paid for them again though it changes none of those
-- columns. The constraints of a type are read once in a session, and checked only where a value comes in.

CREATE DOMAIN pawl.queue_name AS text;
CREATE DOMAIN pawl.kind_name AS text;
CREATE DOMAIN pawl.priority AS smallint;
CREATE DOMAIN pawl.max_attempts AS integer;
CREATE DOMAIN pawl.timeout_ms AS integer;
CREATE DOMAIN pawl.payload AS bytea;
CREATE DOMAIN pawl.signal_name AS text;
CREATE DOMAIN pawl.signal_key AS text;
CREATE DOMAIN pawl.signal_payload AS jsonb;

-- The view and the policies stand in the way of another type. The view is not dropped, because views of users may depend on it: for a moment
-- it shows the past alone.
CREATE OR REPLACE VIEW pawl.jobs AS
    SELECT h.id, h.state, h.queue, h.kind, h.priority, h.attempt, h.max_attempts,
           h.created_at, h.due_at, h.started_at, h.finished_at, h.worker, h.payload, h.result, h.errors,
           NULL::integer AS timeout_ms, h.lane, h.parent_id, h.meta, h.cancel_by, NULL::text AS progress
    FROM pawl.history AS h;
DROP POLICY job_enqueuer_insert ON pawl.job;
DROP POLICY job_enqueuer_select ON pawl.job;

-- A type without constraints rewrites nothing; they come afterwards, and not for rows that the old ones have let in. Only the partial indexes
-- are built again, job_lane and signal_key, for which the tables are read once.
ALTER TABLE pawl.job
    DROP CONSTRAINT job_queue, DROP CONSTRAINT job_kind, DROP CONSTRAINT job_priority, DROP CONSTRAINT job_max_attempts,
    DROP CONSTRAINT job_timeout, DROP CONSTRAINT job_payload;
ALTER TABLE pawl.job
    ALTER queue TYPE pawl.queue_name, ALTER kind TYPE pawl.kind_name, ALTER priority TYPE pawl.priority,
    ALTER max_attempts TYPE pawl.max_attempts, ALTER timeout_ms TYPE pawl.timeout_ms, ALTER payload TYPE pawl.payload;
ALTER TABLE pawl.signal
    DROP CONSTRAINT signal_name, DROP CONSTRAINT signal_key, DROP CONSTRAINT signal_payload;
ALTER TABLE pawl.signal
    ALTER name TYPE pawl.signal_name, ALTER key TYPE pawl.signal_key, ALTER payload TYPE pawl.signal_payload;

-- Their names are what a client reads.
ALTER DOMAIN pawl.queue_name ADD CONSTRAINT queue_has_1_to_128_bytes
    CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 128) NOT VALID;
ALTER DOMAIN pawl.kind_name ADD CONSTRAINT kind_has_1_to_128_bytes
    CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 128) NOT VALID;
ALTER DOMAIN pawl.priority ADD CONSTRAINT priority_is_0_to_9_or_10_to_19_in_a_lane
    CHECK (VALUE BETWEEN 0 AND 19) NOT VALID;
ALTER DOMAIN pawl.max_attempts ADD CONSTRAINT max_attempts_is_1_to_1000 CHECK (VALUE BETWEEN 1 AND 1000) NOT VALID;
ALTER DOMAIN pawl.timeout_ms ADD CONSTRAINT timeout_is_positive CHECK (VALUE > 0) NOT VALID;
ALTER DOMAIN pawl.payload ADD CONSTRAINT payload_has_16_mib_at_most
    CHECK (pg_catalog.octet_length(VALUE) <= 16777216) NOT VALID;
ALTER DOMAIN pawl.signal_name ADD CONSTRAINT signal_has_1_to_128_bytes
    CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 128) NOT VALID;
ALTER DOMAIN pawl.signal_key ADD CONSTRAINT signal_key_has_1_to_1024_bytes
    CHECK (pg_catalog.octet_length(VALUE) BETWEEN 1 AND 1024) NOT VALID;
ALTER DOMAIN pawl.signal_payload ADD CONSTRAINT signal_payload_has_1_mib_at_most
    CHECK (pg_catalog.octet_length(VALUE::text) <= 1048576) NOT VALID;

-- The only one about two columns, and short for the same reason: a job on the wrong level would never be claimed.
ALTER TABLE pawl.job
    ADD CONSTRAINT job_priority CHECK ((priority < 10) = (lane IS NULL)) NOT VALID;

CREATE POLICY job_enqueuer_insert ON pawl.job FOR INSERT TO pawl_enqueuer WITH CHECK (
    EXISTS (SELECT FROM pawl.queue_producer AS p
            WHERE p.queue = job.queue AND pg_catalog.pg_has_role(p.role, 'USAGE')));
CREATE POLICY job_enqueuer_select ON pawl.job FOR SELECT TO pawl_enqueuer USING (
    EXISTS (SELECT FROM pawl.queue_producer AS p
            WHERE p.queue = job.queue AND pg_catalog.pg_has_role(p.role, 'USAGE')));

CREATE OR REPLACE VIEW pawl.jobs AS
    SELECT j.id,
           (CASE WHEN j.token IS NOT NULL THEN 'running'
                 WHEN j.waits_for = 1 THEN 'parked'
                 WHEN j.waits_for > 1 AND j.due_at > pg_catalog.now() THEN 'waiting'
                 WHEN j.due_at <= pg_catalog.now() THEN 'ready'
                 WHEN j.attempt > 0 THEN 'retrying'
                 ELSE 'scheduled' END)::pawl.state AS state,
           j.queue::text, j.kind::text, (j.priority % 10)::smallint AS priority, j.attempt, j.max_attempts::integer,
           j.created_at, j.due_at,
           (SELECT c.claimed_at FROM pawl.claim AS c WHERE c.token = j.token) AS started_at,
           NULL::timestamptz AS finished_at,
           (SELECT w.name FROM pawl.claim AS c JOIN pawl.worker AS w ON w.id = c.worker
            WHERE c.token = j.token) AS worker,
           j.payload::bytea, NULL::bytea AS result, j.errors,
           j.timeout_ms::integer, j.lane, j.parent_id, j.meta, j.cancel_by, j.progress
    FROM pawl.job AS j
    UNION ALL
    SELECT h.id, h.state, h.queue, h.kind, h.priority, h.attempt, h.max_attempts,
           h.created_at, h.due_at, h.started_at, h.finished_at, h.worker, h.payload, h.result, h.errors,
           NULL::integer, h.lane, h.parent_id, h.meta, h.cancel_by, NULL::text
    FROM pawl.history AS h;

REVOKE ALL ON TYPE pawl.queue_name, pawl.kind_name, pawl.priority, pawl.max_attempts, pawl.timeout_ms, pawl.payload, pawl.signal_name,
    pawl.signal_key, pawl.signal_payload FROM PUBLIC;

-- Functions that keep a row of pawl.job in a variable have plans for its old types in the sessions that are open. Whoever finds a function
-- changed compiles it again.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::pg_catalog.regprocedure::text AS name, p.procost
             FROM pg_catalog.pg_proc AS p
             JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
             WHERE p.pronamespace = 'pawl'::pg_catalog.regnamespace AND l.lanname = 'plpgsql' LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s COST %s', f.name, f.procost);
    END LOOP;
END
$$;

-- What was known about the values of these columns is forgotten with their types.
ANALYZE pawl.job, pawl.signal;
