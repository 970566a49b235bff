-- Purpose: accepts plain jobs, many at once. Due times are the database's: now, after a delay, or at a given time.
--          Notifies only when a worker sleeps on the queue; those that are busy look anyway.
-- Parameters: $1 text[] queues, $2 text[] kinds, $3 bytea[] payloads, $4 int2[] priorities,
--             $5 int8[] delays in ms, $6 int8[] due times in µs since 1970 (0: use the delay),
--             $7 int4[] max attempts, $8 int4[] timeouts in ms (0: none)
-- Rows: id int8, in the order of the input; and a column without meaning
-- Locks: the new rows
-- Index: sleeper_pkey, probed once for each queue
-- Roles: producer, enqueuer
-- The look at who sleeps is taken once for each queue: for each row it took a third of the whole. It is a column that
-- depends on no row; a CTE for the new rows would store them once more.
-- bool_or and not EXISTS: for EXISTS the planner hopes to find a sleeper early, and reads the table from its beginning.
INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
SELECT i.queue, i.kind, i.payload, i.priority,
       CASE WHEN i.at_us <> 0 THEN timestamptz 'epoch' + i.at_us::float8 * interval '1 microsecond'
            ELSE pg_catalog.clock_timestamp() + i.delay_ms::float8 * interval '1 millisecond' END,
       i.max_attempts, nullif(i.timeout_ms, 0)
FROM ROWS FROM (
         pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bytea[]),
         pg_catalog.unnest($4::int2[]), pg_catalog.unnest($5::int8[]), pg_catalog.unnest($6::int8[]),
         pg_catalog.unnest($7::int4[]), pg_catalog.unnest($8::int4[])
     ) AS i(queue, kind, payload, priority, delay_ms, at_us, max_attempts, timeout_ms)
RETURNING j.id,
          (SELECT pg_catalog.count(pg_catalog.pg_notify('pawl_wake', q.queue))
           FROM (SELECT DISTINCT u.queue FROM pg_catalog.unnest($1::text[]) AS u(queue)) AS q
           WHERE (SELECT pg_catalog.bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = q.queue)) AS woken
