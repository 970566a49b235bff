-- Purpose: an operator wants a worker on a stream to drain, to hold another number of jobs, or to be given no more than so many in a
--          second; its server hears of it.
-- Parameters: $1 text worker, $2 bool drain (false: as it is),
--             $3 int4 credits (-1: as they are, 0: as the worker asked for),
--             $4 int8 jobs in 1000 seconds (-1: as it is, 0: no limit)
-- Rows: found bool: some server has its stream, as far as is known
-- Locks: the row; those of wishes that are a week old
-- Index: worker_wish_pkey; worker is read whole (it is tiny)
-- Roles: server
WITH old AS (
    DELETE FROM pawl.worker_wish WHERE at < pg_catalog.clock_timestamp() - interval '7 days' AND worker <> $1::text
), wish AS (
    INSERT INTO pawl.worker_wish AS w (worker, drain, credits, rate_per_s)
    VALUES ($1::text, $2::bool, CASE WHEN $3::int4 > 0 THEN $3::int4 END, CASE WHEN $4::int8 > 0 THEN $4::int8::float8 / 1000 END)
    ON CONFLICT (worker) DO UPDATE
    SET drain = $2::bool OR w.drain,
        credits = CASE WHEN $3::int4 < 0 THEN w.credits WHEN $3::int4 > 0 THEN $3::int4 END,
        rate_per_s = CASE WHEN $4::int8 < 0 THEN w.rate_per_s WHEN $4::int8 > 0 THEN $4::int8::float8 / 1000 END,
        by_whom = SESSION_USER,
        at = pg_catalog.clock_timestamp()
)
SELECT EXISTS (SELECT FROM pawl.worker AS w
               CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(w.streams) AS s(stream)
               WHERE s.stream ->> 'id' = $1::text) AS found
FROM (SELECT pg_catalog.pg_notify('pawl_serve', $1::text)) AS told
