-- Purpose: takes at most $3 due jobs of one queue that are in no lane, the most urgent first, and leaves one claim row for
--          all of them. Nothing may run before the commit of this statement is known.
-- Parameters: $1 text queue, $2 text[] kinds the worker has handlers for, $3 int4 limit,
--             $4 uuid token (random, new for every call), $5 uuid worker, $6 int8 lease in ms,
--             $7 timestamptz[] and $8 int8[]: for priority 9, 8, … 0 the due time and id to start from;
--             $9 text and $10 text: the first and the last of $2 in the order of bytes
-- Rows: id int8, kind text, priority int2, attempt int4, max_attempts int4, timeout_ms int4 or NULL, payload bytea,
--       due_at timestamptz, join_of int4 or NULL, has_options bool or NULL, is_machine bool or NULL, trace text or NULL,
--       machine pawl.machine_seen (pawl.machine_view) or NULL, tid tid: where the row is now; in no order
-- Locks: the jobs it takes, skipping those that others hold
-- Index: job_pick, one probe for each priority; the jobs themselves by ctid, so the update is heap-only
-- Roles: worker
-- Where to start from is only a short cut past rows that were claimed before and are not yet vacuumed away: a row may be
-- committed behind it, and is found by other means.
-- $9 and $10 are checked in the index, so that a worker with one kind passes over jobs of others without reading them.
-- The places are put into an array once, before the update starts: with IN (SELECT ... LIMIT n) another plan may run the
-- subquery again and again and claim without limit.
-- A job that changed between the snapshot and its lock is locked and not taken: its new place is not in the snapshot. Its id
-- stays in the claim row, where nothing follows from it, since a sweep compares the token.
-- Only id and place go through the WITH query. Rows that are returned from there would be put together and taken apart once
-- more: 2 700 instructions a job.
WITH picked AS MATERIALIZED (
    SELECT p.id, p.place
    FROM ROWS FROM (pg_catalog.unnest($7::timestamptz[]), pg_catalog.unnest($8::int8[]))
         WITH ORDINALITY AS level(due_at, id, n)
    CROSS JOIN LATERAL (
        SELECT c.id, c.ctid AS place
        FROM pawl.job AS c
        WHERE c.queue = $1::text
          AND c.lane IS NULL
          AND c.priority = (10 - level.n)::int2
          AND c.due_at <= pg_catalog.now()
          AND (c.due_at, c.id) >= (level.due_at, level.id)
          AND c.token IS NULL
          AND c.kind >= $9::text COLLATE "C"
          AND c.kind <= $10::text COLLATE "C"
          AND c.kind = ANY ($2::text[])
        ORDER BY c.due_at, c.id
        LIMIT $3::int4
        FOR UPDATE SKIP LOCKED
    ) AS p
    WHERE NOT EXISTS (SELECT FROM pawl.queue AS q WHERE q.name IN ($1::text, '*') AND q.paused_at IS NOT NULL)
    LIMIT $3::int4
), claimed AS (
    INSERT INTO pawl.claim (token, worker, lease_until, job_ids)
    SELECT $4::uuid, $5::uuid, pg_catalog.clock_timestamp() + $6::int8::float8 * interval '1 millisecond',
           pg_catalog.array_agg(p.id)
    FROM picked AS p
    HAVING pg_catalog.count(*) > 0
)
UPDATE pawl.job AS j
SET token = $4::uuid,
    attempt = j.attempt + 1
WHERE j.ctid = ANY (ARRAY(SELECT p.place FROM picked AS p))
RETURNING j.id, j.kind, j.priority, j.attempt, j.max_attempts, j.timeout_ms, j.payload, j.due_at, j.join_of,
          j.has_options, j.is_machine, j.meta ->> 'trace' AS trace,
          CASE WHEN j.is_machine OR j.deadline_at IS NOT NULL
               THEN pawl.machine_view(j.id, j.waits_for, j.deadline_at, j.cancel_by) END AS machine,
          j.ctid AS tid
