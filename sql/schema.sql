-- What sql/migrations come to. Made by tools/dump-schema; do not edit.

CREATE SCHEMA pawl;

ALTER SCHEMA pawl OWNER TO pawl_owner;

CREATE TYPE pawl.retry AS ENUM (
    'exponential',
    'quadratic',
    'table'
);

ALTER TYPE pawl.retry OWNER TO pawl_owner;

CREATE TYPE pawl.state AS ENUM (
    'ready',
    'scheduled',
    'retrying',
    'running',
    'parked',
    'done',
    'failed',
    'cancelled'
);

ALTER TYPE pawl.state OWNER TO pawl_owner;

CREATE FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) RETURNS jsonb
    LANGUAGE sql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE WHEN jsonb_array_length(errors) >= 20 THEN errors - 0
                ELSE coalesce(errors, '[]') END
           || jsonb_build_array(jsonb_build_object(
                  'attempt', attempt,
                  'at', clock_timestamp(),
                  'class', class,
                  'error', "left"(error, 4000),
                  'worker', worker,
                  'run_us', run_us))
$$;

ALTER FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) OWNER TO pawl_owner;

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

CREATE FUNCTION pawl.parks(kind text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM pawl.kind AS k WHERE k.name = parks.kind AND k.park)
$$;

ALTER FUNCTION pawl.parks(kind text) OWNER TO pawl_owner;

CREATE FUNCTION pawl.retry_delay_ms(kind text, attempt integer) RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT CASE coalesce(k.retry, 'exponential')
               WHEN 'table' THEN k.retry_table_ms[least(attempt, cardinality(k.retry_table_ms))]
               ELSE (least(coalesce(k.retry_cap_ms, 3600000),
                           coalesce(k.retry_base_ms, 1000)
                           * (CASE k.retry WHEN 'quadratic' THEN attempt::float8 * attempt
                                           ELSE power(2, least(attempt, 40) - 1) END))
                     * (0.8 + 0.4 * random()))::bigint
           END
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = retry_delay_ms.kind
$$;

ALTER FUNCTION pawl.retry_delay_ms(kind text, attempt integer) OWNER TO pawl_owner;

CREATE TABLE pawl.claim (
    token uuid NOT NULL,
    worker uuid NOT NULL,
    claimed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    job_ids bigint[] NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');
ALTER TABLE ONLY pawl.claim ALTER COLUMN job_ids SET STORAGE EXTERNAL;

ALTER TABLE pawl.claim OWNER TO pawl_owner;

COMMENT ON TABLE pawl.claim IS 'Who works on what, and until when that is believed';

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
    errors jsonb
)
PARTITION BY RANGE (expires_on);

ALTER TABLE pawl.history OWNER TO pawl_owner;

COMMENT ON TABLE pawl.history IS 'Finished jobs, partitioned by the day on which they are forgotten';

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
    errors jsonb
);

ALTER TABLE pawl.history_default OWNER TO pawl_owner;

CREATE TABLE pawl.job (
    id bigint NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    token uuid,
    attempt integer DEFAULT 0 NOT NULL,
    max_attempts integer DEFAULT 20 NOT NULL,
    timeout_ms integer,
    priority smallint DEFAULT 4 NOT NULL,
    waits_for smallint,
    queue text NOT NULL,
    kind text NOT NULL,
    payload bytea NOT NULL,
    errors jsonb,
    CONSTRAINT job_kind CHECK (((octet_length(kind) >= 1) AND (octet_length(kind) <= 128))),
    CONSTRAINT job_max_attempts CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT job_payload CHECK ((octet_length(payload) <= 16777216)),
    CONSTRAINT job_priority CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT job_queue CHECK (((octet_length(queue) >= 1) AND (octet_length(queue) <= 128))),
    CONSTRAINT job_timeout CHECK ((timeout_ms > 0))
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

CREATE TABLE pawl.worker (
    id uuid NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    slots integer NOT NULL,
    running integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    beat_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.worker OWNER TO pawl_owner;

COMMENT ON TABLE pawl.worker IS 'Processes that run jobs, with their last sign of life';

CREATE VIEW pawl.jobs AS
 SELECT j.id,
    (
        CASE
            WHEN (j.token IS NOT NULL) THEN 'running'::text
            WHEN (j.waits_for = 1) THEN 'parked'::text
            WHEN (j.due_at <= now()) THEN 'ready'::text
            WHEN (j.attempt > 0) THEN 'retrying'::text
            ELSE 'scheduled'::text
        END)::pawl.state AS state,
    j.queue,
    j.kind,
    j.priority,
    j.attempt,
    j.max_attempts,
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
    j.payload,
    NULL::bytea AS result,
    j.errors
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
    h.errors
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

CREATE TABLE pawl.migration (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    applied_by text NOT NULL
);

ALTER TABLE pawl.migration OWNER TO pawl_owner;

COMMENT ON TABLE pawl.migration IS 'What was done to this schema, in order';

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

CREATE TABLE pawl.sleeper (
    queue text NOT NULL,
    worker uuid NOT NULL,
    asleep boolean NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500');

ALTER TABLE pawl.sleeper OWNER TO pawl_owner;

COMMENT ON TABLE pawl.sleeper IS 'Workers that wait for a notification, by queue';

ALTER TABLE ONLY pawl.history ATTACH PARTITION pawl.history_default DEFAULT;

ALTER TABLE ONLY pawl.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (token);

ALTER TABLE ONLY pawl.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pawl.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pawl.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY pawl.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pawl.sleeper
    ADD CONSTRAINT sleeper_pkey PRIMARY KEY (queue, worker);

ALTER TABLE ONLY pawl.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX history_id ON ONLY pawl.history USING btree (id);

CREATE INDEX history_default_id_idx ON pawl.history_default USING btree (id);

CREATE INDEX history_trouble ON ONLY pawl.history USING btree (id) WHERE (state <> 'done'::pawl.state);

CREATE INDEX history_default_id_idx1 ON pawl.history_default USING btree (id) WHERE (state <> 'done'::pawl.state);

CREATE INDEX job_pick ON pawl.job USING btree (queue, priority, due_at, id);

ALTER INDEX pawl.history_id ATTACH PARTITION pawl.history_default_id_idx;

ALTER INDEX pawl.history_trouble ATTACH PARTITION pawl.history_default_id_idx1;

GRANT USAGE ON SCHEMA pawl TO pawl_server;
GRANT USAGE ON SCHEMA pawl TO pawl_worker;
GRANT USAGE ON SCHEMA pawl TO pawl_producer;
GRANT USAGE ON SCHEMA pawl TO pawl_reader;

REVOKE ALL ON TYPE pawl.retry FROM PUBLIC;

REVOKE ALL ON TYPE pawl.state FROM PUBLIC;

REVOKE ALL ON FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.errors_add(errors jsonb, attempt integer, class text, error text, worker text, run_us bigint) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.history_maintain(OUT made integer, OUT dropped integer) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.parks(kind text) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.parks(kind text) TO pawl_worker;

REVOKE ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer) FROM PUBLIC;
GRANT ALL ON FUNCTION pawl.retry_delay_ms(kind text, attempt integer) TO pawl_worker;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.claim TO pawl_worker;
GRANT SELECT ON TABLE pawl.claim TO pawl_reader;

GRANT INSERT ON TABLE pawl.history TO pawl_worker;
GRANT SELECT ON TABLE pawl.history TO pawl_reader;

GRANT SELECT,DELETE ON TABLE pawl.job TO pawl_worker;
GRANT SELECT ON TABLE pawl.job TO pawl_reader;

GRANT SELECT(id) ON TABLE pawl.job TO pawl_producer;

GRANT INSERT(due_at) ON TABLE pawl.job TO pawl_producer;
GRANT UPDATE(due_at) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(token) ON TABLE pawl.job TO pawl_worker;

GRANT UPDATE(attempt) ON TABLE pawl.job TO pawl_worker;

GRANT INSERT(max_attempts) ON TABLE pawl.job TO pawl_producer;

GRANT INSERT(timeout_ms) ON TABLE pawl.job TO pawl_producer;

GRANT INSERT(priority) ON TABLE pawl.job TO pawl_producer;

GRANT UPDATE(waits_for) ON TABLE pawl.job TO pawl_worker;

GRANT SELECT(queue),INSERT(queue) ON TABLE pawl.job TO pawl_producer;

GRANT INSERT(kind) ON TABLE pawl.job TO pawl_producer;

GRANT INSERT(payload) ON TABLE pawl.job TO pawl_producer;

GRANT UPDATE(errors) ON TABLE pawl.job TO pawl_worker;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.worker TO pawl_worker;
GRANT SELECT ON TABLE pawl.worker TO pawl_reader;

GRANT SELECT ON TABLE pawl.jobs TO pawl_reader;

GRANT SELECT ON TABLE pawl.kind TO pawl_worker;
GRANT SELECT ON TABLE pawl.kind TO pawl_reader;
GRANT INSERT,UPDATE ON TABLE pawl.kind TO pawl_server;

GRANT SELECT ON TABLE pawl.migration TO pawl_server;
GRANT SELECT ON TABLE pawl.migration TO pawl_worker;
GRANT SELECT ON TABLE pawl.migration TO pawl_producer;
GRANT SELECT ON TABLE pawl.migration TO pawl_reader;

GRANT SELECT ON TABLE pawl.queue TO pawl_worker;
GRANT SELECT ON TABLE pawl.queue TO pawl_reader;
GRANT INSERT,UPDATE ON TABLE pawl.queue TO pawl_server;

GRANT SELECT ON TABLE pawl.sleeper TO pawl_producer;
GRANT SELECT ON TABLE pawl.sleeper TO pawl_reader;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE pawl.sleeper TO pawl_worker;
