-- Purpose: accepts jobs that have options: a unique key, a lane, a parent, tags, a trace, a correlation key, a deadline, a retry
--          policy of their own.
-- Parameters: $1 to $8 as job_enqueue, $9 text[] unique keys (NULL: none), $10 text[] their scopes (NULL: kind),
--             $11 int4[] states in which they hold (0: all), $12 int8[] ms for which they stay taken afterwards,
--             $13 text[] what to do when one is taken (NULL: keep), $14 text[] lanes (NULL: none),
--             $15 int8[] deadlines in ms from now (0: none), $16 text[] retry policies (NULL: the kind's), $17 int4[] their
--             base and $18 int4[] their cap in ms (0: the kind's), $19 int8[] parents (0: none), $20 text[] meta as JSON
--             (NULL: none)
-- Rows: id int8: of the new job, or of the one that holds its key; existed bool: which of them. In the order of the input
-- Locks: the new rows; keys, until the transaction ends
-- Index: sleeper_pkey, guard_pkey, job_pkey
-- Roles: producer, enqueuer
-- A function for each job, for jobs that need it only: 602 k instructions for each of a thousand, and 54 k by job_enqueue. Both in
-- one statement is rejected: not prepared, as libpawl sends it, one job with an option takes 1.61 times as many instructions
-- (4.35 M to 2.70 M) and one plain job 1.87 times.
SELECT r.id, r.existed
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
