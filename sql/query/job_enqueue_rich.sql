-- Purpose: accepts jobs that are more than plain: a unique key, a lane, a parent, tags, a trace, a correlation key, a
--          deadline, a retry policy of their own.
-- Parameters: $1 text[] queues, $2 text[] kinds, $3 bytea[] payloads, $4 int2[] priorities,
--             $5 int8[] delays in ms, $6 int8[] due times in µs since 1970 (0: use the delay),
--             $7 int4[] max attempts, $8 int4[] timeouts in ms (0: none),
--             $9 text[] retry policies (NULL: the kind's), $10 int4[] their base and $11 int4[] their cap in ms (0: the kind's),
--             $12 text[] unique keys (NULL: none), $13 int4[] states in which they hold, $14 int8[] ms for which
--             they stay taken afterwards, $15 int4[] what to do when one is taken (pawl.guard_take; 3: raise),
--             $16 text[] lanes (NULL: none), $17 int8[] parents (0: none), $18 text[] meta as JSON (NULL: none),
--             $19 text[] scopes of the keys (kind, queue, global), $20 int8[] deadlines in ms from now (0: none)
-- Rows: id int8: of the new job, or of the one that holds its key; existed bool: which of them. In the order of the input
-- Locks: the new rows; keys, until the transaction ends
-- Index: sleeper_pkey, guard_pkey, job_pkey
-- Roles: producer, enqueuer
-- A function for each job, which takes six times as long as job_enqueue: for jobs that need it only.
SELECT r.id, r.existed
FROM ROWS FROM (
         pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bytea[]),
         pg_catalog.unnest($4::int2[]), pg_catalog.unnest($5::int8[]), pg_catalog.unnest($6::int8[]),
         pg_catalog.unnest($7::int4[]), pg_catalog.unnest($8::int4[]), pg_catalog.unnest($9::text[]),
         pg_catalog.unnest($10::int4[]), pg_catalog.unnest($11::int4[]), pg_catalog.unnest($12::text[]),
         pg_catalog.unnest($13::int4[]), pg_catalog.unnest($14::int8[]), pg_catalog.unnest($15::int4[]),
         pg_catalog.unnest($16::text[]), pg_catalog.unnest($17::int8[]), pg_catalog.unnest($18::text[]),
         pg_catalog.unnest($19::text[]), pg_catalog.unnest($20::int8[])
     ) AS i(queue, kind, payload, priority, delay_ms, at_us, max_attempts, timeout_ms, retry, base_ms, cap_ms, key, states,
            keep_ms, mode, lane, parent_id, meta, scope, deadline_ms)
CROSS JOIN LATERAL pawl.enqueue_row(
    i.queue, i.kind, i.payload, i.priority,
    CASE WHEN i.at_us = 0 THEN i.delay_ms::float8 * interval '1 millisecond' END,
    CASE WHEN i.at_us <> 0 THEN timestamptz 'epoch' + i.at_us::float8 * interval '1 microsecond' END,
    i.max_attempts, nullif(i.timeout_ms, 0), i.retry::pawl.retry, nullif(i.base_ms, 0), nullif(i.cap_ms, 0),
    i.key, i.scope, i.states, i.keep_ms, i.mode, i.lane, nullif(i.parent_id, 0), i.meta::jsonb,
    pg_catalog.now() + nullif(i.deadline_ms, 0)::float8 * interval '1 millisecond') AS r
