-- Purpose: who runs jobs: processes with a coordinator of their own, servers, and the workers on their streams.
-- Parameters: none
-- Rows: id text, name text, via text (the server, or NULL), queues text (with commas), kinds text or NULL, slots int4,
--       running int4, ended int8 or NULL, draining bool, started_at timestamptz, beat_at timestamptz, host text or NULL,
--       version text or NULL, rate_per_s text or NULL
-- Locks: none
-- Index: worker is read whole (it is tiny)
-- Roles: reader, worker
SELECT w.id::text AS id, w.name, NULL::text AS via, pg_catalog.array_to_string(w.queues, ',') AS queues, NULL::text AS kinds,
       w.slots, w.running, NULL::int8 AS ended, false AS draining, w.started_at, w.beat_at, w.host, w.version,
       NULL::text AS rate_per_s
FROM pawl.worker AS w
WHERE w.streams IS NULL
UNION ALL
SELECT s.stream ->> 'id', s.stream ->> 'name', w.name, s.stream ->> 'queues', s.stream ->> 'kinds',
       (s.stream ->> 'credits')::int4, (s.stream ->> 'running')::int4, (s.stream ->> 'ended')::int8,
       (s.stream ->> 'draining')::bool,
       pg_catalog.to_timestamp((s.stream ->> 'since_us')::float8 / 1000000), w.beat_at, s.stream ->> 'address', NULL,
       s.stream ->> 'rate_per_s'
FROM pawl.worker AS w
CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(w.streams) AS s(stream)
WHERE w.beat_at > pg_catalog.clock_timestamp() - interval '5 minutes'
ORDER BY 10, 1
LIMIT 100000
