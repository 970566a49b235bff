-- 0014_look: an enqueue looks for those who sleep as a list, not by an aggregate, which has to be set up for each statement.

-- As before, but for the look (job_enqueue_one.sql).
CREATE OR REPLACE FUNCTION pawl.enqueue_plain(
    queue text, kind text, payload bytea, priority smallint, delay_ms bigint, at_us bigint, max_attempts integer,
    timeout_ms integer
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
    id pg_catalog.int8;
    told pg_catalog.text;
BEGIN
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
    VALUES (queue, kind, payload, priority,
            CASE WHEN at_us OPERATOR(pg_catalog.<>) 0
                 THEN pg_catalog.timestamptz 'epoch' OPERATOR(pg_catalog.+)
                      (at_us::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 microsecond'::pg_catalog.interval)
                 ELSE pg_catalog.now() OPERATOR(pg_catalog.+)
                      (delay_ms::pg_catalog.float8 OPERATOR(pg_catalog.*) '1 millisecond'::pg_catalog.interval) END,
            max_attempts, CASE WHEN timeout_ms OPERATOR(pg_catalog.<>) 0 THEN timeout_ms END)
    RETURNING j.id,
              CASE WHEN ARRAY(SELECT s.asleep FROM pawl.sleeper AS s
                              WHERE s.queue OPERATOR(pg_catalog.=) enqueue_plain.queue AND s.asleep)
                        OPERATOR(pg_catalog.<>) '{}'
                   THEN pg_catalog.pg_notify('pawl_wake', queue)::pg_catalog.text END
    INTO id, told;
    RETURN id;
END
$$;
