-- queue: settings of queues and kinds, and what they decide: how long history is kept, and when a failed job is due again.

-- A queue without a row has the defaults, so enqueueing into a new one needs nothing.
CREATE TABLE pawl.queue (
    name      text PRIMARY KEY,
    paused_at timestamptz,                -- not NULL: nothing is claimed from it
    paused_by text,
    keep_days integer NOT NULL DEFAULT 7, -- how long finished jobs stay in history; 0: not at all
    CONSTRAINT queue_name CHECK (pg_catalog.octet_length(name) BETWEEN 1 AND 128),
    CONSTRAINT queue_keep_days CHECK (keep_days BETWEEN 0 AND 3650)
);
COMMENT ON TABLE pawl.queue IS 'Settings of queues that differ from the defaults';

-- Members of pawl_enqueuer may enqueue into these queues only: a queue, and a role that has to be granted to them.
CREATE TABLE pawl.queue_producer (
    queue text NOT NULL,
    role  regrole NOT NULL,
    PRIMARY KEY (queue, role)
);
COMMENT ON TABLE pawl.queue_producer IS 'Which roles may enqueue into which queues, for members of pawl_enqueuer';

-- A kind without a row has the defaults.
CREATE TABLE pawl.kind (
    name           text PRIMARY KEY,
    retry          pawl.retry NOT NULL DEFAULT 'exponential',
    retry_base_ms  integer NOT NULL DEFAULT 1000,
    retry_cap_ms   integer NOT NULL DEFAULT 3600000,
    retry_table_ms integer[],                      -- for 'table': the last one is for all further attempts
    park           boolean NOT NULL DEFAULT false, -- true: a job out of attempts waits for an operator
    CONSTRAINT kind_name CHECK (pg_catalog.octet_length(name) BETWEEN 1 AND 128),
    CONSTRAINT kind_retry_base CHECK (retry_base_ms > 0),
    CONSTRAINT kind_retry_cap CHECK (retry_cap_ms >= retry_base_ms),
    CONSTRAINT kind_retry_table CHECK (retry <> 'table' OR pg_catalog.cardinality(retry_table_ms) > 0)
);
COMMENT ON TABLE pawl.kind IS 'Settings of kinds of jobs that differ from the defaults';

-- The retry policy: what the job says for itself before what its kind says (kind_…; NULL: it says nothing).
CREATE FUNCTION pawl.retry_ms(
    attempt integer, retry pawl.retry, base_ms integer, cap_ms integer,
    kind_retry pawl.retry, kind_base_ms integer, kind_cap_ms integer, kind_table_ms integer[]
) RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE WHEN kind_retry OPERATOR(pg_catalog.=) 'table'::pawl.retry
                 AND retry IS NULL AND base_ms IS NULL AND cap_ms IS NULL
            THEN (kind_table_ms[least(attempt, pg_catalog.cardinality(kind_table_ms))])::bigint
            ELSE (least(coalesce(cap_ms, kind_cap_ms, 3600000)::float8,
                        coalesce(base_ms, kind_base_ms, 1000)::float8
                        OPERATOR(pg_catalog.*)
                        (CASE WHEN coalesce(retry, kind_retry) OPERATOR(pg_catalog.=) 'quadratic'::pawl.retry
                              THEN attempt::float8 OPERATOR(pg_catalog.*) attempt::float8
                              ELSE pg_catalog.power(2::float8, (least(attempt, 40) OPERATOR(pg_catalog.-) 1)::float8) END))
                  OPERATOR(pg_catalog.*)
                  (0.8::float8 OPERATOR(pg_catalog.+) (0.4::float8 OPERATOR(pg_catalog.*) pg_catalog.random())))::bigint
       END;

-- A kind may carry a version: order@2. Its settings are those of order.
CREATE FUNCTION pawl.retry_delay_ms(kind text, attempt integer)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pawl.retry_ms(attempt, NULL, NULL, NULL, k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms)
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = split_part(retry_delay_ms.kind, '@', 1)
$$;

-- Functions that are an expression are expanded in the statement that calls them, where each call of one with a setting of its
-- own took 50 µs and more. Their names are bound when they are made, so no search_path of a caller changes what they mean.
CREATE FUNCTION pawl.errors_add(
    errors jsonb, attempt integer, class text, error text, worker text, run_us bigint
) RETURNS jsonb LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN CASE WHEN pg_catalog.jsonb_array_length(errors) OPERATOR(pg_catalog.>=) 20 THEN errors OPERATOR(pg_catalog.-) 0
            ELSE coalesce(errors, '[]'::jsonb) END
       OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
           'attempt', attempt,
           'at', pg_catalog.clock_timestamp(),
           'class', class,
           'error', pg_catalog."left"(error, 4000),
           'worker', worker,
           'run_us', run_us));

