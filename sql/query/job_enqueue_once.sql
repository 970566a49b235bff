-- Purpose: accepts jobs of calls with an idempotency key, with unique keys, or with a first step: job_enqueue_options, but jobs
--          whose key was used before are not accepted again; what was accepted then is answered.
-- Parameters: $1 to $20 as job_enqueue_options, $21 text[] for each job the hash of its call's idempotency key as a UUID
--             (NULL: none), taken before by enqueue_key_take in this transaction, $22 text[] first steps (NULL: none),
--             $23 bool[] whether all jobs of its call are plain
-- Rows: for each job that is new or found its unique key taken: n int8 its place in the input, from 1, id int8, existed bool,
--       key uuid NULL, request uuid NULL, woken int8 without meaning; for each job of a key that was used before: n int8 its place in the call, from 1,
--       id int8, existed bool, key uuid, request uuid: the hash of what was asked then
-- Locks: the new rows; unique keys and idempotency keys, until the transaction ends
-- Index: sleeper_pkey, guard_pkey, job_pkey, enqueue_key_pkey
-- Roles: server
-- A key that this transaction has taken has no jobs yet; nobody else's is seen like that.
-- Plain jobs are inserted all at once, as by job_enqueue: a function for each takes ten times as many instructions. Their ids ascend in the
-- order of the input, which is how each finds its place again. Of one call all are or none is, so that its jobs stay in order.
WITH wanted AS MATERIALIZED (
    SELECT *,
           CASE WHEN i.at_us = 0 THEN i.delay_ms::float8 * interval '1 millisecond' END AS delay,
           CASE WHEN i.at_us <> 0 THEN timestamptz 'epoch' + i.at_us::float8 * interval '1 microsecond' END AS given_at
    FROM ROWS FROM (
             pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bytea[]),
             pg_catalog.unnest($4::int2[]), pg_catalog.unnest($5::int8[]), pg_catalog.unnest($6::int8[]),
             pg_catalog.unnest($7::int4[]), pg_catalog.unnest($8::int4[]), pg_catalog.unnest($9::text[]),
             pg_catalog.unnest($10::text[]), pg_catalog.unnest($11::int4[]), pg_catalog.unnest($12::int8[]),
             pg_catalog.unnest($13::text[]), pg_catalog.unnest($14::text[]), pg_catalog.unnest($15::int8[]),
             pg_catalog.unnest($16::text[]), pg_catalog.unnest($17::int4[]), pg_catalog.unnest($18::int4[]),
             pg_catalog.unnest($19::int8[]), pg_catalog.unnest($20::text[]), pg_catalog.unnest($21::text[]::uuid[]),
             pg_catalog.unnest($22::text[]), pg_catalog.unnest($23::bool[])
         ) WITH ORDINALITY AS i(queue, kind, payload, priority, delay_ms, at_us, max_attempts, timeout_ms, unique_key,
                                unique_scope, unique_states, unique_for_ms, unique_mode, lane, deadline_ms, retry,
                                retry_base_ms, retry_cap_ms, parent_id, meta, once, step, plain, n)
    WHERE i.once IS NULL OR (SELECT k.job_ids IS NULL FROM pawl.enqueue_key AS k WHERE k.hash = i.once)
), inserted AS (
    INSERT INTO pawl.job AS j (queue, kind, payload, priority, due_at, max_attempts, timeout_ms)
    SELECT w.queue, w.kind, w.payload, w.priority, coalesce(w.given_at, pg_catalog.clock_timestamp() + w.delay), w.max_attempts,
           nullif(w.timeout_ms, 0)
    FROM wanted AS w
    WHERE w.plain
    RETURNING j.id
), made AS MATERIALIZED (
    SELECT w.n, w.once, f.id, false AS existed, NULL::bool AS started
    FROM (SELECT v.n, v.once, pg_catalog.row_number() OVER (ORDER BY v.n) AS place FROM wanted AS v WHERE v.plain) AS w
    JOIN (SELECT d.id, pg_catalog.row_number() OVER (ORDER BY d.id) AS place FROM inserted AS d) AS f ON f.place = w.place
    UNION ALL
    SELECT w.n, w.once, r.id, r.existed,
           CASE WHEN w.step IS NOT NULL AND NOT r.existed THEN pawl.job_start_at(r.id, w.step) END AS started
    FROM wanted AS w
    CROSS JOIN LATERAL pawl.enqueue_row(
        w.queue, w.kind, w.payload, w.priority, w.delay, w.given_at, w.max_attempts, nullif(w.timeout_ms, 0), w.retry::pawl.retry,
        nullif(w.retry_base_ms, 0), nullif(w.retry_cap_ms, 0), w.unique_key, coalesce(w.unique_scope, 'kind'),
        coalesce(nullif(w.unique_states, 0), 7), w.unique_for_ms,
        coalesce(pg_catalog.array_position('{replace,reschedule,refuse}'::text[], w.unique_mode), 0), w.lane,
        nullif(w.parent_id, 0), w.meta::jsonb,
        pg_catalog.now() + nullif(w.deadline_ms, 0)::float8 * interval '1 millisecond') AS r
    WHERE NOT w.plain
), kept AS (
    UPDATE pawl.enqueue_key AS k
    SET job_ids = m.ids, existed = m.existed
    FROM (SELECT made.once, pg_catalog.array_agg(made.id ORDER BY made.n) AS ids,
                 pg_catalog.array_agg(made.existed ORDER BY made.n) AS existed
          FROM made WHERE made.once IS NOT NULL GROUP BY made.once) AS m
    WHERE k.hash = m.once
)
SELECT made.n, made.id, made.existed, NULL::uuid AS key, NULL::uuid AS request,
       (SELECT pg_catalog.count(pg_catalog.pg_notify('pawl_wake', q.queue))
        FROM (SELECT DISTINCT w.queue FROM wanted AS w WHERE w.plain) AS q
        WHERE (SELECT pg_catalog.bool_or(s.asleep) FROM pawl.sleeper AS s WHERE s.queue = q.queue)) AS woken
FROM made
UNION ALL
SELECT u.n, u.id, u.existed, k.hash, k.request, 0::int8
FROM pawl.enqueue_key AS k
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(k.job_ids), pg_catalog.unnest(k.existed)) WITH ORDINALITY AS u(id, existed, n)
WHERE k.hash = ANY ($21::text[]::uuid[]) AND k.job_ids IS NOT NULL
