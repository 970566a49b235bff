-- Purpose: a claim of one job failed, and not because of the server or the moment: claims the job that it would take next, takes that
--          back, and parks the job if it failed (pawl.claim_try).
-- Parameters: $1 text queue, $2 text[] kinds, $3 timestamptz[], $4 int8[], $5 int2[] and $6 bool[]: as $7 to $10 of
--             job_claim_lanes; $7 int8 a job that is parked if it is the one, because a claim of it alone has failed before though this did
--             not; 0: none; $8 text why it failed, $9 text name of the worker
-- Rows: none if there is no such job; else one: id int8, why text: it is parked, with that as its error; NULL: its claim did not fail
-- Locks: the job, skipping those that others hold
-- Index: job_pick, job_pick_lane, one probe for each priority; job_pkey
-- Roles: worker
-- The job is looked for as by job_claim and job_claim_lanes, in the same order, but nothing of it is read that could be what fails.
WITH next AS MATERIALIZED (
    SELECT p.id
    FROM (SELECT i.priority, i.in_lane, i.id,
                 CASE WHEN i.in_lane THEN least(i.due_at, pg_catalog.now() - interval '1 second')
                      ELSE i.due_at END AS due_at
          FROM ROWS FROM (pg_catalog.unnest($5::int2[]), pg_catalog.unnest($6::bool[]), pg_catalog.unnest($3::timestamptz[]),
                          pg_catalog.unnest($4::int8[])) AS i(priority, in_lane, due_at, id)) AS level
    CROSS JOIN LATERAL (
        SELECT a.*
        FROM (SELECT c.id
              FROM pawl.job AS c
              WHERE NOT level.in_lane
                AND c.lane IS NULL
                AND c.queue = $1::text
                AND c.priority = level.priority
                AND c.due_at <= pg_catalog.now()
                AND (c.due_at, c.id) >= (level.due_at, level.id)
                AND c.token IS NULL
                AND c.kind = ANY ($2::text[])
              ORDER BY c.due_at, c.id
              LIMIT 1
              FOR UPDATE SKIP LOCKED) AS a
        UNION ALL
        SELECT b.*
        FROM (SELECT c.id
              FROM pawl.job AS c
              WHERE level.in_lane
                AND c.lane IS NOT NULL
                AND c.queue = $1::text
                AND c.priority = level.priority
                AND c.due_at <= pg_catalog.now()
                AND (c.due_at, c.id) >= (level.due_at, level.id)
                AND c.token IS NULL
                AND c.kind = ANY ($2::text[])
              ORDER BY c.due_at, c.id
              LIMIT 1
              FOR UPDATE SKIP LOCKED) AS b
    ) AS p
    WHERE NOT EXISTS (SELECT FROM pawl.queue AS q WHERE q.name IN ($1::text, '*') AND q.paused_at IS NOT NULL)
    LIMIT 1
)
SELECT n.id, pawl.claim_try(n.id, CASE WHEN n.id = $7::int8 THEN $8::text END, $9::text) AS why
FROM next AS n
