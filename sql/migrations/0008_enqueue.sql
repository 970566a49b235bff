-- 0008_enqueue: the shortest way in.

-- As before (0003_library), in one statement, and without a setting of its own: putting search_path in its place and back took a
-- fifth of the time of an enqueue. So everything in it is named in full, operators too. It has the rights of who calls it.
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
              CASE WHEN (SELECT pg_catalog.bool_or(s.asleep) FROM pawl.sleeper AS s
                         WHERE s.queue OPERATOR(pg_catalog.=) enqueue_plain.queue)
                   THEN pg_catalog.pg_notify('pawl_wake', queue)::pg_catalog.text END
    INTO id, told;
    RETURN id;
END
$$;
ALTER FUNCTION pawl.enqueue_plain RESET ALL;
