-- 0015_sweep: a sweep takes back a part of a claim, and costs less for each job.

-- A claim of which a sweep has taken a part stays, with what is left of it, until all its jobs are back. Nobody renews it any
-- more: its worker learns at its next renewal that the claim is lost. NULL, where no sweep has been, takes no space.
ALTER TABLE pawl.claim ADD COLUMN swept_at timestamptz;
COMMENT ON COLUMN pawl.claim.swept_at IS
    'When a sweep last took jobs of this claim back; it is not renewed any more. NULL: no sweep has';

-- Functions that are an expression are expanded in the statement that calls them, where each call of one with a setting of its
-- own took 50 µs and more. Their names are bound when they are made, so no search_path of a caller changes what they mean.
CREATE OR REPLACE FUNCTION pawl.errors_add(
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
REVOKE ALL ON FUNCTION pawl.retry_ms FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pawl.retry_ms TO pawl_worker;

CREATE OR REPLACE FUNCTION pawl.retry_delay_ms(kind text, attempt integer)
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pawl.retry_ms(attempt, NULL, NULL, NULL, k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms)
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = split_part(retry_delay_ms.kind, '@', 1)
$$;

CREATE OR REPLACE FUNCTION pawl.retry_delay_ms(
    kind text, attempt integer, retry pawl.retry, base_ms integer, cap_ms integer
) RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pawl.retry_ms(attempt, retry_delay_ms.retry, base_ms, cap_ms,
                         k.retry, k.retry_base_ms, k.retry_cap_ms, k.retry_table_ms)
    FROM (SELECT) AS one
    LEFT JOIN pawl.kind AS k ON k.name = split_part(retry_delay_ms.kind, '@', 1)
$$;

-- Which of these jobs have a lease of their own by now, whenever the caller's statement began. Once for a sweep, not once for
-- each of its jobs (is_held).
CREATE FUNCTION pawl.held_among(ids bigint[])
RETURNS TABLE (id bigint, token uuid) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT h.job_id, h.token FROM pawl.held AS h WHERE h.job_id = ANY (ids);
END
$$;
REVOKE ALL ON FUNCTION pawl.held_among(bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pawl.held_among(bigint[]) TO pawl_worker;
