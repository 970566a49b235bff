-- Purpose: accepts jobs of any kind, many at once: plain ones by one INSERT, others by a function for each. Due times are the
--          database's: now, after a delay, or at a given time. Notifies only when a worker sleeps on the queue; those that
--          are busy look anyway.
-- Parameters: $1 text[] queues, $2 text[] kinds, $3 bytea[] payloads, $4 int2[] priorities,
--             $5 int8[] delays in ms, $6 int8[] due times in µs since 1970 (0: use the delay),
--             $7 int4[] max attempts, $8 int4[] timeouts in ms (0: none);
--             empty when all are plain: $9 text[] unique keys (NULL: none), $10 text[] their scopes (NULL: kind),
--             $11 int4[] states in which they hold (0: all), $12 int8[] ms for which they stay taken afterwards,
--             $13 text[] what to do when one is taken (NULL: keep), $14 text[] lanes (NULL: none),
--             $15 int8[] deadlines in ms from now (0: none), $16 text[] retry policies (NULL: the kind's), $17 int4[] their
--             base and $18 int4[] their cap in ms (0: the kind's), $19 int8[] parents (0: none), $20 text[] meta as JSON
--             (NULL: none); $21 bool whether all are plain
-- Rows: id int8: of the new job, or of the one that holds its key; existed bool: which of them; a column without meaning. In the
--       order of the input
-- Locks: the new rows; keys, until the transaction ends
-- Index: sleeper_pkey, probed once for each queue; guard_pkey, job_pkey
-- Roles: producer, enqueuer
-- The look at who sleeps is taken once for each queue: for each row it took a third of the whole. It is a column that
-- depends on no row.
-- bool_or and not EXISTS: for EXISTS the planner hopes to find a sleeper early, and reads the table from its beginning.
-- Instructions for each of a thousand jobs: 57 k plain, 602 k with an option, so plain jobs are inserted at once. A statement of
-- its own for plain jobs takes 54 k: 1.06 is not worth one.
WITH inserted AS (
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
    WHERE $21::bool
    RETURNING j.id
)
SELECT n.id, false AS existed,
       (SELECT pg_catalog.count(pg_catalog.pg_notify('pawl_wake', q.queue))
        FROM (SELECT DISTINCT u.queue FROM pg_catalog.unnest($1::text[]) AS u(queue)) AS q
        WHERE (SELECT pg_catalog.bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = q.queue)) AS woken
FROM inserted AS n
UNION ALL
SELECT r.id, r.existed, 0
FROM ROWS FROM (
         pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bytea[]),
         pg_catalog.unnest($4::int2[]), pg_catalog.unnest($5::int8[]), pg_catalog.unnest($6::int8[]),
         pg_catalog.unnest($7::int4[]), pg_catalog.unnest($8::int4[]), pg_catalog.unnest($9::text[]),
         pg_catalog.unnest($10::text[]), pg_catalog.unnest($11::int4[]), pg_catalog.unnest($12::int8[]),
         pg_catalog.unnest($13::text[]), pg_catalog.unnest($14::text[]), pg_catalog.unnest($15::int8[]),
         pg_catalog.unnest($16::text[]), pg_catalog.unnest($17::int4[]), pg_catalog.unnest($18::int4[]),
         pg_catalog.unnest($19::int8[]), pg_catalog.unnest($20::text[])
     ) AS i(queue, kind, payload, priority, delay_ms, at_us, max_attempts, timeout_ms, unique_key, unique_scope,
            unique_states, unique_for_ms, unique_mode, lane, deadline_ms, retry, retry_base_ms, retry_cap_ms, parent_id, meta)
CROSS JOIN LATERAL pawl.enqueue_row(
    i.queue, i.kind, i.payload, i.priority,
    CASE WHEN i.at_us = 0 THEN i.delay_ms::float8 * interval '1 millisecond' END,
    CASE WHEN i.at_us <> 0 THEN timestamptz 'epoch' + i.at_us::float8 * interval '1 microsecond' END,
    i.max_attempts, nullif(i.timeout_ms, 0), i.retry::pawl.retry, nullif(i.retry_base_ms, 0), nullif(i.retry_cap_ms, 0),
    i.unique_key, coalesce(i.unique_scope, 'kind'), coalesce(nullif(i.unique_states, 0), 7), i.unique_for_ms,
    coalesce(pg_catalog.array_position('{replace,reschedule,refuse}'::text[], i.unique_mode), 0), i.lane,
    nullif(i.parent_id, 0), i.meta::jsonb,
    pg_catalog.now() + nullif(i.deadline_ms, 0)::float8 * interval '1 millisecond') AS r
WHERE NOT $21::bool
